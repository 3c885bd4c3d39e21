// Kernels compiled for AArch64 give the interpreter's bits: hand-built kernels of every
// instruction, the kernels of many ops, and those of random programs. With TC_ISA=aarch64 this
// process plans kernels as for that machine and interprets them. Its calls of the interpreter are
// wrapped: what each kernel found in memory and left there is written to a file, and the objects
// made from the same kernels to another. tests/aarch64/runner.c, built by a cross compiler, then
// runs them all under emulation. Skipped where there is no cross compiler, no C library for it, or
// no emulator.
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "device/buffer.h"
#include "lowering/codegen/interp/interp.h"
#include "lowering/jit/compiler.h"
#include "runtime/arena.h"
#include "runtime/team.h"
#include "tests/aarch64/case.h"
#include "tests/aarch64/stand_in.h"
#include "tests/kir_cases.h"
#include "tests/expect.h"
#include "tests/random/random_graph.h"

#define CC "aarch64-linux-gnu-gcc -std=gnu11 -O2 -fPIC -static -ffp-contract=off -D_GNU_SOURCE -I. -Iinclude"
#define RUNNER \
  "tests/aarch64/runner.c lowering/codegen/elf_loader.c lowering/codegen/loaded_code.c lowering/codegen/gdb_jit.c " \
  "lowering/codegen/perf_files.c lowering/codegen/jitdump.c lowering/codegen/line_table.c lowering/kir/print.c " \
  "kernels/math.c lowering/kir/kir.c lowering/kir/libm.c lowering/kir/lookup_tables.c runtime/arena.c runtime/status.c " \
  "runtime/assert.c runtime/inside.c runtime/log.c runtime/log_sink.c runtime/options.c " \
  "runtime/option_rows.c runtime/option_sets.c runtime/edits.c runtime/fork.c runtime/hash.c"
#define EMULATOR "qemu-aarch64-static"

enum { MAX_KNOWN = 1 << 14, MAX_MEMORY = 1 << 14, MAX_BUFS = 64, N_RANDOM = 6 };

static FILE *cases;
static int n_cases;

// ---- one case ----

typedef struct region {
  char *at;
  size_t bytes;
} region;

// A kernel that the interpreter was made for.
typedef struct known {
  tc_kir kir;  // a copy
  const tc_interp *interp;  // NULL: of a hand-built kernel
  bool recorded;
  char name[16];
} known;

static known met[MAX_KNOWN];
static int n_met;
static const known *of_case[MAX_KNOWN];

static void *copy_of(const void *from, size_t bytes) {
  void *copy = tc_malloc(bytes + 1);
  if (bytes > 0) memcpy(copy, from, bytes);
  return copy;
}

static known *meet(const tc_kir *n, const tc_interp *interp) {
  EXPECT(n_met < MAX_KNOWN && n->n_buf <= MAX_BUFS, "kernel %d has %u buffers", n_met, n->n_buf);
  if (n_met == MAX_KNOWN) return NULL;
  known *k = &met[n_met];
  *k = (known){.kir = *n, .interp = interp};
  k->kir.inst = copy_of(n->inst, n->n_inst * sizeof *n->inst);
  k->kir.tile = copy_of(n->tile, n->n_tile * sizeof *n->tile);
  k->kir.buf_type = copy_of(n->buf_type, n->n_buf);
  snprintf(k->name, sizeof k->name, "kernel_%d", n_met++);
  return k;
}

// How many NUMs the kernel reads, and a bit for each buffer it writes.
static uint64_t count_nums(const tc_kir *n, uint64_t *written) {
  uint64_t n_num = 0;
  *written = 0;
  for (uint32_t i = 0; i < n->n_inst; i++) {
    const tc_kir_inst *x = &n->inst[i];
    if ((x->op == TC_IR_STORE || x->op == TC_IR_SCATTER) && x->imm < n->n_buf) *written |= UINT64_C(1) << x->imm;
    if (x->op == TC_IR_NUM && (uint64_t)x->imm >= n_num) n_num = (uint64_t)x->imm + 1;
  }
  return n_num;
}

tc_status __real_tc_interp_create(const tc_kir *kir, tc_interp **out);
void __real_tc_interp_run(const void *ctx, void *const *buf, const uint64_t *num, int64_t begin, int64_t end,
                          tc_worker *worker);

static void put(const void *from, size_t bytes) {
  EXPECT(bytes == 0 || fwrite(from, bytes, 1, cases) == 1, "the file of cases is not written");
}

// Interprets with the stand-ins for library functions, writes the case, and puts the memory back as
// it was.
static void record(known *k, const void *ctx, void *const *buf, const uint64_t *num, int64_t begin, int64_t end,
                   const tc_worker *worker, const region *r, int n_region) {
  const tc_kir *n = &k->kir;
  uint64_t written, n_num = count_nums(n, &written);
  case_head head = {.n_num = n_num,
                    .n_region = (uint64_t)n_region,
                    .n_buf = n->n_buf,
                    .scratch_bytes = (uint64_t)n->scratch_bytes,
                    .begin = begin,
                    .end = end};
  case_buf place[MAX_BUFS];
  tc_worker here = *worker;
  memcpy(head.name, k->name, sizeof k->name);
  put(&head, sizeof head);
  put(num, n_num * sizeof *num);
  for (int i = 0; i < n_region; i++) put(&(uint64_t){r[i].bytes}, sizeof(uint64_t));
  for (uint32_t b = 0; b < n->n_buf; b++) {
    int i = 0;
    while ((char *)buf[b] < r[i].at || (char *)buf[b] >= r[i].at + r[i].bytes) i++;
    place[b] = (case_buf){(uint64_t)i, (uint64_t)((char *)buf[b] - r[i].at), n->buf_type[b], written >> b & 1};
  }
  put(place, n->n_buf * sizeof *place);
  char *before[MAX_BUFS];
  for (int i = 0; i < n_region; i++) {
    before[i] = malloc(r[i].bytes);
    memcpy(before[i], r[i].at, r[i].bytes);
    put(before[i], r[i].bytes);
  }
  here.math = stand_in_table;
  __real_tc_interp_run(ctx, buf, num, begin, end, &here);
  for (int i = 0; i < n_region; i++) {
    put(r[i].at, r[i].bytes);
    memcpy(r[i].at, before[i], r[i].bytes);
    free(before[i]);
  }
  k->recorded = true;
  of_case[n_cases++] = k;
}

// ---- hand-built kernels ----

static void check_kir(kir_case *f) {
  known *k = meet(&f->n, NULL);
  tc_interp *p = NULL;
  void *buf[MAX_BUFS];
  region r[MAX_BUFS];
  if (k == NULL) return;
  EXPECT_OK(__real_tc_interp_create(&f->n, &p));
  for (uint32_t b = 0; b < f->n.n_buf; b++) {  // aligned to elements only
    size_t size = kir_type_bytes[f->n.buf_type[b]];
    r[b] = (region){calloc(KIR_LENGTH + 1, size), (KIR_LENGTH + 1) * size};
    buf[b] = r[b].at + size;
    if (b < f->n_in) memcpy(buf[b], f->in[b], KIR_LENGTH * size);
  }
  tc_worker worker = {.scratch = aligned_alloc(64, tc_interp_scratch(p) / 64 * 64 + 64)};
  record(k, p, buf, f->num, 0, KIR_LENGTH, &worker, r, (int)f->n.n_buf);
  for (uint32_t b = 0; b < f->n.n_buf; b++) free(r[b].at);
  free(worker.scratch);
  tc_interp_destroy(p);
  kir_case_release(f);
}

static void check_kirs(void) {
  static const int widths[] = {1, 4, 32};
  kir_case f;
  for (tc_type t = 0; t < TC_N_TYPES; t++) {
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
      bool computes = t != TC_F16 && t != TC_BF16;
      if (computes) kir_case_ops(&f, t, widths[w], 0), check_kir(&f);
      if (computes) kir_case_rest(&f, t, widths[w], 0), check_kir(&f);
      kir_case_casts(&f, t, widths[w], 0), check_kir(&f);
      kir_case_memory(&f, t, widths[w], 0), check_kir(&f);
    }
  }
  kir_case_flow(&f), check_kir(&f);
}

// ---- kernels as the library launches them ----

static region memory[MAX_MEMORY];  // of every buffer that was made, without those it took the place of
static int n_memory;

static tc_status note_memory(tc_status st, size_t bytes, tc_buffer **out) {
  if (st != TC_OK) return st;
  region now = {(*out)->ptr, bytes};
  int n = 0;
  for (int i = 0; i < n_memory; i++)
    if (memory[i].at + memory[i].bytes <= now.at || now.at + now.bytes <= memory[i].at) memory[n++] = memory[i];
  n_memory = n;
  EXPECT(n_memory < MAX_MEMORY, "more buffers than expected");
  if (n_memory < MAX_MEMORY) memory[n_memory++] = now;
  return TC_OK;
}

tc_status __real_tc_buffer_create(size_t bytes, tc_buffer **out);
tc_status __wrap_tc_buffer_create(size_t bytes, tc_buffer **out);
tc_status __wrap_tc_buffer_create(size_t bytes, tc_buffer **out) {
  return note_memory(__real_tc_buffer_create(bytes, out), bytes, out);
}

tc_status __real_tc_buffer_create_on(tc_device d, size_t bytes, tc_buffer **out);
tc_status __wrap_tc_buffer_create_on(tc_device d, size_t bytes, tc_buffer **out);
tc_status __wrap_tc_buffer_create_on(tc_device d, size_t bytes, tc_buffer **out) {
  return note_memory(__real_tc_buffer_create_on(d, bytes, out), bytes, out);
}

tc_status __wrap_tc_interp_create(const tc_kir *kir, tc_interp **out);
tc_status __wrap_tc_interp_create(const tc_kir *kir, tc_interp **out) {
  tc_status st = __real_tc_interp_create(kir, out);
  if (st != TC_OK) return st;
  (void)meet(kir, *out);
  return TC_OK;
}

// Finds the memory that each buffer lies in; false if some lies in none that is known.
static bool find_regions(const known *k, void *const *buf, region *r, int *n_region) {
  *n_region = 0;
  for (uint32_t b = 0; b < k->kir.n_buf; b++) {
    int at = 0, i = 0;
    while (at < n_memory && ((char *)buf[b] < memory[at].at || (char *)buf[b] >= memory[at].at + memory[at].bytes))
      at++;
    if (at == n_memory) return false;
    while (i < *n_region && r[i].at != memory[at].at) i++;
    if (i == *n_region) r[(*n_region)++] = memory[at];
  }
  return true;
}

void __wrap_tc_interp_run(const void *ctx, void *const *buf, const uint64_t *num, int64_t begin, int64_t end,
                          tc_worker *worker);
void __wrap_tc_interp_run(const void *ctx, void *const *buf, const uint64_t *num, int64_t begin, int64_t end,
                          tc_worker *worker) {
  known *k = NULL;
  region r[MAX_BUFS];
  int n_region;
  for (int i = n_met; i-- > 0 && k == NULL;)  // the last of that address: the memory of former ones was freed
    if (met[i].interp == ctx) k = &met[i];
  EXPECT(k != NULL, "an interpreter that was not made here");
  if (k != NULL && !k->recorded) {
    bool found = find_regions(k, buf, r, &n_region);
    EXPECT(found, "%s reads or writes memory that is not known", k->name);
    if (found) record(k, ctx, buf, num, begin, end, worker, r, n_region);
  }
  __real_tc_interp_run(ctx, buf, num, begin, end, worker);
}

// ---- the kernels of many ops ----

#define RUN(...) \
  do { \
    tc_tensor made[] = {__VA_ARGS__}; \
    EXPECT_OK(tc_eval(sizeof made / sizeof *made, made)); \
  } while (0)

// Numbers of both signs up to scale, different in each place, in memory.
static tc_tensor wave(tc_dims shape, tc_type type, double scale) {
  int64_t n = 1;
  for (int i = 0; i < shape.rank; i++) n *= shape.dim[i];
  tc_tensor x = tc_mul(tc_sin(tc_mul(tc_arange(1, (double)n + 1, 1, TC_F32), 12.9898)), scale);
  x = tc_reshape(tc_cast(x, type), shape);
  RUN(x);
  return x;
}

static const tc_tensor none = {0, 0};

static void run_elementwise(tc_type type) {
  static tc_tensor (*const unary[])(tc_tensor) = {
      tc_neg,   tc_abs,        tc_sign,  tc_floor, tc_ceil,   tc_round,    tc_trunc,       tc_square,   tc_sqrt,
      tc_rsqrt, tc_reciprocal, tc_exp,   tc_exp2,  tc_expm1,  tc_log,      tc_log2,        tc_log10,    tc_log1p,
      tc_sin,   tc_cos,        tc_tan,   tc_asin,  tc_acos,   tc_atan,     tc_sinh,        tc_cosh,     tc_tanh,
      tc_asinh, tc_acosh,      tc_atanh, tc_erf,   tc_erfinv, tc_lgamma,   tc_digamma,     tc_sigmoid,  tc_relu,
      tc_isnan, tc_isfinite,   tc_gelu,  tc_silu,  tc_mish,   tc_softplus, tc_log_sigmoid, tc_hardswish};
  static tc_tensor (*const binary[])(tc_tensor, tc_tensor) = {
      tc_add,  tc_sub,       tc_mul,          tc_div,   tc_pow, tc_maximum, tc_minimum,
      tc_fmod, tc_remainder, tc_floor_divide, tc_atan2, tc_lt,  tc_eq};
  tc_tensor x = wave(TC_SHAPE(45), type, 4), y = wave(TC_SHAPE(5, 45), type, 90),
            whole = wave(TC_SHAPE(320), type, 20);  // no tail after blocks of 64
  size_t step = type == TC_F32 ? 1 : 4;  // bf16 computes as f32, and f64 calls what rows of a table name
  for (size_t i = 0; i < sizeof unary / sizeof *unary; i += step) RUN(unary[i](whole));
  for (size_t i = 0; i < sizeof binary / sizeof *binary; i++) RUN(binary[i](x, y));
  RUN(tc_where(tc_gt(x, 0), tc_exp(x), tc_mul(y, 2)), tc_clamp(y, -1, 2));
}

static void run_integers(tc_type type) {
  static tc_tensor (*const binary[])(tc_tensor, tc_tensor) = {
      tc_add,         tc_mul,         tc_maximum,    tc_remainder,   tc_floor_divide, tc_le,
      tc_bitwise_and, tc_bitwise_xor, tc_shift_left, tc_shift_right, tc_div};
  tc_tensor x = wave(TC_SHAPE(256), type, 100), y = wave(TC_SHAPE(256), type, 9);
  for (size_t i = 0; i < sizeof binary / sizeof *binary; i++) RUN(binary[i](x, y));
  RUN(tc_neg(x), tc_bitwise_not(x), tc_sum(x, TC_ALL, false), tc_argmax(y, 0, false), tc_cumsum(x, 0));
}

static void run_movement(tc_type type) {
  tc_tensor x = wave(TC_SHAPE(9, 20, 33), type, 50), m = wave(TC_SHAPE(64, 80), type, 50);
  RUN(tc_permute(x, TC_SHAPE(2, 0, 1)), tc_flip(x, TC_AXES(1, 2)), tc_roll(x, 5, 2), tc_slice(x, 2, 1, 30, 3),
      tc_tril(m, 3));
  RUN(tc_pad(x, TC_SHAPE(0, 1, 2), TC_SHAPE(1, 0, 3), 7), tc_cat(2, (tc_tensor[]){x, tc_neg(x)}, 1),
      tc_repeat_interleave(x, 3, 1));
  RUN(tc_add(tc_transpose(m, 0, 1), 1), tc_unfold(x, 2, 5, 2), tc_diagonal(m, 1), tc_tile(m, TC_SHAPE(2, 3)));
  RUN(tc_cast(tc_transpose(m, 0, 1), type == TC_F32 ? TC_BF16 : TC_F32));
}

static void run_folds(tc_type type) {
  tc_tensor x = wave(TC_SHAPE(6, 37, 131), type, 3);
  for (int axis = 0; axis < 3; axis++) {
    RUN(tc_sum(x, TC_AXES(axis), false), tc_max(x, TC_AXES(axis), false), tc_prod(x, TC_AXES(axis), false),
        tc_argmin(x, axis, false));
    RUN(tc_softmax(x, axis), tc_log_softmax(x, axis), tc_var(x, TC_AXES(axis), 1, false),
        tc_logsumexp(x, TC_AXES(axis), false));
  }
  RUN(tc_sum(x, TC_ALL, false), tc_mean(x, TC_AXES(0, 2), true), tc_norm(x, 2, TC_AXES(1, 2), false),
      tc_any(tc_gt(x, 2), TC_AXES(2), false));
  tc_tensor weight = wave(TC_SHAPE(131), type, 1), bias = wave(TC_SHAPE(131), type, 1);
  RUN(tc_layer_norm(x, weight, bias, 1e-5), tc_rms_norm(x, weight, 1e-6),
      tc_sum(wave(TC_SHAPE(40000), type, 1), TC_ALL, false));
}

static void run_products(tc_type type) {
  // rows, terms, columns
  static const int64_t size[][3] = {{1, 64, 48}, {5, 7, 9}, {48, 200, 96}, {70, 33, 130}, {3, 300, 64}};
  for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
    int64_t m = size[i][0], k = size[i][1], n = size[i][2];
    tc_tensor a = wave(TC_SHAPE(m, k), type, 1), b = wave(TC_SHAPE(k, n), type, 1), w = wave(TC_SHAPE(n, k), type, 1),
              bias = wave(TC_SHAPE(n), type, 1);
    tc_tensor at = wave(TC_SHAPE(k, m), type, 1), kept = tc_param(wave(TC_SHAPE(n, k), type, 1));
    RUN(tc_matmul(a, b));
    RUN(tc_linear(a, w, bias));
    RUN(tc_matmul(tc_transpose(at, 0, 1), b));
    RUN(tc_relu(tc_linear(a, kept, bias)));  // packed once, and kept
  }
  RUN(tc_bmm(wave(TC_SHAPE(3, 20, 70), type, 1), wave(TC_SHAPE(3, 70, 40), type, 1)));
  RUN(tc_softmax(tc_matmul(wave(TC_SHAPE(40, 1100), type, 1), wave(TC_SHAPE(1100, 24), type, 1)), 1));
}

static void run_convolutions(tc_type type) {
  tc_tensor x = wave(TC_SHAPE(2, 16, 14, 13), type, 1), w = wave(TC_SHAPE(32, 16, 3, 3), type, 1),
            b = wave(TC_SHAPE(32), type, 1);
  RUN(tc_conv2d(x, w, b, (tc_conv_options){.padding = TC_SHAPE(1)}));  // Winograd's algorithm in f32
  RUN(tc_relu(tc_conv2d(x, w, b, (tc_conv_options){.stride = TC_SHAPE(2), .padding = TC_SHAPE(1)})));
  RUN(tc_conv2d(x, wave(TC_SHAPE(16, 1, 3, 3), type, 1), none,
                (tc_conv_options){.groups = 16, .dilation = TC_SHAPE(2)}));
  RUN(tc_conv2d(x, wave(TC_SHAPE(24, 16, 1, 1), type, 1), none, (tc_conv_options){.groups = 1}));
  RUN(tc_conv_transpose2d(x, wave(TC_SHAPE(16, 8, 3, 3), type, 1), none, (tc_conv_options){.stride = TC_SHAPE(2)}));
  RUN(tc_max_pool2d(x, TC_SHAPE(3), (tc_pool_options){.stride = TC_SHAPE(2), .padding = TC_SHAPE(1)}));
  RUN(tc_avg_pool2d(x, TC_SHAPE(2), (tc_pool_options){.ceil_mode = true}));
  RUN(tc_interpolate(x, TC_SHAPE(9, 21), (tc_interpolate_options){.mode = TC_LINEAR}));
}

static void run_attention(tc_type type) {
  tc_tensor q = wave(TC_SHAPE(2, 3, 40, 32), type, 1), k = wave(TC_SHAPE(2, 3, 70, 32), type, 1),
            v = wave(TC_SHAPE(2, 3, 70, 32), type, 1);
  tc_tensor mask = tc_gt(wave(TC_SHAPE(40, 70), TC_F32, 1), -0.7);
  RUN(tc_scaled_dot_product_attention(q, k, v, none, (tc_attention_options){.scale = 0.2}));
  RUN(tc_scaled_dot_product_attention(q, k, v, mask, (tc_attention_options){.dropout = 0.1}));
  RUN(tc_scaled_dot_product_attention(k, k, v, none, (tc_attention_options){.causal = true}));
  RUN(tc_scaled_dot_product_attention(q, k, v, none, (tc_attention_options){.causal = true, .key_length = 55}));
}

// Products of bytes of every pair of signs, and a linear layer of them.
static void run_bytes(void) {
  tc_tensor x = wave(TC_SHAPE(33, 52), TC_F32, 90), w = wave(TC_SHAPE(52, 70), TC_F32, 90),
            at = tc_full(TC_SHAPE(), 1, TC_F32);
  tc_tensor a[2], b[2];
  for (int k = 0; k < 2; k++) {
    tc_tensor zero = tc_full(TC_SHAPE(), k ? 100 : 0, TC_I32);
    a[k] = tc_quantize(x, at, zero, k ? TC_U8 : TC_I8, (tc_quantize_options){0});
    b[k] = tc_quantize(w, at, zero, k ? TC_U8 : TC_I8, (tc_quantize_options){0});
  }
  RUN(a[0], a[1], b[0], b[1]);
  for (int k = 0; k < 4; k++) RUN(tc_matmul(a[k & 1], b[k >> 1]), tc_matmul(tc_slice(a[k & 1], 0, 0, 2, 1), b[k >> 1]));
  RUN(tc_linear_int8(x, tc_transpose(b[0], 0, 1), tc_full(TC_SHAPE(), 0.1, TC_F32), none));
}

static void run_indexing(tc_type type) {
  tc_tensor x = wave(TC_SHAPE(30, 50), type, 90), index = tc_remainder(tc_arange(0, 700, 7, TC_I64), 30);
  tc_tensor src = wave(TC_SHAPE(100, 50), type, 9),
            each = tc_remainder(tc_reshape(tc_arange(0, 1500, 1, TC_I64), TC_SHAPE(30, 50)), 30);
  RUN(tc_index_select(x, 0, index), tc_gather(x, 0, each), tc_embedding(x, tc_reshape(index, TC_SHAPE(4, 25))),
      tc_one_hot(index, 30));
  RUN(tc_index_add(x, 0, index, src), tc_scatter(x, 0, each, tc_neg(x)), tc_scatter_add(x, 0, each, x),
      tc_sort(x, 1, true));
  tc_tensor whole = tc_mul(x, 1);
  RUN(whole);
  EXPECT_OK(tc_assign_slice(whole, (int64_t[]){3, 5}, (int64_t[]){20, 41}, NULL, wave(TC_SHAPE(17, 36), type, 5)));
  RUN(whole);
}

static void run_draws(tc_type type) {
  RUN(tc_rand(TC_SHAPE(3, 77), type), tc_randn(TC_SHAPE(300), type), tc_dropout(wave(TC_SHAPE(9, 31), type, 1), 0.3));
  RUN(tc_bernoulli(0.4, TC_SHAPE(100)), tc_randint(-5, 900, TC_SHAPE(100), TC_I32),
      tc_randint(0, 7, TC_SHAPE(100), TC_I64), tc_randperm(60));
}

// Gradients, an optimizer's step, and attention and convolution backwards.
static void run_training(tc_type type) {
  tc_tensor x = wave(TC_SHAPE(16, 16, 10, 10), type, 1), w = tc_param(wave(TC_SHAPE(16, 16, 3, 3), type, 0.3)),
            u = tc_param(wave(TC_SHAPE(16, 400), type, 0.1));
  tc_tensor y = tc_gelu(tc_conv2d(x, w, none, (tc_conv_options){.padding = TC_SHAPE(1)}));
  y = tc_flatten(tc_max_pool2d(y, TC_SHAPE(2), (tc_pool_options){.ceil_mode = false}), 1, -1);
  tc_tensor loss = tc_cross_entropy(tc_linear(y, u, none), tc_arange(0, 16, 1, TC_I64)),
            q = tc_param(wave(TC_SHAPE(1, 2, 33, 16), type, 1));
  tc_optimizer *opt = tc_adam((tc_tensor[]){w, u}, 2, (tc_adam_options){.lr = 1e-2, TC_ADAM_DEFAULTS});
  EXPECT_OK(tc_backward(loss));
  EXPECT_OK(tc_optimizer_step(opt));
  EXPECT_OK(tc_sync(NULL));
  tc_optimizer_destroy(opt);
  EXPECT_OK(tc_backward(
      tc_sum(tc_scaled_dot_product_attention(q, q, tc_mul(q, 2), none, (tc_attention_options){.causal = true}), TC_ALL,
             false)));
  RUN(tc_grad(q));
}

// Casts and arithmetic of every type are among the hand-built kernels; here are the types whose
// kernels differ in more than that.
static void run_ops(void) {
  static const struct {
    void (*run)(tc_type type);
    int n;  // of the types
  } ops[] = {{run_elementwise, 3}, {run_products, 3}, {run_convolutions, 2}, {run_attention, 2}, {run_movement, 1},
             {run_folds, 3},       {run_indexing, 2}, {run_draws, 3},        {run_training, 1}};
  static const tc_type type[] = {TC_F32, TC_BF16, TC_F64, TC_F16};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    for (int t = 0; t < ops[i].n; t++) {
      tc_scope scope = tc_scope_begin();
      ops[i].run(type[t]);
      tc_scope_end(scope);
    }
  }
  tc_scope scope = tc_scope_begin();
  run_integers(TC_U8), run_integers(TC_I32), run_movement(TC_U8), run_bytes();
  tc_scope_end(scope);
}

static void run_random(void) {
  for (uint64_t seed = 1; seed <= N_RANDOM; seed++) {
    rg_program p;
    rg_make(&p, seed);
    const char *bad = rg_check(&p);
    EXPECT(bad == NULL, "seed %llu, as planned for AArch64: %s", (unsigned long long)seed, bad);
  }
}

// ---- the other machine ----

static bool shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool shell(const char *format, ...) {
  char text[2000];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fflush(stdout);
  return system(text) == 0;
}

typedef struct object {
  void *at;
  size_t bytes;
} object;

static object object_of[MAX_KNOWN];

static void *make_objects(void *next) {
  for (int i; (i = atomic_fetch_add((atomic_int *)next, 1)) < n_cases;)
    EXPECT_OK(tc_compiler_object(&of_case[i]->kir, of_case[i]->name, &object_of[i].at, &object_of[i].bytes));
  return NULL;
}

// The objects of all cases in their order, a size before each.
static void write_objects(const char *path) {
  pthread_t other;
  atomic_int next = 0;
  FILE *out = fopen(path, "wb");
  bool two = pthread_create(&other, NULL, make_objects, &next) == 0;
  (void)make_objects(&next);
  if (two) pthread_join(other, NULL);
  for (int i = 0; i < n_cases && out != NULL; i++) {
    uint64_t bytes = object_of[i].bytes;
    bool wrote = fwrite(&bytes, sizeof bytes, 1, out) == 1 && fwrite(object_of[i].at, 1, bytes, out) == bytes;
    EXPECT(wrote, "%s is not written", path);
  }
  EXPECT(out != NULL && fclose(out) == 0, "%s is not written", path);
  for (int i = 0; i < n_cases; i++) free(object_of[i].at);
}

int main(void) {
  char dir[] = "/tmp/tc-aarch64-XXXXXX", path[64], objects[64];
  setenv("TC_ISA", "aarch64", 1), setenv("TC_NUM_THREADS", "1", 1);
  if (tc_isa_is_of_host(tc_isa_named("aarch64")))
    return printf("aarch64: skipped, for all tests run kernels of this machine, which is one\n"), 77;
  if (mkdtemp(dir) == NULL) return printf("aarch64: no temporary directory\n"), 1;
  if (!shell("{ echo 'int main(void) { return 0; }' | " CC " -x c - -o %s/probe && " EMULATOR
             " %s/probe; } 2>/dev/null",
             dir, dir)) {
    (void)shell("rm -rf %s", dir);
    printf("aarch64: skipped, needs gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user-static\n");
    return 77;
  }
  snprintf(path, sizeof path, "%s/cases", dir), snprintf(objects, sizeof objects, "%s/objects", dir);
  cases = fopen(path, "wb");
  EXPECT(cases != NULL, "no file of cases");
  EXPECT(strstr(tc_compiler_sentence(), "interpreted as they are for aarch64") != NULL, "%s", tc_compiler_sentence());
  if (cases != NULL && expect_n_failed == 0) {
    check_kirs();
    run_ops();
    run_random();
    EXPECT(fclose(cases) == 0, "the file of cases is not written");
    EXPECT(n_cases > 600, "only %d cases", n_cases);
    write_objects(objects);
    EXPECT(shell(CC " " RUNNER " -o %s/runner -lm && " EMULATOR " %s/runner %s %s", dir, dir, path, objects),
           "kernels for AArch64 differ from the interpreter");
  }
  for (int i = 0; i < n_met; i++) tc_kir_destroy(&met[i].kir);
  (void)shell("rm -rf %s", dir);
  return expect_done("aarch64");
}
