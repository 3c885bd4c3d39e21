// The words of the dialect (device/gpu/README.md) for kernels that the simulated driver runs: C for the host, without a
// system header, so that a kernel compiles in tens of milliseconds. Words that meet other threads or convert numbers
// are functions of the simulator (run_words.c).
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

#ifndef SIM_WARP
#define SIM_WARP 32
#endif
#define TC_WARP SIM_WARP
#define TC_DEVICE static inline __attribute__((unused))
#define TC_UNROLL
#define TC_ROLLED
#define SIM_PURE __attribute__((const))
#define SIM_UNSEEN __attribute__((no_sanitize_thread))

// ---- heads ----

// NAME is what the driver calls, with a pointer to the parameter; sim_kernel_NAME says how it is to be launched.
#define SIM_HEAD(name, threads, blocks, bytes, given, handed_on, parameter) \
  static void sim_body_##name(parameter); \
  extern const i32 sim_kernel_##name[3]; \
  const i32 sim_kernel_##name[3] = {threads, bytes, blocks}; \
  void name(given); \
  SIM_UNSEEN void name(given) { \
    sim_body_##name(handed_on); \
  } \
  static void sim_body_##name(parameter)
#define TC_KERNEL(name, threads) SIM_HEAD(name, threads, 1, 8, const u64 *const *at, *at, const u64 *tc_table)
#define TC_KERNEL_OF(name, threads, type) \
  SIM_HEAD(name, threads, 1, sizeof(type), const type *at, at, const type *tc_value)

u8 *sim_shared(i32 bytes) SIM_PURE;
i32 sim_thread(void) SIM_PURE;
i32 sim_block(void) SIM_PURE;
i32 sim_blocks(void) SIM_PURE;
#define TC_SHARED(bytes) u8 *tc_shared = sim_shared(bytes)
#define TC_THREAD sim_thread()
#define TC_BLOCK sim_block()
#define TC_BLOCKS sim_blocks()

// ---- meeting other threads ----

void sim_sync(i32 line);
void sim_sync_warp(u64 mask, i32 line);
u32 sim_down(u64 mask, u32 v, i32 delta, i32 width, i32 line);
u32 sim_from(u64 mask, u32 v, i32 lane, i32 width, i32 line);
void sim_min_at(u64 *p, u64 v);
u64 sim_min_now(const u64 *p);
#define TC_SYNC() sim_sync(__LINE__)
#define TC_SYNC_WARP(mask) sim_sync_warp(mask, __LINE__)
#define TC_DOWN_U32(mask, v, delta, width) sim_down(mask, v, delta, width, __LINE__)
#define TC_FROM_U32(mask, v, lane, width) sim_from(mask, v, lane, width, __LINE__)
#define tc_min_at(p, v) sim_min_at(p, v)
#define tc_min_now(p) sim_min_now(p)

// ---- numbers ----

#define SIM_SAME_BITS(word, from, to) \
  TC_DEVICE to word(from v) { \
    union { \
      from was; \
      to is; \
    } x = {v}; \
    return x.is; \
  }
SIM_SAME_BITS(tc_bits_f32, f32, u32)
SIM_SAME_BITS(tc_f32_bits, u32, f32)
SIM_SAME_BITS(tc_bits_f64, f64, u64)
SIM_SAME_BITS(tc_f64_bits, u64, f64)

f32 fmaf(f32, f32, f32) SIM_PURE;
f64 fma(f64, f64, f64) SIM_PURE;
#define tc_fma_f32(a, b, c) fmaf(a, b, c)
#define tc_fma_f64(a, b, c) fma(a, b, c)
TC_DEVICE f32 tc_div_f32(f32 a, f32 b) {
  return a / b;
}
TC_DEVICE f64 tc_div_f64(f64 a, f64 b) {
  return a / b;
}
f32 tc_exp2_f32(f32) SIM_PURE;
#define SIM_UNARY(word, name) \
  f32 name##f(f32) SIM_PURE; \
  f64 name(f64) SIM_PURE; \
  TC_DEVICE f32 tc_##word##_f32(f32 a) { \
    return name##f(a); \
  } \
  TC_DEVICE f64 tc_##word##_f64(f64 a) { \
    return name(a); \
  }
SIM_UNARY(sqrt, sqrt)
SIM_UNARY(floor, floor)
SIM_UNARY(ceil, ceil)
SIM_UNARY(trunc, trunc)
SIM_UNARY(rint, rint)
SIM_UNARY(abs, fabs)

#define tc_mulhi_u32(a, b) ((u32)((u64)(a) * (b) >> 32))

f32 tc_f16_f32(u32 v) SIM_PURE;
u16 tc_f32_f16(f32 v) SIM_PURE;
u16 tc_f64_f16(f64 v) SIM_PURE;
f32 tc_bf16_f32(u32 v) SIM_PURE;
u16 tc_f32_bf16(f32 v) SIM_PURE;
u16 tc_f64_bf16(f64 v) SIM_PURE;

#define SIM_ONE(name) f64 tc_math_##name(f64) SIM_PURE;
#define SIM_TWO(name) f64 tc_math_##name(f64, f64) SIM_PURE;
SIM_ONE(exp)
SIM_ONE(exp2)
SIM_ONE(expm1)
SIM_ONE(log)
SIM_ONE(log2)
SIM_ONE(log10)
SIM_ONE(log1p)
SIM_ONE(sin)
SIM_ONE(cos)
SIM_ONE(tan)
SIM_ONE(asin)
SIM_ONE(acos)
SIM_ONE(atan)
SIM_ONE(sinh)
SIM_ONE(cosh)
SIM_ONE(tanh)
SIM_ONE(asinh)
SIM_ONE(acosh)
SIM_ONE(atanh)
SIM_ONE(erf)
SIM_ONE(erfc)
SIM_ONE(erfinv)
SIM_ONE(lgamma)
SIM_TWO(polygamma)
SIM_TWO(pow)
SIM_TWO(fmod)
SIM_TWO(atan2)

// ---- wide accesses ----

typedef struct {
  u32 x, y, z, w;
} __attribute__((aligned(16))) tc_u32x4;
typedef struct {
  u32 x, y;
} __attribute__((aligned(8))) tc_u32x2;
#define tc_global(word) ((void *)(word))
void sim_read_only(const void *p, i32 bytes);
SIM_UNSEEN TC_DEVICE tc_u32x4 tc_load_nc_16(const void *p) {
  sim_read_only(p, 16);
  return *(const tc_u32x4 *)p;
}
SIM_UNSEEN TC_DEVICE tc_u32x2 tc_load_nc_8(const void *p) {
  sim_read_only(p, 8);
  return *(const tc_u32x2 *)p;
}

#define tc_store_16(p, v) (*(tc_u32x4 *)(p) = (v))
#define tc_store_8(p, v) (*(tc_u32x2 *)(p) = (v))

void tc_copy_async_16(void *shared, const void *global, i32 bytes);
void tc_copy_commit(void);
void tc_copy_wait(i32 n);

// ---- clusters ----

#define TC_HAS_CLUSTERS (SIM_ARCH >= 90)
#if TC_HAS_CLUSTERS
#define TC_KERNEL_CLUSTER(name, threads, blocks) \
  SIM_HEAD(name, threads, blocks, 8, const u64 *const *at, *at, const u64 *tc_table)
i32 sim_rank(void) SIM_PURE;
void sim_sync_cluster(i32 line);
void *sim_of_block(const void *shared, i32 rank);
#define TC_RANK sim_rank()
#define TC_SYNC_CLUSTER() sim_sync_cluster(__LINE__)
#define tc_of_block(shared, rank) sim_of_block(shared, rank)
#endif

// ---- matrices ----

#define TC_HAS_MFMA SIM_MFMA
#if TC_HAS_MFMA
void sim_mfma_bf16(f32 *d, const u32 *a, const u32 *b, i32 line);
void sim_mfma_f16(f32 *d, const u32 *a, const u32 *b, i32 line);
#define tc_mfma_bf16(d, a, b) sim_mfma_bf16(d, a, b, __LINE__)
#define tc_mfma_f16(d, a, b) sim_mfma_f16(d, a, b, __LINE__)
#endif

#define TC_HAS_MMA (SIM_ARCH >= 80)
#if TC_HAS_MMA
void sim_ldmatrix(u32 *r, const void *row, i32 n, i32 transposed, i32 line);
void sim_mma_bf16(f32 *d, const u32 *a, const u32 *b, i32 line);
void sim_mma_f16(f32 *d, const u32 *a, const u32 *b, i32 line);
#define tc_ldmatrix_x4(r, row) sim_ldmatrix(r, row, 4, 0, __LINE__)
#define tc_ldmatrix_x2(r, row) sim_ldmatrix(r, row, 2, 0, __LINE__)
#define tc_ldmatrix_x4_trans(r, row) sim_ldmatrix(r, row, 4, 1, __LINE__)
#define tc_ldmatrix_x2_trans(r, row) sim_ldmatrix(r, row, 2, 1, __LINE__)
#define tc_mma_bf16(d, a, b) sim_mma_bf16(d, a, b, __LINE__)
#define tc_mma_f16(d, a, b) sim_mma_f16(d, a, b, __LINE__)
#endif

// ---- boxes and products of four warps ----

#define TC_HAS_WGMMA (SIM_ARCH == 90)
#if TC_HAS_WGMMA
void sim_gate_init(u64 *gate, i32 arrivals);
void sim_gate_await(u64 *gate, i32 turn, i32 line);
void sim_map_ready(const void *map);
void sim_fetch_box(void *shared, const void *map, i32 x, i32 y, i32 z, u64 *gate);
void sim_wgmma(f32 *d, const void *a, const void *b, i32 transposed_a, i32 transposed_b, i32 is_half, i32 n, i32 line);
void sim_wgmma_wait(f32 *d, i32 most, i32 n, i32 line);
#define tc_gate_init(gate, arrivals) sim_gate_init(gate, arrivals)
#define tc_gate_await(gate, turn) sim_gate_await(gate, turn, __LINE__)
#define tc_map_ready(map) sim_map_ready(map)
#define tc_fetch_box(shared, map, x, y, z, gate) sim_fetch_box(shared, map, x, y, z, gate)
#define tc_wgmma_bf16_64(d, a, b, transposed_a, transposed_b) \
  sim_wgmma(d, a, b, transposed_a, transposed_b, 0, 1, __LINE__)
#define tc_wgmma_bf16_128(d, a, b, transposed_a, transposed_b) \
  sim_wgmma(d, a, b, transposed_a, transposed_b, 0, 2, __LINE__)
#define tc_wgmma_bf16_256(d, a, b, transposed_a, transposed_b) \
  sim_wgmma(d, a, b, transposed_a, transposed_b, 0, 4, __LINE__)
#define tc_wgmma_f16_64(d, a, b, transposed_a, transposed_b) \
  sim_wgmma(d, a, b, transposed_a, transposed_b, 1, 1, __LINE__)
#define tc_wgmma_f16_128(d, a, b, transposed_a, transposed_b) \
  sim_wgmma(d, a, b, transposed_a, transposed_b, 1, 2, __LINE__)
#define tc_wgmma_f16_256(d, a, b, transposed_a, transposed_b) \
  sim_wgmma(d, a, b, transposed_a, transposed_b, 1, 4, __LINE__)
#define tc_wgmma_wait_64(d, most) sim_wgmma_wait(d, most, 1, __LINE__)
#define tc_wgmma_wait_128(d, most) sim_wgmma_wait(d, most, 2, __LINE__)
#define tc_wgmma_wait_256(d, most) sim_wgmma_wait(d, most, 4, __LINE__)
#endif
