// Reads a call's arguments by its routine's layout, and checks them as netlib does.
// In: words of the frame. Out: sizes, flags, operands and what they measure. Invariants: nothing is
// read that the real routine would not read first: scalars are read apart, operands never. Threads:
// pure.
#include "shim/read.h"

#include <string.h>

static int64_t read_size(int64_t word, bool by_value, uint8_t bits) {
  if (by_value) return bits == 64 ? word : (int32_t)word;
  int32_t low;
  int64_t whole;
  if (bits == 64) return memcpy(&whole, (const void *)word, sizeof whole), whole;
  return memcpy(&low, (const void *)word, sizeof low), low;
}

// The flag's two values: in Fortran letters of the second in either case, in CBLAS numbers. -1:
// neither.
static int read_flag(int64_t word, bool by_value, const char *letters, int first) {
  if (by_value) {
    int value = (int32_t)word - first;
    return value >= 0 && value < (letters[2] ? 3 : 2) ? value > 0 : -1;
  }
  char c = (char)(*(const char *)word & ~0x20);
  if (c == letters[0]) return 0;
  return c == letters[1] || (c == letters[2] && c) ? 1 : -1;
}

static const struct {
  uint8_t field;
  char letters[4];
  int first;  // of CBLAS's enumerators
  size_t out;
} flags[] = {
    {TC_AT_ORDER, "CR", 0, offsetof(tc_shim_call, row_major)},
    {TC_AT_SIDE, "LR", 141, offsetof(tc_shim_call, right)},
    {TC_AT_UPLO, "LU", 0, offsetof(tc_shim_call, upper)},
    {TC_AT_TRANSA, "NTC", 111, offsetof(tc_shim_call, transa)},
    {TC_AT_TRANSB, "NTC", 111, offsetof(tc_shim_call, transb)},
    {TC_AT_DIAG, "NU", 131, offsetof(tc_shim_call, unit)},
};

static const struct {
  uint8_t field;
  size_t out;
} sizes[] = {
    {TC_AT_M, offsetof(tc_shim_call, m)},   {TC_AT_N, offsetof(tc_shim_call, n)},
    {TC_AT_K, offsetof(tc_shim_call, k)},   {TC_AT_KL, offsetof(tc_shim_call, kl)},
    {TC_AT_KU, offsetof(tc_shim_call, ku)},
};

static bool read_flags(const tc_shim_layout *l, bool is_cblas, const int64_t *base, tc_shim_call *c) {
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    if (!(l->has & 1u << flags[i].field)) continue;
    int64_t word = base[l->at[flags[i].field]];
    int value;
    if (flags[i].field == TC_AT_ORDER)
      value = (int32_t)word == 101 ? 1 : (int32_t)word == 102 ? 0 : -1;
    else if (flags[i].field == TC_AT_UPLO && is_cblas)
      value = (int32_t)word == 121 ? 1 : (int32_t)word == 122 ? 0 : -1;
    else
      value = read_flag(word, is_cblas, flags[i].letters, flags[i].first);
    if (value < 0) return false;
    *(bool *)((char *)c + flags[i].out) = value;
  }
  return true;
}

static bool read_operands(const tc_shim_routine *r, const tc_shim_layout *l, bool is_cblas, uint8_t bits,
                          const int64_t *base, tc_shim_call *c) {
  for (int i = 0; i < r->n_operands; i++) {
    c->operand[i] = (const void *)base[l->at[TC_AT_OPERAND0 + i]];
    if (r->operand[i].shape == TC_SHAPE_PACKED) continue;
    int64_t step = read_size(base[l->at[TC_AT_STEP0 + i]], is_cblas, bits);
    c->step[i] = step;
    if (r->operand[i].shape == TC_SHAPE_VEC) {
      if (step == 0 && r->level > 1) return false;
      continue;
    }
    if (c->row_major && r->operand[i].shape == TC_SHAPE_MAT) {
      int64_t rows = c->rows[i];
      c->rows[i] = c->columns[i];
      c->columns[i] = rows;
    }
    if (step < (c->rows[i] > 1 ? c->rows[i] : 1)) return false;
  }
  return true;
}

bool tc_shim_read_call(const tc_shim_entry *entry, uint8_t bits, const int64_t *base, tc_shim_call *c) {
  const tc_shim_routine *r = &tc_shim_routines[entry->routine];
  const tc_shim_layout *l = entry->is_cblas ? &r->cblas : &r->fortran;
  // What is not read below stays zero; the rest of a call is written before it is read.
  c->m = c->n = c->k = c->kl = c->ku = 0;
  for (int i = 0; i < 3; i++) c->step[i] = 0;
  c->row_major = c->right = c->upper = c->transa = c->transb = c->unit = false;
  c->routine = r;
  c->record = NULL;
  if (!read_flags(l, entry->is_cblas, base, c)) return false;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (!(l->has & 1u << sizes[i].field)) continue;
    int64_t size = read_size(base[l->at[sizes[i].field]], entry->is_cblas, bits);
    if (size < 0) {
      if (r->level > 1) return false;
      size = 0;  // level 1 does nothing then
    }
    *(int64_t *)((char *)c + sizes[i].out) = size;
  }
  tc_shim_measure(r->row, c);
  return read_operands(r, l, entry->is_cblas, bits, base, c);
}

bool tc_shim_is_smaller(const tc_shim_entry *entry, uint8_t bits, const int64_t *base, double volume) {
  const tc_shim_routine *r = &tc_shim_routines[entry->routine];
  const tc_shim_layout *l = entry->is_cblas ? &r->cblas : &r->fortran;
  double n = (double)read_size(base[l->at[TC_AT_N]], entry->is_cblas, bits), m = n;
  if (l->has & 1u << TC_AT_M) m = (double)read_size(base[l->at[TC_AT_M]], entry->is_cblas, bits);
  double k = m > n ? m : n;
  if (l->has & 1u << TC_AT_K) k = (double)read_size(base[l->at[TC_AT_K]], entry->is_cblas, bits);
  return m * n * k < volume;
}

double tc_shim_read_scalar(const tc_shim_entry *entry, const int64_t *base, int field) {
  const tc_shim_routine *r = &tc_shim_routines[entry->routine];
  const tc_shim_layout *l = entry->is_cblas ? &r->cblas : &r->fortran;
  const void *at = &base[l->at[field]];
  if (!(l->by_value & 1u << field)) at = (const void *)base[l->at[field]];
  float f;
  double d;
  if (r->type == 's') return memcpy(&f, at, sizeof f), f;
  return memcpy(&d, at, sizeof d), d;
}
