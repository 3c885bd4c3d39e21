// Lowers rows of the op table to launches. See rows.h.
#include "lowering/program/gpu/rows.h"

#include <string.h>

#include "lazy/record/record.h"
#include "lazy/trace/trace.h"
#include "lowering/program/gpu/row_build.h"

// A kernel for elements of one type (typed), or of one size (sized). define: buffer for its
// #define.
static tc_row_text typed(const tc_gpu_row_call *c, tc_type type, const char *piece) {
  tc_row_text t = {.type = tc_type_name(type), .piece = {tc_gpu_text_element, tc_gpu_text_index, piece}};
  snprintf(t.name, sizeof t.name, "tc_%s_%s", t.type, tc_op_names[c->op]);
  return t;
}

static tc_row_text sized(const tc_gpu_row_call *c, const char *piece, char *define, size_t size) {
  int bits = (int)tc_type_bytes(c->out.type) * 8;
  tc_row_text t = {.define = define, .piece = {tc_gpu_text_bits, tc_gpu_text_index, piece}};
  snprintf(define, size, "#define BITS %d\n", bits);
  snprintf(t.name, sizeof t.name, "tc_b%d_%s", bits, tc_op_names[c->op]);
  return t;
}

static void cat(tc_row_builder *b) {
  const tc_gpu_row_call *c = b->call;
  uint64_t begin = 0, n = (uint64_t)c->n_in;
  tc_row_lanes l = tc_row_lanes_of(&c->out.d, c->attr[0]);
  tc_gpu_word *word = tc_arena_alloc(b->arena, 2 * n * sizeof *word);
  if (!word) {
    b->status = TC_FAIL(TC_ERR_MEMORY, "no room for the words of %d operands", c->n_in);
    return;
  }
  for (uint64_t i = 0; i < n; i++) {
    word[i] = (tc_gpu_word)TC_ROW_CONST(begin), word[n + i] = (tc_gpu_word)TC_ROW_OPERAND(i);
    begin += (uint64_t)c->in[i].d.dim[c->attr[0]] * l.inner;
  }
  char define[32];
  tc_row_text text = sized(c, tc_gpu_text_cat, define, sizeof define);
  text.last = (tc_row_words){word, (uint32_t)(2 * n)};
  tc_row_launch_items(b, &text, b->count,
                      TC_ROW_WORDS(TC_ROW_RESULT, TC_ROW_CONST(b->count), TC_ROW_CONST(begin), TC_ROW_CONST(n)));
}

static void write_slice(tc_row_builder *b) {
  const tc_gpu_row_call *c = b->call;
  const tc_dims *value = &c->in[1].d;
  uint64_t items = tc_row_count(value), stride = 1;
  tc_gpu_word word[4 * TC_MAX_RANK];
  for (int d = value->rank; d-- > 0; stride *= (uint64_t)c->out.d.dim[d]) {
    word[4 * d] = (tc_gpu_word)TC_ROW_CONST(value->dim[d]);
    word[4 * d + 1] = (tc_gpu_word)TC_ROW_ARG(d);
    word[4 * d + 2] = (tc_gpu_word)TC_ROW_CONST(c->attr[d]);
    word[4 * d + 3] = (tc_gpu_word)TC_ROW_CONST(stride);
  }
  char define[32];
  tc_row_text text = sized(c, tc_gpu_text_write_slice, define, sizeof define);
  text.last = (tc_row_words){word, (uint32_t)(4 * value->rank)};
  tc_row_keep(b);
  tc_row_launch_items(b, &text, items,
                      TC_ROW_WORDS(TC_ROW_RESULT, TC_ROW_OPERAND(1), TC_ROW_CONST(items), TC_ROW_CONST(value->rank)));
}

static void unwindow(tc_row_builder *b) {
  const tc_gpu_row_call *c = b->call;
  tc_row_lanes l = tc_row_lanes_of(&c->out.d, c->attr[0]);
  const tc_row_text text = typed(c, c->out.type, tc_gpu_text_unwindow);
  tc_row_launch_items(
      b, &text, b->count,
      TC_ROW_WORDS(TC_ROW_RESULT, TC_ROW_OPERAND(0), TC_ROW_CONST(b->count), TC_ROW_CONST(c->in[0].d.dim[c->attr[0]]),
                   TC_ROW_CONST(c->attr[1]), TC_ROW_CONST(c->attr[2]), TC_ROW_CONST(c->attr[3]), TC_ROW_CONST(l.n),
                   TC_ROW_CONST(l.inner)));
}

static void searchsorted(tc_row_builder *b) {
  const tc_gpu_row_call *c = b->call;
  const tc_dims *sorted = &c->in[0].d, *values = &c->in[1].d;
  uint64_t each = sorted->rank == 1 ? b->count : (uint64_t)values->dim[values->rank - 1];  // values per sorted sequence
  const tc_row_text text = typed(c, c->in[0].type, tc_gpu_text_searchsorted);
  tc_row_launch_items(
      b, &text, b->count,
      TC_ROW_WORDS(TC_ROW_RESULT, TC_ROW_OPERAND(0), TC_ROW_OPERAND(1), TC_ROW_CONST(b->count),
                   TC_ROW_CONST(sorted->dim[sorted->rank - 1]), TC_ROW_CONST(each), TC_ROW_CONST(c->attr[0])));
}

// Fills a result that reads no elements: sums are 0, products 1, padding its value.
static void made_of_nothing(tc_row_builder *b) {
  const tc_gpu_row_call *c = b->call;
  uint64_t one = 1;
  double unit = 1;
  if (tc_type_is_float(c->out.type)) memcpy(&one, &unit, sizeof one);
  bool ones = c->op == TC_OP_PROD || c->op == TC_OP_ALL;
  const tc_gpu_word padding = TC_ROW_ARG(0), constant = TC_ROW_CONST(ones ? one : 0);
  tc_row_fill(b, c->out.type, b->count, (tc_gpu_word)TC_ROW_RESULT, c->op == TC_OP_PAD ? padding : constant);
}

static bool reads_nothing(const tc_gpu_row_call *c) {
  bool empty = false;
  for (int i = 0; i < c->n_in; i++) empty |= tc_row_count(&c->in[i].d) == 0;
  return empty;
}

static void make_row(tc_row_builder *b) {
  switch (b->call->op) {
    case TC_OP_RANDPERM: tc_row_randperm(b); return;
    case TC_OP_CAT: cat(b); return;
    case TC_OP_WRITE_SLICE: write_slice(b); return;
    case TC_OP_CUMSUM:
    case TC_OP_CUMPROD:
    case TC_OP_CUMMAX:
    case TC_OP_CUMMIN:
    case TC_OP_LOGCUMSUMEXP: tc_row_scan(b); return;
    case TC_OP_ARGSORT:
    case TC_OP_ARGTOPK: tc_row_order(b); return;
    case TC_OP_SEARCHSORTED: searchsorted(b); return;
    case TC_OP_UNWINDOW: unwindow(b); return;
    case TC_OP_SCATTER: tc_row_scatter(b); return;
    case TC_OP_SCATTER_ADD:
    case TC_OP_INDEX_ADD: tc_row_add(b); return;
    case TC_OP_SUM:
    case TC_OP_PROD:
    case TC_OP_ANY:
    case TC_OP_ALL:
    case TC_OP_PAD:
    case TC_OP_MATMUL:
    case TC_OP_CONV:
    case TC_OP_CONV_INPUT:
    case TC_OP_CONV_WEIGHT:
    case TC_OP_GATHER:
    case TC_OP_INDEX_SELECT:
      if (reads_nothing(b->call)) {
        made_of_nothing(b);
        return;
      }
      break;
    default: break;
  }
  b->status = tc_fail(TC_ERR_ARG, tc_op_names[b->call->op], 0, "no kernel for a GPU makes this row alone");
}

tc_status tc_gpu_row_make(const tc_gpu_row_call *call, tc_arena *arena, tc_gpu_row *out) {
  *out = (tc_gpu_row){.n_launch = 0};
  tc_row_builder b = {.arena = arena, .call = call, .row = out, .count = tc_row_count(&call->out.d)};
  if (b.count > 0) make_row(&b);
  return b.status;
}

tc_status tc_gpu_row_check(uint64_t count, uint64_t extent, uint64_t base, tc_arena *arena, tc_gpu_row *out) {
  *out = (tc_gpu_row){.n_launch = 0};
  tc_row_builder b = {.arena = arena, .row = out};
  const tc_row_text text = {.name = "tc_row_check", .piece = {tc_gpu_text_index, tc_gpu_text_check}};
  tc_row_launch_items(&b, &text, count,
                      TC_ROW_WORDS(TC_ROW_OPERAND(0), TC_ROW_CONST(count), TC_ROW_CONST(extent), TC_ROW_CONST(base)));
  return b.status;
}
