// Selects between generated and library kernels by rule or by timing. See library_select.h.
#include "lowering/autotune/library_select.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lowering/tiling/summation.h"
#include "runtime/arena.h"
#include "runtime/autotune_log.h"
#include "runtime/log.h"
#include "runtime/options.h"

#define FORMAT 1  // version of the files' format
#define GAIN 0.98  // the library wins if it takes at most this share of the generated kernel's time
#define MOST_TRIED 8  // algorithms of a convolution tried where the library refuses the first ones
#define LEAST_NS 2000000u  // shortest slice: long enough for a clock read before and after
#define MOST_RUNS 64  // most runs in a slice
#define SLICES 3
#define LEAST_GAIN_NS 5000.0  // least gain of one matmul that is worth a graph bound to addresses
#define LEAST_STEPS 1e6  // fewest multiply-adds worth measuring
#define PATTERN_BYTES ((size_t)1 << 16)
#define REPEATED_RUNS 4
#define REPEATED_BYTES ((size_t)1 << 24)  // most bytes of a result that are compared

// ---- whether ----

tc_library_gemm_way tc_library_gemm_ask(tc_gpu *g, tc_gpu_library library, double steps, double gain_ns) {
  static const char *const works[TC_GPU_N_LIBRARIES] = {"products", "convolutions"};
  static _Atomic bool told[TC_GPU_N_LIBRARIES];
  const tc_options *o = tc_options_get();
  bool always = strcmp(o->gpu_libraries, "always") == 0, timed = !always && o->autotune && !o->deterministic;
  // Verification also runs each record alone, where another choice might be made, but bits must be
  // the same.
  if (strcmp(o->gpu_libraries, "never") == 0 || o->verify) return TC_LIBRARY_GEMM_NEVER;
  if (timed ? steps < LEAST_STEPS : !always && gain_ns < LEAST_GAIN_NS) return TC_LIBRARY_GEMM_NEVER;
  bool unmeasured = o->deterministic || (!timed && !always);
  const char *why = unmeasured && tc_gpu_library_is_measured(g, library)
                        ? "their library is asked where it is measured (TC_AUTOTUNE=1 without TC_DETERMINISTIC)"
                        : tc_gpu_library_absent(g, library);
  if (!why) return timed ? TC_LIBRARY_GEMM_TIMED : TC_LIBRARY_GEMM_FIRST;
  if (!told[library]) tc_log_line(TC_LOG_TUNE, "%s on GPUs are generated: %s", works[library], why);
  told[library] = true;
  return TC_LIBRARY_GEMM_NEVER;
}

bool tc_library_gemm_may_sum(tc_type type, int64_t k) {
  return type != TC_F32 || k <= TC_CHAIN_WHOLE || strcmp(tc_options_get()->gpu_libraries, "always") == 0;
}

// ---- calls ----

size_t tc_library_copied_bytes(const tc_gpu_work *work, const bool moves[4]) {
  size_t sum = 0;
  for (uint32_t i = 0; i < 4; i++) sum += moves[i] ? tc_gpu_work_bytes(work, i) : 0;
  return sum;
}

static bool make_call(tc_gpu *g, const tc_gpu_work *work, const tc_gpu_algorithm *a, tc_gpu_call **out) {
  bool last = work->library == TC_GPU_MATMULS;
  tc_error_mark before = tc_error_now();
  bool made = tc_gpu_call_create(g, work, a, out) == TC_OK;
  if (!made)
    tc_log_line(last ? TC_LOG_WARN : TC_LOG_TUNE, "%s: %s",
                last ? "a matmul is generated, for the library does not compute it"
                     : "an algorithm of the library is passed over",
                tc_last_error()->message);
  (void)tc_error_tell(before);
  return made;
}

bool tc_library_make_first(tc_gpu *g, const tc_gpu_work *work, tc_gpu_call **out) {
  bool matmul = work->library == TC_GPU_MATMULS;
  tc_gpu_algorithm a[MOST_TRIED];
  int n = 0;
  tc_error_mark before = tc_error_now();
  if (tc_gpu_call_find(g, work, a, matmul ? 1 : MOST_TRIED, &n) != TC_OK)
    tc_log_line(TC_LOG_WARN, "a %s is generated, for the library does not answer: %s",
                matmul ? "product" : "convolution", tc_last_error()->message);
  (void)tc_error_tell(before);
  bool made = false;
  for (int i = 0; i < n && !made; i++) made = make_call(g, work, &a[i], out);
  return made;
}

// ---- choices ----

// A cached result. As text: "generated NS NS" or "library NS NS BYTES 128-DIGITS": the times of
// both, the library's workspace and its algorithm.
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

static void write_verdict(const verdict *v, char text[TC_TUNING_VALUE]) {
  size_t n = (size_t)snprintf(text, TC_TUNING_VALUE, "%s %" PRIu64 " %" PRIu64, v->library ? "library" : "generated",
                              v->generated_ns, v->library_ns);
  if (!v->library) return;
  n += (size_t)snprintf(text + n, TC_TUNING_VALUE - n, " %" PRIu64 " ", v->algorithm.workspace_bytes);
  for (int i = 0; i < 8; i++) n += (size_t)snprintf(text + n, TC_TUNING_VALUE - n, "%016" PRIx64, v->algorithm.data[i]);
}

tc_tuning_db tc_library_db(tc_gpu *g, tc_device d, tc_gpu_library library, const char *what) {
  tc_tuning_db db = {.valid = is_verdict};
  db.stem = library == TC_GPU_MATMULS ? "gpu-products" : "gpu-convolutions";
  snprintf(db.head, sizeof db.head, "tc %s %s of GPUs %d: %s; %s", tc_version_text(), what, FORMAT, tc_gpu_sentence(d),
           tc_gpu_library_name(g, library));
  return db;
}

static void tell_verdict(const char *key, const verdict *v, const char *how) {
  uint64_t won = v->library ? v->library_ns : v->generated_ns, lost = v->library ? v->generated_ns : v->library_ns;
  tc_log_line(TC_LOG_TUNE, "%s: %s by %s, %.4g us, and %.4g", key, v->library ? "the library's" : "generated", how,
              (double)won * 1e-3, (double)lost * 1e-3);
  tc_autotune_log_add(key, v->library ? "library" : "generated", won, v->library ? "generated" : "library", lost);
}

bool tc_library_select_run(tc_library_selection *c, tc_gpu_call **out) {
  char value[TC_TUNING_VALUE];
  verdict found;
  tc_library_gemm_times t;
  bool known = tc_tuning_db_find(&c->db, c->key, value) && read_verdict(value, &found);
  if (known && (!found.library || make_call(c->gpu, c->work, &found.algorithm, out))) {
    tell_verdict(c->key, &found, "a former measurement");
    return found.library;
  }
  if (!c->measure(c->arg, &t)) return false;
  found = (verdict){(double)t.library_ns <= GAIN * (double)t.generated_ns, t.generated_ns, t.library_ns, t.algorithm};
  write_verdict(&found, value);
  tc_tuning_db_put(&c->db, c->key, value, t.n_timed);
  if (!read_verdict(value, &found) || (found.library && !make_call(c->gpu, c->work, &found.algorithm, out)))
    return false;
  tell_verdict(c->key, &found, "measurement");
  return found.library;
}

// ---- timing ----

int tc_library_list(tc_gpu *g, const tc_gpu_work *work, tc_gpu_algorithm *out) {
  int n = 0;
  return tc_gpu_call_find(g, work, out, TC_LIBRARY_MOST_TIMED, &n) == TC_OK ? n : 0;
}

bool tc_library_time_all(tc_gpu *g, const tc_gpu_work *work, const tc_gpu_algorithm *a, int n,
                         uint64_t (*time)(void *arg, tc_gpu_call *call), void *arg, uint64_t beside_ns,
                         tc_library_gemm_times *out) {
  for (int i = 0; i < n; i++) {
    tc_gpu_call *call;
    if (tc_gpu_call_create(g, work, &a[i], &call) != TC_OK) continue;
    uint64_t ns = time(arg, call);
    tc_gpu_call_release(call);
    if (ns == 0) continue;
    if (out->library_ns == 0 || ns + beside_ns < out->library_ns)
      out->library_ns = ns + beside_ns, out->algorithm = a[i];
    out->n_timed++;
  }
  return out->n_timed > 0;
}

// Random numbers in [0.5, 1) with random signs. Other types get zeros, which are valid indices and
// flags.
static void write_pattern(tc_type type, char *out) {
  uint32_t state = 1;
  memset(out, 0, PATTERN_BYTES);
  for (size_t i = 0; i + 4 <= PATTERN_BYTES; i += 4) {
    state = state * 1664525 + 1013904223;
    uint32_t r = state ^ state >> 15, word = 0;
    if (type == TC_F32) word = 0x3f000000 | (r & 0x807fffff);
    if (type == TC_BF16) word = 0x3f003f00 | (r & 0x807f807f);
    if (type == TC_F16) word = 0x38003800 | (r & 0x83ff83ff);
    memcpy(out + i, &word, 4);
  }
}

tc_status tc_library_gemm_fill(tc_gpu *g, tc_type type, void *to, size_t bytes) {
  char *at = to;
  size_t there = TC_MIN(bytes, PATTERN_BYTES);
  char *pattern = tc_malloc(PATTERN_BYTES);
  if (!pattern) return TC_FAIL(TC_ERR_MEMORY, "no memory to time a matmul");
  write_pattern(type, pattern);
  tc_status st = tc_gpu_write(g, at, pattern, there);
  tc_free(pattern);
  for (; there < bytes && st == TC_OK; there *= 2) st = tc_gpu_copy(g, at + there, at, TC_MIN(there, bytes - there));
  return st;
}

uint64_t tc_library_gemm_time(tc_gpu *g, tc_status (*run)(void *arg), void *arg) {
  uint64_t best = 0;
  int n = 1, slices = 0;
  for (int i = 0; i < 2; i++)
    if (run(arg) != TC_OK) return 0;
  while (slices < SLICES) {
    if (tc_gpu_wait(g) != TC_OK) return 0;
    uint64_t start = tc_now_ns();
    for (int i = 0; i < n; i++)
      if (run(arg) != TC_OK) return 0;
    if (tc_gpu_wait(g) != TC_OK) return 0;
    uint64_t ns = tc_now_ns() - start;
    if (ns < LEAST_NS && n < MOST_RUNS) {
      n *= 2;
      continue;
    }
    best = slices++ && best < ns / (uint64_t)n ? best : ns / (uint64_t)n;
  }
  return TC_MAX_OF(best, (uint64_t)1);
}

// False for an algorithm that adds with atomics, for example.
bool tc_library_gemm_repeats(tc_gpu *g, tc_status (*run)(void *arg), void *arg, const void *result, size_t bytes) {
  size_t n = TC_MIN(bytes, REPEATED_BYTES);
  char *first = tc_malloc(2 * n);
  bool same = first && run(arg) == TC_OK && tc_gpu_read(g, first, result, n) == TC_OK;
  for (int i = 0; i < REPEATED_RUNS && same; i++)
    same = run(arg) == TC_OK && tc_gpu_read(g, first + n, result, n) == TC_OK && memcmp(first, first + n, n) == 0;
  tc_free(first);
  if (!same) tc_log_line(TC_LOG_TUNE, "an algorithm of the library's fails, or gives other bits each time");
  return same;
}

uint64_t tc_library_gemm_time_copy(tc_gpu *g, const void *from, size_t bytes) {
  uint64_t best = 0;
  void *to;
  if (tc_gpu_alloc(g, bytes, &to) != TC_OK) return 0;
  for (int i = 0; i <= SLICES; i++) {
    uint64_t start = tc_now_ns();
    for (int k = 0; k < MOST_RUNS; k++) (void)tc_gpu_copy(g, to, from, bytes);
    if (tc_gpu_wait(g) != TC_OK) break;
    uint64_t ns = (tc_now_ns() - start) / MOST_RUNS;
    if (i == 1 || (i > 1 && ns < best)) best = TC_MAX_OF(ns, (uint64_t)1);
  }
  tc_gpu_free(g, to);
  return best;
}
