// Writing and adding by index. Of several writes to one element the last in index order wins; adds
// happen in that order. The kernels are in kernels/gpu/put.k.
#include "lazy/record/record.h"
#include "lazy/trace/trace.h"
#include "lowering/program/gpu/row_build.h"

#define MOST_BOX_WORDS (4 + 3 * TC_MAX_RANK)

// The words of the index's box over the source and the result, both dense. Neighbouring axes that
// are contiguous in both are merged.
static tc_row_words box_of(const tc_gpu_row_call *c, tc_gpu_word *word) {
  const tc_dims *index = &c->in[1].d, *source = &c->in[2].d, *target = &c->out.d;
  int axis = (int)c->attr[0], rank = 0;
  uint64_t dim[TC_MAX_RANK], from[TC_MAX_RANK], to[TC_MAX_RANK], source_stride = 1, target_stride = 1, axis_stride = 0;
  for (int d = index->rank; d-- > 0;) {  // the innermost first
    uint64_t n = (uint64_t)index->dim[d], named = d == axis ? 0 : target_stride;
    if (d == axis) axis_stride = target_stride;
    bool joins = rank > 0 && source_stride == from[rank - 1] * dim[rank - 1] && named == to[rank - 1] * dim[rank - 1];
    if (joins)
      dim[rank - 1] *= n;
    else if (n != 1)
      dim[rank] = n, from[rank] = source_stride, to[rank] = named, rank++;
    source_stride *= (uint64_t)source->dim[d], target_stride *= (uint64_t)target->dim[d];
  }
  uint32_t n = 0;
  word[n++] = (tc_gpu_word)TC_ROW_OPERAND(1);
  word[n++] = (tc_gpu_word)TC_ROW_CONST(index->rank ? target->dim[axis] : 1);
  word[n++] = (tc_gpu_word)TC_ROW_CONST(axis_stride);
  word[n++] = (tc_gpu_word)TC_ROW_CONST(rank);
  for (int d = rank; d-- > 0;) {
    word[n++] = (tc_gpu_word)TC_ROW_CONST(dim[d]);
    word[n++] = (tc_gpu_word)TC_ROW_CONST(from[d]);
    word[n++] = (tc_gpu_word)TC_ROW_CONST(to[d]);
  }
  return (tc_row_words){word, n};
}

// Sorts the elements that the index names; equal ones keep the order of the index. box: words of
// the key; places: number of distinct keys.
static tc_row_sort sort_of(bool rows, tc_row_words box, uint64_t places, uint64_t n) {
  return (tc_row_sort){.name = rows ? "rows" : "places",
                       .box = rows ? NULL : tc_gpu_text_put_box,
                       .key = rows ? tc_gpu_text_key_row : tc_gpu_text_key_target,
                       .words = box,
                       .key_bits = places < UINT32_MAX && n <= UINT32_MAX ? 32 : 64,
                       .segments = 1,
                       .n = n,
                       .k = n,
                       .inner = 1};
}

// Few writes: the last one to each element overwrites the old value.
static void put_sorted(tc_row_builder *b, tc_row_words box, uint64_t n) {
  const tc_gpu_row_call *c = b->call;
  tc_row_sort s = sort_of(false, box, b->count, n);
  int bits = (int)tc_type_bytes(c->out.type) * 8;
  char define[48];
  snprintf(define, sizeof define, "#define BITS %d\n#define KEY_BITS %d\n", bits, s.key_bits);
  tc_row_text text = {.define = define,
                      .last = box,
                      .piece = {tc_gpu_text_bits, tc_gpu_text_index, tc_gpu_text_sort_entry, tc_gpu_text_put_box,
                                tc_gpu_text_put_sorted}};
  snprintf(text.name, sizeof text.name, "tc_b%d_put%d", bits, s.key_bits);
  tc_row_keep(b);
  const tc_gpu_word sorted = TC_ROW_SCRATCH(tc_row_sort_launch(b, &s));
  tc_row_launch_items(b, &text, n, TC_ROW_WORDS(TC_ROW_RESULT, TC_ROW_OPERAND(2), sorted, TC_ROW_CONST(n)));
}

// Many writes: every element finds the write that owns it.
static void put_owned(tc_row_builder *b, tc_row_words box, uint64_t n) {
  const tc_gpu_row_call *c = b->call;
  uint64_t count = b->count;
  int bits = (int)tc_type_bytes(c->out.type) * 8;
  char define[32];
  snprintf(define, sizeof define, "#define BITS %d\n", bits);
  const tc_gpu_word owner = TC_ROW_SCRATCH(tc_row_scratch(b, count * 8)), result = TC_ROW_RESULT,
                    old = TC_ROW_OPERAND(0);
  const tc_row_text owners = {
      .name = "tc_row_owner", .last = box, .piece = {tc_gpu_text_index, tc_gpu_text_put_box, tc_gpu_text_put_owner}};
  tc_row_text pick = {.define = define,
                      .last = box,
                      .piece = {tc_gpu_text_bits, tc_gpu_text_index, tc_gpu_text_put_box, tc_gpu_text_put_pick}};
  snprintf(pick.name, sizeof pick.name, "tc_b%d_pick", bits);
  if (c->filled) tc_row_keep(b);
  tc_row_fill(b, TC_I64, count, owner, (tc_gpu_word)TC_ROW_CONST(UINT64_MAX));
  tc_row_launch_items(b, &owners, n, TC_ROW_WORDS(owner, TC_ROW_CONST(n)));
  tc_row_launch_items(b, &pick, count,
                      TC_ROW_WORDS(result, c->filled ? result : old, TC_ROW_OPERAND(2), owner, TC_ROW_CONST(count)));
}

// Bytes moved per index by sorting, over bytes moved per element by its owner: an estimate, not
// measured.
#define SORTING_COSTS 8

void tc_row_scatter(tc_row_builder *b) {
  const tc_gpu_row_call *c = b->call;
  uint64_t n = tc_row_count(&c->in[1].d);
  tc_gpu_word word[MOST_BOX_WORDS];
  if (n == 0)
    tc_row_keep(b);
  else
    (n * SORTING_COSTS < b->count ? put_sorted : put_owned)(b, box_of(c, word), n);
}

void tc_row_add(tc_row_builder *b) {
  const tc_gpu_row_call *c = b->call;
  bool rows = c->op == TC_OP_INDEX_ADD;
  uint64_t n = tc_row_count(&c->in[1].d);
  tc_row_lanes l = rows ? tc_row_lanes_of(&c->out.d, c->attr[0]) : (tc_row_lanes){1, b->count, 1};
  tc_row_keep(b);
  if (n == 0) return;
  tc_gpu_word word[MOST_BOX_WORDS];
  tc_row_words box = rows ? TC_ROW_WORDS(TC_ROW_OPERAND(1), TC_ROW_CONST(l.n)) : box_of(c, word);
  tc_row_sort s = sort_of(rows, box, l.n, n);
  const tc_gpu_word sorted = TC_ROW_SCRATCH(tc_row_sort_launch(b, &s));
  char define[64];
  snprintf(define, sizeof define, "#define KEY_BITS %d\n%s", s.key_bits, rows ? "#define ADD_ROWS 1\n" : "");
  tc_row_text text = {.type = tc_type_name(c->out.type),
                      .define = define,
                      .piece = {tc_gpu_text_element, tc_gpu_text_index, tc_gpu_text_sort_entry}};
  snprintf(text.name, sizeof text.name, "tc_%s_%s%d", text.type, tc_op_names[c->op], s.key_bits);
  size_t pieces = 3;
  if (!rows) text.piece[pieces++] = tc_gpu_text_put_box, text.last = box;
  text.piece[pieces++] = tc_gpu_text_add_op, text.piece[pieces] = tc_gpu_text_add_sorted;
  uint64_t items = l.outer * n * l.inner;
  tc_row_launch_items(b, &text, items,
                      TC_ROW_WORDS(TC_ROW_RESULT, TC_ROW_OPERAND(2), sorted, TC_ROW_CONST(n), TC_ROW_CONST(l.inner),
                                   TC_ROW_CONST(l.n), TC_ROW_CONST(items)));
}
