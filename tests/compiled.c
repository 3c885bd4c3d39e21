// See compiled.h. What of NVIDIA's has to do with instructions is looked for in the PTX, the rest
// in the cubin; of AMD's all is in the assembly.
#include "tests/compiled.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/nvrtc.h"
#include "device/hip/hiprtc.h"
#include "runtime/arena.h"
#include "runtime/status.h"
#include "tests/amd.h"
#include "tests/nvidia.h"

#define CLANG "clang-19"

enum { NO_DRIVER = 99, REGISTERS_OF_BLOCK = 65536 };  // a driver's major version that no NVRTC is above

const code_arch code_archs[N_CODE_ARCHS] = {
    {.name = "sm_80", .simulated = "sm_80", .warp = 32, .shared = 163 << 10},
    {.name = "sm_90", .simulated = "sm_90", .warp = 32, .shared = 227 << 10, .cluster = true},
    {.name = "sm_90a", .simulated = "sm_90", .warp = 32, .shared = 227 << 10, .cluster = true, .wgmma = true},
    {.name = "sm_100", .simulated = "sm_100", .warp = 32, .shared = 227 << 10, .cluster = true},
    {.name = "sm_120", .simulated = "sm_120", .warp = 32, .shared = 99 << 10, .cluster = true},
    {.name = "gfx906", .simulated = "gfx906", .amd = true, .warp = 64, .shared = 64 << 10},
    {.name = "gfx908", .simulated = "gfx908", .amd = true, .mfma = true, .warp = 64, .shared = 64 << 10},
    {.name = "gfx90a", .simulated = "gfx90a", .amd = true, .mfma = true, .warp = 64, .shared = 64 << 10},
    {.name = "gfx942", .simulated = "gfx942", .amd = true, .mfma = true, .warp = 64, .shared = 64 << 10},
    {.name = "gfx1030", .simulated = "gfx1030", .amd = true, .warp = 32, .shared = 64 << 10},
    {.name = "gfx1100", .simulated = "gfx1100", .amd = true, .warp = 32, .shared = 64 << 10},
};

// Kernels that may have a stack: a word of their text, patterns of architectures, how many bytes at
// most, and why.
#define LARGE_ANGLES \
  "NVIDIA's functions of f64 keep 40 bytes on a stack to reduce angles that are large, and ptxas may put values aside besides"
#define MORE_BLOCKS \
  "ptxas, by itself, makes do with fewer registers than there are, so that a processor holds more blocks, and puts a few values aside"
#define LONG_ROWS "rows are kept in the registers of 1024 threads, which have 64 each there: too few for the longest"
#define ONE_BY_ONE \
  "operands that are not aligned are read one by one, which takes all 256 registers, and a few values are put aside before the loop"
#define MANY_SUMS \
  "the sums of gradients take all 256 registers, where no others hold sums, and a few values are put aside"
static const struct excuse {
  const char *word, *arch;
  int stack;
  const char *reason;
} excuses[] = {
    {"tc_math_sin", "sm_*", 88, LARGE_ANGLES},
    {"tc_math_cos", "sm_*", 88, LARGE_ANGLES},
    {"tc_math_tan", "sm_*", 88, LARGE_ANGLES},
    {"tc_math_polygamma", "sm_*", 88, LARGE_ANGLES},
    {"", "sm_*", 48, MORE_BLOCKS},
    {", 1024) {", "gfx906", 248, LONG_ROWS},
    {"_matmul_", "gfx906", 24, ONE_BY_ONE},
    {"_matmul_", "gfx1*", 20, ONE_BY_ONE},
    {"_attention_d", "gfx906", 32, MANY_SUMS},
};

// ---- compilers ----

bool compiled_open(bool amd, char *why, size_t bytes) {
  tc_gpu_facts facts = {.name = "a device", .arch = "sm_90"};
  if (!amd) return tc_nvrtc_choose_arch(NO_DRIVER, &facts, why, bytes);
  if (system(CLANG " -print-targets 2>/dev/null | grep -q amdgcn") == 0) return true;
  snprintf(why, bytes, CLANG ", with AMD's architectures, is not installed");
  return false;
}

const char *compiled_by(bool amd) {
  return amd ? CLANG : tc_nvrtc_name();
}

// ---- texts ----

// The number behind a word of the text; 0: there is none.
static int number_after(const char *text, const char *word) {
  const char *at = strstr(text, word);
  return at ? atoi(at + strlen(word)) : 0;
}

static void read_head(const char *source, compiled *out) {
  const char *at = strstr(source, "TC_KERNEL");
  at = at ? strchr(at, '(') : NULL;
  if (!at) return;
  snprintf(out->kernel, sizeof out->kernel, "%.*s", (int)strcspn(at + 1, ","), at + 1);
  out->threads = atoi(at + 1 + strcspn(at + 1, ",") + 1);
}

bool compiled_takes(const code_arch *a, const char *made_for, const char *source) {
  const bool amd = strncmp(made_for, "gfx", 3) == 0;
  if (amd != a->amd || number_after(source, "TC_SHARED(") > a->shared) return false;
  if (amd) return (strncmp(made_for, "gfx9", 4) == 0) == (a->warp == 64) && (a->mfma || !strstr(source, "tc_mfma"));
  return (a->cluster || !strstr(source, "TC_KERNEL_CLUSTER")) && (a->wgmma || !strstr(source, "tc_wgmma"));
}

// ---- words ----

// The words one by one: what is behind one, and whether any of what may stand for it is in the
// text.
static const char *next_word(const char *words, const char *text, bool *out_there) {
  *out_there = false;
  while (*words && *words != ' ') {
    char word[96];
    const size_t n = strcspn(words, "| ");
    snprintf(word, sizeof word, "%.*s", (int)n, words);
    if (text && strstr(text, word)) *out_there = true;
    words += n + (words[n] == '|');
  }
  return words + (*words == ' ');
}

static void find_words(const char *words, const char *text, unsigned *found) {
  for (int i = 0; words && *words; i++) {
    bool there;
    words = next_word(words, text, &there);
    if (there) *found |= 1u << i;
  }
}

bool compiled_lacks(const char *words, unsigned found, char *out, size_t bytes) {
  for (int i = 0; words && *words; i++) {
    bool there;
    const char *next = next_word(words, NULL, &there);
    if (!(found >> i & 1)) return snprintf(out, bytes, "%.*s", (int)strcspn(words, " "), words), true;
    words = next;
  }
  return false;
}

// ---- compiling ----

static bool refuse(compiled *out, const code_arch *a, const char *what) {
  char text[240];
  snprintf(text, sizeof text, "%s", what);
  snprintf(out->why, sizeof out->why, "%.60s for %s: %s", out->kernel, a->name, text);
  return false;
}

static bool read_ptx(const code_arch *a, const char *source, const char *words, unsigned *found, compiled *out) {
  tc_gpu_image image;
  char target[32];
  snprintf(target, sizeof target, "compute_%s", a->name + 3);
  if (tc_nvrtc_compile(target, out->kernel, source, &image) != TC_OK) return refuse(out, a, tc_last_error()->message);
  find_words(words, image.data, found);
  tc_free(image.data);
  return true;
}

static bool compile_nvidia(const code_arch *a, const char *source, const char *words, unsigned *found, compiled *out) {
  tc_gpu_image image;
  cubin_facts facts;
  if (tc_nvrtc_compile(a->name, out->kernel, source, &image) != TC_OK) return refuse(out, a, tc_last_error()->message);
  bool read = cubin_read(image.data, image.bytes, &facts);
  tc_free(image.data);
  if (!read) return refuse(out, a, "the cubin does not say what it uses");
  out->registers = facts.registers, out->stack = facts.stack,
  out->shared = facts.shared + number_after(source, "TC_SHARED(");
  if ((facts.registers + 7) / 8 * 8 * out->threads > REGISTERS_OF_BLOCK)
    return refuse(out, a, "more registers than a block can have");
  char lacks[8];
  return !compiled_lacks(words, found ? *found : 0, lacks, sizeof lacks) || read_ptx(a, source, words, found, out);
}

static bool compile_amd(const code_arch *a, const char *source, const char *words, unsigned *found, compiled *out) {
  bool ok;
  char why[128], *text = amd_assembly(CLANG, a->name, tc_hip_words, source, &ok);
  if (!ok || !text) {
    (void)refuse(out, a, text ? text : "no place for files");
    free(text);
    return false;
  }
  find_words(words, text, found);
  const bool lean = amd_is_lean(text, why, sizeof why);
  out->registers = number_after(text, ".vgpr_count:"), out->stack = number_after(text, ".private_segment_fixed_size:");
  if (strstr(text, ".uses_dynamic_stack: true")) out->stack = 0;  // of functions that are not there to be looked at
  out->shared = number_after(text, ".group_segment_fixed_size:") + number_after(source, "TC_SHARED(");
  free(text);
  return lean || out->stack > 0 || refuse(out, a, why);
}

static const char *excuse_of(const code_arch *a, const char *source, const compiled *c) {
  for (size_t i = 0; i < sizeof excuses / sizeof *excuses; i++) {
    const struct excuse *e = &excuses[i];
    if (strstr(source, e->word) && fnmatch(e->arch, a->name, 0) == 0 && c->stack <= e->stack) return e->reason;
  }
  return NULL;
}

bool compile_text(const code_arch *a, const char *source, const char *words, unsigned *found, compiled *out) {
  char what[64];
  *out = (compiled){.kernel = ""};
  read_head(source, out);
  if (!(a->amd ? compile_amd : compile_nvidia)(a, source, words, found, out)) return false;
  if (out->shared > a->shared) {
    snprintf(what, sizeof what, "%d bytes of the block's memory", out->shared);
    return refuse(out, a, what);
  }
  if (out->stack == 0 || (out->excuse = excuse_of(a, source, out))) return true;
  snprintf(what, sizeof what, "%d bytes of stack", out->stack);
  return refuse(out, a, what);
}
