// Prints a nest as one LLVM function: types, constants, control flow and variables. Arithmetic, casts and memory are in the files beside it.
//
// Loops are printed rotated (test before entry, test at the end), so that an iteration has one branch. The variables that a LOOP or IF sets are
// found by a scan of its body; they become phis at its head (loops) and behind it (both), so there are no stack slots for them and no pass is
// needed to remove any. Nothing here needs IR passes: the schedule is explicit, and instruction selection does the rest.
// Always: a failed translation leaves its reason in b->text and a module that is thrown away.
#include "lowering/codegen/llvm/build.h"

#include <stdarg.h>
#include <string.h>

#include "lowering/codegen/llvm/address.h"
#include "runtime/arena.h"

const char *tc_llvm_op_name(unsigned op) {
  static const char *const names[] = {
#define X(NAME, name) #name,
      TC_NEST_OPS(X)
#undef X
  };
  return op < TC_N_OPS ? names[op] : "?";
}

LLVMValueRef tc_llvm_fail(tc_llvm_build *b, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  if (b->text_bytes > 0 && b->text[0] == 0) vsnprintf(b->text, b->text_bytes, fmt, args);
  va_end(args);
  return NULL;
}

bool tc_llvm_no_memory(tc_llvm_build *b) {
  b->no_memory = true;
  return tc_llvm_fail(b, "out of memory") != NULL;
}

LLVMTypeRef tc_llvm_scalar_type(const tc_llvm_build *b, unsigned dtype) {
  switch (dtype) {
    case TC_BOOL: return b->i1;
    case TC_U8:
    case TC_I8: return b->i8;
    case TC_I16:
    case TC_F16:
    case TC_BF16: return b->i16;
    case TC_I32: return b->i32;
    case TC_F32: return b->f32;
    case TC_F64: return b->f64;
    default: return b->i64;
  }
}

LLVMTypeRef tc_llvm_memory_type(const tc_llvm_build *b, unsigned dtype) {
  return dtype == TC_BOOL ? b->i8 : tc_llvm_scalar_type(b, dtype);
}

LLVMTypeRef tc_llvm_widen_type(LLVMTypeRef scalar, unsigned lanes) {
  return lanes > 1 ? LLVMVectorType(scalar, lanes) : scalar;
}

LLVMTypeRef tc_llvm_value_type(const tc_llvm_build *b, unsigned dtype, unsigned lanes) {
  return tc_llvm_widen_type(tc_llvm_scalar_type(b, dtype), lanes);
}

unsigned tc_llvm_memory_bytes(unsigned dtype) {
  static const uint8_t bytes[] = {
#define TC_TYPE(NAME, name, size, kind, npy) size,
#include <tc/dtypes.def>
#undef TC_TYPE
  };
  return bytes[dtype];
}

static LLVMValueRef constant_splat(LLVMValueRef scalar, unsigned lanes) {
  LLVMValueRef all[64];
  if (lanes <= 1) return scalar;
  for (unsigned i = 0; i < lanes; i++) all[i] = scalar;
  return LLVMConstVector(all, lanes);
}

LLVMValueRef tc_llvm_splat(tc_llvm_build *b, LLVMBuilderRef at, LLVMValueRef scalar, unsigned lanes) {
  if (lanes <= 1) return scalar;
  if (LLVMIsConstant(scalar)) return constant_splat(scalar, lanes);
  LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(scalar), lanes);
  LLVMValueRef one = LLVMBuildInsertElement(at, LLVMGetUndef(type), scalar, LLVMConstInt(b->i32, 0, 0), "");
  return LLVMBuildShuffleVector(at, one, LLVMGetUndef(type), LLVMConstNull(LLVMVectorType(b->i32, lanes)), "");
}

LLVMValueRef tc_llvm_int(LLVMTypeRef type, int64_t value, unsigned lanes) {
  return constant_splat(LLVMConstInt(type, (unsigned long long)value, 1), lanes);
}

LLVMValueRef tc_llvm_float(LLVMTypeRef type, double value, unsigned lanes) {
  return constant_splat(LLVMConstReal(type, value), lanes);
}

static LLVMValueRef intrinsic_at(tc_llvm_build *b, LLVMBuilderRef at, const char *name, LLVMTypeRef *overload, unsigned n_overload, LLVMValueRef *arg,
                                 unsigned n_arg) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  if (id == 0) return tc_llvm_fail(b, "this LLVM has no %s", name);
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(b->mod, id, overload, n_overload);
  return LLVMBuildCall2(at, LLVMIntrinsicGetType(b->ctx, id, overload, n_overload), fn, arg, n_arg, "");
}

LLVMValueRef tc_llvm_intrinsic(tc_llvm_build *b, const char *name, LLVMTypeRef *overload, unsigned n_overload, LLVMValueRef *arg, unsigned n_arg) {
  return intrinsic_at(b, b->b, name, overload, n_overload, arg, n_arg);
}

LLVMValueRef tc_llvm_operand(tc_llvm_build *b, const tc_ninst *inst, unsigned which) {
  ptrdiff_t at = inst - b->nest->inst;
  if (inst->src[which] >= (uint64_t)at || b->val[inst->src[which]] == NULL)
    return tc_llvm_fail(b, "%%%td %s: operand %u has no value", at, tc_llvm_op_name(inst->op), which);
  return b->val[inst->src[which]];
}

// ---- leaves ----

// A constant of f32 over lanes, of a kernel that calls functions: a call, be it on the rare path, takes all vector registers, and a constant would be made from
// its scalar again in every turn of the loop, which with AVX-512 costs a turn of the units that shuffle. What comes of a fence is not known to be a constant;
// so it is kept on the stack, and read from there. On a Zen 4 sin(a) + cos(b) is 0.92 of the time.
static LLVMValueRef kept_splat(tc_llvm_build *b, LLVMValueRef scalar, unsigned lanes) {
  LLVMValueRef v = constant_splat(scalar, 16), at[64];
  LLVMTypeRef type = LLVMTypeOf(v);
  if ((v = intrinsic_at(b, b->entry, "llvm.arithmetic.fence", &type, 1, &v, 1)) == NULL) return NULL;
  for (unsigned i = 0; i < lanes; i++) at[i] = LLVMConstInt(b->i32, i % 16, 0);
  return LLVMBuildShuffleVector(b->entry, v, LLVMGetUndef(type), LLVMConstVector(at, lanes), "");
}

static LLVMValueRef leaf_splat(tc_llvm_build *b, const tc_ninst *inst) {
  LLVMValueRef v = tc_llvm_operand(b, inst, 0);
  if (v == NULL) return NULL;
  bool keep = b->calls && b->can.lookup && inst->dtype == TC_F32 && inst->lanes >= 16 && LLVMIsConstant(v);
  return keep ? kept_splat(b, v, inst->lanes) : tc_llvm_splat(b, b->b, v, inst->lanes);
}

static LLVMValueRef leaf_const(tc_llvm_build *b, const tc_ninst *inst) {
  LLVMTypeRef type = tc_llvm_scalar_type(b, inst->dtype);
  LLVMValueRef v;
  if (inst->dtype == TC_F32)  // by bits, so that NaNs keep theirs
    v = LLVMConstBitCast(LLVMConstInt(b->i32, (uint32_t)inst->imm, 0), type);
  else if (inst->dtype == TC_F64)
    v = LLVMConstBitCast(LLVMConstInt(b->i64, (uint64_t)inst->imm, 0), type);
  else if (inst->dtype == TC_BOOL)
    v = LLVMConstInt(type, inst->imm != 0, 0);
  else
    v = LLVMConstInt(type, (uint64_t)inst->imm, 1);
  return constant_splat(v, inst->lanes);
}

static LLVMValueRef leaf_lanes(tc_llvm_build *b, const tc_ninst *inst) {
  bool is_float = inst->dtype == TC_F32 || inst->dtype == TC_F64;
  LLVMTypeRef type = tc_llvm_scalar_type(b, inst->dtype);
  LLVMValueRef all[64];
  for (unsigned i = 0; i < inst->lanes; i++) all[i] = is_float ? LLVMConstReal(type, i) : LLVMConstInt(type, i, 0);
  return inst->lanes > 1 ? LLVMConstVector(all, inst->lanes) : all[0];
}

// Read once, in the entry block: the caller's array does not change while the kernel runs.
static LLVMValueRef leaf_num(tc_llvm_build *b, const tc_ninst *inst) {
  bool is_float = inst->dtype == TC_F32 || inst->dtype == TC_F64;
  LLVMTypeRef type = is_float ? b->f64 : b->i64;
  LLVMValueRef at = LLVMConstInt(b->i64, (uint64_t)inst->imm, 0);
  LLVMValueRef from = LLVMBuildBitCast(b->entry, LLVMGetParam(b->fn, 2), LLVMPointerType(type, 0), "");
  LLVMValueRef v = LLVMBuildLoad2(b->entry, type, LLVMBuildGEP2(b->entry, type, from, &at, 1, ""), "");
  if (inst->dtype == TC_F32)
    v = LLVMBuildFPTrunc(b->entry, v, b->f32, "");
  else if (inst->dtype == TC_BOOL)
    v = LLVMBuildICmp(b->entry, LLVMIntNE, v, LLVMConstInt(b->i64, 0, 0), "");
  else if (!is_float && inst->dtype != TC_I64)
    v = LLVMBuildTrunc(b->entry, v, tc_llvm_scalar_type(b, inst->dtype), "");
  return tc_llvm_splat(b, b->entry, v, inst->lanes);
}

// ---- control flow ----

static LLVMBasicBlockRef new_block(tc_llvm_build *b) {
  return LLVMAppendBasicBlockInContext(b->ctx, b->fn, "");
}

// Lists the variables declared before `at` that are set before its matching end, with their present values.
static bool list_sets(tc_llvm_build *b, tc_llvm_frame *f) {
  const tc_nest *nest = b->nest;
  int depth = 0;
  f->first_var = b->n_vars;
  for (uint32_t i = f->at; i < nest->n_inst; i++) {
    const tc_ninst *inst = &nest->inst[i];
    if (inst->op == TC_N_LOOP || inst->op == TC_N_IF)
      depth++;
    else if (inst->op == TC_N_ENDLOOP || inst->op == TC_N_ENDIF)
      depth--;
    if (depth == 0) break;
    uint32_t var = inst->src[0];
    if (inst->op != TC_N_SET || var >= f->at || b->mark[var] == f->at + 1) continue;
    if (b->val[var] == NULL) return tc_llvm_fail(b, "%%%u set: %%%u has no value", i, var) != NULL;
    if (b->n_vars == b->cap_vars) {
      uint32_t cap = b->cap_vars * 2 + 16;
      tc_llvm_var *grown = tc_realloc(b->vars, cap * sizeof *grown);
      if (grown == NULL) return tc_llvm_no_memory(b);
      b->vars = grown;
      b->cap_vars = cap;
    }
    b->mark[var] = f->at + 1;
    b->vars[b->n_vars++] = (tc_llvm_var){.var = var, .before = b->val[var]};
  }
  f->n_vars = b->n_vars - f->first_var;
  return true;
}

static bool print_inst(tc_llvm_build *b, uint32_t at);

// Scalars of the loop's body that are the same in all its turns are found once, in front of it.
static bool print_ahead(tc_llvm_build *b, uint32_t loop) {
  const tc_nest *nest = b->nest;
  bool ok = true;
  for (uint32_t i = loop + 1, depth = 1; ok && i < nest->n_inst && depth > 0; i++) {
    unsigned op = nest->inst[i].op;
    depth += op == TC_N_LOOP;
    depth -= op == TC_N_ENDLOOP;
    if (tc_llvm_is_of_outside(b, i, loop)) ok = print_inst(b, i);
  }
  return ok;
}

static bool open_frame(tc_llvm_build *b, uint32_t at) {
  const tc_ninst *inst = &b->nest->inst[at];
  bool is_loop = inst->op == TC_N_LOOP;
  LLVMValueRef first = tc_llvm_operand(b, inst, 0), stop = is_loop ? tc_llvm_operand(b, inst, 1) : NULL;
  if (first == NULL || (is_loop && stop == NULL)) return false;
  tc_llvm_frame *f = &b->frame[b->n_frames++];
  *f = (tc_llvm_frame){.at = at, .from = LLVMGetInsertBlock(b->b), .body = new_block(b), .after = new_block(b), .stop = stop};
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
  bool is_loop = b->nest->inst[at].op == TC_N_ENDLOOP;
  if (b->n_frames == 0) return tc_llvm_fail(b, "%%%u %s: nothing is open", at, tc_llvm_op_name(b->nest->inst[at].op)) != NULL;
  tc_llvm_frame *f = &b->frame[--b->n_frames];
  const tc_ninst *open = &b->nest->inst[f->at];
  if ((open->op == TC_N_LOOP) != is_loop) return tc_llvm_fail(b, "%%%u: loops and ifs cross", at) != NULL;
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
  // An enclosing frame that listed these variables may list no more, so clearing the marks is right: its list is complete.
  b->n_vars = f->first_var;
  return true;
}

// ---- the walk ----

static bool print_inst(tc_llvm_build *b, uint32_t at) {
  const tc_ninst *inst = &b->nest->inst[at];
  LLVMValueRef v = NULL;
  if (!tc_llvm_is_needed(b, at) || b->val[at] != NULL) return true;
  switch (inst->op) {
    case TC_N_BEGIN: v = LLVMGetParam(b->fn, 3); break;
    case TC_N_FINISH: v = LLVMGetParam(b->fn, 4); break;
    case TC_N_CONST: v = leaf_const(b, inst); break;
    case TC_N_NUM: v = leaf_num(b, inst); break;
    case TC_N_LANES: v = leaf_lanes(b, inst); break;
    case TC_N_LOOP:
    case TC_N_IF: return open_frame(b, at);
    case TC_N_ENDLOOP:
    case TC_N_ENDIF: return close_frame(b, at);
    case TC_N_VAR: v = tc_llvm_operand(b, inst, 0); break;
    case TC_N_SET:
      v = tc_llvm_operand(b, inst, 1);
      if (v == NULL || tc_llvm_operand(b, inst, 0) == NULL) return false;
      b->val[inst->src[0]] = v;
      return true;
    case TC_N_SPLAT: v = leaf_splat(b, inst); break;
    case TC_N_LOAD:
    case TC_N_GATHER:
    case TC_N_STORE:
    case TC_N_SCATTER:
    case TC_N_PREFETCH: v = tc_llvm_memory(b, inst); break;
    case TC_N_CALL: v = tc_llvm_call(b, inst); break;
    case TC_N_INTERLEAVE: v = tc_llvm_interleave(b, inst); break;
    case TC_N_ZIP: v = tc_llvm_zip(b, inst); break;
    case TC_N_HREDUCE: v = tc_llvm_hreduce(b, inst); break;
    default: v = tc_llvm_arith(b, inst); break;
  }
  if (v == NULL) tc_llvm_fail(b, "%%%u %s is not supported on this type", at, tc_llvm_op_name(inst->op));
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
  LLVMAddAttributeAtIndex(b->fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                          LLVMCreateStringAttribute(b->ctx, key, (unsigned)strlen(key), value, (unsigned)strlen(value)));
}

static void add_number(tc_llvm_build *b, const char *key, uint64_t value) {
  unsigned kind = LLVMGetEnumAttributeKindForName(key, strlen(key));
  LLVMAddAttributeAtIndex(b->fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(b->ctx, kind, value));
}

static void make_function(tc_llvm_build *b, const char *name, const char *cpu, const char *features, int vector_bits) {
  char bits[16];
  LLVMTypeRef arg[] = {b->ptr, LLVMPointerType(b->ptr, 0), LLVMPointerType(b->i64, 0), b->i64, b->i64, b->ptr};
  b->fn = LLVMAddFunction(b->mod, name, LLVMFunctionType(LLVMVoidTypeInContext(b->ctx), arg, 6, 0));
  snprintf(bits, sizeof bits, "%d", vector_bits);
  add_attribute(b, "target-cpu", cpu);
  add_attribute(b, "target-features", features);
  add_attribute(b, "prefer-vector-width", bits);  // without these two LLVM uses half of AVX-512 on Intel names
  add_attribute(b, "min-legal-vector-width", bits);
  add_number(b, "nounwind", 0);
  // Registers that are put aside lie in one line then. LLVM does not see to it by itself, and where an accumulator is put aside in an innermost loop, as in
  // attention's, the place of the caller's stack decided. On a Zen 4 at two threads, 4x12x512x64: 8.5 ms, the caller 7 % slower than its worker; now 8.2.
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
  return (tc_llvm_can){
      .half = has_feature(features, "f16c") || has_feature(features, "neon"),
      .mask32 = has_feature(features, "avx"),
      .mask8 = avx512 && has_feature(features, "avx512bw"),
      .scale = avx512,
      .lookup = avx512,
      .dot = avx512 && has_feature(features, "avx512bf16"),
      .gather = avx512,
      .two_registers = !has_feature(features, "neon"),
  };
}

tc_status tc_llvm_build_function(tc_llvm_build *b, const char *name, const char *cpu, const char *features, int vector_bits) {
  const tc_nest *nest = b->nest;
  size_t n = nest->n_inst + (size_t)1, n_base = (size_t)nest->n_buf + nest->n_tile + 1;
  bool ok = true;
  if (nest->threads > 0) {
    tc_llvm_fail(b, "a nest with threads is printed for a GPU, not compiled by LLVM");
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
  b->entry = LLVMCreateBuilderInContext(b->ctx);
  b->b = LLVMCreateBuilderInContext(b->ctx);
  LLVMPositionBuilderAtEnd(b->entry, new_block(b));
  LLVMBasicBlockRef body = new_block(b);
  LLVMPositionBuilderAtEnd(b->b, body);
  for (uint32_t i = 0; i < nest->n_inst; i++) b->calls |= nest->inst[i].op == TC_N_CALL;
  for (uint32_t i = 0; ok && i < nest->n_inst; i++) ok = print_inst(b, i);
  if (ok && b->n_frames > 0) ok = tc_llvm_fail(b, "a loop or if is not closed") != NULL;
  if (ok) {
    // Non-temporal stores are not ordered by the stores with which a worker reports that it is done.
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
