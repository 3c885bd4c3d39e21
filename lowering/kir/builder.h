// Appends kernel instructions. Scalars and vectors mix: an operand of one lane is spread to the
// other's lanes, one of a lane a thread to several. After running out of memory, or what `uneven`
// says, every call returns 0 and `failed` is set. Thread-compatible.
#ifndef TC_LOWERING_KIR_BUILDER_H
#define TC_LOWERING_KIR_BUILDER_H

#include "lowering/kir/kir.h"

typedef struct tc_kir_builder {
  tc_kir *kir;
  bool lookups;  // isa.def's: LOOKUP may be used
  bool failed;
  // A vector was to be spread over lanes that are not its own times a power of two; then `failed`
  // is set too.
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
// Asks for the line of an element of a buffer; far: to the second-level cache alone.
void tc_build_prefetch(tc_kir_builder *e, int buf, tc_val at, bool far);
tc_val tc_build_select(tc_kir_builder *e, tc_val c, tc_val a, tc_val b);
tc_val tc_build_cast(tc_kir_builder *e, tc_val a, tc_type to);
// To bf16, what is a result of DOT or becomes a factor of one, which takes denormals for zeros.
tc_val tc_build_settled(tc_kir_builder *e, tc_val a);
tc_val tc_build_var(tc_kir_builder *e, tc_val init);
void tc_build_set(tc_kir_builder *e, tc_val var, tc_val v);
tc_val tc_build_loop(tc_kir_builder *e, tc_val from, tc_val to, int64_t step);
// Pairs of bf16 as words: `lanes` of them that lie side by side in a buffer from an element on
// (mask: of elements, or TC_NONE), and two vectors of what are bf16, neighbours by lane.
tc_val tc_build_load_words(tc_kir_builder *e, int buf, tc_val at, int lanes, tc_val mask);
tc_val tc_build_words(tc_kir_builder *e, tc_val first, tc_val second);
// DOT of words, one lane of which is spread.
tc_val tc_build_dot(tc_kir_builder *e, tc_val a, tc_val b, tc_val sum);
// Turns n vectors of n lanes, a power of two up to 64: lane j of v[i] becomes lane i of v[j].
void tc_build_transpose(tc_kir_builder *e, tc_val *v, int n);
// A step by which n vectors of n lanes become the vector of their sums: halves of each are added,
// of a in even lanes and of b in odd ones. Vectors i and i + n / 2, then of these n / 2 vectors i
// and i + n / 4, and so on: the last one has the sum of vector i in lane i, added by halves as
// REDUCE does.
tc_val tc_build_halve(tc_kir_builder *e, tc_val a, tc_val b);
void tc_build_end(tc_kir_builder *e, tc_kir_op op);

#endif
