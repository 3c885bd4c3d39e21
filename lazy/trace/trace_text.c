// Writing recorded work as text. See trace_text.h.
#include "lazy/trace/body.h"
#include "lazy/trace/trace.h"
#include "lazy/trace/trace_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"

const tc_flag_name tc_flag_names[TC_N_FLAG_NAMES] = {
    {"live", TC_NODE_LIVE},          {"keep", TC_NODE_KEEP}, {"tape", TC_NODE_TAPE},
    {"asked", TC_NODE_ASKED},        {"sole", TC_NODE_SOLE}, {"freed", TC_NODE_FREED},
    {"want", TC_NODE_REQUIRES_GRAD}, {"user", TC_NODE_USER}, {"again", TC_NODE_REMATERIALIZE}};

// Whole numbers of arguments and attributes are small, and the bits of common doubles are large:
// size tells them apart.
static void write_word(FILE *out, uint64_t word) {
  const int64_t small = INT64_C(1) << 52;
  int64_t whole = (int64_t)word;
  double v;
  char text[40];
  memcpy(&v, &word, sizeof v);
  if (whole > -small && whole < small) {
    fprintf(out, " %lld", (long long)whole);
  } else if (!isfinite(v)) {
    fprintf(out, " 0x%llx", (unsigned long long)word);
  } else if (fabs(v) < 1e15 && v == trunc(v)) {
    fprintf(out, " %.1f", v);
  } else {
    int digits = 1;
    do snprintf(text, sizeof text, "%.*g", digits, v);
    while (strtod(text, NULL) != v && digits++ < 17);
    fprintf(out, " %s%s", text, strpbrk(text, ".e") ? "" : ".0");
  }
}

void tc_text_write_node(FILE *out, uint32_t number, const tc_text_node *x) {
  fprintf(out, "%%%u = %s %s[", number, tc_op_names[x->op], tc_type_name(x->type));
  for (int i = 0; i < x->dims.rank; i++) fprintf(out, i ? ",%lld" : "%lld", (long long)x->dims.dim[i]);
  fprintf(out, "] %s", tc_device_name(x->dev));
  if (x->n_in) fprintf(out, " in");
  for (int i = 0; i < x->n_in; i++) fprintf(out, " %%%u", x->in[i]);
  if (x->n_attr) fprintf(out, " attr");
  for (int i = 0; i < x->n_attr; i++) write_word(out, x->attr[i]);
  if (x->n_arg) fprintf(out, " arg");
  for (int i = 0; i < x->n_arg; i++) x->arg ? write_word(out, x->arg[i]) : (void)fprintf(out, " ?");
  for (size_t i = 0; i < TC_N_FLAG_NAMES; i++)
    if ((x->flag & tc_flag_names[i].flag) && !(tc_flag_names[i].flag == TC_NODE_USER &&
                                               (x->op == TC_OP_LEAF) != (strcmp(tc_flag_names[i].name, "user") == 0)))
      fprintf(out, " %s", tc_flag_names[i].name);
  if (x->site && *x->site) fprintf(out, " @ %s", x->site);
  fputc('\n', out);
}

void tc_text_write_data(FILE *out, uint32_t number, tc_type type, int64_t count, const void *data) {
  size_t bytes = tc_type_bytes(type);
  fprintf(out, "data %%%u", number);
  for (int64_t i = 0; i < count; i++) {
    uint64_t bits = 0;  // the first bytes of it, as all of tc's machines are little-endian
    memcpy(&bits, (const char *)data + (size_t)i * bytes, bytes);
    fprintf(out, " %0*llx", (int)bytes * 2, (unsigned long long)bits);
  }
  fputc('\n', out);
}

static tc_text_node node_of(const tc_rec *r, tc_device dev, uint8_t flag) {
  return (tc_text_node){.op = tc_rec_op(r),
                        .type = (tc_type)r->dtype,
                        .dev = dev,
                        .dims = tc_dims_at(r->shape)->d,
                        .n_in = tc_rec_arity(r),
                        .n_attr = tc_rec_attrs(r),
                        .n_arg = (int)tc_rec_args(r),
                        .in = tc_rec_in(r),
                        .attr = tc_rec_attr(r),
                        .flag = flag};
}

void tc_text_write_body(FILE *out, const tc_text_body *b) {
  fprintf(out, "body %016llx draws %lld\n", (unsigned long long)b->id, (long long)b->n_draw);
  for (uint32_t n = 0; n < b->n; n++) tc_text_write_node(out, n, &b->node[n]);
  fprintf(out, "gives");
  for (uint32_t i = 0; i < b->n_out; i++) fprintf(out, " %%%u", b->out[i]);
  fprintf(out, "\n");
}

// Bodies that are written already.
typedef struct written {
  uint64_t *id;
  uint32_t n, cap;
} written;

static bool is_new(written *w, uint64_t id) {
  for (uint32_t i = 0; i < w->n; i++)
    if (w->id[i] == id) return false;
  if (TC_GROW(w->id, w->cap, w->n + 1)) w->id[w->n++] = id;
  return true;
}

static void write_bodies(FILE *out, const tc_rec *r, tc_device d, const uint64_t *arg, written *w);

// A body, with its scalars, behind those that it runs itself.
static void write_body(FILE *out, const tc_body *b, tc_device d, const uint64_t *arg, written *w) {
  if (!is_new(w, b->id)) return;
  for (uint32_t n = b->n_in; n < b->n_node; n++) write_bodies(out, tc_body_rec(b, n), d, arg + b->arg_at[n], w);
  tc_text_node *node = tc_malloc((b->n_node + 1) * sizeof *node);
  char(*site)[160] = tc_malloc((b->n_node + 1) * sizeof *site);
  for (uint32_t n = 0; n < b->n_node && node && site; n++) {
    node[n] = node_of(tc_body_rec(b, n), d, 0);
    tc_site_text(b->call[n].site, site[n], sizeof site[n]);
    node[n].arg = arg + b->arg_at[n], node[n].site = site[n];
  }
  if (node && site)
    tc_text_write_body(out, &(tc_text_body){b->id, (int64_t)b->n_draw, node, b->n_node, b->n_out, b->out, NULL});
  tc_free(node);
  tc_free(site);
}

static void write_bodies(FILE *out, const tc_rec *r, tc_device d, const uint64_t *arg, written *w) {
  tc_control_facts f;
  if (tc_rec_op(r) != TC_OP_CONTROL || !tc_control_facts_of(tc_rec_attr(r), tc_rec_attrs(r), &f)) return;
  for (uint32_t i = 0; i < f.n_body; arg += f.body[i]->n_arg, i++) write_body(out, f.body[i], d, arg, w);
}

void tc_text_write_trace(FILE *out, const tc_trace *t, const uint8_t *flag, size_t max_bytes, const char *title) {
  written w = {NULL, 0, 0};
  fprintf(out, "trace %s\n", title);
  for (uint32_t n = 0; n < t->n_node; n++)
    write_bodies(out, tc_rec_of(t, n), (tc_device)t->dev[n], t->arg + t->arg_at[n], &w);
  tc_free(w.id);
  for (uint32_t n = 0; n < t->n_node; n++) {
    char site[160];
    tc_text_node x = node_of(tc_rec_of(t, n), (tc_device)t->dev[n], flag[n]);
    tc_site_text(t->call[n].site, site, sizeof site);
    x.arg = t->arg + t->arg_at[n], x.site = site;
    tc_text_write_node(out, n, &x);
  }
  for (uint32_t i = 0; i < t->n_leaf; i++) {
    const tc_rec *r = tc_rec_of(t, t->leaf[i].node);
    int64_t count = tc_dims_at(r->shape)->count;
    size_t bytes = (size_t)count * tc_type_bytes((tc_type)r->dtype);
    void *data = bytes <= max_bytes ? tc_malloc(bytes + 1) : NULL;
    if (data && tc_buffer_read_span(t->leaf[i].buf, data, bytes) == TC_OK)
      tc_text_write_data(out, t->leaf[i].node, (tc_type)r->dtype, count, data);
    tc_free(data);
  }
  fprintf(out, "end\n");
}

void tc_text_write_plan_node(FILE *out, const tc_plan *p, uint32_t number) {
  tc_text_node x = node_of(tc_plan_rec(p, number), (tc_device)p->dev[number], p->flag[number]);
  tc_text_write_node(out, number, &x);
}

void tc_text_write_plan(FILE *out, const tc_plan *p) {
  for (uint32_t n = 0; n < p->n_node; n++) tc_text_write_plan_node(out, p, n);
}
