// The rows of isa.def, and the choice of this machine's. See isa.h.
#include "lowering/target/isa.h"

#include <elf.h>
#include <string.h>

static const tc_isa row[] = {
#define TC_ISA(name, machine, bytes, registers, fma, dots, pairs, lookups, tiles, needs, without, cpu, features) \
  {#name, machine, bytes, registers, fma, dots, pairs, lookups, tiles, needs, without, cpu, features},
#include "lowering/target/isa.def"
#undef TC_ISA
};
#define N_ROWS (sizeof row / sizeof *row)

const tc_isa tc_isa_interpreted = {"interpreted", TC_HOST_MACHINE, 64, 32, true, false, false,
                                   false,         false,           "", "", "",   ""};

const tc_isa *tc_isa_named(const char *name) {
  for (size_t i = 0; i < N_ROWS; i++)
    if (strcmp(row[i].name, name) == 0) return &row[i];
  return NULL;
}

bool tc_isa_is_of_host(const tc_isa *isa) {
  return isa->machine == TC_HOST_MACHINE;
}

static bool has_feature(const char *features, const char *name, size_t n) {
  for (const char *at = features; *at;) {
    size_t length = strcspn(at, ",");
    if (length == n + 1 && *at == '+' && memcmp(at + 1, name, n) == 0) return true;
    at += length + (at[length] == ',');
  }
  return false;
}

static bool has_all(const char *features, const char *needs) {
  for (const char *at = needs; *at;) {
    size_t n = strcspn(at, ",");
    if (!has_feature(features, at, n)) return false;
    at += n + (at[n] == ',');
  }
  return true;
}

const tc_isa *tc_isa_of_host(const char *features, const tc_isa *most) {
  for (size_t i = 0; i < N_ROWS; i++) {
    if (!tc_isa_is_of_host(&row[i]) || (most && &row[i] < most)) continue;
    if (has_all(features, row[i].needs)) return &row[i];
  }
  return &tc_isa_interpreted;  // unreachable: a machine's last row needs no feature
}
