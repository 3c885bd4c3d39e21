// The words of the dialect (device/gpu/README.md) in HIP C++, for hiprtc and for clang without headers.
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

#define TC_DEVICE static inline __attribute__((device, always_inline))
#define TC_OUTLINED static __attribute__((device, noinline, unused))
#define TC_HEAD(threads) extern "C" __attribute__((global, amdgpu_flat_work_group_size(threads, threads))) void
#define TC_KERNEL(name, threads) TC_HEAD(threads) name(const u64 *__restrict__ tc_table)
#define TC_KERNEL_OF(name, threads, type)                              \
  TC_DEVICE void name##_body(const type *tc_value);                    \
  TC_HEAD(threads) name(const type value) { name##_body(&value); }     \
  TC_DEVICE void name##_body(const type *tc_value)
#define TC_SHARED(bytes)                                                      \
  extern __attribute__((shared, aligned(128))) u8 tc_shared_block[];          \
  u8 *tc_shared = tc_shared_block
#define TC_THREAD ((i32)__builtin_amdgcn_workitem_id_x())
#define TC_BLOCK ((i32)__builtin_amdgcn_workgroup_id_x())
#define TC_BLOCKS ((i32)(__builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x()))
#if defined(__GFX9__) || defined(__GFX8__)
#define TC_WARP 64
#else
#define TC_WARP 32
#endif
#define TC_UNROLL _Pragma("unroll")
#define TC_ROLLED _Pragma("unroll 1")

TC_DEVICE void tc_barrier(void) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#define TC_SYNC() tc_barrier()
// Threads of a wave run together: only the compiler may move accesses.
TC_DEVICE void tc_sync_warp(void) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
#define TC_SYNC_WARP(mask) ((void)(mask), tc_sync_warp())

TC_DEVICE i32 tc_lane(void) {
#if TC_WARP == 64
  return (i32)__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
#else
  return (i32)__builtin_amdgcn_mbcnt_lo(~0u, 0u);
#endif
}
TC_DEVICE u32 tc_down_u32(u32 v, i32 delta, i32 width) {
  i32 lane = tc_lane(), from = (lane & (width - 1)) + delta < width ? lane + delta : lane;
  return (u32)__builtin_amdgcn_ds_bpermute(from << 2, (i32)v);
}
TC_DEVICE u32 tc_from_u32(u32 v, i32 of, i32 width) {
  return (u32)__builtin_amdgcn_ds_bpermute(((tc_lane() & ~(width - 1)) + (of & (width - 1))) << 2, (i32)v);
}
#define TC_DOWN_U32(mask, v, delta, width) ((void)(mask), tc_down_u32(v, delta, width))
#define TC_FROM_U32(mask, v, lane, width) ((void)(mask), tc_from_u32(v, lane, width))

TC_DEVICE u32 tc_bits_f32(f32 x) { return __builtin_bit_cast(u32, x); }
TC_DEVICE f32 tc_f32_bits(u32 x) { return __builtin_bit_cast(f32, x); }
TC_DEVICE u64 tc_bits_f64(f64 x) { return __builtin_bit_cast(u64, x); }
TC_DEVICE f64 tc_f64_bits(u64 x) { return __builtin_bit_cast(f64, x); }

TC_DEVICE f32 tc_fma_f32(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
TC_DEVICE f32 tc_div_f32(f32 a, f32 b) { return a / b; }
// Compilers that have no word for the instruction make a few of it.
#if __has_builtin(__builtin_amdgcn_exp2f)
TC_DEVICE f32 tc_exp2_f32(f32 a) { return __builtin_amdgcn_exp2f(a); }
#else
TC_DEVICE f32 tc_exp2_f32(f32 a) { return __builtin_exp2f(a); }
#endif
TC_DEVICE f32 tc_sqrt_f32(f32 a) { return __builtin_sqrtf(a); }
TC_DEVICE f32 tc_floor_f32(f32 a) { return __builtin_floorf(a); }
TC_DEVICE f32 tc_ceil_f32(f32 a) { return __builtin_ceilf(a); }
TC_DEVICE f32 tc_trunc_f32(f32 a) { return __builtin_truncf(a); }
TC_DEVICE f32 tc_rint_f32(f32 a) { return __builtin_rintf(a); }
TC_DEVICE f32 tc_abs_f32(f32 a) { return __builtin_fabsf(a); }

TC_DEVICE f64 tc_fma_f64(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
TC_DEVICE f64 tc_div_f64(f64 a, f64 b) { return a / b; }
TC_DEVICE f64 tc_sqrt_f64(f64 a) { return __builtin_sqrt(a); }
TC_DEVICE f64 tc_floor_f64(f64 a) { return __builtin_floor(a); }
TC_DEVICE f64 tc_ceil_f64(f64 a) { return __builtin_ceil(a); }
TC_DEVICE f64 tc_trunc_f64(f64 a) { return __builtin_trunc(a); }
TC_DEVICE f64 tc_rint_f64(f64 a) { return __builtin_rint(a); }
TC_DEVICE f64 tc_abs_f64(f64 a) { return __builtin_fabs(a); }

TC_DEVICE u32 tc_mulhi_u32(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }

// ---- half types ----

TC_DEVICE f32 tc_f16_f32(u32 h) { return (f32)__builtin_bit_cast(_Float16, (u16)h); }
TC_DEVICE u16 tc_f32_f16(f32 x) { return __builtin_bit_cast(u16, (_Float16)x); }
TC_DEVICE u16 tc_f64_f16(f64 x) { return __builtin_bit_cast(u16, (_Float16)x); }
TC_DEVICE f32 tc_bf16_f32(u32 h) { return tc_f32_bits(h << 16); }
TC_DEVICE u16 tc_f32_bf16(f32 x) {
  u32 b = tc_bits_f32(x);
  return (u16)((b & 0x7FFFFFFFu) > 0x7F800000u ? (b >> 16) | 0x40u : (b + 0x7FFFu + ((b >> 16) & 1u)) >> 16);
}
// By an f32 rounded to odd, so that it is rounded once. Rounded to nearest first, then towards zero by a step of its bits.
TC_DEVICE u16 tc_f64_bf16(f64 x) {
  f32 y = (f32)x;
  u32 b = tc_bits_f32(y);
  if (x == x && (f64)y != x) {
    if (tc_abs_f64((f64)y) > tc_abs_f64(x)) b -= 1;
    b |= 1;
  }
  return tc_f32_bf16(tc_f32_bits(b));
}

// ---- functions of f64 ----

#define TC_OCML(name) \
  extern "C" __attribute__((device)) f64 __ocml_##name##_f64(f64); \
  TC_DEVICE f64 tc_math_##name(f64 x) { return __ocml_##name##_f64(x); }
#define TC_OCML_OF_TWO(name) \
  extern "C" __attribute__((device)) f64 __ocml_##name##_f64(f64, f64); \
  TC_DEVICE f64 tc_math_##name(f64 x, f64 y) { return __ocml_##name##_f64(x, y); }
TC_OCML(exp)
TC_OCML(exp2)
TC_OCML(expm1)
TC_OCML(log)
TC_OCML(log2)
TC_OCML(log10)
TC_OCML(log1p)
TC_OCML(sin)
TC_OCML(cos)
TC_OCML(tan)
TC_OCML(asin)
TC_OCML(acos)
TC_OCML(atan)
TC_OCML(sinh)
TC_OCML(cosh)
TC_OCML(tanh)
TC_OCML(asinh)
TC_OCML(acosh)
TC_OCML(atanh)
TC_OCML(erf)
TC_OCML(erfc)
TC_OCML(erfinv)
TC_OCML(lgamma)
TC_OCML(tgamma)
TC_OCML_OF_TWO(pow)
TC_OCML_OF_TWO(fmod)
TC_OCML_OF_TWO(atan2)

// ---- memory ----

typedef struct __attribute__((aligned(16))) { u32 x, y, z, w; } tc_u32x4;
typedef struct __attribute__((aligned(8))) { u32 x, y; } tc_u32x2;
#define TC_GLOBAL __attribute__((address_space(1)))
// Pointers that come from memory are not known to be to global memory.
TC_DEVICE void *tc_global(u64 word) { return (void *)(TC_GLOBAL void *)word; }

typedef u32 tc_vector_4 __attribute__((ext_vector_type(4)));
typedef u32 tc_vector_2 __attribute__((ext_vector_type(2)));
TC_DEVICE tc_u32x4 tc_load_nc_16(const void *p) {
  tc_vector_4 v = *(const TC_GLOBAL tc_vector_4 *)(u64)p;
  return (tc_u32x4){v.x, v.y, v.z, v.w};
}
TC_DEVICE tc_u32x2 tc_load_nc_8(const void *p) {
  tc_vector_2 v = *(const TC_GLOBAL tc_vector_2 *)(u64)p;
  return (tc_u32x2){v.x, v.y};
}
TC_DEVICE void tc_store_16(void *p, tc_u32x4 v) { *(TC_GLOBAL tc_vector_4 *)(u64)p = (tc_vector_4){v.x, v.y, v.z, v.w}; }
TC_DEVICE void tc_store_8(void *p, tc_u32x2 v) { *(TC_GLOBAL tc_vector_2 *)(u64)p = (tc_vector_2){v.x, v.y}; }
TC_DEVICE void tc_min_at(u64 *p, u64 v) { (void)__hip_atomic_fetch_min(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
TC_DEVICE u64 tc_min_now(const u64 *p) { return __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }

// There are no copies under way here: each is done at once.
TC_DEVICE void tc_copy_async_16(void *shared, const void *global, i32 bytes) {
  tc_u32x4 v = {0, 0, 0, 0};
  if (bytes == 16) v = tc_load_nc_16(global);
  else for (i32 i = 0; i < bytes; i++) ((u8 *)&v)[i] = ((const u8 *)global)[i];
  *(tc_u32x4 *)shared = v;
}
#define tc_copy_commit() ((void)0)
#define tc_copy_wait(n) ((void)(n))

#define TC_HAS_CLUSTERS 0

// ---- matrix instructions ----

#define TC_HAS_WGMMA 0
#define TC_HAS_MMA 0
#if defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__)
#define TC_HAS_MFMA 1
typedef f32 tc_four_f32 __attribute__((ext_vector_type(4)));
typedef _Float16 tc_four_f16 __attribute__((ext_vector_type(4)));
typedef i16 tc_four_bf16 __attribute__((ext_vector_type(4)));
typedef i16 tc_two_bf16 __attribute__((ext_vector_type(2)));

TC_DEVICE tc_four_f32 tc_sums(const f32 *d) { return (tc_four_f32){d[0], d[1], d[2], d[3]}; }
TC_DEVICE void tc_put_sums(f32 *d, tc_four_f32 v) { d[0] = v.x, d[1] = v.y, d[2] = v.z, d[3] = v.w; }
TC_DEVICE void tc_mfma_f16(f32 *d, const u32 *a, const u32 *b) {
  tc_four_f16 x = __builtin_bit_cast(tc_four_f16, (tc_vector_2){a[0], a[1]}), y = __builtin_bit_cast(tc_four_f16, (tc_vector_2){b[0], b[1]});
  tc_put_sums(d, __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, tc_sums(d), 0, 0, 0));
}
TC_DEVICE void tc_mfma_bf16(f32 *d, const u32 *a, const u32 *b) {
#ifdef __gfx908__
  // Its instruction makes 8 steps, of which each thread has two: any steps, if they are the same of both operands.
  for (i32 i = 0; i < 2; i++) {
    tc_two_bf16 x = __builtin_bit_cast(tc_two_bf16, a[i]), y = __builtin_bit_cast(tc_two_bf16, b[i]);
    tc_put_sums(d, __builtin_amdgcn_mfma_f32_16x16x8bf16(x, y, tc_sums(d), 0, 0, 0));
  }
#else
  tc_four_bf16 x = __builtin_bit_cast(tc_four_bf16, (tc_vector_2){a[0], a[1]}), y = __builtin_bit_cast(tc_four_bf16, (tc_vector_2){b[0], b[1]});
  tc_put_sums(d, __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, y, tc_sums(d), 0, 0, 0));
#endif
}
#else
#define TC_HAS_MFMA 0
#endif
