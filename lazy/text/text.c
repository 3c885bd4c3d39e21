// Writes records as text, reads such text, and records it anew. See text.h.
#include "lazy/text/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/log.h"

#define MAX_WORDS 512  // of one record's operands, attributes or arguments

static const struct {
  const char *name;
  uint8_t flag;
} flags[] = {{"live", TC_NODE_LIVE},   {"keep", TC_NODE_KEEP}, {"tape", TC_NODE_TAPE}, {"asked", TC_NODE_ASKED}, {"sole", TC_NODE_SOLE},
             {"freed", TC_NODE_FREED}, {"want", TC_NODE_WANT}, {"user", TC_NODE_USER}, {"again", TC_NODE_AGAIN}};
#define N_FLAGS (sizeof flags / sizeof flags[0])

// ---- writing ----

// Whole numbers of arguments and attributes are small, and the bits of common doubles are large: size tells them apart.
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
  for (size_t i = 0; i < N_FLAGS; i++)
    if ((x->flag & flags[i].flag) && !(flags[i].flag == TC_NODE_USER && (x->op == TC_OP_LEAF) != (strcmp(flags[i].name, "user") == 0)))
      fprintf(out, " %s", flags[i].name);
  if (x->site && *x->site) fprintf(out, " @ %s", x->site);
  fputc('\n', out);
}

static void write_data(FILE *out, uint32_t number, tc_type type, int64_t count, const void *data) {
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

void tc_text_write_trace(FILE *out, const tc_trace *t, const uint8_t *flag, size_t max_bytes, const char *title) {
  fprintf(out, "trace %s\n", title);
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
    if (data && tc_buffer_read(t->leaf[i].buf, data, bytes) == TC_OK) write_data(out, t->leaf[i].node, (tc_type)r->dtype, count, data);
    tc_free(data);
  }
  fprintf(out, "end\n");
}

void tc_text_write_plan(FILE *out, const tc_plan *p) {
  for (uint32_t n = 0; n < p->n_node; n++) {
    tc_text_node x = node_of(tc_plan_rec(p, n), (tc_device)p->dev[n], p->flag[n]);
    tc_text_write_node(out, n, &x);
  }
}

void tc_text_write(FILE *out, const tc_text *x) {
  fprintf(out, "trace %s\n", x->title);
  for (uint32_t n = 0; n < x->n; n++) tc_text_write_node(out, n, &x->node[n]);
  for (uint32_t n = 0; n < x->n; n++)
    if (x->node[n].data) write_data(out, n, x->node[n].type, tc_dims_count(&x->node[n].dims), x->node[n].data);
  fprintf(out, "end\n");
}

// ---- reading ----

typedef struct reader {
  tc_text *x;
  char *at;      // in the line, which ends in zero
  int line;
  uint32_t cap;  // of x->node
} reader;

static tc_status bad(const reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));
static tc_status bad(const reader *r, const char *fmt, ...) {
  char text[200];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return tc_fail(TC_ERR_ARG, "trace text", 0, "line %d: %s", r->line, text);
}

// The next word of the line; NULL at its end.
static char *word(reader *r) {
  while (*r->at == ' ') r->at++;
  if (!*r->at) return NULL;
  char *w = r->at;
  r->at += strcspn(r->at, " ");
  if (*r->at) *r->at++ = 0;
  return w;
}

static void *copy(reader *r, const void *from, size_t bytes) {
  void *p = tc_arena_alloc(&r->x->arena, bytes + 1);
  if (p && bytes) memcpy(p, from, bytes);
  return p;
}

// An operand or record number "%12" below limit.
static bool number(const char *w, uint32_t limit, uint32_t *out) {
  char *end;
  if (!w || *w != '%') return false;
  unsigned long v = strtoul(w + 1, &end, 10);
  *out = (uint32_t)v;
  return end != w + 1 && !*end && v < limit;
}

static bool value(const char *w, uint64_t *out) {
  char *end;
  bool hex = w[0] == '0' && w[1] == 'x';
  if (!hex && strpbrk(w, ".e")) {
    double v = strtod(w, &end);
    memcpy(out, &v, sizeof v);
  } else {
    *out = hex ? strtoull(w, &end, 16) : (uint64_t)strtoll(w, &end, 10);
  }
  return end != w && !*end;
}

// "f32[3,4]"
static bool type_and_shape(const char *w, tc_text_node *x) {
  size_t n = w ? strcspn(w, "[") : 0;
  int type = 0;
  int64_t count;
  while (type < TC_N_TYPES && !(n && strlen(tc_type_name((tc_type)type)) == n && memcmp(tc_type_name((tc_type)type), w, n) == 0)) type++;
  if (type == TC_N_TYPES || w[n] != '[') return false;
  x->type = (tc_type)type;
  const char *at = w + n + 1;
  while (*at && *at != ']') {
    char *end;
    if (x->dims.rank == TC_MAX_RANK) return false;
    x->dims.dim[x->dims.rank++] = strtoll(at, &end, 10);
    if (end == at) return false;
    at = end + (*end == ',');
  }
  return strcmp(at, "]") == 0 && tc_dims_product(&x->dims, &count);
}

static bool read_flag(const char *w, uint8_t *out) {
  for (size_t i = 0; i < N_FLAGS; i++)
    if (strcmp(w, flags[i].name) == 0) return *out |= flags[i].flag, true;
  return false;
}

// What follows the device: lists that "in", "attr" and "arg" begin, flags, and the site.
static tc_status read_lists(reader *r, tc_text_node *x) {
  uint32_t in[MAX_WORDS];
  uint64_t word_of[2][MAX_WORDS];
  int *count[] = {&x->n_attr, &x->n_arg}, list = -1;
  for (char *w; (w = word(r));) {
    int now = strcmp(w, "in") == 0 ? 0 : strcmp(w, "attr") == 0 ? 1 : strcmp(w, "arg") == 0 ? 2 : -1;
    if (now >= 0) {
      list = now;
    } else if (strcmp(w, "@") == 0) {
      if (!(x->site = copy(r, r->at, strlen(r->at)))) return TC_FAIL(TC_ERR_MEMORY, "no room for a trace");
      break;
    } else if (*w == '%' && list == 0) {
      if (x->n_in == MAX_WORDS || !number(w, r->x->n, &in[x->n_in++])) return bad(r, "operand %.20s is no earlier record", w);
    } else if (strcmp(w, "?") == 0) {
      return bad(r, "an argument is not known; this is a plan, not a trace");
    } else if (list >= 1 && (*w == '-' || (*w >= '0' && *w <= '9'))) {
      if (*count[list - 1] == MAX_WORDS || !value(w, &word_of[list - 1][(*count[list - 1])++])) return bad(r, "%.20s is no number", w);
    } else if (!read_flag(w, &x->flag)) {
      return bad(r, "%.20s is not understood", w);
    }
  }
  x->in = copy(r, in, (size_t)x->n_in * sizeof in[0]);
  x->attr = copy(r, word_of[0], (size_t)x->n_attr * sizeof x->attr[0]);
  x->arg = copy(r, word_of[1], (size_t)x->n_arg * sizeof x->arg[0]);
  return x->in && x->attr && x->arg ? TC_OK : TC_FAIL(TC_ERR_MEMORY, "no room for a trace");
}

static tc_status read_node(reader *r) {
  tc_text_node x = {.op = TC_N_OP_ROWS};
  uint32_t n;
  char *w = word(r), *equals = word(r), *op = word(r), *shape = word(r), *dev = word(r);
  if (!number(w, r->cap, &n) || n != r->x->n || !equals || strcmp(equals, "=") != 0) return bad(r, "\"%%%u = \" was expected", r->x->n);
  for (int i = 0; op && i < TC_N_OP_ROWS; i++)
    if (strcmp(op, tc_op_names[i]) == 0) x.op = (tc_op)i;
  if (x.op == TC_N_OP_ROWS) return bad(r, "%.40s is no op", op ? op : "nothing");
  if (!type_and_shape(shape, &x)) return bad(r, "%.40s is no type and shape", shape ? shape : "nothing");
  TC_TRY(tc_device_parse(dev, "trace", 0, &x.dev));
  TC_TRY(read_lists(r, &x));
  int arity = tc_op_arity[x.op];
  if (arity > 2 ? x.n_in < 1 || (arity < 9 && x.n_in != arity) : x.n_in != arity) return bad(r, "%s has %d operands", op, x.n_in);
  r->x->node[r->x->n++] = x;
  return TC_OK;
}

static tc_status read_data(reader *r) {
  uint32_t n;
  if (!number(word(r), r->x->n, &n) || r->x->node[n].op != TC_OP_LEAF) return bad(r, "data of what is no leaf");
  tc_text_node *x = &r->x->node[n];
  int64_t count = tc_dims_count(&x->dims);
  size_t bytes = tc_type_bytes(x->type);
  if ((uint64_t)count > strlen(r->at)) return bad(r, "%%%u has %lld elements", n, (long long)count);
  char *data = tc_arena_alloc(&r->x->arena, (size_t)count * bytes + 1);
  if (!data) return TC_FAIL(TC_ERR_MEMORY, "no room for a trace");
  for (int64_t i = 0; i < count; i++) {
    char *w = word(r), *end;
    uint64_t bits = w ? strtoull(w, &end, 16) : 0;
    if (!w || *end) return bad(r, "element %lld of %%%u is missing or no bits", (long long)i, n);
    memcpy(data + (size_t)i * bytes, &bits, bytes);
  }
  if (word(r)) return bad(r, "%%%u has %lld elements only", n, (long long)count);
  x->data = data;
  return TC_OK;
}

// A line inside a trace; *done at its end.
static tc_status read_line(reader *r, bool *done) {
  if (*r->at == 0 || *r->at == '#') return TC_OK;
  if (*r->at == '%') return read_node(r);
  char *w = word(r);
  if (w && strcmp(w, "data") == 0) return read_data(r);
  if (w && strcmp(w, "end") == 0) return *done = true, TC_OK;
  return bad(r, "%.20s is not understood", w ? w : "");
}

// Copies the next line into the arena without the log's topic; moves *text past it.
static char *take_line(tc_text *x, const char **text) {
  static const char topic[] = "tc[trace] ";
  size_t n = strcspn(*text, "\n"), skip = strncmp(*text, topic, sizeof topic - 1) == 0 ? sizeof topic - 1 : 0;
  char *line = tc_arena_alloc(&x->arena, n - skip + 1);
  if (line) memcpy(line, *text + skip, n - skip);
  *text += n + ((*text)[n] == '\n');
  return line;
}

tc_status tc_text_read(tc_text *x, const char **text) {
  static const char head[] = "trace ";
  *x = (tc_text){0};
  reader r = {.x = x};
  for (const char *c = *text; *c; c++) r.cap += *c == '\n';
  bool done = false;
  while (!done && **text) {
    r.line++;
    if (!(r.at = take_line(x, text))) return TC_FAIL(TC_ERR_MEMORY, "no room for a trace");
    if (x->title) {
      TC_TRY(read_line(&r, &done));
    } else if (strncmp(r.at, head, sizeof head - 1) == 0) {
      x->title = r.at + sizeof head - 1;
      x->node = tc_arena_alloc(&x->arena, (r.cap + 1) * sizeof x->node[0]);
      if (!x->node) return TC_FAIL(TC_ERR_MEMORY, "no room for a trace");
    }
  }
  return x->title && !done ? bad(&r, "the trace has no end") : TC_OK;
}

void tc_text_fini(tc_text *x) {
  tc_arena_fini(&x->arena);
  *x = (tc_text){0};
}

// ---- running ----

static tc_node record_leaf(tc_trace *t, const tc_text_node *x, uint32_t shape, tc_buffer **buf) {
  size_t bytes = (size_t)tc_dims_at(shape)->count * tc_type_bytes(x->type);
  if (!x->data) return tc_rec_fail(t, TC_ERR_ARG, "leaf %%%u has no data", t->n_node);
  if ((t->op_status = tc_buffer_create_on(x->dev, bytes, buf)) != TC_OK) return TC_NODE_ERR;
  if ((t->op_status = tc_buffer_write(*buf, x->data, bytes)) != TC_OK) return TC_NODE_ERR;
  return tc_trace_leaf(t, *buf, x->type, shape, x->dev);
}

// Records every node; held: per node, the reference that keeps a leaf from being the trace's alone.
static bool record(tc_trace *t, const tc_text *x, tc_tensor *out, tc_buffer **held) {
  for (uint32_t n = 0; n < x->n; n++) {
    const tc_text_node *k = &x->node[n];
    if (tc_device_memory(k->dev) != tc_device_memory(x->node[0].dev))
      return tc_rec_fail(t, TC_ERR_DEVICE, "%%%u is in another memory than what comes before", n), false;
    uint32_t shape = tc_dims_intern(&k->dims);
    if (shape == TC_SHAPE_NONE) return tc_rec_fail(t, TC_ERR_MEMORY, "no room for a shape"), false;
    tc_node made = k->op == TC_OP_LEAF ? record_leaf(t, k, shape, &held[n]) : tc_text_record(t, k, shape);
    if (made == TC_NODE_ERR) return false;
    if (k->flag & (TC_NODE_LIVE | TC_NODE_ASKED)) out[n] = tc_trace_handle(t, made, false);
    if (t->op_status != TC_OK) return false;
    t->flag[made] = k->flag & (uint8_t)~(TC_NODE_ASKED | TC_NODE_SOLE);
    if (held[n] && (k->flag & TC_NODE_SOLE)) tc_buffer_release(held[n]), held[n] = NULL;
  }
  return true;
}

tc_status tc_text_run(const tc_text *x, tc_tensor *out) {
  memset(out, 0, x->n * sizeof *out);
  tc_site site = tc_site_return(__builtin_return_address(0));
  tc_trace *t = tc_op_begin("replay", site);
  if (t->op_status != TC_OK) return tc_op_done(t);
  tc_buffer **held = tc_calloc(x->n + 1, sizeof *held);
  tc_node *asked = tc_calloc(x->n + 1, sizeof *asked);
  tc_status st = held && asked ? TC_OK : TC_FAIL(TC_ERR_MEMORY, "no room to replay a trace");
  if (st == TC_OK && t->n_node) st = tc_trace_sync(t, TC_CAUSE_SYNC, site, 0, NULL);  // numbers begin at 0
  if (st == TC_OK && !record(t, x, out, held)) {
    st = t->op_status;
    tc_trace_reset(t);
  }
  int n_asked = 0;
  for (uint32_t n = 0; n < x->n && st == TC_OK; n++)
    if (x->node[n].flag & TC_NODE_ASKED) asked[n_asked++] = n;
  if (st == TC_OK) st = tc_trace_sync(t, TC_CAUSE_REPLAY, site, n_asked, asked);
  for (uint32_t n = 0; n < x->n; n++) {
    if (held) tc_buffer_release(held[n]);
    if (st != TC_OK && out[n].gen && out[n].slot < TC_POISON) tc_slot_release(t, out[n]);
    if (st != TC_OK) out[n] = (tc_tensor){0, 0};
  }
  tc_free(held);
  tc_free(asked);
  if (st != TC_OK) t->op_status = st;
  return tc_op_done(t);
}
