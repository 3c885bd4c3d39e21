// Appends kernel IR instructions.
// Operands of different lanes are matched: a scalar is splat to the other's lanes, a value of one
// lane a thread to several.
// In: operands. Out: a new value.
// Invariants: after memory ran out or `uneven` was set, `failed` is set and every call returns 0.
// Threads: thread-compatible.
#pragma once

#include "lowering/kir/kir.h"

typedef struct tc_kir_builder {
  tc_kir *kir;
  bool lookups;  // true: the target has LOOKUP (isa.def)
  bool failed;
  // True: a vector should have been widened to lanes that are not a power of two times its own.
  // Then `failed` is set too.
  bool uneven;
} tc_kir_builder;

typedef uint32_t tc_val;

tc_val tc_build_raw(tc_kir_builder *e, tc_kir_op op, tc_type type, int lanes, tc_val s0, tc_val s1, tc_val s2,
                    int64_t imm);
int tc_build_lanes(const tc_kir_builder *e, tc_val v);
tc_type tc_build_type(const tc_kir_builder *e, tc_val v);
// The wider of two values' lanes.
int tc_kir_widest(const tc_kir_builder *e, tc_val a, tc_val b);
tc_val tc_build_splat(tc_kir_builder *e, tc_val v, int lanes);
tc_val tc_build_const_i(tc_kir_builder *e, tc_type type, int64_t v);
tc_val tc_build_const_f(tc_kir_builder *e, tc_type type, double v);
tc_val tc_build_un(tc_kir_builder *e, tc_kir_op op, tc_val a);
tc_val tc_build_bin(tc_kir_builder *e, tc_kir_op op, tc_val a, tc_val b);
tc_val tc_build_fma(tc_kir_builder *e, tc_val a, tc_val b, tc_val c);
// Prefetches the line of an element of a buffer. far: to the second-level cache only.
void tc_build_prefetch(tc_kir_builder *e, int buf, tc_val at, bool far);
tc_val tc_build_select(tc_kir_builder *e, tc_val c, tc_val a, tc_val b);
tc_val tc_build_cast(tc_kir_builder *e, tc_val a, tc_type to);
// Casts to bf16 a result of DOT or a future operand of one. Denormals become zeros.
tc_val tc_build_cast_bf16_daz(tc_kir_builder *e, tc_val a);
tc_val tc_build_var(tc_kir_builder *e, tc_val init);
void tc_build_set(tc_kir_builder *e, tc_val var, tc_val v);
tc_val tc_build_loop(tc_kir_builder *e, tc_val from, tc_val to, int64_t step);
// Words: pairs of bf16, each in an I32 lane. The first loads `lanes` of them from consecutive
// elements of a buffer; mask: over elements, or TC_NONE.
// The second pairs the lanes of two vectors that hold bf16 values.
tc_val tc_build_load_words(tc_kir_builder *e, int buf, tc_val at, int lanes, tc_val mask);
tc_val tc_build_words(tc_kir_builder *e, tc_val first, tc_val second);
// Words of four bytes, likewise: loaded from consecutive elements of `type` (I8 or U8), and of four
// vectors of these.
tc_val tc_build_load_byte_words(tc_kir_builder *e, int buf, tc_type type, tc_val at, int lanes);
tc_val tc_build_byte_words(tc_kir_builder *e, const tc_val v[4]);
// DOT of words; an operand of one lane is splat.
tc_val tc_build_dot(tc_kir_builder *e, tc_val a, tc_val b, tc_val sum);
// DOT4, likewise. is_signed: its imm.
tc_val tc_build_dot4(tc_kir_builder *e, tc_val a, tc_val b, tc_val sum, int is_signed);
// Tile registers: their shape is rows of words of 4 bytes (kir.h). apart: elements from one row to
// the next.
void tc_build_tmm_zero(tc_kir_builder *e, unsigned tmm, unsigned rows, unsigned words);
void tc_build_tmm_load(tc_kir_builder *e, unsigned tmm, unsigned rows, unsigned words, int buf, tc_type type, tc_val at,
                       tc_val apart);
void tc_build_tmm_store(tc_kir_builder *e, unsigned tmm, unsigned rows, unsigned words, int buf, tc_type type,
                        tc_val at, tc_val apart);
// A product of tile registers by `op`: tmm[0] += tmm[1] tmm[2]. of: rows and words of c, words of
// a.
void tc_build_tmm_dot(tc_kir_builder *e, tc_kir_op op, const unsigned tmm[3], const unsigned of[3]);
// Transposes n vectors of n lanes, a power of two up to 64: lane j of v[i] becomes lane i of v[j].
void tc_build_transpose(tc_kir_builder *e, tc_val *v, int n);
// One step that reduces n vectors of n lanes to the vector of their sums. It adds the halves of a
// and b: a's sums go to even lanes, b's to odd ones.
// Apply it to vectors i and i + n / 2, then to i and i + n / 4 of the n / 2 results, and so on.
// Lane i of the last vector is the sum of vector i, added by halves as REDUCE does.
tc_val tc_build_halve(tc_kir_builder *e, tc_val a, tc_val b);
void tc_build_end(tc_kir_builder *e, tc_kir_op op);
