// The interpreter's steps: what a kernel's instructions become, and their functions. Internal to
// the interpreter.
//
// Invariants: a slot is 64-byte aligned and a multiple of 64 bytes. A step reads its operands'
// lanes before or as it writes the same lane. A function returns the next step.
#pragma once

#include "lowering/codegen/interp/interp.h"

typedef struct tc_interp_step tc_interp_step;
typedef const tc_interp_step *tc_interp_fn(const tc_interp_step *s, char *frame);

struct tc_interp_step {
  tc_interp_fn *fn;
  uint32_t dst, src[5];  // offsets in the frame; with IN_PLACE, of a pointer to the value
  uint32_t lanes;
  uint32_t pieces;  // of 64 bytes, for copies
  uint8_t masked, shift;  // a mask is there; log2 of the element's bytes, for addresses
  int32_t jump;  // steps to skip: LOOP and IF past their end, ENDLOOP back to the first step inside
  int64_t imm;
};

// Of an operand that is read, or a result that is written, where it lies in memory, not necessarily
// aligned.
enum { IN_PLACE = 1 };

// Which of the operations that PAIRS are made of.
enum { PAIR_ADD, PAIR_SUB, PAIR_MUL, PAIR_MIN, PAIR_MAX, N_PAIR_OPS };

// The start of a frame. Tiles follow the kernel's buffers in buf.
typedef struct tc_interp_head {
  const uint64_t *num;
  const void *const *math;
  int64_t begin, end;
  void *buf[];
} tc_interp_head;

// The functions of one instruction set.
typedef struct tc_interp_set {
  // Indexed by the operands' type (SELECT: by a type of the result's size), then vector or scalar.
  tc_interp_fn *map[TC_N_KIR_OPS][TC_N_TYPES][2];
  tc_interp_fn *halve[TC_N_KIR_OPS][TC_N_TYPES];
  tc_interp_fn *cast[TC_N_TYPES][TC_N_TYPES];  // to, from
  // Indexed by log2 of the element's bytes.
  tc_interp_fn *splat[4], *load_masked[4], *store_masked[4], *gather[4], *scatter[4], *unpack[4], *interleave[4];
  tc_interp_fn *load[7], *store[7], *copy[7];  // by log2 of all bytes, 6: a multiple of 64
  // FMA, of one element, in the frame or in a buffer, and two vectors.
  tc_interp_fn *scaled[TC_N_TYPES], *scaled_from[TC_N_TYPES];
  // F32, indexed by the second op, the first op, and whether the first's result is the second
  // operand of the second.
  tc_interp_fn *pair[N_PAIR_OPS][N_PAIR_OPS][2];
  tc_interp_fn *fma_fma;  // of F32: the first's result is multiplied
  tc_interp_fn *pick[TC_N_KIR_OPS];  // SELECT of values of 4 bytes by a comparison of F32
  tc_interp_fn *store_streaming;  // optional: past the caches
  tc_interp_fn *cast_settled;  // F32 to BF16
  tc_interp_fn *tmm_dot;  // TMM_DOT
  tc_interp_fn *look_up;  // optional: a better LOOKUP of vectors
  tc_interp_fn *pack_f16, *unpack_f16;  // optional: better casts between f32 and f16
} tc_interp_set;

#define TC_INTERP_PLACES 4

// Functions that are the same for every instruction set.
typedef struct tc_interp_plain_steps {
  tc_interp_fn *begin, *finish, *loop, *endloop, *branch, *prefetch;
  // Of one to so many values: src[1] and so on are their slots, 16 bits of imm each the buffers.
  tc_interp_fn *place[TC_INTERP_PLACES];
  tc_interp_fn *call[2];  // of one operand, of two
  tc_interp_fn *tmm_zero, *tmm_load, *tmm_store, *tmm_bytes[4];  // tmm_bytes: by TMM_DOT_SS and so on
  tc_interp_fn *num[TC_N_TYPES];
} tc_interp_plain_steps;

static inline void *slot_at(char *frame, uint32_t offset) {
  return __builtin_assume_aligned(frame + offset, 64);
}
static inline tc_interp_head *head_of(char *frame) {
  return __builtin_assume_aligned(frame, 64);
}
// A vector operand, or a result: its slot, or where it lies in memory.
static inline void *vector_at(char *frame, uint32_t offset) {
  char *p = frame + (offset & ~(uint32_t)IN_PLACE);
  return offset & IN_PLACE ? *(char **)p : p;
}
// The element a LOAD, STORE or PREFETCH starts at, or that scales.
static inline char *buffer_at(char *frame, const tc_interp_step *s) {
  const int64_t e = *(const int64_t *)slot_at(frame, s->src[0]);
  return (char *)((uintptr_t)head_of(frame)->buf[s->imm] + ((uint64_t)e << s->shift));
}

// A tile register. Of steps with tile registers, dst is the offset of register 0, and pieces are
// the instruction's flags.
#define TC_INTERP_TMM_BYTES (TC_KIR_TMM_MOST * TC_KIR_TMM_MOST * sizeof(uint32_t))
static inline uint32_t *tmm_at(char *frame, const tc_interp_step *s, unsigned k) {
  return (uint32_t *)slot_at(frame, s->dst + (uint32_t)(k * TC_INTERP_TMM_BYTES));
}

// The functions of the best set that this processor has.
const tc_interp_set *tc_interp_host_set(void);
extern const tc_interp_plain_steps tc_interp_plain;
