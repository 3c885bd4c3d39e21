// The simulated driver finds planted mistakes, names kernel and line, and finds none in the same
// kernels without them. What a device would not survive ends in its error, which stays; what a
// device would do silently is a fault of the process.
#include "tests/gpu/attempts.h"
#include "tests/sim/use.h"

typedef struct planted {
  const char *name;
  const char *source;  // of kernel k, where BAD is 1 or 0
  const char *says;  // words of the fault
  unsigned result;  // of the launch
  int line;  // of the source where it is found; 0: not told
  unsigned blocks, threads, shared_bytes;
} planted;

static const planted list[] = {
    {"a dropped barrier",
     "TC_KERNEL(k, 64) {\n"
     "  TC_SHARED(256);\n"
     "  u32 *s = (u32 *)tc_shared, *out = (u32 *)tc_table[0];\n"
     "  s[TC_THREAD] = (u32)TC_THREAD;\n"
     "  if (!BAD) TC_SYNC();\n"
     "  out[TC_THREAD] = s[63 - TC_THREAD];\n"
     "}\n",
     "race between threads: writes 4 bytes of shared memory", 0, 5, 1, 64, 256},
    {"a barrier that is missing behind the reads",
     "TC_KERNEL(k, 64) {\n"
     "  TC_SHARED(256);\n"
     "  u32 *s = (u32 *)tc_shared, *out = (u32 *)tc_table[0], sum = 0;\n"
     "  for (i32 i = 0; i < 2; i++) {\n"
     "    s[TC_THREAD] = (u32)TC_THREAD;\n"
     "    TC_SYNC();\n"
     "    sum += s[63 - TC_THREAD];\n"
     "    if (!BAD) TC_SYNC();\n"
     "  }\n"
     "  out[TC_THREAD] = sum;\n"
     "}\n",
     "race between threads: writes 4 bytes of shared memory", 0, 6, 1, 64, 256},
    {"halves written by the threads of one warp and read by another",
     "TC_KERNEL(k, 64) {\n"
     "  TC_SHARED(128);\n"
     "  u16 *s = (u16 *)tc_shared, *out = (u16 *)tc_table[0];\n"
     "  s[TC_THREAD] = (u16)TC_THREAD;\n"
     "  if (!BAD) TC_SYNC();\n"
     "  out[TC_THREAD] = s[63 - TC_THREAD];\n"
     "}\n",
     "race between threads: writes 2 bytes of shared memory", 0, 5, 1, 64, 128},
    {"a warp's threads that are not put in order",
     "TC_KERNEL(k, 32) {\n"
     "  TC_SHARED(128);\n"
     "  u32 *s = (u32 *)tc_shared, *out = (u32 *)tc_table[0];\n"
     "  s[TC_THREAD] = (u32)TC_THREAD;\n"
     "  if (!BAD) TC_SYNC_WARP(~0ull);\n"
     "  out[TC_THREAD] = s[31 - TC_THREAD];\n"
     "}\n",
     "race between threads: writes 4 bytes of shared memory", 0, 5, 1, 32, 128},
    {"a part of a warp put in order, but not with the thread that wrote",
     "TC_KERNEL(k, 32) {\n"
     "  TC_SHARED(128);\n"
     "  u32 *s = (u32 *)tc_shared, *out = (u32 *)tc_table[0];\n"
     "  i32 t = TC_THREAD;\n"
     "  s[t] = (u32)t;\n"
     "  TC_SYNC_WARP(t < 16 ? 0xffffull : 0xffff0000ull);\n"
     "  out[t] = BAD ? s[(t + 1) % 32] : s[t / 16 * 16 + (t + 1) % 16];\n"
     "}\n",
     "race between threads: reads 4 bytes of shared memory", 0, 8, 1, 32, 128},
    {"a missing wait",
     "TC_KERNEL(k, 32) {\n"
     "  TC_SHARED(512);\n"
     "  u32 *out = (u32 *)tc_table[0];\n"
     "  tc_copy_async_16(tc_shared + TC_THREAD * 16, (const u32 *)tc_table[1] + TC_THREAD * 4, 16);\n"
     "  tc_copy_commit();\n"
     "  tc_copy_wait(BAD);\n"
     "  TC_SYNC();\n"
     "  out[TC_THREAD] = ((u32 *)tc_shared)[TC_THREAD * 4];\n"
     "  tc_copy_wait(0);\n"
     "}\n",
     "unfinished copy: reads 4 bytes of shared memory", 0, 9, 1, 32, 512},
    {"a wait without the barrier behind it",
     "TC_KERNEL(k, 32) {\n"
     "  TC_SHARED(512);\n"
     "  u32 *out = (u32 *)tc_table[0];\n"
     "  tc_copy_async_16(tc_shared + TC_THREAD * 16, (const u32 *)tc_table[1] + TC_THREAD * 4, 16);\n"
     "  tc_copy_commit();\n"
     "  tc_copy_wait(0);\n"
     "  if (!BAD) TC_SYNC();\n"
     "  out[TC_THREAD] = ((u32 *)tc_shared)[(31 - TC_THREAD) * 4];\n"
     "}\n",
     "reads 4 bytes of shared memory", 0, 9, 1, 32, 512},
    {"a misaligned vector",
     "TC_KERNEL(k, 32) {\n"
     "  const u32 *in = (const u32 *)tc_table[1];\n"
     "  tc_u32x4 v = *(const tc_u32x4 *)(in + TC_THREAD * 4 + BAD);\n"
     "  ((u32 *)tc_table[0])[TC_THREAD] = v.x + v.w;\n"
     "}\n",
     "misaligned: reads 16 bytes of global memory", 716, 4, 1, 32, 0},
    {"a misaligned asynchronous copy",
     "TC_KERNEL(k, 32) {\n"
     "  TC_SHARED(1024);\n"
     "  tc_copy_async_16(tc_shared + TC_THREAD * 16, (const u16 *)tc_table[1] + TC_THREAD * 8 + BAD, 16);\n"
     "  tc_copy_commit();\n"
     "  tc_copy_wait(0);\n"
     "}\n",
     "misaligned: an asynchronous copy", 716, 4, 1, 32, 1024},
    {"an element too many", "TC_KERNEL(k, 32) { ((u32 *)tc_table[0])[TC_BLOCK * 32 + TC_THREAD + BAD * 97] = 1; }\n",
     "out of bounds: writes 4 bytes of global memory", 700, 2, 4, 32, 0},
    {"shared memory beyond what was asked for",
     "TC_KERNEL(k, 32) {\n"
     "  TC_SHARED(128);\n"
     "  ((u32 *)tc_shared)[TC_THREAD + BAD] = 1;\n"
     "}\n",
     "out of bounds: writes 4 bytes of shared memory at offset 128 of 128", 700, 4, 1, 32, 128},
    {"memory of the host", "TC_KERNEL(k, 32) { *(u32 *)(BAD ? tc_table[3] : tc_table[0] + (u64)TC_THREAD * 4) = 1; }\n",
     "which is no memory of the device", 700, 2, 1, 32, 0},
    {"memory that was freed, through a stale table",
     "TC_KERNEL(k, 32) { ((u32 *)tc_table[0])[TC_THREAD] = ((const u32 *)(BAD ? tc_table[2] : tc_table[1]))[TC_THREAD]; }\n",
     "use after free: reads 4 bytes of global memory", 700, 2, 1, 32, 0},
    {"memory that nobody wrote",
     "TC_KERNEL(k, 32) { ((u32 *)tc_table[0])[TC_THREAD] = ((const u32 *)(BAD ? tc_table[0] : tc_table[1]))[TC_THREAD + BAD * 64]; }\n",
     "unwritten: reads 4 bytes of global memory", 0, 2, 1, 32, 0},
    {"shared memory that nobody wrote",
     "TC_KERNEL(k, 32) {\n"
     "  TC_SHARED(128);\n"
     "  u32 *s = (u32 *)tc_shared;\n"
     "  if (!BAD) s[TC_THREAD] = 0;\n"
     "  ((u32 *)tc_table[0])[TC_THREAD] = s[TC_THREAD];\n"
     "}\n",
     "unwritten: reads 4 bytes of shared memory", 0, 6, 1, 32, 128},
    {"a barrier that not all reach",
     "TC_KERNEL(k, 64) {\n"
     "  if (!BAD || TC_THREAD < 32) TC_SYNC();\n"
     "  ((u32 *)tc_table[0])[TC_THREAD] = 1;\n"
     "}\n",
     "divergent barrier: 32 of 64 threads are at the barrier of line 4", 719, 3, 1, 64, 0},
    {"two barriers for one",
     "TC_KERNEL(k, 64) {\n"
     "  if (BAD && TC_THREAD < 32) {\n"
     "    TC_SYNC();\n"
     "  } else {\n"
     "    TC_SYNC();\n"
     "  }\n"
     "}\n",
     "divergent barrier: at the barrier of line", 0, 0, 1, 64, 0},
    {"a shuffle from a thread that its mask leaves out",
     "TC_KERNEL(k, 32) {\n"
     "  u32 t = (u32)TC_THREAD;\n"
     "  u64 mask = t < 16 ? 0xffffull : 0xffff0000ull;\n"
     "  ((u32 *)tc_table[0])[t] = TC_FROM_U32(mask, t, (i32)(t / 16 * 16 + 3) ^ (BAD ? 16 : 0), 32);\n"
     "}\n",
     "wrong mask: lane 0 reads lane 19, which mask 0xffff leaves out", 0, 5, 1, 32, 0},
    {"a thread outside of its own mask",
     "TC_KERNEL(k, 32) {\n"
     "  u32 t = (u32)TC_THREAD;\n"
     "  ((u32 *)tc_table[0])[t] = TC_DOWN_U32(BAD ? 0xffffull : ~0ull, t, 1, 16);\n"
     "}\n",
     "wrong mask: lane 16 is not in its own mask 0xffff", 719, 4, 1, 32, 0},
    {"a shuffle that half of a warp does not reach",
     "TC_KERNEL(k, 32) {\n"
     "  u32 v = (u32)TC_THREAD;\n"
     "  if (!BAD || TC_THREAD < 16) v = TC_DOWN_U32(~0ull, v, 1, 32);\n"
     "  ((u32 *)tc_table[0])[TC_THREAD] = v;\n"
     "}\n",
     "divergent warp: TC_DOWN_U32 with mask 0xffffffff", 719, 4, 1, 32, 0},
    {"blocks that write the same element",
     "TC_KERNEL(k, 32) { ((u32 *)tc_table[0])[(BAD ? 0 : TC_BLOCK * 32) + TC_THREAD] = (u32)TC_BLOCK; }\n",
     "race between blocks: writes 4 bytes of global memory", 0, 2, 3, 32, 0},
    {"a block that reads what another writes",
     "TC_KERNEL(k, 32) {\n"
     "  u32 *p = (u32 *)tc_table[1];\n"
     "  u32 v = p[(TC_BLOCK + BAD) % 4 * 32 + TC_THREAD];\n"
     "  p[TC_BLOCK * 32 + TC_THREAD] = v + 1;\n"
     "}\n",
     "race between blocks", 0, 0, 4, 32, 0},
    {"an update in place under read-only loads",
     "TC_KERNEL(k, 32) {\n"
     "  u32 *p = (u32 *)tc_table[1] + TC_THREAD * 4;\n"
     "  tc_u32x4 v = BAD ? tc_load_nc_16(p) : *(tc_u32x4 *)p;\n"
     "  p[1] = v.x + 1;\n"
     "}\n",
     "read-only load of what this kernel writes: writes 4 bytes", 0, 5, 1, 32, 0},
    {"an atomic and a plain store",
     "TC_KERNEL(k, 32) {\n"
     "  if (TC_BLOCK && BAD) *(u64 *)tc_table[1] = 1;\n"
     "  else tc_min_at((u64 *)tc_table[1], 2);\n"
     "}\n",
     "race between blocks", 0, 0, 2, 32, 0},
    {"ldmatrix from a row that is not aligned",
     "TC_KERNEL(k, 32) {\n"
     "  TC_SHARED(1024);\n"
     "  u32 r[4];\n"
     "  for (i32 i = TC_THREAD; i < 256; i += 32) ((u32 *)tc_shared)[i] = 0;\n"
     "  TC_SYNC();\n"
     "  tc_ldmatrix_x4(r, tc_shared + TC_THREAD * 16 + BAD * 8);\n"
     "  ((u32 *)tc_table[0])[TC_THREAD] = r[0];\n"
     "}\n",
     "misaligned: reads 16 bytes of shared memory", 716, 7, 1, 32, 1024},
    {"a launch with less shared memory than the kernel uses",
     "TC_KERNEL(k, 32) {\n"
     "  TC_SHARED(BAD ? 256 : 128);\n"
     "  ((u32 *)tc_table[0])[TC_THREAD] = 0;\n"
     "  ((u32 *)tc_shared)[TC_THREAD] = 0;\n"
     "}\n",
     "launch: with 128 bytes of shared memory, but it uses 256", 700, 3, 1, 32, 128},
    {"another block's memory by the block's barrier alone",
     "TC_KERNEL_CLUSTER(k, 32, 2) {\n"
     "  TC_SHARED(128);\n"
     "  u32 *s = (u32 *)tc_shared, *out = (u32 *)tc_table[0];\n"
     "  s[TC_THREAD] = (u32)TC_THREAD;\n"
     "  if (BAD) TC_SYNC();\n"
     "  else TC_SYNC_CLUSTER();\n"
     "  out[TC_BLOCK * 32 + TC_THREAD] = ((const u32 *)tc_of_block(s, 1 - TC_RANK))[31 - TC_THREAD];\n"
     "  TC_SYNC_CLUSTER();\n"
     "}\n",
     "race between threads: reads 4 bytes of shared memory", 0, 8, 4, 32, 128},
    {"another block's memory written while it is read there",
     "TC_KERNEL_CLUSTER(k, 32, 2) {\n"
     "  TC_SHARED(128);\n"
     "  u32 *s = (u32 *)tc_shared, *out = (u32 *)tc_table[0];\n"
     "  s[TC_THREAD] = (u32)TC_THREAD;\n"
     "  TC_SYNC_CLUSTER();\n"
     "  out[TC_BLOCK * 32 + TC_THREAD] = ((const u32 *)tc_of_block(s, 1 - TC_RANK))[TC_THREAD];\n"
     "  if (BAD) TC_SYNC();\n"
     "  else TC_SYNC_CLUSTER();\n"
     "  s[TC_THREAD] = 0;\n"
     "}\n",
     "race between threads: writes 4 bytes of shared memory", 0, 10, 2, 32, 128},
    {"the memory of a block that has ended",
     "TC_KERNEL_CLUSTER(k, 32, 2) {\n"
     "  TC_SHARED(128);\n"
     "  u32 *s = (u32 *)tc_shared, *out = (u32 *)tc_table[0];\n"
     "  s[TC_THREAD] = (u32)TC_THREAD;\n"
     "  TC_SYNC_CLUSTER();\n"
     "  out[TC_BLOCK * 32 + TC_THREAD] = ((const u32 *)tc_of_block(s, 1 - TC_RANK))[TC_THREAD];\n"
     "  if (!BAD) TC_SYNC_CLUSTER();\n"
     "}\n",
     "use after the end", 700, 7, 2, 32, 128},
    {"another block's memory beyond its end",
     "TC_KERNEL_CLUSTER(k, 32, 2) {\n"
     "  TC_SHARED(128);\n"
     "  u32 *s = (u32 *)tc_shared;\n"
     "  ((u32 *)tc_of_block(s, 1 - TC_RANK))[TC_THREAD + BAD] = 1;\n"
     "  TC_SYNC_CLUSTER();\n"
     "}\n",
     "out of bounds: writes 4 bytes", 700, 5, 2, 32, 128},
    {"a block that is not of the cluster",
     "TC_KERNEL_CLUSTER(k, 32, 2) {\n"
     "  TC_SHARED(128);\n"
     "  *((u32 *)tc_of_block(tc_shared, 1 - TC_RANK + BAD) + TC_THREAD) = 1;\n"
     "  TC_SYNC_CLUSTER();\n"
     "}\n",
     "of a cluster of 2", 700, 4, 2, 32, 128},
    {"a cluster's barrier that not all blocks reach",
     "TC_KERNEL_CLUSTER(k, 32, 2) {\n"
     "  if (!BAD || TC_RANK == 0) TC_SYNC_CLUSTER();\n"
     "  ((u32 *)tc_table[0])[TC_BLOCK * 32 + TC_THREAD] = 1;\n"
     "}\n",
     "divergent cluster: 32 of 64 threads are at the cluster's barrier", 719, 3, 2, 32, 0},
};

static int try(const void *arg) {
  const attempt *a = arg;
  const planted *p = &list[a->which];
  int bad = a->bad;
  char source[2048];
  uint64_t on_host = 0;
  uint32_t zeros[1024] = {0};
  if (bad && !freopen("/dev/null", "w", stderr)) return 1;  // the faults are meant
  if (!use_begin()) return 77;
  snprintf(source, sizeof source, "#define BAD %d\n%s", bad, p->source);
  CUfunction f = use_kernel("k", source);
  CUdeviceptr out = use_alloc(512), in = use_upload(zeros, 1024), gone = use_upload(zeros, sizeof zeros);
  EXPECT_FINE(CU(cuMemFree_v2)(gone));
  gone += sizeof zeros / 2;  // its beginning is taken again, by the table
  EXPECT_CU(bad ? p->result : 0u,
            use_run(f, p->blocks, p->threads, p->shared_bytes, out, in, gone, (uint64_t)(uintptr_t)&on_host));
  const char *text = CU(sim_fault_text)();
  if (bad) {
    char line[32];
    snprintf(line, sizeof line, "[line %d: ", p->line + 1);
    EXPECT(CU(sim_faults)() > 0, "%s: not found", p->name);
    EXPECT(strstr(text, p->says) && strstr(text, "kernel k, block "), "%s: \"%s\"", p->name, text);
    EXPECT(p->line == 0 || strstr(text, line), "%s, line %d: \"%s\"", p->name, p->line + 1, text);
    if (p->result) EXPECT_CU(p->result, CU(cuCtxSynchronize)());
  } else {
    EXPECT(CU(sim_faults)() == 0, "%s, without it: \"%s\"", p->name, text);
  }
  CU(sim_forget)();
  return child_failed();
}

// A process that does not look fails all the same.
static int look_away(const void *unused) {
  (void)unused;
  if (!freopen("/dev/null", "w", stderr)) return 1;
  use_begin();
  CUfunction f = use_kernel("k", "TC_KERNEL(k, 32) { ((u32 *)tc_table[0])[TC_THREAD / 2] = (u32)TC_THREAD; }\n");
  use_run(f, 1, 32, 0, use_alloc(128));
  return 0;
}

// No fault: the launch is refused.
static int part_of_a_cluster(const void *unused) {
  (void)unused;
  use_begin();
  CUfunction f =
      use_kernel("k", "TC_KERNEL_CLUSTER(k, 32, 4) { ((u32 *)tc_table[0])[TC_BLOCK * 32 + TC_THREAD] = 1; }\n");
  EXPECT_CU(0u, use_run(f, 8, 32, 0, use_alloc(1024)));
  EXPECT_CU(912u, use_run(f, 6, 32, 0, use_alloc(1024)));
  return child_failed();
}

int main(void) {
  if (attempts(try, sizeof list / sizeof *list, &list[0].name, sizeof *list) == 77) return 77;
  int status = child_status(look_away, NULL);
  EXPECT(status == USE_MISTAKES, "%d", status);
  status = child_status(part_of_a_cluster, NULL);
  EXPECT(status == 0, "part of a cluster: %d", status);
  return expect_done("simulator-planted");
}
