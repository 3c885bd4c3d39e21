// Lists of instruction sets, and the processor's features. See targets.h.
#include "lowering/export/targets.h"

#include <string.h>

#include "lowering/target/cpu_target.h"
#include "lowering/target/host_tiles.h"
#include "runtime/edits.h"
#include "runtime/status.h"

static const char *const names[] = {
#define TC_ISA(name, ...) #name,
#include "lowering/target/isa.def"
#undef TC_ISA
};
#define N_NAMES (sizeof names / sizeof *names)

// ---- lists ----

static tc_status refuse_name(const char *name, const char *op, tc_site site) {
  size_t best = SIZE_MAX;
  const char *nearest = TC_NATIVE;
  for (size_t i = 0; i < N_NAMES; i++) {
    size_t d = tc_edits(name, strlen(name), names[i], strlen(names[i]));
    if (d < best) best = d, nearest = names[i];
  }
  return tc_fail(TC_ERR_ARG, op, site, "there is no target '%s'; the nearest is '%s'", name, nearest);
}

static tc_status add_target(const char *name, const char *op, tc_site site, tc_export_target *out, int *n) {
  bool native = strcmp(name, TC_NATIVE) == 0;
  const tc_isa *isa = native ? tc_compiler_isa() : tc_isa_named(name);
  if (!isa) return refuse_name(name, op, site);
  if (!tc_isa_is_of_host(isa))
    return tc_fail(TC_ERR_ARG, op, site, "target '%s' is of another machine, whose code this one does not make", name);
  for (int i = 0; i < *n; i++)
    if (out[i].isa == isa && out[i].native == native)
      return tc_fail(TC_ERR_ARG, op, site, "target '%s' is named twice", name);
  if (*n == TC_MOST_TARGETS) return tc_fail(TC_ERR_ARG, op, site, "more than %d targets", TC_MOST_TARGETS);
  out[(*n)++] = (tc_export_target){isa, native};
  return TC_OK;
}

tc_status tc_export_targets(const char *list, const char *op, tc_site site, tc_export_target out[TC_MOST_TARGETS],
                            int *n) {
  char name[TC_EDITS_BYTES];
  *n = 0;
  for (size_t i = 0; i < N_NAMES && !list; i++)
    if (tc_isa_is_of_host(tc_isa_named(names[i])) && !tc_isa_named(names[i])->tiles)
      TC_TRY(add_target(names[i], op, site, out, n));
  for (const char *at = list; at && *at;) {
    at += strspn(at, ", ");
    size_t length = strcspn(at, ", ");
    if (length == 0) break;
    if (length >= sizeof name) return tc_fail(TC_ERR_ARG, op, site, "'%s' is no list of targets", list);
    memcpy(name, at, length), name[length] = 0;
    TC_TRY(add_target(name, op, site, out, n));
    at += length;
  }
  return *n ? TC_OK : tc_fail(TC_ERR_ARG, op, site, "the list of targets, '%s', has none", list);
}

// ---- this processor ----

#if defined(__x86_64__)
// Names as LLVM has them; __builtin_cpu_supports takes constants alone.
static bool has_feature(const char *name, size_t n) {
#define ROW(llvm, gcc) \
  if (n == sizeof llvm - 1 && memcmp(name, llvm, n) == 0) return __builtin_cpu_supports(gcc) != 0;
  ROW("sse4.2", "sse4.2")
  ROW("avx", "avx")
  ROW("avx2", "avx2")
  ROW("fma", "fma")
  ROW("f16c", "f16c")
  ROW("bmi", "bmi")
  ROW("bmi2", "bmi2")
  ROW("popcnt", "popcnt")
  ROW("avx512f", "avx512f")
  ROW("avx512vl", "avx512vl")
  ROW("avx512dq", "avx512dq")
  ROW("avx512bw", "avx512bw")
  ROW("avx512cd", "avx512cd")
  ROW("avx512bf16", "avx512bf16")
#undef ROW
  return n > 4 && memcmp(name, "amx-", 4) == 0 && tc_host_tiles();
}
#else
static bool has_feature(const char *name, size_t n) {
  (void)name, (void)n;
  return true;  // what the machine's one set names, all of its processors have
}
#endif

bool tc_isa_runs_here(const tc_isa *isa, char *why, size_t bytes) {
  *why = 0;
  if (!tc_isa_is_of_host(isa)) return snprintf(why, bytes, "is of another machine"), false;
#if defined(__x86_64__)
  __builtin_cpu_init();
#endif
  for (const char *at = isa->features; *at;) {
    size_t n = strcspn(at, ",");
    bool lacks = *at == '+' && !has_feature(at + 1, n - 1);
    if (lacks) tc_text_append(why, bytes, *why ? ", %.*s" : "needs %.*s", (int)n - 1, at + 1);
    at += n + (at[n] == ',');
  }
  return !*why;
}
