// The host processor's features, from cpuid or from Linux. See host_cpu.h.
#include "lowering/target/host_cpu.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

#include "runtime/options.h"

#define TILE_STATES (3u << 17)  // in the first control register: the system saves tile registers
#define HAS_TILES ",+amx-tile,+amx-bf16,+amx-int8"

// Whether the processor has tile registers and their products of bf16 and bytes, and the system
// knows of them. gcc and clang do not both know their names.
static bool has_tiles(void) {
  const uint32_t all = 1u << 22 | 1u << 24 | 1u << 25;  // amx-bf16, amx-tile, amx-int8
  uint32_t r[4], low, high;
  if (!__get_cpuid(1, &r[0], &r[1], &r[2], &r[3]) || (r[2] >> 27 & 1) == 0) return false;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & TILE_STATES) != TILE_STATES) return false;
  return __get_cpuid_count(7, 0, &r[0], &r[1], &r[2], &r[3]) && (r[3] & all) == all;
}

void tc_host_features(char out[TC_HOST_FEATURES_BYTES]) {
  size_t n = 0;
  *out = 0;
  __builtin_cpu_init();
#define HAS(name) \
  if (__builtin_cpu_supports(#name)) \
  n += (size_t)snprintf(out + n, TC_HOST_FEATURES_BYTES - n, n ? ",+%s" : "+%s", #name)
  HAS(avx2);
  HAS(fma);
  HAS(avx512f);
  HAS(avx512vl);
  HAS(avx512dq);
  HAS(avx512bw);
  HAS(avx512bf16);
#undef HAS
  if (__builtin_cpu_is("amd") && __builtin_cpu_supports("avx512bf16"))
    n += (size_t)snprintf(out + n, TC_HOST_FEATURES_BYTES - n, ",+quickdots");
  if (has_tiles() || tc_planted("tiles")) snprintf(out + n, TC_HOST_FEATURES_BYTES - n, HAS_TILES);
}

// True for AMD. Measured: Zen 4, 1 thread, 4096 rows of 4096 floats, GB/s: whole rows 27, parts of
// 1536 bytes 16, a sum 28.
bool tc_host_reads_rows(void) {
  __builtin_cpu_init();
  return __builtin_cpu_is("amd");
}

bool tc_host_halves_vectors(void) {
  __builtin_cpu_init();
  return __builtin_cpu_is("amdfam19h");  // Zen 3, which has no 64-byte vectors, and Zen 4
}

// The registers of a cpuid leaf that are equal on every core; leaf 1's ebx, the core's number, is
// not.
typedef struct leaf {
  uint32_t number, part;
  bool a, b, c, d;
} leaf;

void tc_host_facts(char out[TC_HOST_FACTS_BYTES]) {
  static const leaf leaves[] = {
      {0, 0, .b = true, .c = true, .d = true},
      {1, 0, .a = true, .c = true, .d = true},
      {7, 0, .b = true, .c = true, .d = true},
      {7, 1, .a = true, .d = true},
      {0xd, 1, .a = true},
      {0x14, 0, .b = true},
      {0x19, 0, .b = true},
      {0x24, 0, .b = true},
      {0x80000001, 0, .c = true, .d = true},
      {0x80000008, 0, .b = true},
  };
  size_t n = (size_t)snprintf(out, TC_HOST_FACTS_BYTES, "x86-64");
  uint32_t r[4], saved = 0, high;
  for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++) {
    const leaf *l = &leaves[i];
    const bool wanted[] = {l->a, l->b, l->c, l->d};
    if (!__get_cpuid_count(l->number, l->part, &r[0], &r[1], &r[2], &r[3])) memset(r, 0, sizeof r);
    if (l->number == 1) saved = r[2] >> 27 & 1;  // the system states which registers it saves
    for (int k = 0; k < 4; k++)
      if (wanted[k]) n += (size_t)snprintf(out + n, TC_HOST_FACTS_BYTES - n, " %x", r[k]);
  }
  if (saved) __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  snprintf(out + n, TC_HOST_FACTS_BYTES - n, " %x", saved);
}
#else
#include <sys/auxv.h>

// A bit of AT_HWCAP: the system emulates reads of the registers that identify the processor.
#define HAS_CPUID (1u << 11)

void tc_host_features(char out[TC_HOST_FEATURES_BYTES]) {
  *out = 0;  // no row of isa.def needs any
}

bool tc_host_reads_rows(void) {
  return false;
}

bool tc_host_halves_vectors(void) {
  return false;
}

void tc_host_facts(char out[TC_HOST_FACTS_BYTES]) {
  uint64_t processor = 0;
#if defined(__aarch64__)
  if (getauxval(AT_HWCAP) & HAS_CPUID) __asm__("mrs %0, midr_el1" : "=r"(processor));
#endif
  snprintf(out, TC_HOST_FACTS_BYTES, "hwcap %lx %lx %llx", getauxval(AT_HWCAP), getauxval(AT_HWCAP2),
           (unsigned long long)processor);
}
#endif
