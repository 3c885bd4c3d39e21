// Vendors' libraries: opening them, their algorithms, and the calls that sequences launch.
//
// A call is what the library made of the work's description, and the algorithm. Numbers tell the
// libraries' results from the driver's (driver.h), so that all become statuses in one place.
// Threads: thread-safe; the library is called under the device's lock.
#include <string.h>

#include "device/gpu/conv.h"
#include "device/gpu/state.h"
#include "runtime/arena.h"

// ---- the libraries ----

static const char *const kinds[] = {[TC_GPU_MATMULS] = "products", [TC_GPU_CONVOLUTIONS] = "convolutions"};

// Guards a library, which several devices share. It is taken after a device's lock.
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

// pre: begun. False with one sentence in why.
static bool start_library(tc_gpu *g, tc_gpu_library library, char *why, size_t bytes) {
  const tc_gpu_library_driver *d = g->driver->library[library];
  const char *name;
  if (!d) {
    snprintf(why, bytes, "no library of %s is used with %s", kinds[library], g->driver->name);
    return false;
  }
  pthread_mutex_lock(&opening);
  bool ready = d->ready(&g->port, &g->facts, why, bytes);
  pthread_mutex_unlock(&opening);
  if (!ready) return false;
  int result = d->open(&g->port);
  if (result == 0) return true;
  (void)g->driver->judge(result, &name);
  snprintf(why, bytes, "%s does not start on %s: %s", d->name(&g->port), tc_device_name(g->device), name);
  return false;
}

// Returns whether the device has the library, which the first call starts. pre: begun.
static bool has_library(tc_gpu *g, tc_gpu_library library) {
  tc_library_once *o = &g->library[library];
  if (!o->tried) o->there = start_library(g, library, o->why, sizeof o->why);
  o->tried = true;
  return o->there;
}

const char *tc_gpu_library_absent(tc_gpu *g, tc_gpu_library library) {
  tc_error_mark before = tc_error_now();
  if (tc_gpu_begin(g, "opening a library") != TC_OK) {
    (void)tc_error_tell(before);
    return "the device is lost, shut down or the parent's";
  }
  bool there = has_library(g, library);
  tc_gpu_end(g);
  return there ? NULL : g->library[library].why;
}

const char *tc_gpu_library_name(const tc_gpu *g, tc_gpu_library library) {
  return g->driver->library[library]->name(&g->port);
}

bool tc_gpu_library_is_measured(const tc_gpu *g, tc_gpu_library library) {
  const tc_gpu_library_driver *d = g->driver->library[library];
  return d && d->measured_alone;
}

// ---- work ----

// Checks that f describes a product completely. The caller guarantees which rows there are, and how
// long.
static tc_status product_check(const tc_gpu_matmul_facts *f) {
  bool typed = f->type == TC_F32 || f->type == TC_F16 || f->type == TC_BF16;
  int64_t left = f->left.transposed ? f->m : f->k, right = f->right.transposed ? f->k : f->n;
  if (!typed || f->batch < 1 || f->batch > INT32_MAX || f->m < 1 || f->n < 1 || f->k < 1 || f->left.row < left ||
      f->right.row < right || f->left.batch < 0 || f->right.batch < 0 || f->alignment < tc_type_bytes(f->type) ||
      (f->alignment & (f->alignment - 1)))
    return TC_FAIL(TC_ERR_ARG, "a product of %lld x %lld x %lld for a library is malformed", (long long)f->m,
                   (long long)f->n, (long long)f->k);
  return TC_OK;
}

static tc_status conv_check(const tc_gpu_conv_facts *f) {
  bool fine = (f->type == TC_F32 || f->type == TC_F16 || f->type == TC_BF16) && f->axes >= 1 &&
              f->axes <= TC_GPU_CONV_AXES && f->batch > 0 && f->groups > 0 && f->in > 0 && f->out > 0 &&
              f->in % f->groups == 0 && f->out % f->groups == 0;
  for (int i = 0; i < f->axes && fine; i++) {
    int64_t reach = f->dilation[i] * (f->taps[i] - 1) + 1, room = f->image[i] + f->low[i] + f->high[i] - reach;
    fine = f->image[i] > 0 && f->taps[i] > 0 && f->stride[i] > 0 && f->dilation[i] > 0 && f->low[i] >= 0 &&
           f->high[i] >= 0 && room >= 0 && f->result[i] == room / f->stride[i] + 1;
  }
  return fine ? TC_OK
              : TC_FAIL(TC_ERR_ARG, "a convolution of %lld channels for a library is malformed", (long long)f->in);
}

static tc_status work_check(const tc_gpu_work *w) {
  return w->library == TC_GPU_MATMULS ? product_check(&w->matmul) : conv_check(&w->conv);
}

static void name_product(const tc_gpu_matmul_facts *f, char *out, size_t bytes) {
  int n = snprintf(out, bytes, "library_%s_%lldx%lldx%lld", tc_type_name(f->type), (long long)f->m, (long long)f->n,
                   (long long)f->k);
  if (f->batch > 1 && n < (int)bytes) snprintf(out + n, bytes - (size_t)n, "_by%lld", (long long)f->batch);
}

static void add_extents(char *out, size_t bytes, size_t *n, const char *before, const int64_t *extent, int axes) {
  for (int i = 0; i < axes && *n < bytes; i++)
    *n += (size_t)snprintf(out + *n, bytes - *n, "%s%lld", i ? "x" : before, (long long)extent[i]);
}

static void name_conv(const tc_gpu_conv_facts *f, char *out, size_t bytes) {
  static const char *const directions[] = {"conv", "conv_by_image", "conv_by_weight"};
  size_t n = (size_t)snprintf(out, bytes, "library_%s_%s_%lld", tc_type_name(f->type), directions[f->direction],
                              (long long)f->batch);
  add_extents(out, bytes, &n, "x", f->image, f->axes);
  add_extents(out, bytes, &n, "x", &f->in, 1);
  add_extents(out, bytes, &n, "_", &f->out, 1);
  add_extents(out, bytes, &n, "x", f->taps, f->axes);
}

// pre: begun.
static tc_status library_there(tc_gpu *g, tc_gpu_library library) {
  return has_library(g, library) ? TC_OK : TC_FAIL(TC_ERR_DEVICE, "%s", g->library[library].why);
}

// pre: begun. drop frees *made, whatever the status.
static tc_status make_work(tc_gpu *g, const tc_gpu_work *w, void **made) {
  *made = NULL;
  TC_TRY(library_there(g, w->library));
  return tc_gpu_check(g, g->driver->library[w->library]->make(&g->port, w, made), "describing work to its library");
}

tc_status tc_gpu_call_find(tc_gpu *g, const tc_gpu_work *w, tc_gpu_algorithm *out, int most, int *n) {
  void *made;
  *n = 0;
  TC_TRY(work_check(w));
  TC_TRY(tc_gpu_begin(g, "asking for a library's algorithms"));
  const tc_gpu_library_driver *d = g->driver->library[w->library];
  tc_status st = make_work(g, w, &made);
  if (st == TC_OK) st = tc_gpu_check(g, d->find(&g->port, made, out, most, n), "asking for a library's algorithms");
  if (made) d->drop(made);
  tc_gpu_end(g);
  return st;
}

// ---- calls ----

tc_status tc_gpu_call_create(tc_gpu *g, const tc_gpu_work *w, const tc_gpu_algorithm *a, tc_gpu_call **out) {
  *out = NULL;
  TC_TRY(work_check(w));
  tc_gpu_call *c = tc_calloc(1, sizeof *c);
  if (c) c->retired = tc_calloc(1, sizeof *c->retired);
  if (!c || !c->retired) {
    tc_free(c);
    return TC_FAIL(TC_ERR_MEMORY, "no memory for a library's call");
  }
  c->refs = 1;
  c->g = g, c->work = *w, c->algorithm = *a;
  if (w->library == TC_GPU_MATMULS)
    name_product(&w->matmul, c->name, sizeof c->name);
  else
    name_conv(&w->conv, c->name, sizeof c->name);
  tc_status st = tc_gpu_begin(g, "making a library's call");
  if (st == TC_OK) {
    c->opened = g->opened;
    st = make_work(g, w, &c->made);
    if (st == TC_OK)
      st = tc_gpu_check(g, g->driver->library[w->library]->check(&g->port, c->made, &c->algorithm),
                        "asking a library for an algorithm");
    tc_gpu_end(g);
  }
  if (st != TC_OK) return tc_gpu_call_release(c), st;
  *out = c;
  return TC_OK;
}

void tc_gpu_call_retain(tc_gpu_call *c) {
  atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
}

// Runs under way may still use what the library made, as they may use code. If the device is out of
// reach there are no such runs, and only memory of the host is freed.
void tc_gpu_call_release(tc_gpu_call *c) {
  if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1) return;
  tc_gpu *g = c->g;
  if (c->made && tc_gpu_reach(g)) {
    if (c->opened == g->opened) {
      c->retired->made = c->made, c->retired->library = c->work.library;
      tc_gpu_retire(g, c->retired);
      c->made = NULL, c->retired = NULL;
    }
    tc_gpu_end(g);
  }
  if (c->made) g->driver->library[c->work.library]->drop(c->made);
  tc_free(c->retired);
  tc_free(c);
}

size_t tc_gpu_call_workspace(const tc_gpu_call *c) {
  return c->algorithm.workspace_bytes;
}

// Counts elements from the first to the last of the operand.
static int64_t elements_of(const tc_gpu_operand *o, int64_t rows, int64_t columns, int64_t batch) {
  return (batch - 1) * o->batch + ((o->transposed ? columns : rows) - 1) * o->row + (o->transposed ? rows : columns);
}

static int64_t product_elements(const tc_gpu_matmul_facts *f, uint32_t address) {
  switch (address) {
    case 0: return elements_of(&f->left, f->m, f->k, f->batch);
    case 1: return elements_of(&f->right, f->k, f->n, f->batch);
    case 2: return f->batch * f->m * f->n;
    default: return f->epilogue == TC_GPU_BIAS ? f->n : 0;
  }
}

static int64_t conv_elements(const tc_gpu_conv_facts *f, uint32_t address) {
  static const enum {
    IMAGE,
    WEIGHT,
    RESULT
  } is[][3] = {[TC_GPU_FORWARD] = {IMAGE, WEIGHT, RESULT},
               [TC_GPU_BY_IMAGE] = {RESULT, WEIGHT, IMAGE},
               [TC_GPU_BY_WEIGHT] = {IMAGE, RESULT, WEIGHT}};
  int64_t n[] = {[IMAGE] = f->batch * f->in, [WEIGHT] = f->out * (f->in / f->groups), [RESULT] = f->batch * f->out};
  for (int i = 0; i < f->axes; i++) n[IMAGE] *= f->image[i], n[WEIGHT] *= f->taps[i], n[RESULT] *= f->result[i];
  return address < 3 ? n[is[f->direction][address]] : 0;
}

size_t tc_gpu_work_bytes(const tc_gpu_work *w, uint32_t address) {
  bool matmul = w->library == TC_GPU_MATMULS;
  int64_t n = matmul ? product_elements(&w->matmul, address) : conv_elements(&w->conv, address);
  return (size_t)n * tc_type_bytes(matmul ? w->matmul.type : w->conv.type);
}

int tc_gpu_conv_axes(const tc_gpu_conv_facts *f, const int64_t *from, int64_t absent, int64_t *out) {
  int n = 0;
  if (f->axes == 1) out[n++] = absent;
  for (int i = 0; i < f->axes; i++) out[n++] = from[i];
  return n;
}
