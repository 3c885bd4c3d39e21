// See graph_text.h.
#include "tools/prof/graph_text.h"

#include <stdlib.h>
#include <string.h>

const char *const tc_difference_names[] = {
    [TC_SAME] = "same",
    [TC_DIFFERENT_OP] = "op",
    [TC_DIFFERENT_TYPE] = "type",
    [TC_DIFFERENT_RANK] = "rank",
    [TC_DIFFERENT_EXTENT] = "extent",
    [TC_DIFFERENT_OPERAND] = "operand",
    [TC_DIFFERENT_WORD] = "attribute",
    [TC_LONGER] = "longer",
    [TC_SHORTER] = "shorter",
};

// ---- Words of a line ----

// The word that begins at or behind *at; n 0: there is none.
static tc_span next_word(tc_span line, int *at) {
  while (*at < line.n && line.at[*at] == ' ') ++*at;
  tc_span out = {line.at + *at, 0};
  while (*at < line.n && line.at[*at] != ' ') {
    ++*at;
    out.n++;
  }
  return out;
}

static bool is_word(tc_span a, const char *text) {
  return (size_t)a.n == strlen(text) && memcmp(a.at, text, (size_t)a.n) == 0;
}

static bool same_span(tc_span a, tc_span b) {
  return a.n == b.n && (a.n == 0 || memcmp(a.at, b.at, (size_t)a.n) == 0);
}

static bool parse_number(tc_span word, uint32_t *out) {
  uint64_t n = 0;
  if (word.n < 2 || word.n > 11 || word.at[0] != '%') return false;
  for (int i = 1; i < word.n; i++) {
    if (word.at[i] < '0' || word.at[i] > '9') return false;
    n = 10 * n + (uint64_t)(word.at[i] - '0');
  }
  if (n > UINT32_MAX) return false;
  *out = (uint32_t)n;
  return true;
}

// "f32[64,10]"
static void parse_type(tc_node_text *node) {
  const char *open = memchr(node->type.at, '[', (size_t)node->type.n);
  node->element = node->type;
  if (!open) return;
  node->element.n = (int)(open - node->type.at);
  for (int i = node->element.n + 1; i < node->type.n && node->n_dims < TC_MOST_DIMS;) {
    int64_t extent = 0;
    if (node->type.at[i] < '0' || node->type.at[i] > '9') return;
    for (; i < node->type.n && node->type.at[i] >= '0' && node->type.at[i] <= '9'; i++)
      extent = extent < INT64_MAX / 16 ? 10 * extent + (node->type.at[i] - '0') : extent;
    node->dim[node->n_dims++] = extent;
    i++;
  }
}

// ---- A text ----

static bool parse_line(tc_span line, tc_node_text *out) {
  int at = 0;
  *out = (tc_node_text){.line = line};
  if (line.n && line.at[0] != '%') return false;
  tc_span word = next_word(line, &at);
  if (!parse_number(word, &out->number) || !is_word(next_word(line, &at), "=")) return false;
  out->op = next_word(line, &at);
  out->type = next_word(line, &at);
  if (!out->op.n || !out->type.n) return false;
  parse_type(out);
  tc_span rest = {line.at + at, line.n - at};
  for (int i = 0; i + 2 < rest.n && !out->site.at; i++) {
    if (memcmp(rest.at + i, " @ ", 3) != 0) continue;
    out->site = (tc_span){rest.at + i + 3, rest.n - i - 3};
    rest.n = i;
  }
  at = 0;
  for (uint32_t number; (word = next_word(rest, &at)).n;) {
    if (is_word(word, "in") || (word.n > 3 && memcmp(word.at, "tc:", 3) == 0)) continue;
    if (parse_number(word, &number)) {
      if (!out->operands.at) out->operands.at = word.at;
      out->operands.n = (int)(word.at + word.n - out->operands.at);
    } else {
      out->words = (tc_span){word.at, (int)(rest.at + rest.n - word.at)};
      break;
    }
  }
  return true;
}

bool tc_graph_text_parse(const char *text, tc_graph_text *out) {
  size_t most = 1;
  *out = (tc_graph_text){0};
  for (const char *c = text; *c; c++) most += *c == '\n';
  out->node = malloc((most + 1) * sizeof *out->node);
  if (!out->node) return false;
  while (*text) {
    tc_span line = {text, (int)strcspn(text, "\n")};
    out->cut = is_word(line, "...") || (out->cut && line.n == 0);
    if (parse_line(line, &out->node[out->n])) out->n++;
    text += line.n;
    text += *text == '\n';
  }
  return true;
}

void tc_graph_text_free(tc_graph_text *g) {
  free(g->node);
  *g = (tc_graph_text){0};
}

bool tc_operand_next(const tc_node_text *node, int *at, uint32_t *out_number) {
  for (tc_span word; (word = next_word(node->operands, at)).n;)
    if (parse_number(word, out_number)) return true;
  return false;
}

// ---- Comparing ----

// The next word of attributes and flags; the values behind "arg" are left out.
static tc_span next_attribute(tc_span words, int *at) {
  tc_span word = next_word(words, at);
  if (!is_word(word, "arg")) return word;
  do word = next_word(words, at);
  while (word.n && strchr("0123456789-.?+", word.at[0]));
  return word;
}

static bool words_differ(const tc_node_text *old, const tc_node_text *now, tc_span *old_word, tc_span *new_word) {
  int i = 0, k = 0;
  do {
    *old_word = next_attribute(old->words, &i);
    *new_word = next_attribute(now->words, &k);
    if (!same_span(*old_word, *new_word)) return true;
  } while (old_word->n && new_word->n);
  return false;
}

static int find_dim(const tc_node_text *old, const tc_node_text *now) {
  for (int i = 0; i < now->n_dims; i++)
    if (old->dim[i] != now->dim[i]) return i;
  return -1;
}

// How one node differs from another.
static tc_difference compare_nodes(const tc_node_text *old, const tc_node_text *now) {
  tc_difference d = {.old = old, .now = now};
  if (!same_span(old->op, now->op)) {
    d.kind = TC_DIFFERENT_OP;
    d.old_word = old->op;
    d.new_word = now->op;
  } else if (!same_span(old->element, now->element) || old->n_dims != now->n_dims) {
    d.kind = same_span(old->element, now->element) ? TC_DIFFERENT_RANK : TC_DIFFERENT_TYPE;
    d.old_word = old->type;
    d.new_word = now->type;
  } else if (!same_span(old->operands, now->operands)) {
    d.kind = TC_DIFFERENT_OPERAND;
    d.old_word = old->operands;
    d.new_word = now->operands;
  } else if ((d.dim = find_dim(old, now)) >= 0) {
    d.kind = TC_DIFFERENT_EXTENT;
    d.old_word = old->type;
    d.new_word = now->type;
  } else if (words_differ(old, now, &d.old_word, &d.new_word)) {
    d.kind = TC_DIFFERENT_WORD;
  } else {
    d = (tc_difference){.dim = 0};
  }
  return d;
}

// Whether a value of an attribute may follow from an extent: both are numbers.
static bool is_count(tc_span word) {
  return word.n > 0 && word.at[0] >= '0' && word.at[0] <= '9';
}

// What differs beyond the first difference: whether it is extents alone.
static void judge_extents(const tc_graph_text *old, const tc_graph_text *now, tc_difference *out) {
  bool same_dim = true;
  int n_leaves = 0;
  out->only_extents = old->n == now->n;
  for (size_t i = 0; i < now->n && out->only_extents; i++) {
    tc_difference d = compare_nodes(&old->node[i], &now->node[i]);
    bool follows = d.kind == TC_DIFFERENT_WORD && is_count(d.old_word) && is_count(d.new_word);
    if (d.kind != TC_SAME && d.kind != TC_DIFFERENT_EXTENT && !follows) out->only_extents = false;
    if (d.kind != TC_DIFFERENT_EXTENT || now->node[i].operands.n) continue;
    if (!out->leaf) {
      out->leaf = &now->node[i];
      out->leaf_dim = d.dim;
    }
    same_dim = same_dim && d.dim == out->leaf_dim;
    for (int k = d.dim + 1; k < now->node[i].n_dims; k++)
      same_dim = same_dim && old->node[i].dim[k] == now->node[i].dim[k];
    n_leaves++;
  }
  if (!out->leaf) out->only_extents = false;
  out->n_leaves = same_dim ? n_leaves : 0;
}

tc_difference tc_graph_compare(const tc_graph_text *old, const tc_graph_text *now) {
  size_t n = old->n < now->n ? old->n : now->n;
  tc_difference d = {0};
  for (size_t i = 0; i < n && d.kind == TC_SAME; i++) d = compare_nodes(&old->node[i], &now->node[i]);
  if (d.kind == TC_SAME && old->n != now->n && !old->cut && !now->cut)
    d = (tc_difference){.kind = old->n < now->n ? TC_LONGER : TC_SHORTER,
                        .old = old->n > n ? &old->node[n] : NULL,
                        .now = now->n > n ? &now->node[n] : NULL};
  if (d.kind == TC_DIFFERENT_EXTENT) judge_extents(old, now, &d);
  return d;
}
