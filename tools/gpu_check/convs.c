// Part c: convolutions of ResNets' shapes, 3 x 3 and 1 x 1, of 64 images in bf16 and f32, forward
// and by image and weight: by rule, and where the device has its vendor's library generated, by the
// library and as measured. Each is compared with the definition at some places.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lowering/tiling/summation.h"
#include "tools/gpu_check/check.h"

typedef struct conv_case {
  tc_type type;
  int64_t size, channels, taps;
  int direction;
  const char *maker;  // "": by rule; else of check_makers
} conv_case;

static const char *const directions[] = {"", " by image", " by weight"};

typedef struct conv_work {
  const conv_case *c;
  int64_t images, size, channels;
  tc_tensor x, w, g;  // channels before the axes; g: of the result
} conv_work;

static conv_work make_conv(const conv_case *c) {
  conv_work w = {.c = c, .images = check.timed ? (check.small ? 8 : 64) : 2};
  w.size = check.timed ? c->size : c->size / 7, w.channels = check.timed ? c->channels : c->channels / 16;
  w.x = check_random(TC_SHAPE(w.images, w.channels, w.size, w.size), c->type, 1);
  w.w = check_random(TC_SHAPE(w.channels, w.channels, c->taps, c->taps), c->type, 2);
  w.g = check_random(TC_SHAPE(w.images, w.channels, w.size, w.size), c->type, 3);
  return w;
}

// The one of the three that the case is about. A gradient alone: the result that it belongs to is
// not computed.
static tc_tensor convolve(const conv_work *w) {
  tc_tensor grad = {0, 0};
  tc_tensor y = tc_conv2d(w->x, w->w, grad, (tc_conv_options){.padding = TC_SHAPE(w->c->taps / 2, w->c->taps / 2)});
  if (w->c->direction == 0) return y;
  tc_tensor of = w->c->direction == 1 ? w->x : w->w;
  return tc_grads_of(tc_sum(tc_mul(y, w->g), TC_ALL, false), &of, 1, &grad, 0) == TC_OK ? grad : (tc_tensor){0, 0};
}

static bool run_conv(void *arg) {
  tc_scope scope = tc_scope_begin();
  tc_tensor y = convolve(arg);
  tc_status st = tc_eval(1, &y);
  tc_scope_end(scope);
  return st == TC_OK;
}

// What is wanted at one place: [image or channel, channel, row, column]. All three have as many
// rows and columns padded as windows reach out.
static double wanted(const conv_work *w, const double *x, const double *weight, const double *g, const int64_t *at) {
  int64_t n = w->size, c = w->channels, t = w->c->taps, half = t / 2;
  double sum = 0;
  if (w->c->direction == 2) {
    for (int64_t i = 0; i < w->images; i++)
      for (int64_t p = 0; p < n; p++)
        for (int64_t q = 0; q < n; q++) {
          int64_t h = p + at[2] - half, v = q + at[3] - half;
          if (h >= 0 && h < n && v >= 0 && v < n)
            sum += x[((i * c + at[1]) * n + h) * n + v] * g[((i * c + at[0]) * n + p) * n + q];
        }
    return sum;
  }
  bool forward = w->c->direction == 0;
  for (int64_t k = 0; k < c; k++)
    for (int64_t r = 0; r < t; r++)
      for (int64_t s = 0; s < t; s++) {
        int64_t h = at[2] + (forward ? r - half : half - r), v = at[3] + (forward ? s - half : half - s);
        if (h < 0 || h >= n || v < 0 || v >= n) continue;
        double value = (forward ? x : g)[((at[0] * c + k) * n + h) * n + v];
        sum += value * weight[(((forward ? at[1] : k) * c + (forward ? k : at[1])) * t + r) * t + s];
      }
  return sum;
}

// What a sum of so many products may be off by, of f32, relative to its size: roundings of random
// terms go both ways, so that it is the square root of how many follow a term. A library may add
// one chain.
static double most_off(const conv_work *w, int64_t terms) {
  bool library = strcmp(w->c->maker, check_makers[1].name) == 0;
  return fmax(2e-6, 0x1p-24 * sqrt((double)(library ? terms : tc_chain_additions(terms))));
}

static void check_conv(check_row *row, const conv_work *w) {
  int64_t n_image = w->images * w->channels * w->size * w->size, t = w->c->taps,
          n_weight = w->channels * w->channels * t * t;
  double *x = calloc((size_t)(2 * n_image + n_weight), sizeof *x), *g = x + n_image, *weight = g + n_image, got;
  tc_tensor made = convolve(w);
  if (!x || !check_ok(row, tc_eval(1, &made)) || !check_fetch(w->x, 0, n_image, x) ||
      !check_fetch(w->g, 0, n_image, g) || !check_fetch(w->w, 0, n_weight, weight))
    check_wrong(row, "%s", tc_last_error()->message);
  bool by_weight = w->c->direction == 2;
  int64_t terms = by_weight ? w->images * w->size * w->size : w->channels * t * t;
  for (int k = 0; k < 8 && !row->wrong; k++) {
    int64_t axes = by_weight ? t : w->size, outer = by_weight ? w->channels : w->images;
    int64_t at[4] = {k * (outer - 1) / 7, (k * 5 % 8) * (w->channels - 1) / 7, (k * 3 % 8) * (axes - 1) / 7,
                     k * (axes - 1) / 7};
    double want = wanted(w, x, weight, g, at), most = w->c->type == TC_BF16 ? 0x1p-6 : most_off(w, terms);
    if (!check_fetch(made, ((at[0] * w->channels + at[1]) * axes + at[2]) * axes + at[3], 1, &got))
      check_wrong(row, "%s", tc_last_error()->message);
    if (!row->wrong && !(fabs(got - want) <= most * (sqrt((double)terms) + fabs(want))))
      check_wrong(row, "element %lld, %lld, %lld, %lld is %.9g, not %.9g", (long long)at[0], (long long)at[1],
                  (long long)at[2], (long long)at[3], got, want);
  }
  free(x);
}

static void measure_conv(check_row *row, const void *arg) {
  const conv_case *c = arg;
  conv_work w = make_conv(c);
  if (!check_ok(row, tc_set_requires_grad(w.x, true)) || !check_ok(row, tc_set_requires_grad(w.w, true))) return;
  check_set_maker(c->maker);
  check_conv(row, &w);
  double pixels = (double)w.images * (double)w.size * (double)w.size,
         steps = (double)w.channels * (double)w.channels * (double)(c->taps * c->taps);
  if (!row->wrong) check_rate(row, 2e-9 * pixels * steps, "GFLOP/s", check_seconds(run_conv, &w), 0);
  if (*c->maker) check_set_maker("");
}

static void convs(const conv_case *c) {
  char name[96];
  snprintf(name, sizeof name, "%s convolution%s %lldx%lld, %lld channels, %lldx%lld%s", tc_type_name(c->type),
           directions[c->direction], (long long)c->size, (long long)c->size, (long long)c->channels, (long long)c->taps,
           (long long)c->taps, c->maker);
  check_do(name, measure_conv, c);
}

void check_convs(void) {
  static const conv_case cases[] = {{TC_BF16, 56, 64, 3, 0, ""},
                                    {TC_BF16, 14, 256, 3, 0, ""},
                                    {TC_BF16, 28, 512, 1, 0, ""},
                                    {TC_F32, 28, 128, 3, 0, ""}};
  bool vendor = check.gpu && !tc_gpu_library_absent(check.gpu, TC_GPU_CONVOLUTIONS);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (int direction = 0; direction < 3; direction++) {
      conv_case c = cases[i];
      c.direction = direction;
      convs(&c);
      for (int k = 0; k < CHECK_N_MAKERS && vendor && (check.timed || i == 1); k++)
        c.maker = check_makers[k].name, convs(&c);
    }
  }
}
