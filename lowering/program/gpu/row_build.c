// Builds a row's launches. See row_build.h.
#include "lowering/program/gpu/row_build.h"

#include <string.h>

#include "lazy/record/record.h"
#include "lazy/trace/trace.h"

// Appends to a text; at NULL it only counts the length.
static size_t append_text(char *at, size_t length, const char *text) {
  size_t n = strlen(text);
  if (at) memcpy(at + length, text, n + 1);
  return length + n;
}

// The kernel's head is the one place of its text that says TC_KERNEL(NAME.
static size_t append_kernel(char *at, size_t length, const char *text, const char *name) {
  static const char head[] = "TC_KERNEL(NAME";
  const char *found = strstr(text, head);
  if (!found) return append_text(at, length, text);
  size_t before = (size_t)(found - text) + sizeof "TC_KERNEL(" - 1;
  if (at) memcpy(at + length, text, before);
  length = append_text(at, length + before, name);
  return append_text(at, length, found + sizeof head - 1);
}

static size_t join_pieces(char *at, const tc_row_text *t) {
  size_t n = append_text(at, 0, "#include \"tc_words.h\"\n");
  if (t->type) n = append_text(at, append_text(at, append_text(at, n, "#define ELEM_"), t->type), " 1\n");
  if (t->define) n = append_text(at, n, t->define);
  for (size_t i = 0; i < sizeof t->piece / sizeof *t->piece && t->piece[i]; i++)
    n = append_kernel(at, n, t->piece[i], t->name);
  return n;
}

#define MOST_LAUNCHES 64  // of a row: a sort of 2^63 entries merges 54 times

void tc_row_launch(tc_row_builder *b, const tc_row_text *text, uint64_t blocks, tc_row_words words) {
  if (b->status != TC_OK || blocks == 0) return;
  if (blocks > INT32_MAX) {
    b->status = TC_FAIL(TC_ERR_SHAPE, "a kernel of %llu blocks, of which a device runs at most %d",
                        (unsigned long long)blocks, INT32_MAX);
    return;
  }
  size_t name_bytes = strlen(text->name) + 1, bytes = join_pieces(NULL, text) + 1;
  char *name = tc_arena_alloc(b->arena, name_bytes + bytes), *source = name + name_bytes;
  uint32_t n_word = 1 + words.n + text->last.n;
  tc_gpu_word *word = name ? tc_arena_alloc(b->arena, n_word * sizeof *word) : NULL;
  if (!b->row->launch) b->row->launch = tc_arena_alloc(b->arena, MOST_LAUNCHES * sizeof *b->row->launch);
  if (!word || !b->row->launch || b->row->n_launch == MOST_LAUNCHES) {
    b->status = TC_FAIL(TC_ERR_MEMORY, "no room for the launches of a row");
    return;
  }
  memcpy(name, text->name, name_bytes);
  (void)join_pieces(source, text);
  word[0] = (tc_gpu_word){TC_ROW_WORD_FAULT, 0};
  memcpy(word + 1, words.word, words.n * sizeof *word);
  if (text->last.n) memcpy(word + 1 + words.n, text->last.word, text->last.n * sizeof *word);
  b->row->launch[b->row->n_launch++] =
      (tc_gpu_row_launch){name, source, (uint32_t)blocks, TC_ROW_THREADS, text->shared_bytes, word, n_word};
}

void tc_row_launch_items(tc_row_builder *b, const tc_row_text *text, uint64_t items, tc_row_words words) {
  tc_row_launch(b, text, tc_row_ceil_div(items, TC_ROW_THREADS), words);
}

uint64_t tc_row_scratch(tc_row_builder *b, uint64_t bytes) {
  uint64_t at = b->row->scratch_bytes;
  b->row->scratch_bytes = at + ((bytes + 15) & ~(uint64_t)15);
  return at;
}

// Threads of a kernel that moves 16 bytes each, and up to 15 bytes at both ends.
static uint64_t wide_items(uint64_t bytes) {
  return bytes == 0 ? 0 : TC_MAX_OF(bytes / 16, (uint64_t)16);
}

void tc_row_fill(tc_row_builder *b, tc_type type, uint64_t count, tc_gpu_word to, tc_gpu_word value) {
  tc_row_text text = {.type = tc_type_name(type), .piece = {tc_gpu_text_element, tc_gpu_text_index, tc_gpu_text_fill}};
  snprintf(text.name, sizeof text.name, "tc_%s_fill", text.type);
  tc_row_launch_items(b, &text, wide_items(count * tc_type_bytes(type)), TC_ROW_WORDS(to, TC_ROW_CONST(count), value));
}

void tc_row_keep(tc_row_builder *b) {
  const tc_gpu_row_call *c = b->call;
  uint64_t bytes = b->count * tc_type_bytes(c->out.type);
  const tc_row_text text = {.name = "tc_row_copy", .piece = {tc_gpu_text_index, tc_gpu_text_copy}};
  if (c->filled)
    tc_row_fill(b, c->out.type, b->count, (tc_gpu_word)TC_ROW_RESULT, (tc_gpu_word)TC_ROW_ARG(c->n_arg));
  else if (!c->in_place)
    tc_row_launch_items(b, &text, wide_items(bytes),
                        TC_ROW_WORDS(TC_ROW_RESULT, TC_ROW_OPERAND(0), TC_ROW_CONST(bytes)));
}

uint64_t tc_row_count(const tc_dims *d) {
  uint64_t n = 1;
  for (int i = 0; i < d->rank; i++) n *= (uint64_t)d->dim[i];
  return n;
}

tc_row_lanes tc_row_lanes_of(const tc_dims *d, uint64_t axis) {
  tc_row_lanes l = {1, 1, 1};
  for (uint64_t i = 0; i < (uint64_t)d->rank; i++)
    *(i < axis ? &l.outer : i == axis ? &l.n : &l.inner) *= (uint64_t)d->dim[i];
  return l;
}
