// Who makes a product: a rule, or what measurement found, which is kept. See vendor.h.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lowering/gpu/vendor.h"
#include "runtime/contests.h"
#include "runtime/log.h"
#include "runtime/options.h"

#define FORMAT 1  // of the file
#define GAIN 0.98  // of the generated kernel's time, at most, for which a library's is taken
#define LEAST_STEPS 1e6  // multiply-adds of a product worth measuring

// ---- the rule: a roofline ----

// Of a processor: operations a nanosecond of its matrix units for half types, and of its multiply-adds in f32; the shares of the first that are expected of a
// library's large products and of generated ones; bytes of memory a nanosecond. From the vendors' data sheets and others' reports; nothing of it was measured
// here. What is generated for NVIDIA's (mma.sync) reaches 63 % of what sm_90 has for others, and less of what came after; RDNA's matrix instructions are not
// generated for, so its kernels have the rate of f32.
typedef struct roof {
  const char *arch;
  double half, single;
  double library, generated;
  double bytes;
} roof;
static const roof roofs[] = {
    {"sm_80", 2900, 180, 0.85, 0.65, 25}, {"sm_86", 900, 360, 0.85, 0.7, 25},    {"sm_89", 1300, 640, 0.85, 0.7, 25},
    {"sm_90", 7500, 500, 0.85, 0.5, 25},  {"sm_100", 15000, 500, 0.85, 0.3, 25}, {"sm_120", 2500, 640, 0.85, 0.7, 25},
};
static const roof amds[] = {
    {"gfx908", 1500, 190, 0.75, 0.5, 10}, {"gfx90a", 1700, 220, 0.75, 0.5, 14}, {"gfx942", 4300, 540, 0.65, 0.4, 17},
    {"gfx11", 1280, 640, 0.6, 0.25, 10},  {"gfx12", 1500, 640, 0.6, 0.2, 10},   {"gfx", 580, 290, 0.7, 0.45, 8},
};
#define SINGLE_LIBRARY 0.85
#define SINGLE_GENERATED 0.7
#define LEAST_GAIN_NS 5000.0  // of one product: below, not worth a graph that knows addresses

static int number_of(const char *arch) {
  return atoi(arch + strcspn(arch, "0123456789"));
}

// Of NVIDIA's the last that is not newer, of AMD's the first whose name it begins with.
static const roof *roof_of(const tc_gpu_facts *g) {
  const roof *r = roofs;
  for (size_t i = 0; i < sizeof amds / sizeof *amds; i++)
    if (strncmp(g->arch, amds[i].arch, strlen(amds[i].arch)) == 0) return &amds[i];
  for (size_t i = 0; i < sizeof roofs / sizeof *roofs; i++)
    if (number_of(roofs[i].arch) <= number_of(g->arch)) r = &roofs[i];
  return r;
}

// What the library is expected to save, with the price of what follows in a kernel of its own: the result written and read once more.
static double gain_ns(const tc_vendor_product *v, const tc_gpu_facts *g) {
  const tc_gpu_product_facts *f = &v->facts;
  const roof *r = roof_of(g);
  double result = (double)f->batch * (double)f->m * (double)f->n, work = 2 * result * (double)f->k, n = g->processors;
  bool single = f->type == TC_F32;
  double saved =
      work / ((single ? r->single : r->half) * n) * (1 / (single ? SINGLE_GENERATED : r->generated) - 1 / (single ? SINGLE_LIBRARY : r->library));
  return saved - (v->after == TC_AFTER_MORE ? 2 * result * (double)tc_type_bytes(f->type) / (r->bytes * n) : 0);
}

// ---- choices ----

// "generated NS NS" or "library NS NS BYTES 128-DIGITS": times of both, the library's workspace and its algorithm.
typedef struct verdict {
  bool library;
  uint64_t generated_ns, library_ns;
  tc_gpu_algorithm algorithm;
} verdict;

static bool read_number(const char **at, int base, uint64_t *out) {
  char *end;
  errno = 0;
  *out = strtoull(*at, &end, base);
  bool read = end != *at && errno == 0 && **at != '-';
  *at = end + (*end == ' ');
  return read;
}

static bool read_verdict(const char *text, verdict *out) {
  *out = (verdict){.library = strncmp(text, "library ", 8) == 0};
  if (!out->library && strncmp(text, "generated ", 10) != 0) return false;
  const char *at = text + (out->library ? 8 : 10);
  if (!read_number(&at, 10, &out->generated_ns) || !read_number(&at, 10, &out->library_ns)) return false;
  if (!out->library) return *at == 0;
  bool whole = read_number(&at, 10, &out->algorithm.workspace_bytes) && strlen(at) == 128;
  for (int i = 0; i < 8 && whole; i++, at += 16) {
    char digits[17] = {0};
    const char *from = memcpy(digits, at, 16);
    whole = read_number(&from, 16, &out->algorithm.data[i]) && from == digits + 16;
  }
  return whole;
}

static bool is_verdict(const char *text) {
  verdict v;
  return read_verdict(text, &v);
}

static void write_verdict(const verdict *v, char text[TC_CHOICE_VALUE]) {
  size_t n = (size_t)snprintf(text, TC_CHOICE_VALUE, "%s %" PRIu64 " %" PRIu64, v->library ? "library" : "generated", v->generated_ns, v->library_ns);
  if (!v->library) return;
  n += (size_t)snprintf(text + n, TC_CHOICE_VALUE - n, " %" PRIu64 " ", v->algorithm.workspace_bytes);
  for (int i = 0; i < 8; i++) n += (size_t)snprintf(text + n, TC_CHOICE_VALUE - n, "%016" PRIx64, v->algorithm.data[i]);
}

// The device's sentence has its architecture, driver and compiler.
static tc_choice_book book_of(tc_device d, tc_gpu *g) {
  tc_choice_book book = {.stem = "gpu-products", .valid = is_verdict};
  snprintf(book.head, sizeof book.head, "tc %s products of GPUs %d: %s; %s", tc_version(), FORMAT, tc_gpu_sentence(d),
           tc_gpu_library_name(g, TC_GPU_PRODUCTS));
  return book;
}

static void write_key(const tc_vendor_product *v, const char *stem, char key[TC_CHOICE_KEY]) {
  const tc_gpu_product_facts *f = &v->facts;
  snprintf(key, TC_CHOICE_KEY,
           "%s %" PRId64 "x%" PRId64 "x%" PRId64 "x%" PRId64 " left %s %" PRId64 " %" PRId64 " right %s %" PRId64 " %" PRId64 " aligned %u as %s",
           tc_type_name(f->type), f->batch, f->m, f->n, f->k, f->left.turned ? "turned" : "straight", f->left.row, f->left.batch,
           f->right.turned ? "turned" : "straight", f->right.row, f->right.batch, f->alignment, stem);
}

static void tell(const char *key, const verdict *v, const char *how) {
  uint64_t won = v->library ? v->library_ns : v->generated_ns, lost = v->library ? v->generated_ns : v->library_ns;
  tc_log_line(TC_LOG_TUNE, "%s: %s by %s, %.4g us, and %.4g", key, v->library ? "the library's" : "generated", how, (double)won * 1e-3,
              (double)lost * 1e-3);
  tc_contest_add(key, v->library ? "library" : "generated", won, v->library ? "generated" : "library", lost);
}

static bool make(const tc_vendor_product *v, tc_gpu *g, const tc_gpu_algorithm *a, tc_gpu_call **out) {
  bool clean = tc_last_error()->status == TC_OK, made = tc_gpu_call_create(g, &(tc_gpu_work){TC_GPU_PRODUCTS, .product = v->facts}, a, out) == TC_OK;
  if (!made) tc_log_line(TC_LOG_WARN, "a product is generated, for the library does not make it: %s", tc_last_error()->message);
  if (clean) tc_clear_error();
  return made;
}

// The library's first choice.
static bool make_first(const tc_vendor_product *v, tc_gpu *g, tc_gpu_call **out) {
  tc_gpu_algorithm a;
  int n = 0;
  bool clean = tc_last_error()->status == TC_OK;
  if (tc_gpu_call_find(g, &(tc_gpu_work){TC_GPU_PRODUCTS, .product = v->facts}, &a, 1, &n) != TC_OK)
    tc_log_line(TC_LOG_WARN, "a product is generated, for the library does not answer: %s", tc_last_error()->message);
  if (clean) tc_clear_error();
  return n > 0 && make(v, g, &a, out);
}

static bool measured(const tc_vendor_product *v, const tc_grouping *gr, const tc_group *gp, tc_arena *scratch, tc_gpu_call **out) {
  tc_gpu *g = gr->graph->target.gpu;
  tc_choice_book book = book_of(gr->graph->node[v->node].dev, g);
  char key[TC_CHOICE_KEY], value[TC_CHOICE_VALUE];
  tc_expansion e;
  verdict found;
  tc_arena_reset(scratch);
  if (tc_expand_group(&e, gr, gp, NULL, scratch) != TC_OK) return false;  // it is said again, and dealt with, where its kernel is wanted
  write_key(v, e.stem, key);
  bool known = tc_choices_find_in(&book, key, value) && read_verdict(value, &found);
  bool usable = known && (!found.library || make(v, g, &found.algorithm, out));
  if (usable) {
    tell(key, &found, "a former measurement");
  } else {
    tc_vendor_times t;
    if (tc_vendor_measure(v, gr, &e, &t)) {
      found = (verdict){(double)t.library_ns <= GAIN * (double)t.generated_ns, t.generated_ns, t.library_ns, t.algorithm};
      write_verdict(&found, value);
      tc_choices_keep_in(&book, key, value, t.n_timed);
      usable = read_verdict(value, &found) && (!found.library || make(v, g, &found.algorithm, out));
      if (usable) tell(key, &found, "measurement");
    }
  }
  tc_nest_destroy(&e.nest);
  return usable && found.library;
}

static void tell_absent(const char *why) {
  static _Atomic bool told;
  if (!told) tc_log_line(TC_LOG_TUNE, "products on GPUs are generated: %s", why);
  told = true;
}

// Whether the library adds the bias, too; without, the product is made alone, and the sum by a kernel.
static bool adds_bias(const tc_vendor_product *v, tc_gpu *g) {
  tc_gpu_algorithm a;
  int n = 0;
  bool clean = tc_last_error()->status == TC_OK;
  tc_status st = tc_gpu_call_find(g, &(tc_gpu_work){TC_GPU_PRODUCTS, .product = v->facts}, &a, 1, &n);
  if (clean) tc_clear_error();
  return st != TC_OK || n > 0;
}

bool tc_vendor_choose(tc_vendor_product *v, const tc_grouping *gr, const tc_group *gp, tc_arena *scratch, tc_gpu_call **out) {
  const tc_options *o = tc_options_get();
  tc_gpu *g = gr->graph->target.gpu;
  tc_gpu_product_facts *f = &v->facts;
  bool always = strcmp(o->gpu_libraries, "always") == 0, measures = o->autotune && !o->deterministic;
  *out = NULL;
  // Where records are verified each is run alone, too, where somebody else might be chosen, and the bits must be the same.
  if (strcmp(o->gpu_libraries, "never") == 0 || o->verify) return false;
  // What the library could not gain by, it is not opened for.
  if (!always && measures && (double)(f->batch * f->m * f->n) * (double)f->k < LEAST_STEPS) return false;
  if (!always && !measures && gain_ns(v, tc_gpu_facts_of(g)) < LEAST_GAIN_NS) return false;
  const char *why = tc_gpu_library_absent(g, TC_GPU_PRODUCTS);
  if (why) return tell_absent(why), false;
  if (v->after == TC_AFTER_BIAS && !adds_bias(v, g)) {
    v->after = TC_AFTER_MORE, v->result = v->node, f->epilogue = TC_GPU_NO_EPILOGUE;
    if (!always && !measures && gain_ns(v, tc_gpu_facts_of(g)) < LEAST_GAIN_NS) return false;
  }
  return measures && !always ? measured(v, gr, gp, scratch, out) : make_first(v, g, out);
}
