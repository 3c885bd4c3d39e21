// Which calls are deferred: real ones whose result is dense and a whole block of the shim's memory.
// Their operands lie in such blocks, or are small. Anything else is made at once, after what it may
// touch is in memory.
// In: a call that was read and checked. Out: a record of values.h, a scalar, or false. Invariants:
// operands that overlap the result otherwise than as its old contents are never deferred. Threads:
// any; one at a time.
#include "shim/defer.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shim/read.h"
#include "shim/values.h"

// Where the stub returns a floating value from (stubs.S).
enum { VALUE_AT = -8 };

typedef struct request {
  const tc_shim_options *options;
  const tc_shim_entry *entry;
  int64_t *base;
  const tc_shim_call *c;
  char type;
  double alpha, beta;  // 0 where the routine has none
  void *copy[TC_SHIM_VALUE_OPERANDS];  // of small operands that are read and in no block; NULL: none
  tc_shim_value_record record;
} request;

static size_t operand_bytes(const request *q, int i) {
  const tc_shim_call *c = q->c;
  int64_t columns = c->routine->operand[i].shape == TC_SHAPE_VEC ? 1 : c->columns[i];
  return (size_t)(c->rows[i] * columns) * (q->type == 's' ? sizeof(float) : sizeof(double));
}

static bool is_dense(const tc_shim_call *c, int i) {
  bool is_vector = c->routine->operand[i].shape == TC_SHAPE_VEC;
  return is_vector ? c->step[i] == 1 : c->step[i] == c->rows[i] || c->columns[i] == 1;
}

// What lies in the program's memory is read before the lock, where a fault is as good as in BLAS.
// There the program's handler may fill the page, or what waits is run.
static bool read_program(request *q) {
  const tc_shim_layout *l = q->entry->is_cblas ? &q->c->routine->cblas : &q->c->routine->fortran;
  if (l->has & 1u << TC_AT_ALPHA && (q->alpha = tc_shim_read_scalar(q->entry, q->base, TC_AT_ALPHA)) == 0) return false;
  if (l->has & 1u << TC_AT_BETA) q->beta = tc_shim_read_scalar(q->entry, q->base, TC_AT_BETA);
  for (int i = 0; i < q->c->routine->n_operands; i++) {
    size_t bytes = operand_bytes(q, i);
    if (q->c->routine->operand[i].is_written || bytes > TC_SHIM_COPY_BYTES || !is_dense(q->c, i) ||
        tc_shim_block_find(q->c->operand[i]))
      continue;
    if (!(q->copy[i] = malloc(bytes))) return false;
    memcpy(q->copy[i], q->c->operand[i], bytes);
  }
  return true;
}

// Operand i as n elements in a row.
static bool use_operand(request *q, int i, tc_shim_value_use *out) {
  const tc_shim_call *c = q->c;
  int64_t columns = c->routine->operand[i].shape == TC_SHAPE_VEC ? 1 : c->columns[i];
  return is_dense(c, i) && tc_shim_values_use(c->operand[i], c->rows[i] * columns, q->type, &q->copy[i], out);
}

// The block that operand i is the whole of.
static tc_shim_block *output(const request *q, int i) {
  const tc_shim_call *c = q->c;
  int64_t columns = c->routine->operand[i].shape == TC_SHAPE_VEC ? 1 : c->columns[i];
  return is_dense(c, i) ? tc_shim_values_output(c->operand[i], c->rows[i] * columns, q->type) : NULL;
}

static bool overlaps(const request *q, int i, const tc_shim_block *b) {
  return tc_shim_block_find(q->c->operand[i]) == b;
}

static void forget_all(tc_shim_value_record *r) {
  for (int i = 0; i < TC_SHIM_VALUE_OPERANDS; i++) tc_shim_values_forget(&r->in[i]);
}

static bool record(request *q, tc_shim_block *b, bool complete) {
  if (complete) return tc_shim_values_record(b, &q->record);
  forget_all(&q->record);
  return false;
}

// ---- Routines ----

// In columns it is the product of the transposes in rows, the operands exchanged.
static bool defer_gemm(request *q) {
  const tc_shim_call *c = q->c;
  tc_shim_value_record *r = &q->record;
  tc_shim_block *b = output(q, 2);
  if (!b || overlaps(q, 0, b) || overlaps(q, 1, b)) return false;
  int left = c->row_major ? 0 : 1;
  *r = (tc_shim_value_record){.op = TC_SHIM_VALUE_GEMM, .type = q->type, .k = c->k, .alpha = q->alpha, .beta = q->beta};
  r->m = c->row_major ? c->m : c->n;
  r->n = c->row_major ? c->n : c->m;
  r->left_transposed = c->row_major ? c->transa : c->transb;
  r->right_transposed = c->row_major ? c->transb : c->transa;
  return record(q, b,
                use_operand(q, left, &r->in[1]) && use_operand(q, !left, &r->in[2]) &&
                    (r->beta == 0 || use_operand(q, 2, &r->in[0])));
}

static bool defer_axpy(request *q) {
  tc_shim_block *b = output(q, 1);
  q->record = (tc_shim_value_record){.op = TC_SHIM_VALUE_AXPY, .type = q->type, .n = q->c->n, .alpha = q->alpha};
  if (!b || overlaps(q, 0, b)) return false;
  return record(q, b, use_operand(q, 1, &q->record.in[0]) && use_operand(q, 0, &q->record.in[1]));
}

static bool defer_scal(request *q) {
  tc_shim_block *b = output(q, 0);
  q->record = (tc_shim_value_record){.op = TC_SHIM_VALUE_SCAL, .type = q->type, .n = q->c->n, .alpha = q->alpha};
  if (!b || q->alpha == 1) return false;
  return record(q, b, use_operand(q, 0, &q->record.in[0]));
}

static bool defer_copy(request *q) {
  tc_shim_block *b = output(q, 1), *from = tc_shim_block_find(q->c->operand[0]);
  tc_shim_value_use x;
  if (!b || !from || from == b || from->asked != b->asked || from->base != (const char *)q->c->operand[0]) return false;
  return use_operand(q, 0, &x) && tc_shim_values_share(b, x);
}

static bool defer_ger(request *q) {
  const tc_shim_call *c = q->c;
  tc_shim_block *b = output(q, 2);
  q->record = (tc_shim_value_record){.op = TC_SHIM_VALUE_GER, .type = q->type, .alpha = q->alpha};
  if (!b || overlaps(q, 0, b) || overlaps(q, 1, b)) return false;
  int left = c->row_major ? 0 : 1;
  q->record.m = c->row_major ? c->m : c->n;
  q->record.n = c->row_major ? c->n : c->m;
  return record(q, b,
                use_operand(q, 2, &q->record.in[0]) && use_operand(q, left, &q->record.in[1]) &&
                    use_operand(q, !left, &q->record.in[2]));
}

// ---- Scalars: computed with what they wait for ----

static void put_result(request *q, double value) {
  float narrow = (float)value;
  if (q->type == 's')
    memcpy(&q->base[VALUE_AT], &narrow, sizeof narrow);
  else
    memcpy(&q->base[VALUE_AT], &value, sizeof value);
}

// Whether a square neither overflowed nor lost digits, so that the root of the sum is the norm.
static bool is_plain_square(char type, double square) {
  return type == 's' ? square > 1e-24 && square < 1e36 : square > 1e-250 && square < 1e300;
}

static bool defer_scalar(request *q, tc_shim_scalar_op op, bool two, bool root) {
  tc_shim_value_use x = {0}, y = {0};
  double value;
  bool ok = use_operand(q, 0, &x) && (!two || use_operand(q, 1, &y)) &&
            (tc_shim_values_is_pending(&x) || tc_shim_values_is_pending(&y));
  ok = ok && tc_shim_values_scalar(op, q->type, &x, two ? &y : &x, &value);
  if (ok && root) {
    ok = is_plain_square(q->type, value);
    value = sqrt(value);
  }
  if (ok) put_result(q, value);
  tc_shim_values_forget(&x);
  tc_shim_values_forget(&y);
  return ok;
}

// ---- Which routine ----

static const struct {
  char name[6];  // without the type
  bool (*defer)(request *);
} deferred[] = {
    {"gemm", defer_gemm}, {"axpy", defer_axpy}, {"scal", defer_scal}, {"copy", defer_copy}, {"ger", defer_ger},
};

static const struct {
  char name[6];
  tc_shim_scalar_op op;
  bool two, root;
} scalars[] = {
    {"dot", TC_SHIM_DOT, true, false}, {"nrm2", TC_SHIM_DOT, false, true}, {"asum", TC_SHIM_ASUM, false, false}};

static bool try_defer(request *q) {
  const char *name = q->c->routine->name + 1;
  for (size_t i = 0; i < sizeof deferred / sizeof *deferred; i++)
    if (strcmp(name, deferred[i].name) == 0) return deferred[i].defer(q);
  for (size_t i = 0; i < sizeof scalars / sizeof *scalars && q->options->level == TC_SHIM_LAZY; i++)
    if (strcmp(name, scalars[i].name) == 0) return defer_scalar(q, scalars[i].op, scalars[i].two, scalars[i].root);
  return false;
}

// Whether an operand waits for its value.
static bool is_hidden(const tc_shim_call *c) {
  for (int i = 0; i < c->routine->n_operands; i++) {
    const tc_shim_block *b = tc_shim_block_find(c->operand[i]);
    if (b && b->guard == TC_GUARD_HIDDEN) return true;
  }
  return false;
}

static int state;  // of start, atomic; 0: not yet
static bool ended;  // atomic; who finds it false under the lock is before what at_end settles

// Handlers of exit that come later see memory. No thread defers a call any more.
static void at_end(void) {
  __atomic_store_n(&ended, true, __ATOMIC_SEQ_CST);
  if (!tc_shim_memory_lock()) return;
  tc_shim_values_settle();
  tc_shim_memory_unlock();
}

// The first time that a call could be deferred: everything is opened and installed. 1: it works, 2:
// it does not.
static int start(const tc_shim_options *o) {
  const char *why = "libtc-shim-memory.so is not preloaded (tc-run --shim does it)";
  if (tc_shim_memory_lock && tc_shim_values_start(o->level == TC_SHIM_WRITEBACK ? o->on : NULL, &why)) {
    atexit(at_end);
    return 1;
  }
  tc_shim_say("TC_SHIM=%s is eager here: %s", o->level == TC_SHIM_LAZY ? "lazy" : "writeback", why);
  return 2;
}

// One thread starts. For others that come meanwhile, and for what the child of a fork lacks, calls
// are not deferred.
static int started(const tc_shim_options *o) {
  static int begun;
  int cancels, is = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
  if (is || __atomic_exchange_n(&begun, 1, __ATOMIC_RELAXED)) return is;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels);
  is = start(o);
  __atomic_store_n(&state, is, __ATOMIC_RELEASE);
  pthread_setcancelstate(cancels, NULL);
  return is;
}

// Whether the largest operand is one that could be deferred: no other call opens libtc.
static bool is_large(const tc_shim_call *c, char type) {
  int64_t most = 0;
  for (int i = 0; i < c->routine->n_operands; i++) {
    int64_t columns = c->routine->operand[i].shape == TC_SHAPE_VEC ? 1 : c->columns[i];
    if (c->routine->operand[i].is_written && c->rows[i] * columns > most) most = c->rows[i] * columns;
  }
  return most * (type == 's' ? 4 : 8) >= TC_HUGE_BYTES;
}

// Whether a routine is one of those that are deferred, or computed with what waits.
static bool is_listed(const char *name) {
  bool found = false;
  for (size_t i = 0; i < sizeof deferred / sizeof *deferred; i++) found |= strcmp(name, deferred[i].name) == 0;
  for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++) found |= strcmp(name, scalars[i].name) == 0;
  return found;
}

bool tc_shim_defer(const tc_shim_options *o, uint32_t entry, int64_t *base, const tc_shim_call *c) {
  char type = c->routine->type;
  request q = {.options = o, .entry = &tc_shim_entries[entry], .base = base, .c = c, .type = type};
  bool is_real = c->routine->name[0] == type && (type == 's' || type == 'd'), reads_only = true, done = false;
  int is = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
  int kept = errno;
  for (int i = 0; i < c->routine->n_operands; i++) reads_only &= !c->routine->operand[i].is_written;
  if (is != 1 &&
      (is == 2 || __atomic_load_n(&ended, __ATOMIC_RELAXED) || !is_real || !(c->volume >= 1) || !is_large(c, type)))
    return false;
  if (!is) is = started(o);
  // A device does not survive a fork. What was there is in memory by then.
  if (is == 1 && o->level == TC_SHIM_WRITEBACK && tc_shim_memory_is_forked())
    __atomic_store_n(&state, is = 2, __ATOMIC_RELEASE);
  errno = kept;
  if (is != 1) return false;
  bool may = is_real && c->volume >= 1 && (is_large(c, type) || (reads_only && is_hidden(c)));
  may = may && is_listed(c->routine->name + 1) && !tc_shim_memory_is_limited();
  if (may && read_program(&q) && tc_shim_memory_lock()) {
    done = !__atomic_load_n(&ended, __ATOMIC_SEQ_CST) && try_defer(&q);
    tc_shim_memory_unlock();
  }
  for (int i = 0; i < TC_SHIM_VALUE_OPERANDS; i++) free(q.copy[i]);
  if (!done && tc_shim_memory_guarded() && !(reads_only && !is_hidden(c))) tc_shim_defer_end();
  errno = kept;
  return done;
}

void tc_shim_defer_end(void) {
  if (!tc_shim_memory_guarded || !tc_shim_memory_guarded() || !tc_shim_memory_lock()) return;
  tc_shim_values_settle();
  tc_shim_memory_unlock();
}

void tc_shim_defer_report(FILE *f) {
  const tc_shim_value_counts *c = &tc_shim_values_counts;
  if (!c->recorded) return;
  fprintf(f, ", \"deferred\": %llu, \"runs\": %llu, \"touches\": %llu", (unsigned long long)c->recorded,
          (unsigned long long)c->runs, (unsigned long long)tc_shim_memory_touches());
  fprintf(f, ", \"landed\": %llu, \"exchanged\": %llu, \"dropped\": %llu", (unsigned long long)c->landed,
          (unsigned long long)c->exchanged, (unsigned long long)c->dropped);
  fprintf(f, ", \"uploaded\": %llu, \"reused\": %llu", (unsigned long long)c->uploaded, (unsigned long long)c->reused);
}
