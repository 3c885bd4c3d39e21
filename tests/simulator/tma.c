// The simulated driver finds planted mistakes in kernels that fetch boxes and multiply them by four
// warps, and none in the same kernels without; what a device would not survive ends in its error.
// And it takes the maps that cuda.h allows, of the one kind that it knows.
#include "tests/gpu/attempts.h"
#include "tests/sim/map.h"
#include "tests/sim/use.h"

#define START \
  "TC_KERNEL(k, 128) {\n" \
  "  TC_SHARED(24576);\n" \
  "  u8 *a = tc_shared, *b = tc_shared + 8192;\n" \
  "  u64 *gate = (u64 *)(tc_shared + 16384);\n" \
  "  const u64 *map = tc_table + 16;\n" \
  "  f32 *out = (f32 *)tc_table[0], d[32];\n" \
  "  for (i32 i = 0; i < 32; i++) d[i] = 0.0f;\n"
#define READY(arrivals) \
  "  if (TC_THREAD == 0) {\n    tc_gate_init(gate, " arrivals ");\n    tc_map_ready(map);\n  }\n  TC_SYNC();\n"
#define FETCH \
  "  if (TC_THREAD == 0) {\n    tc_fetch_box(a, map, 0, 0, 0, gate);\n    tc_fetch_box(b, map, 0, 64, 0, gate);\n  }\n"
#define AWAIT "  tc_gate_await(gate, 0);\n"
#define PRODUCT "  tc_wgmma_bf16_64(d, a, b, 0, 0);\n"
#define WAIT "  tc_wgmma_wait_64(d, 0);\n"
#define END "  for (i32 i = 0; i < 32; i++) out[TC_THREAD * 32 + i] = d[i];\n}\n"

typedef struct planted {
  const char *name;
  const char *source;  // of kernel k, where BAD is 1 or 0
  const char *says;  // words of the fault
  unsigned result;  // of the launch
} planted;

static const planted list[] = {
    {"a product before its boxes are there",
     START READY("2") FETCH "  TC_SYNC();\n  if (!BAD) tc_gate_await(gate, 0);\n" PRODUCT WAIT END, "unfinished copy",
     719},
    {"a gate that one thread does not await",
     START READY("2") FETCH "  if (!BAD || TC_THREAD != 5) tc_gate_await(gate, 0);\n" PRODUCT WAIT END,
     "thread 5: not awaited", 0},
    {"a gate that is awaited for the turn before",
     START READY("2") FETCH "  TC_SYNC();\n  tc_gate_await(gate, BAD);\n" PRODUCT WAIT END, "unfinished copy", 719},
    {"a box that is fetched while a product reads what was there",
     START READY("2") FETCH AWAIT PRODUCT "  if (!BAD) tc_wgmma_wait_64(d, 0);\n"
                                          "  TC_SYNC();\n" FETCH "  tc_gate_await(gate, 1);\n" WAIT END,
     "overwritten: a box at", 0},
    {"a box that is fetched before all warps have read what was there",
     START READY("2") FETCH AWAIT "  TC_SYNC();\n" PRODUCT WAIT "  if (!BAD) TC_SYNC();\n" FETCH
                                  "  tc_gate_await(gate, 1);\n" END,
     "shared memory", 0},
    {"an accumulator that is written while a product is under way",
     START READY("2") FETCH AWAIT PRODUCT "  if (BAD) d[3] = 1.0f;\n" WAIT END, "accumulators: element 3 was written",
     0},
    {"a product that nobody waits for",
     START READY("2") FETCH AWAIT PRODUCT "  if (!BAD) tc_wgmma_wait_64(d, 0);\n" END, "are not waited for", 0},
    {"products of other boxes in one group of warps",
     START READY("2") FETCH AWAIT "  tc_wgmma_bf16_64(d, BAD && TC_THREAD / 32 == 2 ? b : a, b, 0, 0);\n" WAIT END,
     "divergent warps", 0},
    {"a product that a warp leaves out",
     START READY("2") FETCH AWAIT "  if (!BAD || TC_THREAD % 32 < 16) tc_wgmma_bf16_64(d, a, b, 0, 0);\n" WAIT END,
     "divergent warp", 719},
    {"a product of what nobody fetched",
     START READY("2") FETCH AWAIT "  tc_wgmma_bf16_64(d, a, b + BAD * 1024, 0, 0);\n" WAIT END, "no box", 719},
    {"a gate for more than arrives", START READY("2 + BAD") FETCH AWAIT PRODUCT WAIT END, "closed gate", 719},
    {"more arrivals than the gate is for", START READY("2 - BAD") FETCH AWAIT PRODUCT WAIT END, "more than 1 arrivals",
     719},
    {"a gate that nobody made", START READY("2") FETCH "  tc_gate_await(gate + BAD, 0);\n" PRODUCT WAIT END, "no gate",
     719},
    {"a map that another kernel wrote, without the fence",
     START
     "  if (TC_THREAD == 0) {\n    tc_gate_init(gate, 2);\n    if (!BAD) tc_map_ready(map);\n  }\n  TC_SYNC();\n" FETCH
         AWAIT PRODUCT WAIT END,
     "stale map", 0},
    {"what is no map", START "  map += BAD * 16;\n" READY("2") FETCH AWAIT PRODUCT WAIT END, "no map", 700},
    {"a map that is not aligned", START "  map += BAD;\n" READY("2") FETCH AWAIT PRODUCT WAIT END, "misaligned: a map",
     716},
    {"a box that is not aligned", START "  b += BAD * 512;\n" READY("2") FETCH AWAIT PRODUCT WAIT END,
     "misaligned: a box", 716},
    {"a box over what threads wrote themselves",
     START "  if (BAD) ((u32 *)a)[TC_THREAD] = 1;\n" READY("2") FETCH AWAIT PRODUCT WAIT END,
     "proxies: a box is fetched over", 0},
    {"a block that ends before its boxes are there", START READY("2") FETCH "  if (!BAD) tc_gate_await(gate, 0);\n" END,
     "under way when its block ends", 0},
};

// Two matrices of 64 x 64, one below the other.
static CUresult encode(CUtensorMap *map, CUdeviceptr at, uint64_t row_bytes, uint32_t box, unsigned swizzle) {
  const uint64_t extent[] = {64, 128, 1}, stride[] = {row_bytes, 128 * 128};
  const uint32_t boxes[] = {box, 64, 1}, steps[] = {1, 1, 1};
  return CU(cuTensorMapEncodeTiled)(map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 3, (void *)(uintptr_t)at, extent, stride,
                                    boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                                    CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

static int try(const void *arg) {
  const attempt *a = arg;
  const planted *p = &list[a->which];
  char source[4096];
  static uint16_t zeros[128 * 64];
  uint64_t words[48] = {0};
  CUtensorMap map;
  if (a->bad && !freopen("/dev/null", "w", stderr)) return 1;  // the faults are meant
  if (!use_begin()) return 77;
  snprintf(source, sizeof source, "#define BAD %d\n%s", a->bad, p->source);
  CUfunction f = use_kernel_for("k", source, "sm_90a", NULL);
  EXPECT_FINE(encode(&map, use_upload(zeros, sizeof zeros), 128, 64, CU_TENSOR_MAP_SWIZZLE_128B));
  words[0] = use_alloc(128 * 32 * 4);
  memcpy(words + 16, &map, sizeof map);
  EXPECT_CU(a->bad ? p->result : 0u, use_run_shared(f, 1, 128, 24576, words, 48));
  const char *text = CU(sim_fault_text)();
  if (a->bad) {
    EXPECT(CU(sim_faults)() > 0, "%s: not found", p->name);
    EXPECT(strstr(text, p->says) && strstr(text, "kernel k, block "), "%s: \"%s\"", p->name, text);
  } else {
    EXPECT(CU(sim_faults)() == 0, "%s, without it: \"%s\"", p->name, text);
  }
  CU(sim_forget)();
  return child_failed();
}

static int maps(const void *unused) {
  CUtensorMap map;
  (void)unused;
  use_begin();
  CUdeviceptr at = use_alloc(1 << 16);
  EXPECT_CU(1u, encode(&map, at + 8, 128, 64, CU_TENSOR_MAP_SWIZZLE_128B));
  EXPECT_CU(1u, encode(&map, at, 136, 64, CU_TENSOR_MAP_SWIZZLE_128B));
  EXPECT_CU(1u, encode(&map, at, 128, 257, CU_TENSOR_MAP_SWIZZLE_128B));
  EXPECT_CU(801u, encode(&map, at, 128, 32, CU_TENSOR_MAP_SWIZZLE_128B));
  EXPECT_CU(801u, encode(&map, at, 128, 64, 0));
  EXPECT_FINE(encode(&map, at, 128, 64, CU_TENSOR_MAP_SWIZZLE_128B));
  return child_failed();
}

int main(void) {
  if (attempts(try, sizeof list / sizeof *list, &list[0].name, sizeof *list) == 77) return 77;
  EXPECT(child_status(maps, NULL) == 0, "maps");
  return expect_done("simulator-tma");
}
