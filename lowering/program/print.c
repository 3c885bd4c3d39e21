// TC_LOG=plan: prints a program's steps, and the storage of its values.
#include "lowering/program/program.h"
#include "runtime/log.h"

static void print_storage(const tc_plan *plan, uint32_t at, FILE *out) {
  uint32_t n_leaf = plan->n_leaf, n_out = plan->n_out;
  if (at & ARENA_BIT)
    fprintf(out, "a%u", at & ~ARENA_BIT);
  else if (at < n_leaf)
    fprintf(out, "l%u", at);
  else
    fprintf(out, at < n_leaf + n_out ? "o%u" : "p%u", at < n_leaf + n_out ? at - n_leaf : at - n_leaf - n_out);
}

// Prints one step a line: stage, what runs, and its storages (l leaf, o output, p cached constant,
// a arena allocation; > written).
static void print_steps(const tc_program *p, const tc_plan *plan, const char *what, FILE *out) {
  for (uint32_t i = 0; i < p->n_step; i++) {
    const tc_step *s = &p->step[i];
    fprintf(out, "  %s %u %s", what, s->stage,
            s->kind == TC_STEP_KERNEL  ? s->kernel->name
            : s->kind == TC_STEP_CHECK ? "check"
            : s->kind == TC_STEP_ZERO  ? "zero"
            : s->kind == TC_STEP_CALL  ? (s->op == TC_OP_MATMUL ? "library's matmul" : "library's convolution")
                                       : tc_op_names[s->op]);
    for (uint32_t j = 0; j < s->n_binding; j++) {
      uint32_t at = p->binding[s->first_binding + j];
      fprintf(out, tc_step_writes(s, j) ? " >" : " ");
      print_storage(plan, at, out);
    }
    fprintf(out, "\n");
  }
}

void tc_program_print(const tc_program *p, const tc_plan *plan, FILE *out) {
  fprintf(out, "%016llx: %u nodes, %u steps, %u stages, arena %zu\n", (unsigned long long)plan->hash.lo, plan->n_node,
          p->n_step, p->n_stage, p->arena_bytes);
  print_steps(p->prepare, plan, "prepare", out);
  print_steps(p, plan, "stage", out);
  for (uint32_t o = 0; o < plan->n_out; o++)
    if (plan->out[o].donor != TC_LEAF_NONE) fprintf(out, "  o%u is written over l%u\n", o, plan->out[o].donor);
  for (uint32_t i = 0; i < p->n_allocation; i++) {
    const tc_allocation *k = &p->allocation[i];
    fprintf(out, "  a%u is %zu bytes at %zu of ", i, k->bytes, k->offset);
    fprintf(out, k->in == IN_ARENA ? "the arena" : "o%u", k->in);
    fprintf(out, ", stages %u to %u\n", k->first, k->last);
  }
}

void tc_program_log(const tc_program *p, const tc_plan *plan) {
  tc_log_message m;
  if (tc_log_begin(&m)) tc_program_print(p, plan, m.to);
  tc_log_end(&m, TC_LOG_PLAN);
}
