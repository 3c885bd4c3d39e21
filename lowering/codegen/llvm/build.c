// Prints a kernel as one LLVM function: control flow and variables. Values, arithmetic, casts and
// memory are in the files beside it.
//
// Loops are printed rotated (test before entry, test at the end), so that an iteration has one
// branch.
// A scan of its body finds the variables that a LOOP or IF sets. They become phis at its head
// (loops) and behind it (both), so no stack slots and no pass to remove them are needed.
// No IR passes are needed: the schedule is explicit, and instruction selection does the rest.
// Invariants: a failed translation leaves its reason in b->text, and a module that is thrown away.
#include "lowering/codegen/llvm/build.h"

#include <llvm/Config/llvm-config.h>
#include <string.h>

#include "lowering/codegen/llvm/address.h"
#include "lowering/codegen/llvm/debug_lines.h"
#include "lowering/codegen/llvm/tmm.h"
#include "lowering/codegen/llvm/values.h"
#include "runtime/arena.h"

// ---- control flow ----

static LLVMBasicBlockRef new_block(tc_llvm_build *b) {
  return LLVMAppendBasicBlockInContext(b->ctx, b->fn, "");
}

// Lists the variables declared before `at` that are set before its matching end, with their present
// values.
static bool list_sets(tc_llvm_build *b, tc_llvm_frame *f) {
  const tc_kir *kir = b->kir;
  int depth = 0;
  f->first_var = b->n_vars;
  for (uint32_t i = f->at; i < kir->n_inst; i++) {
    const tc_kir_inst *inst = &kir->inst[i];
    depth += tc_kir_is(inst, TC_KIR_OPENS);
    depth -= tc_kir_is(inst, TC_KIR_CLOSES);
    if (depth == 0) break;
    uint32_t var = inst->src[0];
    if (inst->op != TC_IR_SET || var >= f->at || b->mark[var] == f->at + 1) continue;
    if (b->val[var] == NULL) return tc_llvm_fail(b, "%%%u set: %%%u has no value", i, var) != NULL;
    if (!TC_GROW(b->vars, b->cap_vars, b->n_vars + 1)) return tc_llvm_no_memory(b);
    b->mark[var] = f->at + 1;
    b->vars[b->n_vars++] = (tc_llvm_var){.var = var, .before = b->val[var]};
  }
  f->n_vars = b->n_vars - f->first_var;
  return true;
}

static bool print_inst(tc_llvm_build *b, uint32_t at);

// Scalars of the loop's body that are the same in all iterations are found once, in front of it.
static bool print_ahead(tc_llvm_build *b, uint32_t loop) {
  const tc_kir *kir = b->kir;
  bool ok = true;
  for (uint32_t i = loop + 1, depth = 1; ok && i < kir->n_inst && depth > 0; i++) {
    unsigned op = kir->inst[i].op;
    depth += op == TC_IR_LOOP;
    depth -= op == TC_IR_ENDLOOP;
    if (tc_llvm_is_of_outside(b, i, loop)) ok = print_inst(b, i);
  }
  return ok;
}

static bool open_frame(tc_llvm_build *b, uint32_t at) {
  const tc_kir_inst *inst = &b->kir->inst[at];
  bool is_loop = inst->op == TC_IR_LOOP;
  LLVMValueRef first = tc_llvm_operand(b, inst, 0), stop = is_loop ? tc_llvm_operand(b, inst, 1) : NULL;
  if (first == NULL || (is_loop && stop == NULL)) return false;
  tc_llvm_frame *f = &b->frame[b->n_frames++];
  *f = (tc_llvm_frame){
      .at = at, .from = LLVMGetInsertBlock(b->b), .body = new_block(b), .after = new_block(b), .stop = stop};
  if (!list_sets(b, f) || (is_loop && (!print_ahead(b, at) || !tc_llvm_open_addresses(b, f)))) return false;
  LLVMBuildCondBr(b->b, is_loop ? LLVMBuildICmp(b->b, LLVMIntSLT, first, stop, "") : first, f->body, f->after);
  LLVMPositionBuilderAtEnd(b->b, f->body);
  if (!is_loop) return true;
  f->index = LLVMBuildPhi(b->b, b->i64, "");
  LLVMAddIncoming(f->index, &first, &f->from, 1);
  for (uint32_t i = 0; i < f->n_vars; i++) {
    tc_llvm_var *v = &b->vars[f->first_var + i];
    v->head = LLVMBuildPhi(b->b, LLVMTypeOf(v->before), "");
    LLVMAddIncoming(v->head, &v->before, &f->from, 1);
    b->val[v->var] = v->head;
  }
  tc_llvm_head_addresses(b, f);
  b->val[at] = f->index;
  return true;
}

static bool close_frame(tc_llvm_build *b, uint32_t at) {
  bool is_loop = b->kir->inst[at].op == TC_IR_ENDLOOP;
  if (b->n_frames == 0)
    return tc_llvm_fail(b, "%%%u %s: nothing is open", at, tc_kir_op_name((tc_kir_op)b->kir->inst[at].op)) != NULL;
  tc_llvm_frame *f = &b->frame[--b->n_frames];
  const tc_kir_inst *open = &b->kir->inst[f->at];
  if ((open->op == TC_IR_LOOP) != is_loop) return tc_llvm_fail(b, "%%%u: loops and ifs cross", at) != NULL;
  LLVMBasicBlockRef last = LLVMGetInsertBlock(b->b);
  if (is_loop) {
    LLVMValueRef next = LLVMBuildAdd(b->b, f->index, LLVMConstInt(b->i64, (uint64_t)open->imm, 1), "");
    LLVMAddIncoming(f->index, &next, &last, 1);
    tc_llvm_step_addresses(b, f, last);
    LLVMBuildCondBr(b->b, LLVMBuildICmp(b->b, LLVMIntSLT, next, f->stop, ""), f->body, f->after);
  } else {
    LLVMBuildBr(b->b, f->after);
  }
  LLVMMoveBasicBlockAfter(f->after, last);
  LLVMPositionBuilderAtEnd(b->b, f->after);
  for (uint32_t i = 0; i < f->n_vars; i++) {
    tc_llvm_var *v = &b->vars[f->first_var + i];
    LLVMValueRef now = b->val[v->var], phi = LLVMBuildPhi(b->b, LLVMTypeOf(now), "");
    if (is_loop) LLVMAddIncoming(v->head, &now, &last, 1);
    LLVMAddIncoming(phi, (LLVMValueRef[]){v->before, now}, (LLVMBasicBlockRef[]){f->from, last}, 2);
    b->val[v->var] = phi;
    b->mark[v->var] = 0;
  }
  // An enclosing frame that listed these variables may list no more, so clearing the marks is
  // right: its list is complete.
  b->n_vars = f->first_var;
  return true;
}

// ---- the walk ----

static bool print_inst(tc_llvm_build *b, uint32_t at) {
  const tc_kir_inst *inst = &b->kir->inst[at];
  LLVMValueRef v = NULL;
  if (!tc_llvm_is_needed(b, at) || b->val[at] != NULL) return true;
  tc_llvm_set_line(b, at);
  switch (inst->op) {
    case TC_IR_BEGIN: v = LLVMGetParam(b->fn, 3); break;
    case TC_IR_FINISH: v = LLVMGetParam(b->fn, 4); break;
    case TC_IR_CONST: v = tc_llvm_const_value(b, inst); break;
    case TC_IR_NUM: v = tc_llvm_num_value(b, inst); break;
    case TC_IR_LANES: v = tc_llvm_lanes_value(b, inst); break;
    case TC_IR_LOOP:
    case TC_IR_IF: return open_frame(b, at);
    case TC_IR_ENDLOOP:
    case TC_IR_ENDIF: return close_frame(b, at);
    case TC_IR_VAR: v = tc_llvm_operand(b, inst, 0); break;
    case TC_IR_SET:
      v = tc_llvm_operand(b, inst, 1);
      if (v == NULL || tc_llvm_operand(b, inst, 0) == NULL) return false;
      b->val[inst->src[0]] = v;
      return true;
    case TC_IR_SPLAT: v = tc_llvm_splat_value(b, inst); break;
    case TC_IR_LOAD:
    case TC_IR_GATHER:
    case TC_IR_STORE:
    case TC_IR_SCATTER:
    case TC_IR_PREFETCH: v = tc_llvm_memory(b, inst); break;
    case TC_IR_CALL: v = tc_llvm_call(b, inst); break;
    case TC_IR_INTERLEAVE: v = tc_llvm_interleave(b, inst); break;
    case TC_IR_UNPACK: v = tc_llvm_unpack(b, inst); break;
    case TC_IR_REDUCE: v = tc_llvm_reduce(b, inst); break;
    default: v = tc_kir_is(inst, TC_KIR_TMM) ? tc_llvm_tmm(b, inst) : tc_llvm_arith(b, inst); break;
  }
  if (v == NULL) tc_llvm_fail(b, "%%%u %s is not supported on this type", at, tc_kir_op_name((tc_kir_op)inst->op));
  b->val[at] = v;
  return v != NULL;
}

static void make_types(tc_llvm_build *b) {
  b->i1 = LLVMInt1TypeInContext(b->ctx);
  b->i8 = LLVMInt8TypeInContext(b->ctx);
  b->i16 = LLVMInt16TypeInContext(b->ctx);
  b->i32 = LLVMInt32TypeInContext(b->ctx);
  b->i64 = LLVMInt64TypeInContext(b->ctx);
  b->f16 = LLVMHalfTypeInContext(b->ctx);
  b->f32 = LLVMFloatTypeInContext(b->ctx);
  b->f64 = LLVMDoubleTypeInContext(b->ctx);
  b->ptr = LLVMPointerType(b->i8, 0);
}

static void add_attribute(tc_llvm_build *b, const char *key, const char *value) {
  LLVMAddAttributeAtIndex(
      b->fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
      LLVMCreateStringAttribute(b->ctx, key, (unsigned)strlen(key), value, (unsigned)strlen(value)));
}

static void add_number(tc_llvm_build *b, const char *key, uint64_t value) {
  unsigned kind = LLVMGetEnumAttributeKindForName(key, strlen(key));
  LLVMAddAttributeAtIndex(b->fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                          LLVMCreateEnumAttribute(b->ctx, kind, value));
}

static void make_function(tc_llvm_build *b, const char *name, const char *cpu, const char *features, int vector_bits) {
  char bits[16];
  LLVMTypeRef arg[] = {b->ptr, LLVMPointerType(b->ptr, 0), LLVMPointerType(b->i64, 0), b->i64, b->i64, b->ptr};
  b->fn = LLVMAddFunction(b->mod, name, LLVMFunctionType(LLVMVoidTypeInContext(b->ctx), arg, 6, 0));
  snprintf(bits, sizeof bits, "%d", vector_bits);
  add_attribute(b, "target-cpu", cpu);
  add_attribute(b, "target-features", features);
  // Without these two LLVM uses half of AVX-512 on Intel names.
  add_attribute(b, "prefer-vector-width", bits);
  add_attribute(b, "min-legal-vector-width", bits);
  add_number(b, "nounwind", 0);
  // A table of how to unwind the stack, for debuggers and profilers. The code is the same.
  add_number(b, "uwtable", LLVM_VERSION_MAJOR < 15 ? 0 : 2);
  // Spilled vector registers then lie in one cache line, whatever the caller's stack. LLVM does not
  // ensure that itself.
  // Measured: Zen 4, 2 threads, attention 4x12x512x64, which spills in its innermost loop: 8.5 ms
  // -> 8.2.
  add_number(b, "alignstack", (uint64_t)vector_bits / 8);
}

// The last mention counts, as for LLVM: "+f16c,..,-f16c" is without.
static bool has_feature(const char *features, const char *feature) {
  size_t n = strlen(feature);
  bool has = false;
  for (const char *p = features; (p = strstr(p, feature)) != NULL; p += n)
    if (p > features && (p[-1] == '+' || p[-1] == '-') && (p[n] == ',' || p[n] == 0)) has = p[-1] == '+';
  return has;
}

static tc_llvm_can find_can(const char *features) {
  bool avx512 = has_feature(features, "avx512f") && has_feature(features, "avx512vl");
  bool avx2 = has_feature(features, "avx2");
  return (tc_llvm_can){
      .half = has_feature(features, "f16c") || has_feature(features, "neon"),
      .mask32 = has_feature(features, "avx"),
      .mask8 = avx512 && has_feature(features, "avx512bw"),
      .scale = avx512,
      .lookup = avx512,
      .dot = avx512 && has_feature(features, "avx512bf16"),
      .dot4_lanes = avx512 && has_feature(features, "avx512vnni") ? 16
                    : avx2 && has_feature(features, "avxvnni")    ? 8
                                                                  : 0,
      .pair_lanes = has_feature(features, "neon")                 ? 0
                    : avx512 && has_feature(features, "avx512bw") ? 16
                    : avx2                                        ? 8
                                                                  : 4,
      .gather = avx512,
      .tmm = has_feature(features, "amx-tile"),
      .tmm_bf16 = has_feature(features, "amx-bf16"),
      .tmm_bytes = has_feature(features, "amx-int8"),
      .two_registers = !has_feature(features, "neon"),
  };
}

tc_status tc_llvm_build_function(tc_llvm_build *b, const char *name, const char *cpu, const char *features,
                                 int vector_bits, tc_debug_lines lines) {
  const tc_kir *kir = b->kir;
  size_t n = kir->n_inst + (size_t)1, n_base = (size_t)kir->n_buf + kir->n_tile + 1;
  bool ok = true;
  if (kir->threads > 0) {
    tc_llvm_fail(b, "a kernel with threads is printed for a GPU, not compiled by LLVM");
    return TC_ERR_COMPILE;
  }
  b->can = find_can(features);
  b->val = tc_calloc(n, sizeof *b->val);
  b->base = tc_calloc(n_base, sizeof *b->base);
  b->frame = tc_calloc(n, sizeof *b->frame);
  b->mark = tc_calloc(n, sizeof *b->mark);
  if (b->val == NULL || b->base == NULL || b->frame == NULL || b->mark == NULL) {
    ok = tc_llvm_no_memory(b);
    goto done;
  }
  if (!(ok = tc_llvm_find_addresses(b))) goto done;
  make_types(b);
  make_function(b, name, cpu, features, vector_bits);
  if (lines == TC_DEBUG_LINES) tc_llvm_make_lines(b, name);
  b->entry = LLVMCreateBuilderInContext(b->ctx);
  b->b = LLVMCreateBuilderInContext(b->ctx);
  LLVMPositionBuilderAtEnd(b->entry, new_block(b));
  LLVMBasicBlockRef body = new_block(b);
  LLVMPositionBuilderAtEnd(b->b, body);
  for (uint32_t i = 0; i < kir->n_inst; i++) b->calls |= kir->inst[i].op == TC_IR_CALL;
  ok = tc_llvm_enter_tmms(b);
  for (uint32_t i = 0; ok && i < kir->n_inst; i++) ok = print_inst(b, i);
  if (ok && b->n_frames > 0) ok = tc_llvm_fail(b, "a loop or if is not closed") != NULL;
  ok = ok && tc_llvm_leave_tmms(b);
  if (ok) {
    // Non-temporal stores are not ordered by the stores with which a worker reports that it is
    // done.
    if (b->streams) LLVMBuildFence(b->b, LLVMAtomicOrderingSequentiallyConsistent, 0, "");
    LLVMBuildRetVoid(b->b);
    LLVMBuildBr(b->entry, body);
  }
done:
  if (b->b != NULL) LLVMDisposeBuilder(b->b);
  if (b->entry != NULL) LLVMDisposeBuilder(b->entry);
  tc_free(b->val);
  tc_free(b->base);
  tc_free(b->frame);
  tc_free(b->mark);
  tc_free(b->vars);
  tc_llvm_free_addresses(b);
  return ok ? TC_OK : b->no_memory ? TC_ERR_MEMORY : TC_ERR_COMPILE;
}
