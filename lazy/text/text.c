// Reads the text of records, and records it anew. See text.h.
#include "lazy/trace/thread_trace.h"
#include "lazy/text/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "lazy/record/append.h"
#include "lazy/record/record.h"
#include "lazy/sync/plan_build.h"
#include "lazy/sync/sync.h"
#include "runtime/log.h"

#define MAX_WORDS 512  // of one record's operands, attributes or arguments

void tc_text_write(FILE *out, const tc_text *x) {
  fprintf(out, "trace %s\n", x->title);
  for (const tc_text_body *b = x->body; b; b = b->next) tc_text_write_body(out, b);
  for (uint32_t n = 0; n < x->n; n++) tc_text_write_node(out, n, &x->node[n]);
  for (uint32_t n = 0; n < x->n; n++)
    if (x->node[n].data) tc_text_write_data(out, n, x->node[n].type, tc_dims_count(&x->node[n].dims), x->node[n].data);
  fprintf(out, "end\n");
}

// ---- reading ----

typedef struct reader {
  tc_text *x;
  tc_text_body *body;  // whose lines are read. NULL: the trace's own
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

static void *copy_of(reader *r, const void *from, size_t bytes) {
  void *p = tc_arena_alloc(&r->x->arena, bytes + 1);
  if (p && bytes) memcpy(p, from, bytes);
  return p;
}

// The records that lines add to, and how many there are.
static tc_text_node *nodes_of(const reader *r) {
  return r->body ? r->body->node : r->x->node;
}

static uint32_t *count_of(const reader *r) {
  return r->body ? &r->body->n : &r->x->n;
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
  while (type < TC_N_TYPES &&
         !(n && strlen(tc_type_name((tc_type)type)) == n && memcmp(tc_type_name((tc_type)type), w, n) == 0))
    type++;
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
  for (size_t i = 0; i < TC_N_FLAG_NAMES; i++)
    if (strcmp(w, tc_flag_names[i].name) == 0) return *out |= tc_flag_names[i].flag, true;
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
      if (!(x->site = copy_of(r, r->at, strlen(r->at)))) return TC_FAIL(TC_ERR_MEMORY, "no room for a trace");
      break;
    } else if (*w == '%' && list == 0) {
      if (x->n_in == MAX_WORDS || !number(w, *count_of(r), &in[x->n_in++]))
        return bad(r, "operand %.20s is no earlier record", w);
    } else if (strcmp(w, "?") == 0) {
      return bad(r, "an argument is not known; this is a plan, not a trace");
    } else if (list >= 1 && (*w == '-' || (*w >= '0' && *w <= '9'))) {
      if (*count[list - 1] == MAX_WORDS || !value(w, &word_of[list - 1][(*count[list - 1])++]))
        return bad(r, "%.20s is no number", w);
    } else if (!read_flag(w, &x->flag)) {
      return bad(r, "%.20s is not understood", w);
    }
  }
  x->in = copy_of(r, in, (size_t)x->n_in * sizeof in[0]);
  x->attr = copy_of(r, word_of[0], (size_t)x->n_attr * sizeof x->attr[0]);
  x->arg = copy_of(r, word_of[1], (size_t)x->n_arg * sizeof x->arg[0]);
  return x->in && x->attr && x->arg ? TC_OK : TC_FAIL(TC_ERR_MEMORY, "no room for a trace");
}

static tc_status read_node(reader *r) {
  tc_text_node x = {.op = TC_N_OP_ROWS};
  uint32_t n;
  char *w = word(r), *equals = word(r), *op = word(r), *shape = word(r), *dev = word(r);
  if (!number(w, r->cap, &n) || n != *count_of(r) || !equals || strcmp(equals, "=") != 0)
    return bad(r, "\"%%%u = \" was expected", *count_of(r));
  for (int i = 0; op && i < TC_N_OP_ROWS; i++)
    if (strcmp(op, tc_op_names[i]) == 0) x.op = (tc_op)i;
  if (x.op == TC_N_OP_ROWS) return bad(r, "%.40s is no op", op ? op : "nothing");
  if (!type_and_shape(shape, &x)) return bad(r, "%.40s is no type and shape", shape ? shape : "nothing");
  TC_TRY(tc_device_of_name(dev, "trace", 0, &x.dev));
  TC_TRY(read_lists(r, &x));
  int arity = tc_op_arity[x.op];
  if (arity > 2 ? x.n_in < 1 || (arity < 9 && x.n_in != arity) : x.n_in != arity)
    return bad(r, "%s has %d operands", op, x.n_in);
  nodes_of(r)[(*count_of(r))++] = x;
  return TC_OK;
}

// "body ID draws N", before the trace's own records.
static tc_status begin_body(reader *r) {
  char *id = word(r), *draws = word(r), *n = word(r), *end;
  tc_text_body *b = tc_arena_alloc(&r->x->arena, sizeof *b);
  if (!b) return TC_FAIL(TC_ERR_MEMORY, "no room for a trace");
  if (r->body || r->x->n) return bad(r, "a body begins inside other records");
  if (!id || !draws || strcmp(draws, "draws") != 0 || !n) return bad(r, "\"body ID draws N\" was expected");
  *b = (tc_text_body){.id = strtoull(id, &end, 16), .n_draw = strtoll(n, NULL, 10)};
  if (*end) return bad(r, "%.20s is no body's id", id);
  if (!(b->node = tc_arena_alloc(&r->x->arena, (r->cap + 1) * sizeof *b->node)))
    return TC_FAIL(TC_ERR_MEMORY, "no room for a trace");
  r->body = b;
  return TC_OK;
}

// "gives %4 %7": the body's results, and its end.
static tc_status end_body(reader *r) {
  uint32_t out[MAX_WORDS];
  tc_text_body *b = r->body;
  if (!b) return bad(r, "results of no body");
  for (char *w; (w = word(r));)
    if (b->n_out == MAX_WORDS || !number(w, b->n, &out[b->n_out++])) return bad(r, "%.20s is no record of the body", w);
  if (!(b->out = copy_of(r, out, (size_t)b->n_out * sizeof out[0])))
    return TC_FAIL(TC_ERR_MEMORY, "no room for a trace");
  *(r->x->last_body ? r->x->last_body : &r->x->body) = b;
  r->x->last_body = &b->next, r->body = NULL;
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
  if (w && strcmp(w, "body") == 0) return begin_body(r);
  if (w && strcmp(w, "gives") == 0) return end_body(r);
  if (w && strcmp(w, "data") == 0 && !r->body) return read_data(r);
  if (w && strcmp(w, "end") == 0 && !r->body) return *done = true, TC_OK;
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
// out: per node, its handle; NULL: none are made.
static bool record(tc_trace *t, const tc_text *x, tc_tensor *out, tc_buffer **held) {
  for (const tc_text_body *b = x->body; b; b = b->next)
    if (!tc_text_record_body(t, b)) return false;
  for (uint32_t n = 0; n < x->n; n++) {
    const tc_text_node *k = &x->node[n];
    tc_text_name_call(t, k, n);
    if (tc_device_memory(k->dev) != tc_device_memory(x->node[0].dev))
      return tc_rec_fail(t, TC_ERR_DEVICE, "%%%u is in another memory than what comes before", n), false;
    uint32_t shape = tc_dims_intern(&k->dims);
    if (shape == TC_SHAPE_NONE) return tc_rec_fail(t, TC_ERR_MEMORY, "no room for a shape"), false;
    tc_node made = k->op == TC_OP_LEAF ? record_leaf(t, k, shape, &held[n]) : tc_text_record(t, k, shape);
    if (made == TC_NODE_ERR) return false;
    if (out && k->flag & (TC_NODE_LIVE | TC_NODE_ASKED)) out[n] = tc_trace_handle(t, made, false);
    if (t->op_status != TC_OK) return false;
    t->flag[made] = k->flag & (uint8_t)~(TC_NODE_ASKED | TC_NODE_SOLE);
    if (held[n] && (k->flag & TC_NODE_SOLE)) tc_buffer_release(held[n]), held[n] = NULL;
  }
  return true;
}

// A text that is being recorded.
typedef struct replay {
  tc_buffer **held;  // per node; NULL: not a leaf, or the trace's alone
  tc_node *asked;
  int n_asked;
} replay;

static tc_status expect_devices(const tc_text *x) {
  for (uint32_t n = 0; n < x->n; n++) {
    tc_device d = x->node[n].dev;
    const char *absent = n && d == x->node[n - 1].dev ? NULL : tc_device_absent(d);
    if (absent) return TC_FAIL(TC_ERR_DEVICE, "\"%s\": %s", tc_device_name(d), absent);
  }
  return TC_OK;
}

// Records x behind what is pending, which runs first.
static tc_status replay_begin(replay *r, tc_trace *t, const tc_text *x, tc_tensor *out, tc_site site) {
  *r = (replay){.held = tc_calloc(x->n + 1, sizeof *r->held), .asked = tc_calloc(x->n + 1, sizeof *r->asked)};
  if (!r->held || !r->asked) return TC_FAIL(TC_ERR_MEMORY, "no room to replay a trace");
  TC_TRY(expect_devices(x));
  if (t->n_node) TC_TRY(tc_trace_sync(t, TC_CAUSE_SYNC, site, 0, NULL));  // numbers begin at 0
  bool ok = record(t, x, out, r->held);
  t->op = "replay", t->op_site = site;
  if (!ok) {
    tc_status st = t->op_status;
    tc_trace_reset(t);
    return st;
  }
  for (uint32_t n = 0; n < x->n; n++)
    if (x->node[n].flag & TC_NODE_ASKED) r->asked[r->n_asked++] = n;
  return TC_OK;
}

static void replay_end(replay *r, const tc_text *x) {
  for (uint32_t n = 0; n < x->n && r->held; n++) tc_buffer_release(r->held[n]);
  tc_free(r->held);
  tc_free(r->asked);
}

tc_status tc_text_run(const tc_text *x, tc_tensor *out) {
  memset(out, 0, x->n * sizeof *out);
  tc_site site = tc_site_return(__builtin_return_address(0));
  tc_trace *t = tc_op_begin("replay", site);
  if (t->op_status != TC_OK) return tc_op_done(t);
  replay r;
  tc_status st = replay_begin(&r, t, x, out, site);
  if (st == TC_OK) st = tc_trace_sync(t, TC_CAUSE_REPLAY, site, r.n_asked, r.asked);
  for (uint32_t n = 0; n < x->n; n++) {
    if (st != TC_OK && out[n].gen && out[n].slot < TC_POISON) tc_slot_release_handle(t, out[n]);
    if (st != TC_OK) out[n] = (tc_tensor){0, 0};
  }
  replay_end(&r, x);
  if (st != TC_OK) t->op_status = st;
  return tc_op_done(t);
}

tc_status tc_text_plan(const tc_text *x, tc_plan **out) {
  *out = NULL;
  tc_site site = tc_site_return(__builtin_return_address(0));
  tc_trace *t = tc_op_begin("replay", site);
  if (t->op_status != TC_OK) return tc_op_done(t);
  replay r;
  tc_status st = replay_begin(&r, t, x, NULL, site);
  uint32_t n_rec_words = t->n_word, n_word = st == TC_OK ? tc_trace_close_key(t, r.n_asked, r.asked, false) : 0;
  if (st == TC_OK && !n_word) st = TC_FAIL(TC_ERR_MEMORY, "no room for a key");
  if (st == TC_OK) st = tc_plan_create(t, n_rec_words, n_word, tc_hash_bytes(t->word, n_word * sizeof t->word[0]), out);
  if (st == TC_OK) tc_trace_reset(t);
  replay_end(&r, x);
  if (st != TC_OK) t->op_status = st;
  return tc_op_done(t);
}
