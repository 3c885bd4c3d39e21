// The table of bodies, and what a CONTROL's attributes say. See body.h.
//
// Threads: the table has a lock. A body is found by readers under it; what is found stays.
#include "lazy/trace/body.h"

#include <pthread.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/fork.h"
#include "runtime/hash.h"
#include "runtime/options.h"

#define N_BUCKETS 256

static struct {
  pthread_mutex_t lock;
  tc_body *bucket[N_BUCKETS];
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};
TC_FORK_SAFE(&self.lock, 2)

static tc_body *find_locked(uint64_t id) {
  tc_body *b = self.bucket[id % N_BUCKETS];
  while (b && b->id != id) b = b->next;
  return b;
}

const tc_body *tc_body_find(uint64_t id) {
  pthread_mutex_lock(&self.lock);
  const tc_body *b = find_locked(id);
  pthread_mutex_unlock(&self.lock);
  return b;
}

static bool is_same_list(const uint32_t *a, const uint32_t *b, uint32_t n) {
  return n == 0 || memcmp(a, b, n * sizeof *a) == 0;
}

static bool is_equal(const tc_body *a, const tc_body *b) {
  return a->n_word == b->n_word && a->n_node == b->n_node && a->n_arg == b->n_arg && a->n_in == b->n_in &&
         a->n_out == b->n_out && a->n_counter == b->n_counter && a->n_draw == b->n_draw &&
         memcmp(a->word, b->word, a->n_word * sizeof a->word[0]) == 0 && is_same_list(a->out, b->out, a->n_out) &&
         is_same_list(a->counter, b->counter, a->n_counter);
}

// Shapes are interned in the order of their first use, which differs between processes; the id is
// of what they are.
static uint64_t id_of(const tc_body *b, bool *room) {
  size_t n = b->n_word + 2 * (size_t)b->n_node + b->n_out + b->n_counter + 3;
  uint64_t *word = tc_malloc(n * sizeof *word), *w = word;
  *room = word != NULL;
  if (!word) return 0;
  *w++ = (uint64_t)b->n_in << 32 | b->n_out, *w++ = (uint64_t)b->n_node << 32 | b->n_counter;
  *w++ = b->n_draw;
  uint64_t *records = w;
  memcpy(w, b->word, b->n_word * sizeof *w), w += b->n_word;
  for (uint32_t i = 0; i < b->n_node; i++) {
    tc_rec *r = (tc_rec *)(void *)(records + b->at[i]);
    tc_dims d;
    const tc_dims *from = &tc_dims_at(r->shape)->d;
    memset(&d, 0, sizeof d);
    d.rank = from->rank;
    memcpy(d.dim, from->dim, (size_t)from->rank * sizeof d.dim[0]);
    tc_hash h = tc_hash_bytes(&d, sizeof d);
    r->shape = 0;
    *w++ = h.lo, *w++ = h.hi;
  }
  for (uint32_t i = 0; i < b->n_out; i++) *w++ = b->out[i];
  for (uint32_t i = 0; i < b->n_counter; i++) *w++ = b->counter[i];
  uint64_t id = tc_hash_bytes(word, n * sizeof *word).lo;
  tc_free(word);
  return id;
}

static void free_body(tc_body *b) {
  void *const owned[] = {b->word, b->at, b->out, b->counter, b->call};
  for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) tc_free(owned[i]);
  tc_free(b);
}

static void *copy_of(const void *from, size_t n, size_t bytes) {
  void *to = tc_malloc(n * bytes + 1);
  if (to && n) memcpy(to, from, n * bytes);
  return to;
}

static tc_body *make_copy(const tc_body *c) {
  tc_body *b = tc_calloc(1, sizeof *b);
  if (!b) return NULL;
  *b = *c;
  b->next = NULL;
  b->word = copy_of(c->word, c->n_word, sizeof *b->word);
  b->out = copy_of(c->out, c->n_out, sizeof *b->out);
  b->counter = copy_of(c->counter, c->n_counter, sizeof *b->counter);
  b->call = copy_of(c->call, c->n_node, sizeof *b->call);
  b->at = tc_malloc((2 * (size_t)c->n_node + 1) * sizeof *b->at);
  if (!b->word || !b->out || !b->counter || !b->call || !b->at) return free_body(b), NULL;
  memcpy(b->at, c->at, c->n_node * sizeof *b->at);
  memcpy(b->at + c->n_node, c->arg_at, c->n_node * sizeof *b->at);
  b->arg_at = b->at + c->n_node;
  return b;
}

const tc_body *tc_body_intern(const tc_body *content) {
  bool room;
  uint64_t id = id_of(content, &room);
  if (!room) return NULL;
  pthread_mutex_lock(&self.lock);
  tc_body *b = find_locked(id);
  while (b && !is_equal(b, content)) b = find_locked(++id);  // other content of the same hash
  if (!b && (b = make_copy(content))) {
    b->id = id;
    b->next = self.bucket[id % N_BUCKETS];
    self.bucket[id % N_BUCKETS] = b;
  }
  pthread_mutex_unlock(&self.lock);
  return b;
}

static void free_at_exit(void) __attribute__((destructor));
static void free_at_exit(void) {
  if (!tc_frees_at_exit()) return;
  pthread_mutex_lock(&self.lock);
  for (int i = 0; i < N_BUCKETS; i++) {
    for (tc_body *b = self.bucket[i], *next; b; b = next) next = b->next, free_body(b);
    self.bucket[i] = NULL;
  }
  pthread_mutex_unlock(&self.lock);
}

// ---- a CONTROL's attributes ----

enum { REVERSE = 256, KEEPS = 512 };

int tc_control_attrs(const tc_control_facts *f, uint64_t attr[TC_CONTROL_ATTRS + 2]) {
  attr[0] = (uint64_t)f->kind | (f->reverse ? REVERSE : 0) | (f->keeps ? KEEPS : 0);
  attr[1] = f->n_carry | (uint64_t)f->n_scanned << 32;
  attr[2] = f->n_stacked;
  attr[3] = (uint64_t)f->n_step;
  for (uint32_t i = 0; i < f->n_body; i++) attr[TC_CONTROL_ATTRS + i] = f->body[i]->id;
  return TC_CONTROL_ATTRS + (int)f->n_body;
}

bool tc_control_facts_of(const uint64_t *attr, int n_attr, tc_control_facts *out) {
  *out = (tc_control_facts){.n_body = 1};
  if (n_attr < TC_CONTROL_ATTRS + 1 || (attr[0] & 255) > TC_CONTROL_SCAN) return false;
  out->kind = (tc_control_kind)(attr[0] & 255);
  out->reverse = attr[0] & REVERSE, out->keeps = attr[0] & KEEPS;
  out->n_carry = (uint32_t)attr[1], out->n_scanned = (uint32_t)(attr[1] >> 32);
  out->n_stacked = (uint32_t)attr[2], out->n_step = (int64_t)attr[3];
  out->n_body = out->kind == TC_CONTROL_COND || out->kind == TC_CONTROL_WHILE ? 2 : 1;
  out->first_in = out->kind == TC_CONTROL_COND;
  if (n_attr != TC_CONTROL_ATTRS + (int)out->n_body || out->n_step < 0) return false;
  for (uint32_t i = 0; i < out->n_body; i++) {
    const tc_body *b = out->body[i] = tc_body_find(attr[TC_CONTROL_ATTRS + i]);
    bool is_test = out->kind == TC_CONTROL_WHILE && i == 0;
    if (!b || b->n_in < out->n_carry + out->n_scanned || b->n_in != out->body[0]->n_in) return false;
    if (b->n_out != (is_test ? 1 : out->n_carry + out->n_stacked)) return false;
  }
  return true;
}

uint32_t tc_rec_counters(const tc_rec *r, uint32_t *out) {
  tc_control_facts f;
  uint32_t n = 0, first = 0;
  if (tc_op_kind_of(tc_rec_op(r)) == TC_KIND_RNG) {
    if (out) out[0] = 1;
    return 1;
  }
  if (tc_rec_op(r) != TC_OP_CONTROL || !tc_control_facts_of(tc_rec_attr(r), tc_rec_attrs(r), &f)) return 0;
  for (uint32_t i = 0; i < f.n_body; first += f.body[i]->n_arg, i++)
    for (uint32_t k = 0; k < f.body[i]->n_counter; k++, n++)
      if (out) out[n] = first + f.body[i]->counter[k];
  return n;
}

uint32_t tc_control_n_results(const tc_control_facts *f) {
  return f->n_carry + f->n_stacked + (f->keeps ? f->n_carry : 0);
}

// Shape [steps, d] if there are steps.
static bool stacked_shape(const tc_dims *d, int64_t n_step, uint32_t *out) {
  tc_dims s = {.rank = d->rank + 1, .dim = {n_step}};
  int64_t count;
  if (d->rank >= TC_MAX_RANK) return false;
  for (int i = 0; i < d->rank; i++) s.dim[i + 1] = d->dim[i];
  return tc_dims_product(&s, &count) && (*out = tc_dims_intern(&s)) != TC_SHAPE_NONE;
}

bool tc_control_layout(const tc_control_facts *f, tc_control_result *result, uint64_t *bytes) {
  const tc_body *b = f->body[f->n_body - 1];
  uint32_t n = tc_control_n_results(f), n_body = f->n_carry + f->n_stacked;
  *bytes = 0;
  for (uint32_t i = 0; i < n; i++) {
    const tc_rec *r = tc_body_rec(b, i < n_body ? b->out[i] : i - n_body);
    const tc_shape_info *shape = tc_dims_at(r->shape);
    tc_control_result *x = &result[i];
    *x = (tc_control_result){.shape = r->shape, .type = (tc_type)r->dtype};
    x->step_bytes = (uint64_t)shape->count * tc_type_bytes(x->type);
    bool stacked = f->kind == TC_CONTROL_SCAN && i >= f->n_carry;
    if (stacked && !stacked_shape(&shape->d, f->n_step, &x->shape)) return false;
    x->bytes = x->step_bytes * (stacked ? (uint64_t)f->n_step : 1);
    x->offset = *bytes;
    uint64_t aligned = (x->bytes + TC_CONTROL_ALIGNED - 1) & ~(uint64_t)(TC_CONTROL_ALIGNED - 1);
    if (aligned < x->bytes || *bytes + aligned < aligned || *bytes + aligned > INT64_MAX / 2) return false;
    *bytes += aligned;
  }
  return true;
}
