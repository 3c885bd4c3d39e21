// The words of the dialect (device/gpu/README.md) in CUDA C++, for NVRTC: no header of the toolkit is included.
// device/gpu/polygamma.h follows.
// clang-format off
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

#define TC_DEVICE static __device__ __forceinline__
#define TC_OUTLINED static __device__ __noinline__
// The table is not written while the kernel runs.
#define TC_KERNEL(name, threads) extern "C" __global__ void __launch_bounds__(threads) name(const u64 *__restrict__ tc_table)
#define TC_KERNEL_OF(name, threads, type)                                                                          \
  TC_DEVICE void name##_body(const type *tc_value);                                                                \
  extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ type value) { name##_body(&value); } \
  TC_DEVICE void name##_body(const type *tc_value)
// Above 48 KiB a block's memory must be asked for at the launch, so all of it is.
#define TC_SHARED(bytes)                                 \
  extern __shared__ __align__(1024) u8 tc_shared_block[]; \
  u8 *tc_shared = tc_shared_block
#define TC_THREAD ((i32)threadIdx.x)
#define TC_BLOCK ((i32)blockIdx.x)
#define TC_BLOCKS ((i32)gridDim.x)
#define TC_WARP 32
#define TC_SYNC() __syncthreads()
#define TC_SYNC_WARP(mask) __syncwarp((u32)(mask))
#define TC_DOWN_U32(mask, v, delta, width) __shfl_down_sync((u32)(mask), (u32)(v), (u32)(delta), (int)(width))
#define TC_FROM_U32(mask, v, lane, width) __shfl_sync((u32)(mask), (u32)(v), (int)(lane), (int)(width))
#define TC_UNROLL _Pragma("unroll")
#define TC_ROLLED _Pragma("unroll 1")

TC_DEVICE u32 tc_bits_f32(f32 x) { return __float_as_uint(x); }
TC_DEVICE f32 tc_f32_bits(u32 x) { return __uint_as_float(x); }
TC_DEVICE u64 tc_bits_f64(f64 x) { return (u64)__double_as_longlong(x); }
TC_DEVICE f64 tc_f64_bits(u64 x) { return __longlong_as_double((i64)x); }

TC_DEVICE f32 tc_fma_f32(f32 a, f32 b, f32 c) { return __fmaf_rn(a, b, c); }
TC_DEVICE f32 tc_div_f32(f32 a, f32 b) { return __fdiv_rn(a, b); }
TC_DEVICE f32 tc_sqrt_f32(f32 a) { return __fsqrt_rn(a); }
TC_DEVICE f32 tc_exp2_f32(f32 a) {
  f32 x;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(x) : "f"(a));
  return x;
}
TC_DEVICE f32 tc_floor_f32(f32 a) { return floorf(a); }
TC_DEVICE f32 tc_ceil_f32(f32 a) { return ceilf(a); }
TC_DEVICE f32 tc_trunc_f32(f32 a) { return truncf(a); }
TC_DEVICE f32 tc_rint_f32(f32 a) { return rintf(a); }
TC_DEVICE f32 tc_abs_f32(f32 a) { return fabsf(a); }

TC_DEVICE f64 tc_fma_f64(f64 a, f64 b, f64 c) { return __fma_rn(a, b, c); }
TC_DEVICE f64 tc_div_f64(f64 a, f64 b) { return __ddiv_rn(a, b); }
TC_DEVICE f64 tc_sqrt_f64(f64 a) { return __dsqrt_rn(a); }
TC_DEVICE f64 tc_floor_f64(f64 a) { return floor(a); }
TC_DEVICE f64 tc_ceil_f64(f64 a) { return ceil(a); }
TC_DEVICE f64 tc_trunc_f64(f64 a) { return trunc(a); }
TC_DEVICE f64 tc_rint_f64(f64 a) { return rint(a); }
TC_DEVICE f64 tc_abs_f64(f64 a) { return fabs(a); }

TC_DEVICE u32 tc_mulhi_u32(u32 a, u32 b) { return __umulhi(a, b); }

// ---- half types ----

TC_DEVICE f32 tc_f16_f32(u32 h) {
  f32 x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((u16)h));
  return x;
}
TC_DEVICE u16 tc_f32_f16(f32 x) {
  u16 h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
}
TC_DEVICE u16 tc_f64_f16(f64 x) {
  u16 h;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(h) : "d"(x));
  return h;
}
TC_DEVICE f32 tc_bf16_f32(u32 h) { return __uint_as_float(h << 16); }
TC_DEVICE u16 tc_f32_bf16(f32 x) {
#if __CUDA_ARCH__ >= 800
  u16 h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
#else
  u32 b = __float_as_uint(x);
  return (u16)((b & 0x7FFFFFFFu) > 0x7F800000u ? (b >> 16) | 0x40u : (b + 0x7FFFu + ((b >> 16) & 1u)) >> 16);
#endif
}
// By an f32 rounded to odd, so that it is rounded once.
TC_DEVICE u16 tc_f64_bf16(f64 x) {
  f32 y = __double2float_rz(x);
  u32 inexact = (f64)y != x && x == x ? 1u : 0u;
  return tc_f32_bf16(__uint_as_float(__float_as_uint(y) | inexact));
}

// ---- functions of f64 ----

TC_DEVICE f64 tc_math_exp(f64 x) { return exp(x); }
TC_DEVICE f64 tc_math_exp2(f64 x) { return exp2(x); }
TC_DEVICE f64 tc_math_expm1(f64 x) { return expm1(x); }
TC_DEVICE f64 tc_math_log(f64 x) { return log(x); }
TC_DEVICE f64 tc_math_log2(f64 x) { return log2(x); }
TC_DEVICE f64 tc_math_log10(f64 x) { return log10(x); }
TC_DEVICE f64 tc_math_log1p(f64 x) { return log1p(x); }
TC_DEVICE f64 tc_math_sin(f64 x) { return sin(x); }
TC_DEVICE f64 tc_math_cos(f64 x) { return cos(x); }
TC_DEVICE f64 tc_math_tan(f64 x) { return tan(x); }
TC_DEVICE f64 tc_math_asin(f64 x) { return asin(x); }
TC_DEVICE f64 tc_math_acos(f64 x) { return acos(x); }
TC_DEVICE f64 tc_math_atan(f64 x) { return atan(x); }
TC_DEVICE f64 tc_math_sinh(f64 x) { return sinh(x); }
TC_DEVICE f64 tc_math_cosh(f64 x) { return cosh(x); }
TC_DEVICE f64 tc_math_tanh(f64 x) { return tanh(x); }
TC_DEVICE f64 tc_math_asinh(f64 x) { return asinh(x); }
TC_DEVICE f64 tc_math_acosh(f64 x) { return acosh(x); }
TC_DEVICE f64 tc_math_atanh(f64 x) { return atanh(x); }
TC_DEVICE f64 tc_math_erf(f64 x) { return erf(x); }
TC_DEVICE f64 tc_math_erfc(f64 x) { return erfc(x); }
TC_DEVICE f64 tc_math_erfinv(f64 x) { return erfinv(x); }
TC_DEVICE f64 tc_math_lgamma(f64 x) { return lgamma(x); }
TC_DEVICE f64 tc_math_tgamma(f64 x) { return tgamma(x); }
TC_DEVICE f64 tc_math_pow(f64 x, f64 y) { return pow(x, y); }
TC_DEVICE f64 tc_math_fmod(f64 x, f64 y) { return fmod(x, y); }
TC_DEVICE f64 tc_math_atan2(f64 y, f64 x) { return atan2(y, x); }

// ---- memory ----

typedef struct __align__(16) { u32 x, y, z, w; } tc_u32x4;
typedef struct __align__(8) { u32 x, y; } tc_u32x2;

// NVRTC finds most global addresses itself. Told by __cvta_global_to_generic, 13.0 does not finish a product of 16-bit operands that are read one by one.
TC_DEVICE void *tc_global(u64 word) { return (void *)word; }
// Volatile, or the compiler takes them out of the branch that asks whether the address is aligned, and within bounds: a misaligned access on the device.
TC_DEVICE tc_u32x4 tc_load_nc_16(const void *p) {
  tc_u32x4 v;
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(__cvta_generic_to_global(p)));
  return v;
}
TC_DEVICE tc_u32x2 tc_load_nc_8(const void *p) {
  tc_u32x2 v;
  asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(__cvta_generic_to_global(p)));
  return v;
}
TC_DEVICE void tc_store_16(void *p, tc_u32x4 v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" :: "l"(__cvta_generic_to_global(p)), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
TC_DEVICE void tc_store_8(void *p, tc_u32x2 v) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" :: "l"(__cvta_generic_to_global(p)), "r"(v.x), "r"(v.y) : "memory");
}
TC_DEVICE void tc_min_at(u64 *p, u64 v) { (void)atomicMin(p, v); }
TC_DEVICE u64 tc_min_now(const u64 *p) { return *(const volatile u64 *)p; }

TC_DEVICE void tc_copy_async_16(void *shared, const void *global, i32 bytes) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"((u32)__cvta_generic_to_shared(shared)), "l"(__cvta_generic_to_global(global)), "r"(bytes) : "memory");
#else
  tc_u32x4 v = {0, 0, 0, 0};
  if (bytes == 16) v = *(const tc_u32x4 *)global;
  else for (i32 i = 0; i < bytes; i++) ((u8 *)&v)[i] = ((const u8 *)global)[i];
  *(tc_u32x4 *)shared = v;
#endif
}
#if __CUDA_ARCH__ >= 800
#define tc_copy_commit() asm volatile("cp.async.commit_group;" ::: "memory")
#define tc_copy_wait(n) asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory")
#else
#define tc_copy_commit() ((void)0)
#define tc_copy_wait(n) ((void)(n))
#endif

// ---- clusters ----

// How many blocks a cluster has is the kernel's own, so that it is launched like any other.
#if __CUDA_ARCH__ >= 900
#define TC_HAS_CLUSTERS 1
#define TC_KERNEL_CLUSTER(name, threads, blocks) \
  extern "C" __global__ void __cluster_dims__(blocks, 1, 1) __launch_bounds__(threads) name(const u64 *__restrict__ tc_table)
TC_DEVICE i32 tc_rank(void) {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return (i32)rank;
}
#define TC_RANK tc_rank()
// Orders memory, too: arriving releases and waiting acquires, by themselves.
#define TC_SYNC_CLUSTER() asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory")
TC_DEVICE void *tc_of_block(const void *shared, i32 rank) {
  void *p;
  asm("mapa.u64 %0, %1, %2;" : "=l"(p) : "l"(shared), "r"(rank));
  return p;
}
#else
#define TC_HAS_CLUSTERS 0
#endif

// ---- matrix instructions ----

#define TC_HAS_MFMA 0
#if __CUDA_ARCH__ >= 800
#define TC_HAS_MMA 1
TC_DEVICE void tc_ldmatrix_x4(u32 *r, const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"((u32)__cvta_generic_to_shared(row)) : "memory");
}
TC_DEVICE void tc_ldmatrix_x4_trans(u32 *r, const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"((u32)__cvta_generic_to_shared(row)) : "memory");
}
TC_DEVICE void tc_ldmatrix_x2(u32 *r, const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1]) : "r"((u32)__cvta_generic_to_shared(row)) : "memory");
}
TC_DEVICE void tc_ldmatrix_x2_trans(u32 *r, const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r[0]), "=r"(r[1]) : "r"((u32)__cvta_generic_to_shared(row)) : "memory");
}
TC_DEVICE void tc_mma_bf16(f32 *d, const u32 *a, const u32 *b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
TC_DEVICE void tc_mma_f16(f32 *d, const u32 *a, const u32 *b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#else
#define TC_HAS_MMA 0
#endif

// ---- boxes that come by themselves, and products of four warps ----

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define TC_HAS_WGMMA 1
TC_DEVICE u32 tc_shared_address(const void *shared) { return (u32)__cvta_generic_to_shared(shared); }
// What copies the boxes sees the gate, too.
TC_DEVICE void tc_gate_init(u64 *gate, i32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n\tfence.proxy.async.shared::cta;" :: "r"(tc_shared_address(gate)), "r"(arrivals) : "memory");
}
TC_DEVICE void tc_gate_await(u64 *gate, i32 turn) {
  u32 open;
  do {
    asm volatile("{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\tselp.u32 %0, 1, 0, p;\n\t}"
                 : "=r"(open) : "r"(tc_shared_address(gate)), "r"(turn & 1) : "memory");
  } while (!open);
}
// Another kernel wrote it, and what copies the boxes has a cache of its own.
TC_DEVICE void tc_map_ready(const u64 *map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(map) : "memory");
}
TC_DEVICE void tc_fetch_box(void *shared, const u64 *map, i32 x, i32 y, i32 z, u64 *gate) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 8192;\n\t"
               "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%1], [%2, {%3, %4, %5}], [%0];"
               :: "r"(tc_shared_address(gate)), "r"(tc_shared_address(shared)), "l"(map), "r"(x), "r"(y), "r"(z) : "memory");
}

// The rows of 128 bytes of a box, in swizzled groups of 8: such groups are 1,024 bytes apart, boxes 8,192.
TC_DEVICE u64 tc_wgmma_matrix(const void *shared) {
  return (u64)(tc_shared_address(shared) >> 4) | (u64)(8192 >> 4) << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}
// Names of n operands: of a ten, of the whole accumulator.
#define TC_TEN(t) "%" t "0, %" t "1, %" t "2, %" t "3, %" t "4, %" t "5, %" t "6, %" t "7, %" t "8, %" t "9, "
#define TC_NAMES_64 TC_TEN("") TC_TEN("1") TC_TEN("2") "%30, %31"
#define TC_NAMES_128 TC_TEN("") TC_TEN("1") TC_TEN("2") TC_TEN("3") TC_TEN("4") TC_TEN("5") "%60, %61, %62, %63"
#define TC_NAMES_256                                                                                                                      \
  TC_TEN("") TC_TEN("1") TC_TEN("2") TC_TEN("3") TC_TEN("4") TC_TEN("5") TC_TEN("6") TC_TEN("7") TC_TEN("8") TC_TEN("9") TC_TEN("10") \
  TC_TEN("11") "%120, %121, %122, %123, %124, %125, %126, %127"
#define TC_IN_4(d, i) "+f"((d)[i]), "+f"((d)[i + 1]), "+f"((d)[i + 2]), "+f"((d)[i + 3])
#define TC_IN_16(d, i) TC_IN_4(d, i), TC_IN_4(d, i + 4), TC_IN_4(d, i + 8), TC_IN_4(d, i + 12)
#define TC_IN_64(d) TC_IN_16(d, 0), TC_IN_16(d, 16)
#define TC_IN_128(d) TC_IN_64(d), TC_IN_16(d, 32), TC_IN_16(d, 48)
#define TC_IN_256(d) TC_IN_128(d), TC_IN_16(d, 64), TC_IN_16(d, 80), TC_IN_16(d, 96), TC_IN_16(d, 112)
// Four instructions of 16 steps and their group. Operands behind the accumulator, A to F: where both factors are, how far apart their 16 steps lie, in units
// of 16 bytes, and whether they are transposed.
#define TC_WGMMA_16(n, type, at_a, at_b, E, F) \
  "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" TC_NAMES_##n "}, " at_a ", " at_b ", p, 1, 1, %" E ", %" F ";\n\t"
#define TC_WGMMA_NEXT(C, D) "add.s64 a, a, %" C ";\n\tadd.s64 b, b, %" D ";\n\t"
#define TC_WGMMA(n, type, d, a, b, transposed_a, transposed_b, A, B, C, D, E, F)                                                                       \
  asm volatile("{\n\t.reg .pred p;\n\t.reg .b64 a, b;\n\tsetp.eq.u32 p, 0, 0;\n\tmov.b64 a, %" A ";\n\tmov.b64 b, %" B ";\n\t"                 \
               "wgmma.fence.sync.aligned;\n\t" TC_WGMMA_16(n, type, "a", "b", E, F) TC_WGMMA_NEXT(C, D) TC_WGMMA_16(n, type, "a", "b", E, F)      \
               TC_WGMMA_NEXT(C, D) TC_WGMMA_16(n, type, "a", "b", E, F) TC_WGMMA_NEXT(C, D) TC_WGMMA_16(n, type, "a", "b", E, F)                   \
               "wgmma.commit_group.sync.aligned;\n\t}"                                                                                         \
               : TC_IN_##n(d)                                                                                                                  \
               : "l"(tc_wgmma_matrix(a)), "l"(tc_wgmma_matrix(b)), "n"((transposed_a) ? 128 : 2), "n"((transposed_b) ? 128 : 2), "n"(transposed_a),           \
                 "n"(transposed_b)                                                                                                                 \
               : "memory")
#define tc_wgmma_bf16_64(d, a, b, transposed_a, transposed_b) TC_WGMMA(64, "bf16", d, a, b, transposed_a, transposed_b, "32", "33", "34", "35", "36", "37")
#define tc_wgmma_bf16_128(d, a, b, transposed_a, transposed_b) TC_WGMMA(128, "bf16", d, a, b, transposed_a, transposed_b, "64", "65", "66", "67", "68", "69")
#define tc_wgmma_bf16_256(d, a, b, transposed_a, transposed_b) TC_WGMMA(256, "bf16", d, a, b, transposed_a, transposed_b, "128", "129", "130", "131", "132", "133")
#define tc_wgmma_f16_64(d, a, b, transposed_a, transposed_b) TC_WGMMA(64, "f16", d, a, b, transposed_a, transposed_b, "32", "33", "34", "35", "36", "37")
#define tc_wgmma_f16_128(d, a, b, transposed_a, transposed_b) TC_WGMMA(128, "f16", d, a, b, transposed_a, transposed_b, "64", "65", "66", "67", "68", "69")
#define tc_wgmma_f16_256(d, a, b, transposed_a, transposed_b) TC_WGMMA(256, "f16", d, a, b, transposed_a, transposed_b, "128", "129", "130", "131", "132", "133")
// The accumulator is an operand, so that nothing reads it before.
#define TC_WGMMA_WAIT(n, d, most, A) asm volatile("wgmma.wait_group.sync.aligned %" A ";" : TC_IN_##n(d) : "n"(most) : "memory")
#define tc_wgmma_wait_64(d, most) TC_WGMMA_WAIT(64, d, most, "32")
#define tc_wgmma_wait_128(d, most) TC_WGMMA_WAIT(128, d, most, "64")
#define tc_wgmma_wait_256(d, most) TC_WGMMA_WAIT(256, d, most, "128")
#else
#define TC_HAS_WGMMA 0
#endif
