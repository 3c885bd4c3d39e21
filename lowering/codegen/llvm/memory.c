// Prints loads, stores, gathers, scatters, prefetches and calls of library functions.
//
// What the target masks or gathers in hardware goes through llvm.masked.*. The rest is printed lane
// by lane without branches: a masked-off lane reads or writes a stack slot instead.
// Calls, and masked accesses on targets without masks, loop over the lanes through arrays on the
// stack, to keep code small.
#include "lowering/codegen/llvm/address.h"
#include "lowering/codegen/llvm/values.h"

// On targets without masks, masked accesses of LOOP_LANES lanes become a loop of LOOP_STEP lanes an
// iteration, to save compile time.
// Measured: Xeon, TC_ISA=baseline: a one-op kernel compiles in 36 ms -> 15; a padded 1000x1000
// image takes a third longer.
#define LOOP_LANES 16
#define LOOP_STEP 8

static LLVMValueRef element_after(tc_llvm_build *b, const tc_kir_inst *inst, LLVMValueRef p, LLVMValueRef i) {
  LLVMTypeRef type = tc_llvm_memory_type(b, inst->dtype);
  return LLVMBuildGEP2(b->b, type, tc_llvm_cast_pointer(b->b, p, type), &i, 1, "");
}

static LLVMValueRef stack_slot(tc_llvm_build *b, LLVMValueRef *slot, unsigned n_doubles) {
  if (*slot != NULL) return *slot;
  *slot = LLVMBuildAlloca(b->entry, LLVMArrayType(b->f64, n_doubles), "");
  LLVMSetAlignment(*slot, n_doubles == 1 ? 8 : 64);
  if (slot == &b->zero_slot)
    LLVMBuildStore(b->entry, LLVMConstNull(b->i64), tc_llvm_cast_pointer(b->entry, *slot, b->i64));
  return *slot;
}

static bool can_mask(const tc_llvm_build *b, const tc_kir_inst *inst) {
  return inst->lanes > 1 && (tc_kir_type_bytes(inst->dtype) >= 4 ? b->can.mask32 : b->can.mask8);
}

static LLVMValueRef all_lanes(tc_llvm_build *b, unsigned lanes) {
  return tc_llvm_int(b->i1, 1, lanes);
}

static LLVMValueRef lane(tc_llvm_build *b, LLVMValueRef v, unsigned lanes, unsigned i) {
  return lanes > 1 ? LLVMBuildExtractElement(b->b, v, LLVMConstInt(b->i32, i, 0), "") : v;
}

// Where an access begins, and which elements after that it takes: index is an i64 vector, or NULL:
// each is `lane` bytes from that before. mask may be NULL: all; on: what all its lanes are, or
// NULL: they may differ.
typedef struct place {
  LLVMValueRef p, index, mask, on;
  int64_t lane;
} place;

// Where lane i of a masked or indexed access goes.
static LLVMValueRef lane_pointer(tc_llvm_build *b, const tc_kir_inst *inst, place at, LLVMValueRef *slot, unsigned i) {
  LLVMValueRef after = LLVMConstInt(b->i64, (uint64_t)(at.lane * i), 1), p;
  p = at.index != NULL ? element_after(b, inst, at.p, lane(b, at.index, inst->lanes, i))
                       : LLVMBuildGEP2(b->b, b->i8, at.p, &after, 1, "");
  p = tc_llvm_cast_pointer(b->b, p, tc_llvm_memory_type(b, inst->dtype));
  if (at.mask == NULL) return p;
  LLVMValueRef other = tc_llvm_cast_pointer(b->b, stack_slot(b, slot, 1), tc_llvm_memory_type(b, inst->dtype));
  return LLVMBuildSelect(b->b, lane(b, at.mask, inst->lanes, i), p, other, "");
}

// A loop over the lanes, open: what is printed next is its body, for lane `i`.
typedef struct lane_loop {
  LLVMBasicBlockRef body, after;
  LLVMValueRef i;
} lane_loop;

static lane_loop open_lane_loop(tc_llvm_build *b) {
  LLVMBasicBlockRef from = LLVMGetInsertBlock(b->b);
  lane_loop l = {LLVMAppendBasicBlockInContext(b->ctx, b->fn, ""), LLVMAppendBasicBlockInContext(b->ctx, b->fn, ""),
                 NULL};
  LLVMValueRef zero = LLVMConstInt(b->i64, 0, 0);
  LLVMMoveBasicBlockAfter(l.body, from);
  LLVMMoveBasicBlockAfter(l.after, l.body);
  LLVMBuildBr(b->b, l.body);
  LLVMPositionBuilderAtEnd(b->b, l.body);
  l.i = LLVMBuildPhi(b->b, b->i64, "");
  LLVMAddIncoming(l.i, &zero, &from, 1);
  return l;
}

static void close_lane_loop(tc_llvm_build *b, lane_loop l, unsigned lanes, unsigned step) {
  LLVMValueRef next = LLVMBuildAdd(b->b, l.i, LLVMConstInt(b->i64, step, 0), "");
  LLVMAddIncoming(l.i, &next, &l.body, 1);
  LLVMBuildCondBr(b->b, LLVMBuildICmp(b->b, LLVMIntULT, next, LLVMConstInt(b->i64, lanes, 0), ""), l.body, l.after);
  LLVMPositionBuilderAtEnd(b->b, l.after);
}

// Pointer to element i of the array of `type` in a slot.
static LLVMValueRef slot_at(tc_llvm_build *b, LLVMValueRef slot, LLVMTypeRef type, LLVMValueRef i) {
  return LLVMBuildGEP2(b->b, type, tc_llvm_cast_pointer(b->b, slot, type), &i, 1, "");
}

static void store_to_slot(tc_llvm_build *b, LLVMValueRef v, LLVMValueRef slot) {
  LLVMSetAlignment(LLVMBuildStore(b->b, v, tc_llvm_cast_pointer(b->b, slot, LLVMTypeOf(v))), 8);
}

static LLVMValueRef load_from_slot(tc_llvm_build *b, LLVMTypeRef type, LLVMValueRef slot) {
  LLVMValueRef v = LLVMBuildLoad2(b->b, type, tc_llvm_cast_pointer(b->b, slot, type), "");
  LLVMSetAlignment(v, 8);
  return v;
}

static bool is_looped(const tc_llvm_build *b, const tc_kir_inst *inst, LLVMValueRef mask) {
  return mask != NULL && !b->can.mask32 && inst->lanes >= LOOP_LANES;
}

// A masked load (v NULL) or store.
static LLVMValueRef masked_loop(tc_llvm_build *b, const tc_kir_inst *inst, LLVMValueRef v, place at) {
  LLVMTypeRef type = tc_llvm_memory_type(b, inst->dtype);
  LLVMValueRef values = stack_slot(b, &b->lane_slot[0], 64), masks = stack_slot(b, &b->mask_slot, 8);
  LLVMValueRef other = tc_llvm_cast_pointer(b->b, stack_slot(b, v == NULL ? &b->zero_slot : &b->sink_slot, 1), type);
  store_to_slot(b, LLVMBuildZExt(b->b, at.mask, tc_llvm_widen_type(b->i8, inst->lanes), ""), masks);
  if (at.index != NULL) store_to_slot(b, at.index, stack_slot(b, &b->lane_slot[1], 64));
  if (v != NULL) store_to_slot(b, v, values);
  lane_loop l = open_lane_loop(b);
  for (unsigned k = 0; k < LOOP_STEP; k++) {
    LLVMValueRef i = LLVMBuildAdd(b->b, l.i, LLVMConstInt(b->i64, k, 0), "");
    LLVMValueRef p, on = LLVMBuildLoad2(b->b, b->i8, slot_at(b, masks, b->i8, i), "");
    if (at.index != NULL) {
      p = element_after(b, inst, at.p, LLVMBuildLoad2(b->b, b->i64, slot_at(b, b->lane_slot[1], b->i64, i), ""));
    } else {
      LLVMValueRef after = LLVMBuildMul(b->b, i, LLVMConstInt(b->i64, (uint64_t)at.lane, 1), "");
      p = tc_llvm_cast_pointer(b->b, LLVMBuildGEP2(b->b, b->i8, at.p, &after, 1, ""), type);
    }
    p = LLVMBuildSelect(b->b, LLVMBuildICmp(b->b, LLVMIntNE, on, LLVMConstInt(b->i8, 0, 0), ""), p, other, "");
    LLVMValueRef in_slot = slot_at(b, values, type, i);
    LLVMBuildStore(b->b, LLVMBuildLoad2(b->b, type, v == NULL ? p : in_slot, ""), v == NULL ? in_slot : p);
  }
  close_lane_loop(b, l, inst->lanes, LOOP_STEP);
  return v != NULL ? v : load_from_slot(b, tc_llvm_widen_type(type, inst->lanes), values);
}

// A block that is entered if `on`, open; what follows is printed behind it.
typedef struct branch {
  LLVMBasicBlockRef from, body, after;
} branch;

static branch open_branch(tc_llvm_build *b, LLVMValueRef on) {
  branch k = {LLVMGetInsertBlock(b->b), LLVMAppendBasicBlockInContext(b->ctx, b->fn, ""),
              LLVMAppendBasicBlockInContext(b->ctx, b->fn, "")};
  LLVMMoveBasicBlockAfter(k.body, k.from);
  LLVMMoveBasicBlockAfter(k.after, k.body);
  LLVMBuildCondBr(b->b, on, k.body, k.after);
  LLVMPositionBuilderAtEnd(b->b, k.body);
  return k;
}

static void close_branch(tc_llvm_build *b, branch k) {
  LLVMBuildBr(b->b, k.after);
  LLVMPositionBuilderAtEnd(b->b, k.after);
}

static LLVMValueRef load_lanes(tc_llvm_build *b, const tc_kir_inst *inst, place at) {
  LLVMTypeRef type = tc_llvm_memory_type(b, inst->dtype);
  if (at.on != NULL) {
    branch k = open_branch(b, at.on);
    at.on = at.mask = NULL;
    LLVMValueRef v = load_lanes(b, inst, at), none = LLVMConstNull(LLVMTypeOf(v));
    close_branch(b, k);
    LLVMValueRef phi = LLVMBuildPhi(b->b, LLVMTypeOf(v), "");
    LLVMAddIncoming(phi, (LLVMValueRef[]){none, v}, (LLVMBasicBlockRef[]){k.from, k.body}, 2);
    return phi;
  }
  LLVMValueRef all = LLVMGetUndef(tc_llvm_widen_type(type, inst->lanes));
  if (is_looped(b, inst, at.mask)) return masked_loop(b, inst, NULL, at);
  for (unsigned i = 0; i < inst->lanes; i++) {
    LLVMValueRef one = LLVMBuildLoad2(b->b, type, lane_pointer(b, inst, at, &b->zero_slot, i), "");
    if (inst->lanes == 1) return one;
    all = LLVMBuildInsertElement(b->b, all, one, LLVMConstInt(b->i32, i, 0), "");
  }
  return all;
}

static LLVMValueRef store_lanes(tc_llvm_build *b, const tc_kir_inst *inst, LLVMValueRef v, place at) {
  if (at.on != NULL) {
    branch k = open_branch(b, at.on);
    at.on = at.mask = NULL;
    (void)store_lanes(b, inst, v, at);
    close_branch(b, k);
    return v;
  }
  if (is_looped(b, inst, at.mask)) return masked_loop(b, inst, v, at);
  for (unsigned i = 0; i < inst->lanes; i++)
    LLVMBuildStore(b->b, lane(b, v, inst->lanes, i), lane_pointer(b, inst, at, &b->sink_slot, i));
  return v;
}

static LLVMValueRef plain_load(tc_llvm_build *b, const tc_kir_inst *inst, place at) {
  LLVMTypeRef type = tc_llvm_widen_type(tc_llvm_memory_type(b, inst->dtype), inst->lanes);
  unsigned bytes = tc_kir_type_bytes(inst->dtype);
  if (at.mask != NULL && !can_mask(b, inst)) return load_lanes(b, inst, at);
  LLVMValueRef p = tc_llvm_cast_pointer(b->b, at.p, type);
  if (at.mask == NULL) {
    LLVMValueRef v = LLVMBuildLoad2(b->b, type, p, "");
    LLVMSetAlignment(v, bytes);
    return v;
  }
  return tc_llvm_intrinsic(b, "llvm.masked.load", (LLVMTypeRef[]){type, LLVMTypeOf(p)}, 2,
                           (LLVMValueRef[]){p, LLVMConstInt(b->i32, bytes, 0), at.mask, LLVMConstNull(type)}, 4);
}

static LLVMValueRef gather(tc_llvm_build *b, const tc_kir_inst *inst, place at) {
  LLVMTypeRef type = tc_llvm_widen_type(tc_llvm_memory_type(b, inst->dtype), inst->lanes);
  if (!tc_llvm_can_gather(b, inst)) return load_lanes(b, inst, at);
  LLVMValueRef p = element_after(b, inst, at.p, at.index), mask = at.mask != NULL ? at.mask : all_lanes(b, inst->lanes);
  return tc_llvm_intrinsic(
      b, "llvm.masked.gather", (LLVMTypeRef[]){type, LLVMTypeOf(p)}, 2,
      (LLVMValueRef[]){p, LLVMConstInt(b->i32, tc_kir_type_bytes(inst->dtype), 0), mask, LLVMConstNull(type)}, 4);
}

static LLVMValueRef plain_store(tc_llvm_build *b, const tc_kir_inst *inst, LLVMValueRef v, place at) {
  unsigned bytes = tc_kir_type_bytes(inst->dtype);
  if (at.mask != NULL && !can_mask(b, inst)) return store_lanes(b, inst, v, at);
  LLVMValueRef p = tc_llvm_cast_pointer(b->b, at.p, LLVMTypeOf(v));
  if (at.mask != NULL)
    return tc_llvm_intrinsic(b, "llvm.masked.store", (LLVMTypeRef[]){LLVMTypeOf(v), LLVMTypeOf(p)}, 2,
                             (LLVMValueRef[]){v, p, LLVMConstInt(b->i32, bytes, 0), at.mask}, 4);
  LLVMValueRef store = LLVMBuildStore(b->b, v, p);
  LLVMSetAlignment(store, bytes);
  // The schedule promises alignment to 64 bytes, or to the vector if that is less.
  if ((inst->flags & 1) != 0 && inst->lanes * bytes >= 16) {
    LLVMMetadataRef one = LLVMValueAsMetadata(LLVMConstInt(b->i32, 1, 0));
    LLVMValueRef node = LLVMMetadataAsValue(b->ctx, LLVMMDNodeInContext2(b->ctx, &one, 1));
    LLVMSetMetadata(store, LLVMGetMDKindIDInContext(b->ctx, "nontemporal", 11), node);
    LLVMSetAlignment(store, inst->lanes * bytes < 64 ? inst->lanes * bytes : 64);
    b->streams = true;
  }
  return store;
}

static LLVMValueRef scatter(tc_llvm_build *b, const tc_kir_inst *inst, LLVMValueRef v, place at) {
  if (!tc_llvm_can_gather(b, inst)) return store_lanes(b, inst, v, at);
  LLVMValueRef p = element_after(b, inst, at.p, at.index), mask = at.mask != NULL ? at.mask : all_lanes(b, inst->lanes);
  return tc_llvm_intrinsic(b, "llvm.masked.scatter", (LLVMTypeRef[]){LLVMTypeOf(v), LLVMTypeOf(p)}, 2,
                           (LLVMValueRef[]){v, p, LLVMConstInt(b->i32, tc_kir_type_bytes(inst->dtype), 0), mask}, 4);
}

static LLVMValueRef prefetch(tc_llvm_build *b, const tc_kir_inst *inst, LLVMValueRef p) {
  LLVMTypeRef type = LLVMTypeOf(p);
  LLVMValueRef writes = LLVMConstInt(b->i32, inst->flags & 1, 0),
               near = LLVMConstInt(b->i32, inst->flags & 2 ? 2 : 3, 0), data = LLVMConstInt(b->i32, 1, 0);
  return tc_llvm_intrinsic(b, "llvm.prefetch", &type, 1, (LLVMValueRef[]){p, writes, near, data}, 4);
}

LLVMValueRef tc_llvm_memory(tc_llvm_build *b, const tc_kir_inst *inst) {
  bool stores = tc_kir_is(inst, TC_KIR_STORES), by_vector = tc_kir_is(inst, TC_KIR_INDEXED), indexed;
  uint32_t mask_at = tc_kir_mask_of(inst);
  LLVMValueRef v = NULL;
  place at = {NULL};
  if ((at.p = tc_llvm_address(b, inst, &at.lane, &indexed)) == NULL ||
      (indexed && (at.index = tc_llvm_operand(b, inst, 0)) == NULL))
    return NULL;
  if (inst->op == TC_IR_PREFETCH) return prefetch(b, inst, at.p);
  if (mask_at != TC_NONE) {
    if ((at.mask = tc_llvm_operand(b, inst, tc_kir_op_of(inst)->mask)) == NULL) return NULL;
    const tc_kir_inst *mask = &b->kir->inst[mask_at];
    if (mask->op == TC_IR_SPLAT && b->kir->inst[mask->src[0]].op != TC_IR_VAR) at.on = b->val[mask->src[0]];
  }
  if (!stores) {
    v = by_vector ? gather(b, inst, at) : plain_load(b, inst, at);
    if (v == NULL || inst->dtype != TC_BOOL) return v;
    return LLVMBuildICmp(b->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
  }
  if ((v = tc_llvm_operand(b, inst, 1)) == NULL) return NULL;
  if (inst->dtype == TC_BOOL) v = LLVMBuildZExt(b->b, v, tc_llvm_widen_type(b->i8, inst->lanes), "");
  return by_vector ? scatter(b, inst, v, at) : plain_store(b, inst, v, at);
}

// ---- calls ----

LLVMValueRef tc_llvm_call(tc_llvm_build *b, const tc_kir_inst *inst) {
  unsigned n_arg = inst->src[1] != TC_NONE ? 2 : 1;
  LLVMValueRef arg[2] = {NULL, NULL};
  for (unsigned k = 0; k < n_arg; k++)
    if ((arg[k] = tc_llvm_operand(b, inst, k)) == NULL) return NULL;
  if (inst->dtype != TC_F64) return NULL;
  LLVMTypeRef in[2] = {b->f64, b->f64}, type = LLVMFunctionType(b->f64, in, n_arg, 0);
  if (b->math == NULL) {  // struct tc_worker: math is its second field
    LLVMValueRef one = LLVMConstInt(b->i64, 1, 0),
                 worker = tc_llvm_cast_pointer(b->entry, LLVMGetParam(b->fn, 5), b->ptr);
    LLVMValueRef table = LLVMBuildLoad2(b->entry, b->ptr, LLVMBuildGEP2(b->entry, b->ptr, worker, &one, 1, ""), "");
    b->math = tc_llvm_cast_pointer(b->entry, table, b->ptr);
  }
  LLVMValueRef row = LLVMConstInt(b->i64, (uint64_t)inst->imm, 0);
  LLVMValueRef f = LLVMBuildLoad2(b->b, b->ptr, LLVMBuildGEP2(b->b, b->ptr, b->math, &row, 1, ""), "");
  f = tc_llvm_cast_pointer(b->b, f, type);
  if (inst->lanes == 1) return LLVMBuildCall2(b->b, type, f, arg, n_arg, "");
  for (unsigned k = 0; k < n_arg; k++) store_to_slot(b, arg[k], stack_slot(b, &b->lane_slot[k], 64));
  lane_loop l = open_lane_loop(b);
  for (unsigned k = 0; k < n_arg; k++)
    arg[k] = LLVMBuildLoad2(b->b, b->f64, slot_at(b, b->lane_slot[k], b->f64, l.i), "");
  LLVMBuildStore(b->b, LLVMBuildCall2(b->b, type, f, arg, n_arg, ""), slot_at(b, b->lane_slot[0], b->f64, l.i));
  close_lane_loop(b, l, inst->lanes, 1);
  return load_from_slot(b, tc_llvm_widen_type(b->f64, inst->lanes), b->lane_slot[0]);
}
