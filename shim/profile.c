// The profile: each thread has a table of records of its own, which others read at exit.
// In: calls, before and after. Out: records by call site, entry and bucket. Invariants: a record
// has one writer; tables are never freed, and a thread that ends leaves its own to the next. A
// child after fork starts with empty ones.
// Threads: any.
#include "shim/profile.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/find.h"
#include "shim/options.h"
#include "shim/seen.h"

enum { N_RECORDS = 4096, N_SITES = 4096, NOT_READ = -1 };

typedef struct table {
  struct table *next;
  int taken;
  tc_shim_record record[N_RECORDS + 1];  // the last: what does not fit
} table;

static table *tables;
static __thread table *mine;
static pthread_key_t key;
static bool has_key;
static tc_shim_site *sites;
static uint64_t began_ticks;
static struct timespec began;

// ---- Sites ----

static tc_shim_site *site_slot(uintptr_t caller) {
  if (!sites) return NULL;
  for (uint32_t i = 0, at = (uint32_t)(caller * 0x9e3779b97f4a7c15u >> 40) % N_SITES; i < 64;
       i++, at = (at + 1) % N_SITES) {
    uintptr_t old = __atomic_load_n(&sites[at].caller, __ATOMIC_ACQUIRE);
    if (old == caller || old == 0) return &sites[at];
  }
  return NULL;
}

// Names are taken at the first call, since a module may be gone at exit.
static void name_site(uintptr_t caller) {
  tc_shim_site *s = site_slot(caller);
  char path[4096] = "";
  uintptr_t base = 0, end = 0, none = 0;
  Dl_info info;
  if (!s || !__atomic_compare_exchange_n(&s->caller, &none, caller, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return;
  bool in_module = tc_shim_module_of(caller, path, sizeof path, &base, &end);
  const char *name = *path ? path : in_module ? program_invocation_name : "code made at run time";
  const char *slash = strrchr(name, '/');
  s->offset = in_module ? caller - base : caller;
  snprintf(s->module, sizeof s->module, "%.79s", slash ? slash + 1 : name);
  if (in_module && dladdr((const void *)caller, &info) && info.dli_sname)
    snprintf(s->symbol, sizeof s->symbol, "%.79s", info.dli_sname);
}

const tc_shim_site *tc_shim_profile_site(uintptr_t caller) {
  const tc_shim_site *s = site_slot(caller);
  return s && s->caller ? s : NULL;
}

// ---- Tables ----

static void leave_table(void *t) {
  mine = NULL;
  __atomic_store_n(&((table *)t)->taken, 0, __ATOMIC_RELEASE);
}

// What the parent counted is the parent's.
static void clear_in_child(void) {
  for (table *t = tables; t; t = t->next) {
    for (uint32_t i = 0; i <= N_RECORDS; i++)
      if (t->record[i].caller) memset(&t->record[i], 0, sizeof t->record[i]);
    if (t != mine) t->taken = 0;
  }
  tc_shim_seen_reset();
  clock_gettime(CLOCK_MONOTONIC, &began);
  began_ticks = tc_shim_ticks();
}

// At the first record of the process.
static void begin(void) {
  static int begun;
  if (__atomic_exchange_n(&begun, 1, __ATOMIC_ACQ_REL)) return;
  clock_gettime(CLOCK_MONOTONIC, &began);
  began_ticks = tc_shim_ticks();
  sites = tc_shim_memory(N_SITES * sizeof *sites);
  has_key = pthread_key_create(&key, leave_table) == 0;
  pthread_atfork(NULL, NULL, clear_in_child);
}

static table *take_table(void) {
  begin();
  table *t = __atomic_load_n(&tables, __ATOMIC_ACQUIRE);
  for (int no = 0; t; t = t->next, no = 0)
    if (__atomic_compare_exchange_n(&t->taken, &no, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) break;
  if (!t) {
    t = tc_shim_memory(sizeof *t);
    if (!t) return NULL;
    t->taken = 1;
    t->next = __atomic_load_n(&tables, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(&tables, &t->next, t, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    }
  }
  if (has_key) pthread_setspecific(key, t);
  return mine = t;
}

static uint64_t mix(uint64_t h, uint64_t word) {
  h = (h ^ word) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 29;
}

static tc_shim_record *find_record(uintptr_t caller, uint32_t entry, int32_t bucket) {
  table *t = mine ? mine : take_table();
  if (!t) return NULL;
  uint64_t hash = mix(mix(caller, entry), (uint64_t)(bucket + 1));
  for (uint32_t i = 0; i < 64; i++) {
    tc_shim_record *r = &t->record[(hash + i) % N_RECORDS];
    if (r->caller == caller && r->entry == entry && r->bucket == bucket) return r;
    if (r->caller) continue;
    name_site(caller);
    r->entry = entry;
    r->bucket = bucket;
    __atomic_store_n(&r->caller, caller, __ATOMIC_RELEASE);
    return r;
  }
  tc_shim_record *rest = &t->record[N_RECORDS];
  rest->entry = entry;
  rest->bucket = NOT_READ;
  __atomic_store_n(&rest->caller, 1, __ATOMIC_RELEASE);
  return rest;
}

// ---- Counting ----

static void add_count(uint64_t *counter, uint64_t n) {
  __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

static void add_double(double *counter, double x) {
  double sum = *counter + x;
  __atomic_store(counter, &sum, __ATOMIC_RELAXED);
}

// The exponent of a size whose power of the level is the volume.
static int32_t bucket_of(double volume, uint8_t level) {
  uint64_t bits;
  memcpy(&bits, &volume, sizeof bits);
  int32_t exponent = (int32_t)(bits >> 52) - 1023;
  return exponent < 0 ? 0 : exponent / level;
}

static uint64_t shape_hash(const tc_shim_record *r, const tc_shim_call *c) {
  uint64_t flags = c->row_major | (uint64_t)c->right << 1 | (uint64_t)c->upper << 2 | (uint64_t)c->transa << 3 |
                   (uint64_t)c->transb << 4 | (uint64_t)c->unit << 5;
  uint64_t h = mix((uintptr_t)r->caller, flags ^ (uint64_t)r->entry << 8);
  h = mix(mix(mix(h, (uint64_t)c->m), (uint64_t)c->n),
          (uint64_t)c->k + ((uint64_t)c->kl << 40) + ((uint64_t)c->ku << 20));
  return mix(mix(mix(h, (uint64_t)c->step[0]), (uint64_t)c->step[1]), (uint64_t)c->step[2]);
}

// Bytes of an operand's elements, and how many of them lie in pages that are new.
static double operand_bytes(const tc_shim_call *c, int i, uint64_t element, double *out_new) {
  int64_t rows = c->rows[i], columns = c->columns[i], step = c->step[i];
  *out_new = 0;
  if (rows <= 0 || columns <= 0) return 0;
  double bytes = (double)rows * (double)columns * (double)element;
  if (bytes > 1e13) return bytes;
  if (c->routine->operand[i].shape == TC_SHAPE_VEC) step = step < 0 ? -step : step;
  bool is_vector = c->routine->operand[i].shape == TC_SHAPE_VEC || c->routine->operand[i].shape == TC_SHAPE_PACKED;
  uint64_t row = (uint64_t)rows * element, apart = (uint64_t)step * element;
  if (is_vector || apart < 8192 || row * 2 > apart) {  // one range; gaps are smaller than what is read
    uint64_t span =
        is_vector ? (c->step[i] ? ((uint64_t)rows - 1) * apart + element : row) : ((uint64_t)columns - 1) * apart + row;
    double is_new = (double)tc_shim_seen_bytes(c->operand[i], span);
    *out_new = is_new < bytes ? is_new : bytes;
    return bytes;
  }
  for (int64_t j = 0; j < columns; j++)
    *out_new += (double)tc_shim_seen_bytes((const char *)c->operand[i] + (uint64_t)j * apart, row);
  return bytes;
}

static uint64_t element_bytes(char type) {
  return type == 's' ? 4 : type == 'z' ? 16 : 8;
}

tc_shim_record *tc_shim_profile_open(uintptr_t caller, uint32_t entry, tc_shim_call *c) {
  const tc_shim_routine *routine = c->routine;
  tc_shim_record *r = find_record(caller, entry, bucket_of(c->volume, routine->level));
  if (!r) return NULL;
  uint64_t element = element_bytes(routine->type), hash = shape_hash(r, c);
  bool strided = false;
  for (int i = 0; i < routine->n_operands; i++) {
    uint8_t shape = routine->operand[i].shape;
    double is_new, bytes = operand_bytes(c, i, element, &is_new);
    add_double(&r->bytes, bytes);
    add_double(&r->new_bytes, is_new);
    add_double(&r->moved_bytes, routine->operand[i].is_written ? 2 * bytes : bytes);
    if (shape == TC_SHAPE_VEC) strided |= c->step[i] != 1;
    if (shape == TC_SHAPE_MAT) strided |= c->step[i] != c->rows[i] && c->columns[i] > 1;
  }
  if (strided) add_count(&r->strided, 1);
  if (hash != r->last_shape) {
    r->last_shape = hash;
    if (tc_shim_seen_shape(hash)) add_count(&r->shapes, 1);
    if ((double)c->m * (double)c->n >= r->dims[0] * r->dims[1]) {
      r->dims[0] = (double)c->m;
      r->dims[1] = (double)c->n;
      r->dims[2] = (double)c->k;
    }
  }
  return r;
}

void tc_shim_profile_close(tc_shim_call *c, bool is_direct) {
  uint64_t ticks = tc_shim_ticks() - c->start;
  tc_shim_record *r = c->record;
  bool is_complex = c->routine->type == 'c' || c->routine->type == 'z';
  add_count(&r->calls, 1);
  add_count(&r->ticks, ticks);
  add_double(&r->flops, is_complex ? 4 * c->flops : c->flops);
  if (is_direct) add_count(&r->direct, 1);
}

void tc_shim_profile_count(uintptr_t caller, uint32_t entry) {
  tc_shim_record *r = find_record(caller, entry, NOT_READ);
  if (r) add_count(&r->calls, 1);
}

// ---- Reading ----

double tc_shim_tick_seconds(void) {
  struct timespec now;
  uint64_t ticks = tc_shim_ticks();
  clock_gettime(CLOCK_MONOTONIC, &now);
  double seconds = (double)(now.tv_sec - began.tv_sec) + 1e-9 * (double)(now.tv_nsec - began.tv_nsec);
  return ticks > began_ticks ? seconds / (double)(ticks - began_ticks) : 0;
}

static int compare_records(const void *a, const void *b) {
  const tc_shim_record *x = a, *y = b;
  if (x->caller != y->caller) return x->caller < y->caller ? -1 : 1;
  if (x->entry != y->entry) return x->entry < y->entry ? -1 : 1;
  return (x->bucket > y->bucket) - (x->bucket < y->bucket);
}

static void add_record(tc_shim_record *sum, const tc_shim_record *r) {
  sum->calls += r->calls;
  sum->direct += r->direct;
  sum->ticks += r->ticks;
  sum->shapes += r->shapes;
  sum->strided += r->strided;
  sum->flops += r->flops;
  sum->bytes += r->bytes;
  sum->new_bytes += r->new_bytes;
  sum->moved_bytes += r->moved_bytes;
  if (r->dims[0] * r->dims[1] > sum->dims[0] * sum->dims[1]) memcpy(sum->dims, r->dims, sizeof sum->dims);
}

tc_shim_record *tc_shim_profile_merge(uint32_t *out_n) {
  uint32_t n = 0, n_tables = 0, n_merged = 0;
  for (table *t = __atomic_load_n(&tables, __ATOMIC_ACQUIRE); t; t = t->next) n_tables++;
  tc_shim_record *all = n_tables ? tc_shim_memory(n_tables * (size_t)(N_RECORDS + 1) * sizeof *all) : NULL;
  *out_n = 0;
  if (!all && n_tables) tc_shim_say("there is no memory for the profile");
  if (!all) return NULL;
  for (table *t = __atomic_load_n(&tables, __ATOMIC_ACQUIRE); t && n_tables; t = t->next, n_tables--)
    for (uint32_t i = 0; i <= N_RECORDS; i++)
      if (__atomic_load_n(&t->record[i].caller, __ATOMIC_ACQUIRE) && t->record[i].calls) all[n++] = t->record[i];
  qsort(all, n, sizeof *all, compare_records);
  for (uint32_t i = 0; i < n; i++) {
    if (n_merged && compare_records(&all[n_merged - 1], &all[i]) == 0)
      add_record(&all[n_merged - 1], &all[i]);
    else
      all[n_merged++] = all[i];
  }
  *out_n = n_merged;
  return all;
}
