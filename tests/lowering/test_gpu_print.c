// Printed kernels give the bits of the interpreter, or of plain loops where vectors are longer than
// it takes: every op on every type, one and many lanes a thread, groups smaller than a warp and of
// many; rows kept in registers, in the block's memory, updated in place; odd addresses and masks.
// They run on the simulated driver, which also looks for races, and for accesses that are
// misaligned or outside.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "device/cuda/nvrtc.h"
#include "lowering/codegen/gpu/print.h"
#include "lowering/codegen/interp/interp.h"
#include "lowering/jit/kernel_cache.h"
#include "lowering/kir/libm.h"
#include "lowering/kir/verify.h"
#include "runtime/status.h"
#include "runtime/team.h"
#include "tests/device/simulated.h"
#include "tests/lowering/kir_build.h"
#include "tests/near.h"
#include "tests/kir_cases.h"
#include "tests/threads.h"

enum { N = KIR_LENGTH };

// ---- running ----

// What a kernel is run on: host copies of its buffers.
typedef struct launch {
  void *buf[KIR_BUFFERS];
  size_t n[KIR_BUFFERS];  // elements
  const uint64_t *num;
  int64_t extent, chunk;
  uint64_t *fault;  // NULL: no fault word
} launch;

static tc_gpu *device(void) {
  simulate(NULL);
  return open_gpu(0);
}

static void run(tc_gpu *g, const tc_kir *n, const launch *l) {
  char *source = NULL, *at[KIR_BUFFERS];
  tc_gpu_shape shape;
  tc_gpu_code *code = NULL;
  tc_gpu_sequence *s = NULL;
  uint64_t words[KIR_BUFFERS + 16] = {0};
  void *fault = NULL;
  cr_assert_eq(tc_gpu_print(n, "tc_test", &source, &shape), TC_OK, "%s", tc_last_error()->message);
  cr_assert_eq(tc_gpu_compile(g, "tc_test", source, &code), TC_OK, "%s\n%s", tc_last_error()->message, source);
  for (uint32_t k = 0; k < n->n_buf; k++) {
    const size_t size = kir_type_bytes[n->buf_type[k]];
    cr_assert_eq(tc_gpu_alloc(g, l->n[k] * size, (void **)&at[k]), TC_OK);
    cr_assert_eq(tc_gpu_write(g, at[k], l->buf[k], l->n[k] * size), TC_OK);
    words[k] = (uint64_t)(uintptr_t)at[k];
  }
  for (uint32_t k = 0; k < n->n_num; k++) words[n->n_buf + k] = l->num[k];
  if (l->fault != NULL) cr_assert(tc_gpu_alloc(g, 8, &fault) == TC_OK && tc_gpu_write(g, fault, l->fault, 8) == TC_OK);
  uint64_t *own = words + n->n_buf + n->n_num;
  own[TC_GPU_WORD_EXTENT] = (uint64_t)l->extent, own[TC_GPU_WORD_CHUNK] = (uint64_t)l->chunk,
  own[TC_GPU_WORD_FAULT] = (uint64_t)(uintptr_t)fault;
  const int64_t groups = (l->extent + l->chunk - 1) / l->chunk;
  tc_gpu_launch one = {.code = code,
                       .blocks = (uint32_t)((groups + shape.groups - 1) / shape.groups) * shape.cluster,
                       .threads = shape.threads};
  one.shared_bytes = shape.shared_bytes;
  cr_assert_eq(tc_gpu_sequence_create(g, &one, 1, n->n_buf + n->n_num + TC_GPU_WORDS, &s), TC_OK, "%s",
               tc_last_error()->message);
  cr_assert_eq(tc_gpu_sequence_run(s, words), TC_OK, "%s", tc_last_error()->message);
  for (uint32_t k = 0; k < n->n_buf; k++) {
    const size_t size = kir_type_bytes[n->buf_type[k]];
    cr_assert_eq(tc_gpu_read(g, l->buf[k], at[k], l->n[k] * size), TC_OK, "%s\n%s", tc_last_error()->message, source);
    tc_gpu_free(g, at[k]);
  }
  if (fault != NULL) tc_gpu_free(g, fault);
  tc_gpu_sequence_destroy(s);
  tc_gpu_code_release(code);
  tc_free(source);
}

static void run_interp(const tc_kir *n, void *const *buf, const uint64_t *num, int64_t end) {
  tc_interp *p;
  tc_kir plain = *n;
  plain.threads = plain.groups = 0;
  cr_assert_eq(tc_interp_create(&plain, &p), TC_OK, "%s", tc_last_error()->message);
  tc_worker worker = {.scratch = aligned_alloc(64, (tc_interp_scratch(p) + 127) / 64 * 64),
                      .math = tc_kir_math_table()};
  tc_interp_run(p, buf, num, 0, end, &worker);
  free(worker.scratch);
  tc_interp_destroy(p);
}

// ---- every instruction ----

// A kernel that asks for no share does all in each block: then one must do.
static int64_t chunk_of(const tc_kir *n) {
  for (uint32_t i = 0; i < n->n_inst; i++) {
    if (n->inst[i].op == TC_IR_BEGIN) return 128;
  }
  return N;
}

static void check(tc_gpu *g, kir_case *f, int lanes) {
  void *want[KIR_BUFFERS];
  launch l = {.num = f->num, .extent = N, .chunk = chunk_of(&f->n)};
  for (uint32_t k = 0; k < f->n.n_buf; k++) {
    const size_t bytes = N * kir_type_bytes[f->n.buf_type[k]];
    l.buf[k] = calloc(1, bytes), l.n[k] = N, want[k] = calloc(1, bytes);
    if (k < f->n_in) memcpy(l.buf[k], f->in[k], bytes), memcpy(want[k], f->in[k], bytes);
  }
  run_interp(&f->n, want, f->num, N);
  run(g, &f->n, &l);
  for (uint32_t k = 0; k < f->n.n_buf; k++) {
    const tc_type type = f->n.buf_type[k];
    const int64_t i = near_find(type, l.buf[k], want[k], N, (near_tol){.bits = true});
    cr_expect_eq(i, -1, "%u threads, %d lanes: buffer %u (%s %s) element %d is %g, interpreter has %g", f->n.threads,
                 lanes, k, kir_type_name[type], f->what[k] ? f->what[k] : "", (int)i,
                 near_get(type, l.buf[k], i < 0 ? 0 : i), near_get(type, want[k], i < 0 ? 0 : i));
    free(l.buf[k]), free(want[k]);
  }
  kir_case_release(f);
}

typedef void make_case(kir_case *f, tc_type t, int lanes, int threads);
static void check_all(make_case *make, bool halves) {
  static const struct {
    int lanes, threads, groups;
  } as[] = {{16, 4, 4}, {64, 8, 1}, {64, 64, 1}, {8, 1, 1}};
  tc_gpu *g = device();
  for (tc_type t = 0; t < TC_N_TYPES; t++) {
    if (!halves && (t == TC_F16 || t == TC_BF16)) continue;
    for (size_t k = 0; k < sizeof as / sizeof as[0]; k++) {
      kir_case f;
      make(&f, t, as[k].lanes, as[k].threads);
      f.n.groups = (uint16_t)as[k].groups;
      check(g, &f, as[k].lanes);
    }
  }
}

Test(gpu_print, ops_match_the_interpreter, .timeout = 300) {
  check_all(kir_case_ops, false);
}
Test(gpu_print, casts_match_the_interpreter, .timeout = 300) {
  check_all(kir_case_casts, true);
}
Test(gpu_print, memory_matches_the_interpreter, .timeout = 300) {
  check_all(kir_case_memory, true);
}
Test(gpu_print, reductions_calls_and_leaves_match, .timeout = 300) {
  check_all(kir_case_rest, false);
}

Test(gpu_print, variables_flow_through_loops_and_ifs) {
  kir_case f;
  kir_case_flow(&f);
  f.n.threads = 4, f.n.groups = 1;
  check(device(), &f, 4);
}

// ---- kernels by hand, against the kernel run in step ----

static void fill(tc_type t, void *p, int64_t n) {
  for (int64_t i = 0; i < n; i++) near_set(t, p, i, (double)((i * 2654435761u >> 7) % 2000) / 64 - 15);
}

// Both ways on the same contents; n_els of each buffer. Units one a group.
static void check_in_step(tc_kir *n, const int64_t *n_els, int64_t extent, const char *what) {
  tc_gpu *g = device();
  char text[200];
  void *want[KIR_BUFFERS];
  launch l = {.extent = extent, .chunk = 1};
  cr_assert_eq(tc_kir_verify(n, text, sizeof text), TC_OK, "%s: %s", what, text);
  for (uint32_t k = 0; k < n->n_buf; k++) {
    const size_t bytes = (size_t)n_els[k] * kir_type_bytes[n->buf_type[k]];
    l.buf[k] = calloc(1, bytes), l.n[k] = (size_t)n_els[k], want[k] = calloc(1, bytes);
    fill(n->buf_type[k], l.buf[k], n_els[k]);
    memcpy(want[k], l.buf[k], bytes);
  }
  for (int64_t u = 0; u < extent; u++) {
    const char *why = threads_run(n, want, n_els, NULL, u, u + 1, text);
    cr_assert_null(why, "%s: %s", what, why);
  }
  run(g, n, &l);
  for (uint32_t k = 0; k < n->n_buf; k++) {
    const int64_t i = near_find(n->buf_type[k], l.buf[k], want[k], n_els[k], (near_tol){.bits = true});
    cr_expect_eq(i, -1, "%s: buffer %u element %d is %g, in step it is %g", what, k, (int)i,
                 near_get(n->buf_type[k], l.buf[k], i < 0 ? 0 : i), near_get(n->buf_type[k], want[k], i < 0 ? 0 : i));
    free(l.buf[k]), free(want[k]);
  }
}

enum { KEEP_IN_REGISTERS = 1, KEEP_IN_BLOCK = 2, READ_AGAIN = 3, IN_PLACE = 4 };

// Rows of `length`: y = (x - the row's sum) * the row's greatest, which also goes to a vector. A
// row is read once and kept, or read again, from the memory that it is written to.
static tc_kir rows(tc_type t, int threads, int groups, int each, int64_t length, int how) {
  const int lanes = threads * each;
  const int64_t whole = (length + lanes - 1) / lanes * lanes;
  const uint32_t in = 0, out = how == IN_PLACE ? 0 : 1, sums = how == IN_PLACE ? 1 : 2, tile = sums + 1;
  tc_kir n = {.threads = (uint16_t)threads, .groups = (uint16_t)groups};
  for (uint32_t k = 0; k < sums; k++) put_buffer(&n, t);
  put_buffer(&n, TC_F32);
  if (how == KEEP_IN_REGISTERS || how == KEEP_IN_BLOCK) {
    put_tile(&n, TC_F32, whole, 0);
    n.tile[0].of_lanes = how == KEEP_IN_REGISTERS;
    if (how == KEEP_IN_BLOCK) n.scratch_bytes = whole * 4;
  }
#define AT(j) OP2(&n, ADD, TC_I64, 1, 0, base, j)
#define INSIDE(j) \
  OP2(&n, LT, TC_BOOL, lanes, 0, \
      OP2(&n, ADD, TC_I64, lanes, 0, OP0(&n, LANES, TC_I64, lanes, 0), OP1(&n, SPLAT, TC_I64, lanes, 0, j)), ends)
#define WIDE(v) (t == TC_F32 ? (v) : OP1(&n, CAST, TC_F32, lanes, 0, v))
  uint32_t first = OP0(&n, BEGIN, TC_I64, 1, 0), end = OP0(&n, FINISH, TC_I64, 1, 0), zero = put_i64(&n, 0),
           upto = put_i64(&n, whole);
  uint32_t ends = OP1(&n, SPLAT, TC_I64, lanes, 0, put_i64(&n, length)), r = OP2(&n, LOOP, TC_I64, 1, 1, first, end);
  uint32_t base = OP2(&n, MUL, TC_I64, 1, 0, r, put_i64(&n, length));
  uint32_t sum = OP1(&n, VAR, TC_F32, lanes, 0, OP0(&n, CONST, TC_F32, lanes, 0));
  uint32_t most = OP1(&n, VAR, TC_F32, lanes, 0, OP0(&n, CONST, TC_F32, lanes, (int64_t)0xff800000));
  uint32_t j = OP2(&n, LOOP, TC_I64, 1, lanes, zero, upto);
  uint32_t x = OP2(&n, LOAD, t, lanes, in, AT(j), INSIDE(j));
  x = WIDE(x);
  if (n.n_tile > 0) OP2(&n, STORE, TC_F32, lanes, tile, j, x);
  OP2(&n, SET, TC_F32, lanes, 0, sum, OP2(&n, ADD, TC_F32, lanes, 0, sum, x));
  OP2(&n, SET, TC_F32, lanes, 0, most, OP2(&n, MAX, TC_F32, lanes, 0, most, x));
  OP0(&n, ENDLOOP, TC_BOOL, 1, 0);
  uint32_t all = OP1(&n, REDUCE, TC_F32, 1, TC_IR_ADD, sum), top = OP1(&n, REDUCE, TC_F32, 1, TC_IR_MAX, most);
  OP2(&n, STORE, TC_F32, 1, sums, r, all);
  all = OP1(&n, SPLAT, TC_F32, lanes, 0, all), top = OP1(&n, SPLAT, TC_F32, lanes, 0, top);
  j = OP2(&n, LOOP, TC_I64, 1, lanes, zero, upto);
  x = n.n_tile > 0 ? OP1(&n, LOAD, TC_F32, lanes, tile, j) : OP2(&n, LOAD, t, lanes, in, AT(j), INSIDE(j));
  if (n.n_tile == 0) x = WIDE(x);
  x = OP2(&n, MUL, TC_F32, lanes, 0, OP2(&n, SUB, TC_F32, lanes, 0, x, all), top);
  if (t != TC_F32) x = OP1(&n, CAST, t, lanes, 0, x);
  OP3(&n, STORE, t, lanes, out, AT(j), x, INSIDE(j));
  OP0(&n, ENDLOOP, TC_BOOL, 1, 0);
  OP0(&n, ENDLOOP, TC_BOOL, 1, 0);
#undef AT
#undef INSIDE
#undef WIDE
  return n;
}

static void check_rows(tc_type t, int threads, int groups, int each, int64_t length, int how) {
  char what[120];
  snprintf(what, sizeof what, "rows of %d %s, %d x %d threads, %d each, way %d", (int)length, kir_type_name[t], groups,
           threads, each, how);
  tc_kir n = rows(t, threads, groups, each, length, how);
  check_in_step(&n, (int64_t[]){5 * length, how == IN_PLACE ? 5 : 5 * length, 5}, 5, what);
  tc_kir_destroy(&n);
}

Test(gpu_print, rows_by_parts_of_warps_warps_and_blocks, .timeout = 120) {
  check_rows(TC_F32, 8, 4, 4, 100, KEEP_IN_REGISTERS);
  check_rows(TC_F32, 32, 4, 4, 128, READ_AGAIN);
  check_rows(TC_F32, 32, 2, 1, 77, IN_PLACE);
  check_rows(TC_F32, 64, 1, 2, 300, KEEP_IN_BLOCK);
  check_rows(TC_F32, 256, 1, 4, 2001, KEEP_IN_REGISTERS);
  check_rows(TC_F32, 1024, 1, 1, 1500, IN_PLACE);
  check_rows(TC_BF16, 128, 1, 8, 1000, KEEP_IN_REGISTERS);
  check_rows(TC_F16, 128, 1, 2, 999, READ_AGAIN);
  check_rows(TC_F64, 128, 1, 2, 500, IN_PLACE);
}

// The same sums in the same order as of one block with as many threads, by whatever part of it each
// block is.
Test(gpu_print, rows_spread_over_blocks, .timeout = 120) {
  static const struct {
    tc_type type;
    int threads, cluster, each;
    int64_t length;
    int how;
  } of[] = {{TC_F32, 128, 2, 4, 1000, KEEP_IN_REGISTERS},
            {TC_F32, 1024, 4, 2, 3001, READ_AGAIN},
            {TC_F32, 2048, 8, 1, 5000, IN_PLACE},
            {TC_BF16, 4096, 4, 4, 20001, KEEP_IN_REGISTERS},
            {TC_F64, 512, 8, 2, 1500, READ_AGAIN}};
  for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
    char what[80];
    snprintf(what, sizeof what, "rows of %d over %d blocks", (int)of[i].length, of[i].cluster);
    tc_kir n = rows(of[i].type, of[i].threads, 1, of[i].each, of[i].length, of[i].how);
    n.cluster = (uint16_t)of[i].cluster;
    check_in_step(&n, (int64_t[]){5 * of[i].length, of[i].how == IN_PLACE ? 5 : 5 * of[i].length, 5}, 5, what);
    tc_kir_destroy(&n);
  }
}

// Each thread writes what another reads: through a tile, element by element from the far end, and
// twice, so that the tile is written over again.
Test(gpu_print, threads_wait_for_what_others_wrote) {
  tc_kir n = {.threads = 128, .groups = 1, .scratch_bytes = 1024};
  put_buffer(&n, TC_F32), put_buffer(&n, TC_F32);
  put_tile(&n, TC_F32, 256, 0);
  uint32_t first = OP0(&n, BEGIN, TC_I64, 1, 0), end = OP0(&n, FINISH, TC_I64, 1, 0),
           lanes = OP0(&n, LANES, TC_I64, 256, 0);
  uint32_t far = OP2(&n, SUB, TC_I64, 256, 0, OP0(&n, CONST, TC_I64, 256, 255), lanes), zero = put_i64(&n, 0),
           u = OP2(&n, LOOP, TC_I64, 1, 1, first, end);
  uint32_t base = OP2(&n, MUL, TC_I64, 1, 0, u, put_i64(&n, 512)),
           j = OP2(&n, LOOP, TC_I64, 1, 256, zero, put_i64(&n, 512));
  uint32_t at = OP2(&n, ADD, TC_I64, 1, 0, base, j);
  OP2(&n, STORE, TC_F32, 256, 2, zero, OP1(&n, LOAD, TC_F32, 256, 0, at));
  OP2(&n, STORE, TC_F32, 256, 1, at, OP1(&n, GATHER, TC_F32, 256, 2, far));
  OP0(&n, ENDLOOP, TC_BOOL, 1, 0), OP0(&n, ENDLOOP, TC_BOOL, 1, 0);
  check_in_step(&n, (int64_t[]){2048, 2048}, 4, "transposed round");
  tc_kir_destroy(&n);
}

// b1[i] = b1[i - 1] + the i-th vector's sum: a scalar that the first thread writes, read by all in
// the next turn.
Test(gpu_print, a_scalar_in_memory_goes_from_turn_to_turn) {
  static const int of[][2] = {{16, 0}, {256, 0}, {256, 4}};  // threads, and blocks that they are spread over
  for (int k = 0; k < 3; k++) {
    int threads = of[k][0];
    tc_kir n = {.threads = (uint16_t)threads, .groups = 1, .cluster = (uint16_t)of[k][1]};
    put_buffer(&n, TC_F32), put_buffer(&n, TC_F32);
    OP0(&n, BEGIN, TC_I64, 1, 0);
    uint32_t i = OP2(&n, LOOP, TC_I64, 1, 1, put_i64(&n, 1), put_i64(&n, 8));
    uint32_t x = OP1(&n, LOAD, TC_F32, threads, 0, OP2(&n, MUL, TC_I64, 1, 0, i, put_i64(&n, threads)));
    uint32_t before = OP1(&n, LOAD, TC_F32, 1, 1, OP2(&n, SUB, TC_I64, 1, 0, i, put_i64(&n, 1)));
    OP2(&n, STORE, TC_F32, 1, 1, i, OP2(&n, ADD, TC_F32, 1, 0, before, OP1(&n, REDUCE, TC_F32, 1, TC_IR_ADD, x)));
    OP0(&n, ENDLOOP, TC_BOOL, 1, 0);
    check_in_step(&n, (int64_t[]){8 * threads, 8}, 1, "a scalar");
    tc_kir_destroy(&n);
  }
}

// Copies of 32 threads' elements, the last three threads' masked: where loaded they are 0, where
// stored they stay what they were. The address is known to be a multiple of the elements or comes
// from a variable, and is one or not.
static void check_side_by_side(tc_gpu *g, tc_type t, int each, int64_t off, bool known) {
  enum { ALL = 2560 };
  const size_t size = kir_type_bytes[t];
  char *buf[2] = {calloc(ALL, size), calloc(ALL, size)}, *want = calloc(ALL, size);
  tc_kir n = {.threads = 32, .groups = 2};
  put_buffer(&n, t), put_buffer(&n, t);
  uint32_t first = OP0(&n, BEGIN, TC_I64, 1, 0), lane = OP0(&n, LANES, TC_I64, 32, 0);
  uint32_t at = OP2(&n, ADD, TC_I64, 32, 0, OP2(&n, MUL, TC_I64, 32, 0, lane, OP0(&n, CONST, TC_I64, 32, each)),
                    OP0(&n, CONST, TC_I64, 32, off));
  at = OP2(&n, ADD, TC_I64, 32, 0, at,
           OP1(&n, SPLAT, TC_I64, 32, 0, OP2(&n, MUL, TC_I64, 1, 0, first, put_i64(&n, 512))));
  if (!known) at = OP1(&n, VAR, TC_I64, 32, 0, at);
  uint32_t some = OP2(&n, LT, TC_BOOL, 32, 0, lane, OP0(&n, CONST, TC_I64, 32, 29));
  OP2(&n, SCATTER, t, 32 * each, 1, at, OP2(&n, GATHER, t, 32 * each, 0, at, some));
  at = OP2(&n, ADD, TC_I64, 32, 0, at, OP0(&n, CONST, TC_I64, 32, 256));
  OP3(&n, SCATTER, t, 32 * each, 1, at, OP1(&n, GATHER, t, 32 * each, 0, at), some);
  fill(t, buf[0], ALL), fill(t, buf[1], ALL), memcpy(want, buf[1], ALL * size);
  for (int64_t u = 0; u < 4; u++)
    for (int l = 0; l < 32; l++) {
      const size_t from = ((size_t)(512 * u + l * each) + (size_t)off) * size, bytes = (size_t)each * size,
                   up = 256 * size;
      memset(want + from, 0, bytes);
      if (l < 29) memcpy(want + from, buf[0] + from, bytes), memcpy(want + up + from, buf[0] + up + from, bytes);
    }
  run(g, &n, &(launch){.buf = {buf[0], buf[1]}, .n = {ALL, ALL}, .extent = 4, .chunk = 1});
  cr_expect_eq(memcmp(buf[1], want, ALL * size), 0, "%s, %d each from %d on, %s", kir_type_name[t], each, (int)off,
               known ? "known" : "not known");
  free(buf[0]), free(buf[1]), free(want);
  tc_kir_destroy(&n);
}

Test(gpu_print, elements_side_by_side_at_an_address_a_thread, .timeout = 60) {
  static const tc_type types[] = {TC_F32, TC_BF16, TC_F64, TC_U8};
  tc_gpu *g = device();
  for (size_t k = 0; k < sizeof types / sizeof types[0]; k++)
    for (int each = 2; each <= 8; each *= 2) {
      check_side_by_side(g, types[k], each, 8, true);
      check_side_by_side(g, types[k], each, 8, false);
      check_side_by_side(g, types[k], each, 1, false);
    }
}

// A product of 16 x 16 by 16 x 8 through the block's memory: copies under way, matrices from there,
// fragments back.
Test(gpu_print, matrix_instructions) {
  for (int half = 0; half < 2; half++) {
    const tc_type t = half ? TC_F16 : TC_BF16;
    tc_kir n = {.threads = 32, .groups = 1, .scratch_bytes = 1024};
    put_buffer(&n, t), put_buffer(&n, t), put_buffer(&n, TC_F32);
    put_tile(&n, t, 256, 0), put_tile(&n, t, 256, 512);
    OP0(&n, BEGIN, TC_I64, 1, 0);
#define C(v) OP0(&n, CONST, TC_I64, 32, v)
#define I(OP, a, b) OP2(&n, OP, TC_I64, 32, 0, a, b)
    uint32_t lane = OP0(&n, LANES, TC_I64, 32, 0), eight = I(MUL, lane, C(8)),
             few = OP2(&n, LT, TC_BOOL, 32, 0, lane, C(16));
    OP2(&n, COPY, t, 32, 0, eight, eight);
    n.inst[OP3(&n, COPY, t, 32, 1, eight, eight, few)].flags = 1;
    OP0(&n, COMMIT, TC_BOOL, 1, 0), OP0(&n, WAIT, TC_BOOL, 1, 0);
    uint32_t row = I(ADD, I(MUL, I(AND, lane, C(15)), C(16)), I(MUL, I(DIV, lane, C(16)), C(8)));
    uint32_t a = OP1(&n, LDMATRIX, t, 256, 0, row), b = OP1(&n, LDMATRIX, t, 128, 1, I(MUL, I(AND, lane, C(15)), C(8)));
    n.inst[b].flags = 1;
    uint32_t d = OP3(&n, MMA, TC_F32, 128, 0, a, b, OP0(&n, CONST, TC_F32, 128, 0));
    uint32_t at = I(ADD, I(MUL, I(DIV, lane, C(4)), C(8)), I(MUL, I(REM, lane, C(4)), C(2)));
    for (int k = 0; k < 4; k++)
      OP2(&n, SCATTER, TC_F32, 32, 2, I(ADD, at, C(k % 2 + k / 2 * 64)), OP1(&n, EXTRACT, TC_F32, 32, k, d));
    check_in_step(&n, (int64_t[]){256, 128, 128}, 1, kir_type_name[t]);
    tc_kir_destroy(&n);
#undef C
#undef I
  }
}

// Else no process would find on the disk what another compiled.
Test(gpu_print, a_kernel_is_named_by_what_it_is_not_where) {
  tc_kernel *k[3];
  uint32_t compiled = 0;
  simulate((const char *[]){"TC_SIM_DEVICES=2", NULL});
  tc_gpu *g[2] = {open_gpu(0), open_gpu(1)};
  tc_kir n = rows(TC_F32, 32, 4, 4, 512, KEEP_IN_REGISTERS);
  for (int i = 0; i < 3; i++) OK(tc_kernel_get(&n, "rows", g[i % 2], &k[i], &compiled));
  cr_expect(k[0] == k[2] && k[0] != k[1] && compiled == 2, "%u compiled", compiled);
  cr_expect_str_eq(k[0]->name, k[1]->name);
  for (int i = 0; i < 3; i++) tc_kernel_release(k[i]);
  tc_kir_destroy(&n);
}

// ---- texts ----

static int count(const char *text, const char *word) {
  int n = 0;
  for (; (text = strstr(text, word)) != NULL; text++) n++;
  return n;
}

static char *printed(const tc_kir *n) {
  char *source;
  tc_gpu_shape shape;
  cr_assert_eq(tc_gpu_print(n, "k", &source, &shape), TC_OK, "%s", tc_last_error()->message);
  return source;
}

Test(gpu_print, an_update_in_place_waits_for_nobody_and_is_not_read_as_read_only) {
  tc_kir n = {.threads = 128, .groups = 1};
  put_buffer(&n, TC_F32), put_buffer(&n, TC_F32);
  uint32_t first = OP0(&n, BEGIN, TC_I64, 1, 0), end = OP0(&n, FINISH, TC_I64, 1, 0),
           u = OP2(&n, LOOP, TC_I64, 1, 1, first, end);
  uint32_t at = OP2(&n, MUL, TC_I64, 1, 0, u, put_i64(&n, 512));
  uint32_t a = OP1(&n, LOAD, TC_F32, 512, 0, at), b = OP1(&n, LOAD, TC_F32, 512, 1, at);
  OP2(&n, STORE, TC_F32, 512, 1, at, OP2(&n, ADD, TC_F32, 512, 0, a, b));
  OP0(&n, ENDLOOP, TC_BOOL, 1, 0);
  char *source = printed(&n);
  cr_expect_eq(count(source, "TC_SYNC"), 0, "%s", source);
  cr_expect_eq(count(source, "tc_load_nc_16(("), 0, "%s", source);
  cr_expect_eq(count(source, "tc_load_nc_16(b0"), 1, "%s", source);
  cr_expect_eq(count(source, "*(const tc_u32x4 *)(b1"), 1, "%s", source);
  cr_expect_eq(count(source, "tc_store_16((b1"), 1, "%s", source);
  tc_free(source);
  check_in_step(&n, (int64_t[]){2048, 2048}, 4, "in place");
  tc_kir_destroy(&n);
}

// A buffer may be the memory of another that is written: own elements wait for nobody, what all
// threads read does, and no load is read-only.
Test(gpu_print, memory_that_may_be_written_under_another_number_is_waited_for) {
  tc_kir n = {.threads = 128, .groups = 1, .over = 1};
  put_buffer(&n, TC_F32), put_buffer(&n, TC_F32);
  uint32_t first = OP0(&n, BEGIN, TC_I64, 1, 0), at = OP2(&n, MUL, TC_I64, 1, 0, first, put_i64(&n, 512));
  uint32_t a = OP1(&n, LOAD, TC_F32, 512, 0, at);
  OP2(&n, STORE, TC_F32, 512, 1, at, a);
  char *source = printed(&n);
  cr_expect_eq(count(source, "TC_SYNC"), 0, "%s", source);
  cr_expect_eq(count(source, "tc_load_nc"), 0, "%s", source);
  tc_free(source);
  n.n_inst--;
  uint32_t one = OP1(&n, LOAD, TC_F32, 1, 0, at);
  OP2(&n, STORE, TC_F32, 512, 1, at, OP2(&n, ADD, TC_F32, 512, 0, a, OP1(&n, SPLAT, TC_F32, 512, 0, one)));
  source = printed(&n);
  cr_expect_eq(count(source, "TC_SYNC();"), 1, "%s", source);
  tc_free(source);
  n.over = 0;
  source = printed(&n);
  cr_expect_eq(count(source, "TC_SYNC"), 0, "%s", source);
  cr_expect_eq(count(source, "tc_load_nc_16"), 1, "%s", source);
  tc_free(source), tc_kir_destroy(&n);
}

// Two reductions a row take turns in memory, so each costs one barrier; a row kept in registers
// none.
Test(gpu_print, a_row_costs_a_barrier_a_reduction) {
  tc_kir n = rows(TC_F32, 256, 1, 4, 4096, KEEP_IN_REGISTERS);
  char *source = printed(&n);
  cr_expect_eq(count(source, "TC_SYNC();"), 2, "%s", source);
  tc_free(source);
  n.cluster = 2;
  source = printed(&n);  // a block's barrier and the cluster's, and one at the end
  cr_expect(count(source, "TC_SYNC();") == 2 && count(source, "TC_SYNC_CLUSTER();") == 3, "%s", source);
  tc_free(source), tc_kir_destroy(&n);
  n = rows(TC_F32, 32, 4, 4, 512, KEEP_IN_REGISTERS);
  source = printed(&n);
  cr_expect_eq(count(source, "TC_SYNC"), 0, "%s", source);
  cr_expect_eq(count(source, "tc_shared"), 0, "%s", source);
  tc_free(source), tc_kir_destroy(&n);
}

// With all ones in the fault word a kernel runs, with anything else it does nothing.
Test(gpu_print, after_a_fault_a_kernel_does_nothing) {
  tc_gpu *g = device();
  tc_kir n = {.threads = 32, .groups = 1};
  put_buffer(&n, TC_I32);
  OP2(&n, STORE, TC_I32, 32, 0, put_i64(&n, 0), OP0(&n, LANES, TC_I32, 32, 0));
  for (int fine = 0; fine < 2; fine++) {
    int32_t out[32] = {0};
    uint64_t word = fine ? UINT64_MAX : 7;
    run(g, &n, &(launch){.buf = {out}, .n = {32}, .extent = 1, .chunk = 1, .fault = &word});
    cr_expect_eq(out[31], fine ? 31 : 0);
  }
  tc_kir_destroy(&n);
}

Test(gpu_print, what_is_not_a_gpus_is_refused) {
  char *source;
  tc_gpu_shape shape;
  tc_interp *p;
  tc_kir n = {.n_inst = 0};
  cr_expect_eq(tc_gpu_print(&n, "k", &source, &shape), TC_ERR_ARG);
  cr_expect_null(source);
  cr_expect_not_null(strstr(tc_last_error()->message, "without threads"));
  n.threads = 32, n.groups = 1;
  cr_expect_eq(tc_interp_create(&n, &p), TC_ERR_ARG);
  n.groups = 0;
  cr_expect_eq(tc_gpu_print(&n, "k", &source, &shape), TC_ERR_ARG);
}

// ---- through the real compilers; compiled only ----

enum { N_SAMPLES = 14 };

// Rows first, which are as simple as kernels of a plan; then every instruction on a type. NULL
// after the last.
static char *sample(int k) {
  static const struct {
    tc_type type;
    int threads, groups, each, how;
    int64_t length;
  } row[] = {{TC_F32, 32, 4, 4, KEEP_IN_REGISTERS, 512}, {TC_F32, 256, 1, 4, KEEP_IN_REGISTERS, 8192},
             {TC_F32, 1024, 1, 4, KEEP_IN_BLOCK, 32768}, {TC_BF16, 256, 1, 8, KEEP_IN_REGISTERS, 8192},
             {TC_F16, 512, 1, 8, READ_AGAIN, 8192},      {TC_F64, 128, 1, 2, IN_PLACE, 1000}};
  enum { N_ROWS = sizeof row / sizeof row[0] };
  static make_case *const make[] = {kir_case_ops,   kir_case_ops,   kir_case_rest,   kir_case_rest,
                                    kir_case_casts, kir_case_casts, kir_case_memory, kir_case_memory};
  static const tc_type type[] = {TC_F32, TC_I64, TC_F64, TC_I8, TC_I64, TC_BF16, TC_U8, TC_F16};
  _Static_assert(N_ROWS + sizeof make / sizeof make[0] == N_SAMPLES, "as many as said");
  if (k < N_ROWS) {
    tc_kir n = rows(row[k].type, row[k].threads, row[k].groups, row[k].each, row[k].length, row[k].how);
    char *source = printed(&n);
    tc_kir_destroy(&n);
    return source;
  }
  kir_case f;
  make[k - N_ROWS](&f, type[k - N_ROWS], 64, 16);
  char *source = printed(&f.n);
  kir_case_release(&f);
  return source;
}

static bool has_nvrtc(void) {
  char why[320];
  tc_gpu_facts facts = {.name = "a device", .arch = "sm_90"};
  if (tc_nvrtc_choose_arch(99, &facts, why, sizeof why)) return true;
  cr_skip_test("%s", why);
  return false;
}

Test(gpu_print, kernels_go_through_nvrtc, .timeout = 300) {
  static const char *const arch[] = {"sm_80", "sm_90a"};
  for (int k = 0; has_nvrtc() && k < N_SAMPLES; k++) {
    char *source = sample(k);
    for (size_t a = 0; a < sizeof arch / sizeof arch[0]; a++) {
      tc_gpu_image image;
      cr_assert_eq(tc_nvrtc_compile(arch[a], "k", source, &image), TC_OK, "%s: %s\n%s", arch[a],
                   tc_last_error()->message, source);
      tc_free(image.data);
    }
    tc_free(source);
  }
}

// 16 bytes a load and a store, of rows kept in registers: nothing of a thread's own lies in memory.
Test(gpu_print, rows_are_read_and_written_16_bytes_at_a_time, .timeout = 60) {
  for (int k = 0; has_nvrtc() && k < 4; k++) {
    char *source = sample(k);
    tc_gpu_image image;
    cr_assert_eq(tc_nvrtc_compile("compute_80", "k", source, &image), TC_OK, "%s", tc_last_error()->message);
    cr_expect_not_null(strstr(image.data, "ld.global.nc.v4"), "%s", source);
    cr_expect_not_null(strstr(image.data, "st.global.v4"), "%s", source);
    cr_expect(!strstr(image.data, ".local") && !strstr(image.data, "\tst.v4"), "%s", source);
    tc_free(image.data), tc_free(source);
  }
}
