// Building a program's steps: fusions become steps, each after those it reads. Inside programs; not
// for others.
//
// A builder is the state of one program's building. Groups may be made several times (pipeline.c);
// what outlasts that is `must_materialize`, `alone` and `prepare`.
// Threads: a builder is one thread's.
#ifndef TC_LOWERING_PROGRAM_STEPS_H
#define TC_LOWERING_PROGRAM_STEPS_H

#include "lowering/emit/emitter.h"
#include "lowering/fusion/build.h"
#include "lowering/program/program_types.h"

// Whether a value is the same from run to run until a parameter is written: a parameter's that the
// plan does not assign; made of such alone.
enum { TC_CONST_NO, TC_CONST_PARAM, TC_CONST_DERIVED };

typedef struct tc_builder {
  tc_program *p;
  tc_plan *plan;
  tc_fusion_plan gr;
  tc_fusion_mode mode;
  size_t op_by_op, least;  // bytes: of the records one by one; of the steps made last, SIZE_MAX: none were
  tc_arena fusion_plan, expansion;  // scratch of one fusion plan, of one kernel
  uint32_t *storage;  // per node
  uint32_t *made_in;  // per node: the stage after which it is there
  uint32_t stage;  // of the step being added
  bool preparing;  // that step makes prepared values
  bool prepare;  // some may
  uint8_t *emitted;  // per fusion: whether it has its step, or is on the way to it
  const struct tc_fusion_link **way;  // per fusion on the way: the link to follow next
  // per node that is an index: one more than the latest node it is checked for; per such node: the
  // one before
  uint32_t *checks, *next_check;
  uint8_t *is_constant;  // per node with memory: TC_LASTS_*
  uint8_t *must_materialize;  // per node: stored, or alone too, because a view of it could not be said
  uint32_t not_affine;  // the node to force next, or TC_NONE
  bool full;  // a fusion was more than a kernel can name
  // per node: a library's product, owned, for which it is kept apart from what follows; NULL: it is
  // not
  tc_gpu_call **alone;
  bool apart;  // another one was found, so that fusions are made again
} tc_builder;

// Steps for all fusions of b->gr; false where fusions must be made again (not_affine, full, apart),
// or after a failure, *st; TC_OK there: out of memory.
bool tc_steps_build(tc_builder *b, tc_status *st);
// What the expansion says of a step that has room for it. Takes the kernel.
bool tc_steps_fill(tc_builder *b, tc_program *p, tc_step *s, const tc_emit_result *e);

#endif
