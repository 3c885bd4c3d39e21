// Graphs as text. See graph.h.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lazy/text/text.h"
#include "lowering/graph/graph.h"
#include "lowering/graph/permute.h"
#include "runtime/log.h"

// ---- a node's line ----

static void print_list(FILE *out, const char *name, const uint64_t *word, int n) {
  for (int i = 0; i < n; i++) fprintf(out, "%s%" PRId64, i ? "," : name, (int64_t)word[i]);
}

static void print_axes(FILE *out, uint64_t mask) {
  const char *before = " axes ";
  for (int i = 0; i < TC_MAX_RANK; i++)
    if (mask >> i & 1) fprintf(out, "%s%d", before, i), before = ",";
}

static bool are_ones(const uint64_t *word, int n) {
  while (n > 0 && word[n - 1] == 1) n--;
  return n == 0;
}

static void print_words(FILE *out, const uint64_t *word, int n) {
  for (int i = 0; i < n; i++)
    fprintf(out, word[i] < 100000 ? "%s%" PRIu64 : "%s0x%" PRIx64, i ? " " : " attr ", word[i]);
}

static void print_move_attributes(FILE *out, const tc_gnode *x) {
  int rank = x->shape->d.rank;
  switch (x->op) {
    case TC_OP_PERMUTE:
      for (int i = 0; i < rank; i++) fprintf(out, "%s%d", i ? "," : " axes ", tc_permute_axis(x->attr[0], i));
      break;
    case TC_OP_FLIP: print_axes(out, x->attr[0]); break;
    case TC_OP_SLICE:
    case TC_OP_WRITE_SLICE:
      if (!are_ones(x->attr, TC_MIN(rank, x->n_attr))) print_list(out, " step ", x->attr, TC_MIN(rank, x->n_attr));
      print_list(out, " start ", x->attr + rank, x->n_attr - rank);
      break;
    case TC_OP_PAD: print_list(out, " low ", x->attr, rank), print_list(out, " high ", x->attr + rank, rank); break;
    case TC_OP_CAT:
    case TC_OP_ROLL: print_list(out, " axis ", x->attr, 1); break;
    case TC_OP_WINDOW:
      print_list(out, " axis ", x->attr, 1), print_list(out, " size ", x->attr + 1, 1);
      print_list(out, " step ", x->attr + 2, 1), print_list(out, " dilation ", x->attr + 3, 1);
      break;
    default: break;
  }
}

static void print_attributes(FILE *out, const tc_gnode *x) {
  switch (tc_op_kind_of(x->op)) {
    case TC_KIND_MOVE: print_move_attributes(out, x); break;
    case TC_KIND_FOLD:
      print_axes(out, x->attr[0] & 255);
      fprintf(out, "%s%s", x->attr[0] & 256 ? " keepdim" : "", x->attr[0] & TC_MAX_OVER_NAN ? " over_nan" : "");
      break;
    case TC_KIND_SCAN:
    case TC_KIND_INDEX:
    case TC_KIND_COMPOSED:
      print_list(out, " axis ", x->attr, TC_MIN(x->n_attr, 1)), print_words(out, x->attr + 1, x->n_attr - 1);
      break;
    case TC_KIND_ELEM:
      if (x->op == TC_OP_EXP && x->n_attr && x->attr[0] == TC_EXP_OF_NEGATIVE) fprintf(out, " of_negative");
      if (x->op == TC_OP_POLYGAMMA) print_list(out, " order ", x->attr, 1);
      break;
    default:
      if (x->op != TC_OP_MATMUL) print_words(out, x->attr, x->n_attr);
  }
}

static void print_node(const tc_graph *g, uint32_t n, FILE *out) {
  const tc_gnode *x = &g->node[n];
  fprintf(out, "%%%u = %s %s[", n, tc_op_names[x->op], tc_type_name(x->type));
  for (int i = 0; i < x->shape->d.rank; i++) fprintf(out, i ? ",%lld" : "%lld", (long long)x->shape->d.dim[i]);
  fprintf(out, "]");
  for (int k = 0; k < x->n_in; k++) fprintf(out, " %%%u", x->in[k]);
  if (x->leaf != TC_LEAF_NONE)
    fprintf(out, " leaf %u%s%s", x->leaf, x->parameter ? " parameter" : "", x->stable_address ? " stable_address" : "");
  else
    print_attributes(out, x);
  if (x->op == TC_OP_ASSIGN) fprintf(out, " old %%%u", x->old);
  for (int i = 0; i < x->n_arg; i++) fprintf(out, i ? " ?" : " arg ?");
  if (x->prologue) fprintf(out, " prologue %d", x->prologue - 1);
  fprintf(out, "%s%s", x->is_slice_update ? " slice_update" : "", x->stored ? " stored" : "");
  if (g->order) fprintf(out, " readers %u", x->n_readers);
  if (x->dev != g->node[0].dev) fprintf(out, " %s", tc_device_name(x->dev));
  if (x->out != TC_LEAF_NONE) fprintf(out, " out %u", x->out);
  fputc('\n', out);
}

void tc_graph_print(const tc_graph *g, FILE *out) {
  tc_arena scratch = {0};
  uint32_t n = 0, *order = tc_graph_order(g, &scratch, &n);
  for (uint32_t i = 0; order && i < n; i++) print_node(g, order[i], out);
  tc_arena_fini(&scratch);
}

// ---- the log ----

void tc_graph_log_pass(const tc_graph *g, const char *pass, char **last) {
  tc_log_message m;
  if (!tc_log_begin(&m)) return;
  fprintf(m.to, "%016llx: after %s\n", (unsigned long long)g->plan->hash.lo, pass);
  tc_graph_print(g, m.to);
  if (fflush(m.to) != 0) return tc_log_drop(&m);
  const char *text = strchr(m.text, '\n');
  if (*last && strcmp(text, *last) == 0) return tc_log_drop(&m);
  free(*last);
  *last = strdup(text);
  tc_log_end(&m, TC_LOG_PASS);
}

static void print_scheduled(const tc_graph *g, FILE *out) {
  for (uint32_t i = 0; i < g->n_order; i++) {
    const tc_gnode *x = &g->node[g->order[i]];
    tc_text_node line = {.op = x->op,
                         .type = x->type,
                         .dev = x->dev,
                         .dims = x->shape->d,
                         .n_in = x->n_in,
                         .n_attr = x->n_attr,
                         .n_arg = x->n_arg};
    line.in = x->in, line.attr = x->attr, line.flag = g->order[i] < g->plan->n_node ? g->plan->flag[g->order[i]] : 0;
    tc_text_write_node(out, g->order[i], &line);
  }
}

void tc_graph_log(const tc_graph *g) {
  tc_log_message m;
  if (tc_log_begin(&m)) {
    fprintf(m.to, "%016llx: recorded\n", (unsigned long long)g->plan->hash.lo);
    tc_text_write_plan(m.to, g->plan);
    fprintf(m.to, "simplified\n");
    print_scheduled(g, m.to);
  }
  tc_log_end(&m, TC_LOG_PLAN);
}
