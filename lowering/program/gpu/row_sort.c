// Sorts segments: tiles are sorted, then merged in pairs until a segment is one run. The kernels
// are in kernels/gpu/sort.k.
#include "lazy/record/record.h"
#include "lowering/program/gpu/row_build.h"

#define TILE 1024

// The kernel's definitions. The last pass returns positions if they are the result.
static const char *define_of(const tc_row_sort *s, bool last, char *define, size_t size) {
  snprintf(define, size, "#define KEY_BITS %d\n%s", s->key_bits, last && s->to_result ? "#define SORT_RESULT 1\n" : "");
  return define;
}

static tc_row_text tiles_of(const tc_row_sort *s, bool last, const char *define) {
  tc_row_text t = {
      .type = s->type, .define = define, .last = s->words, .piece = {tc_gpu_text_index, tc_gpu_text_sort_entry}};
  size_t n = 2;
  if (s->type) t.piece[n++] = tc_gpu_text_element;
  if (s->box) t.piece[n++] = s->box;
  t.piece[n++] = s->key;
  t.piece[n] = tc_gpu_text_sort_tiles;
  t.shared_bytes = TILE * (s->key_bits == 32 ? 8 : 16);
  snprintf(t.name, sizeof t.name, "tc_%s_%s%d", s->name, last ? "sort" : "tiles", s->key_bits);
  return t;
}

static tc_row_text merge_of(const tc_row_sort *s, bool last, const char *define) {
  tc_row_text t = {.define = define, .piece = {tc_gpu_text_index, tc_gpu_text_sort_entry, tc_gpu_text_sort_merge}};
  t.shared_bytes = TILE * (s->key_bits == 32 ? 8 : 16) + 16;
  snprintf(t.name, sizeof t.name, "tc_row_merge%d%s", s->key_bits, last && s->to_result ? "_last" : "");
  return t;
}

uint64_t tc_row_sort_launch(tc_row_builder *b, const tc_row_sort *s) {
  uint64_t span = 2, bytes[2] = {0, 0}, entry_bytes = s->key_bits == 32 ? 8 : 16;
  while (span < s->n && span < TILE) span *= 2;
  uint64_t runs = tc_row_ceil_div(s->n, span);
  for (uint64_t r = runs, width = span, turn = 0;; r = (r + 1) / 2, width *= 2, turn ^= 1) {
    if (r > 1 || !s->to_result)
      bytes[turn] = TC_MAX_OF(bytes[turn], s->segments * r * TC_MIN(s->k, width) * entry_bytes);
    if (r == 1) break;
  }
  uint64_t from = tc_row_scratch(b, bytes[0]), to = tc_row_scratch(b, bytes[1]);
  char define[64];
  bool last = runs == 1;
  tc_row_text text = tiles_of(s, last, define_of(s, last, define, sizeof define));
  const tc_gpu_word result = TC_ROW_RESULT;
  tc_gpu_word into = last && s->to_result ? result : (tc_gpu_word)TC_ROW_SCRATCH(from);
  tc_row_launch(b, &text, tc_row_ceil_div(s->segments * runs, TILE / span),
                TC_ROW_WORDS(into, TC_ROW_CONST(s->n), TC_ROW_CONST(s->inner), TC_ROW_CONST(s->k), TC_ROW_CONST(span),
                             TC_ROW_CONST(runs), TC_ROW_CONST(s->segments)));
  for (uint64_t width = span; runs > 1; runs = (runs + 1) / 2, width *= 2) {
    uint64_t tiles = tc_row_ceil_div(TC_MIN(s->k, 2 * width), TILE), was = from;
    last = runs == 2;
    text = merge_of(s, last, define_of(s, last, define, sizeof define));
    into = last && s->to_result ? result : (tc_gpu_word)TC_ROW_SCRATCH(to);
    tc_row_launch(b, &text, s->segments * ((runs + 1) / 2) * tiles,
                  TC_ROW_WORDS(TC_ROW_SCRATCH(from), into, TC_ROW_CONST(s->n), TC_ROW_CONST(s->inner),
                               TC_ROW_CONST(s->k), TC_ROW_CONST(width), TC_ROW_CONST(runs), TC_ROW_CONST(tiles)));
    from = to, to = was;
  }
  return from;
}

void tc_row_order(tc_row_builder *b) {
  const tc_gpu_row_call *c = b->call;
  tc_type type = c->in[0].type;
  tc_row_lanes l = tc_row_lanes_of(&c->in[0].d, c->attr[0]), to = tc_row_lanes_of(&c->out.d, c->attr[0]);
  int bits = type == TC_F64 || type == TC_I64 ? 64 : 32;
  uint64_t flip = !c->attr[1] ? 0 : bits == 64 ? UINT64_MAX : UINT32_MAX;
  tc_row_sort s = {
      .name = tc_type_name(type),
      .type = tc_type_name(type),
      .key = tc_gpu_text_key_value,
      .words = TC_ROW_WORDS(TC_ROW_OPERAND(0), TC_ROW_CONST(l.n), TC_ROW_CONST(l.inner), TC_ROW_CONST(flip)),
      .key_bits = bits,
      .segments = l.outer * l.inner,
      .n = l.n,
      .k = to.n,
      .inner = l.inner,
      .to_result = true};
  (void)tc_row_sort_launch(b, &s);
}

void tc_row_randperm(tc_row_builder *b) {
  uint64_t n = b->count;
  tc_row_sort s = {.name = "draw",
                   .key = tc_gpu_text_key_draw,
                   .words = TC_ROW_WORDS(TC_ROW_ARG(0), TC_ROW_ARG(1)),
                   .key_bits = 64,
                   .segments = 1,
                   .n = n,
                   .k = n,
                   .inner = 1,
                   .to_result = true};
  (void)tc_row_sort_launch(b, &s);
}
