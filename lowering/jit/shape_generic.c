// Classes of kernels, found by the hash of what their kernels share. See shape_generic.h.
// Classes are small and have no last use, so a full table is emptied at once.
#include "lowering/jit/shape_generic.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "lowering/kir/serialize.h"
#include "runtime/arena.h"
#include "runtime/disk.h"
#include "runtime/fork.h"
#include "runtime/hash.h"
#include "runtime/lru.h"

#define MOST_CLASSES 4096  // at this number all are dropped

// Kernels that share a shape-generic kernel. Found by its hash alone, for a collision only costs a
// compile.
typedef struct shape_class {
  tc_lru_entry entry;
  tc_hash id;
  uint32_t n;  // number of constants that may vary
  int64_t *first;  // their values in the first kernel
  bool varies[];
} shape_class;

static struct {
  pthread_mutex_t lock;
  tc_lru classes;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};
TC_FORK_SAFE(&self.lock, 8)

// Stored for later processes: their first size then finds its shape-generic kernel on disk too.
static tc_disk kept = TC_DISK("sizes");

// ---- constants ----

static double float_of(const tc_kir_inst *i) {
  float f;
  double d;
  memcpy(&f, &i->imm, sizeof f), memcpy(&d, &i->imm, sizeof d);
  return i->dtype == TC_F32 ? (double)f : d;
}

// Whether the instruction is a constant that an argument can pass exactly.
static bool may_vary(const tc_kir_inst *i) {
  if (i->op != TC_IR_CONST) return false;
  return i->dtype == TC_I64 || i->dtype == TC_I32 ||
         ((i->dtype == TC_F32 || i->dtype == TC_F64) && isfinite(float_of(i)));
}

static uint64_t argument_of(const tc_kir_inst *i) {
  uint64_t bits = (uint64_t)i->imm;
  double value = i->dtype == TC_F32 ? float_of(i) : 0;
  if (i->dtype == TC_F32) memcpy(&bits, &value, sizeof bits);
  return bits;
}

// ---- classes of kernels that differ in constants alone ----

// pre: constants that may vary are 0. Hashes the site and the kernel IR. False: no memory.
static bool hash_of(uint64_t site, const tc_kir *kir, tc_hash *out) {
  size_t bytes = sizeof site + tc_kir_key_bytes(kir);
  uint64_t *key = tc_calloc(1, bytes);
  if (!key) return false;
  key[0] = site;
  tc_kir_write_key(kir, key + 1);
  *out = tc_hash_bytes(key, bytes);
  tc_free(key);
  return true;
}

static void drop_class(shape_class *f) {
  if (f) tc_free(f->first);
  tc_free(f);
}

static void forget_all(void) {
  for (tc_lru_entry *e = tc_lru_take_all(&self.classes), *next; e; e = next) {
    next = e->next;
    drop_class((shape_class *)e);
  }
}

static shape_class *make_class(tc_hash id, uint32_t n, const int64_t *first) {
  shape_class *f = tc_calloc(1, sizeof *f + n * sizeof f->varies[0]);
  if (!f) return NULL;
  *f = (shape_class){.id = id, .n = n, .first = tc_malloc(n * sizeof *first)};
  if (!f->first) return tc_free(f), NULL;
  memcpy(f->first, first, n * sizeof *first);
  return f;
}

// On disk: the first kernel's values, then one byte each: whether it varies.
static shape_class *load_class(tc_hash id, uint32_t n) {
  size_t bytes;
  char *data = tc_disk_is_on() ? tc_disk_find(&kept, &id, sizeof id, &bytes) : NULL;
  shape_class *f = data && bytes == n * (sizeof *f->first + sizeof f->varies[0])
                       ? make_class(id, n, (const int64_t *)(void *)data)
                       : NULL;
  for (uint32_t i = 0; i < n && f; i++) f->varies[i] = data[n * sizeof *f->first + i] != 0;
  tc_free(data);
  return f;
}

static void keep_class(tc_hash id, uint32_t n, const int64_t *first, const bool *varies) {
  size_t bytes = n * sizeof *first;
  char *data = tc_disk_is_on() ? tc_malloc(bytes + n) : NULL;
  if (!data) return;
  memcpy(data, first, bytes);
  for (uint32_t i = 0; i < n; i++) data[bytes + i] = (char)varies[i];
  tc_disk_keep(&kept, &id, sizeof id, data, bytes + n);
  tc_free(data);
}

// pre: locked.
static shape_class *find_locked(tc_hash id, uint32_t n) {
  shape_class *f = (shape_class *)tc_lru_first(&self.classes, id.lo);
  while (f && (f->id.lo != id.lo || f->id.hi != id.hi || f->n != n)) f = (shape_class *)f->entry.next;
  return f;
}

// pre: locked. Consumes f, which may be NULL.
static void add_locked(shape_class *f) {
  if (!f) return;
  if (self.classes.n == MOST_CLASSES) forget_all();
  tc_lru_add(&self.classes, &f->entry, f->id.lo);
}

// Ensures that the class exists: from disk, or with these values as the first. Without memory it
// stays absent.
static void get_to_know(tc_hash id, uint32_t n, const int64_t *value) {
  pthread_mutex_lock(&self.lock);
  bool known = find_locked(id, n) != NULL;
  pthread_mutex_unlock(&self.lock);
  if (known) return;
  shape_class *f = load_class(id, n);
  if (!f) f = make_class(id, n, value);
  pthread_mutex_lock(&self.lock);
  if (find_locked(id, n)) {
    drop_class(f);
  } else {
    add_locked(f);
  }
  pthread_mutex_unlock(&self.lock);
}

// Updates which constants vary with this kernel's values, and copies that to varies.
static void meet_values(tc_hash id, uint32_t n, const int64_t *value, bool *varies) {
  bool extra = false;
  get_to_know(id, n, value);
  int64_t *first = tc_malloc(n * sizeof *first);
  pthread_mutex_lock(&self.lock);
  shape_class *f = find_locked(id, n);
  for (uint32_t i = 0; i < n && f; i++) {
    extra |= !f->varies[i] && f->first[i] != value[i];
    varies[i] = f->varies[i] |= f->first[i] != value[i];
  }
  if (f && first) memcpy(first, f->first, n * sizeof *first);
  pthread_mutex_unlock(&self.lock);
  if (extra && first) keep_class(id, n, first, varies);
  tc_free(first);
}

// ---- kernels ----

static bool copy_kir(const tc_kir *kir, tc_kir *out) {
  *out = *kir;
  out->cap_inst = kir->n_inst;
  out->inst = tc_malloc(kir->n_inst * sizeof *out->inst);
  out->tile = tc_malloc((kir->n_tile + 1) * sizeof *out->tile);
  out->buf_type = tc_malloc(kir->n_buf + 1);
  if (!out->inst || !out->tile || !out->buf_type) return tc_kir_destroy(out), false;
  memcpy(out->inst, kir->inst, kir->n_inst * sizeof *out->inst);
  if (kir->n_tile) memcpy(out->tile, kir->tile, kir->n_tile * sizeof *out->tile);
  if (kir->n_buf) memcpy(out->buf_type, kir->buf_type, kir->n_buf);
  return true;
}

// Moves the constants' values to value, leaving zeros in the kernel IR.
static uint32_t blank_constants(tc_kir *kir, int64_t *value) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < kir->n_inst; i++)
    if (may_vary(&kir->inst[i])) value[n++] = kir->inst[i].imm, kir->inst[i].imm = 0;
  return n;
}

// Replaces varying constants by arguments and restores the others. False: none varies, or too many
// do.
static bool widen_constants(tc_generic_kernel *g, const int64_t *value, const bool *varies) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < g->kir.n_inst; i++) {
    tc_kir_inst *inst = &g->kir.inst[i];
    if (!may_vary(inst)) continue;
    inst->imm = value[n];
    if (!varies[n++]) continue;
    if (g->kir.n_num + g->n_value >= TC_MAX_EXTRA_SCALARS) return false;
    g->value[g->n_value] = argument_of(inst);
    inst->op = TC_IR_NUM, inst->imm = g->kir.n_num + g->n_value++;
  }
  g->kir.n_num += g->n_value;
  return g->n_value > 0;
}

bool tc_shape_generic_find(uint64_t site, const tc_kir *kir, tc_generic_kernel *out) {
  *out = (tc_generic_kernel){.value = tc_malloc(TC_MAX_EXTRA_SCALARS * sizeof *out->value)};
  int64_t *value = tc_malloc(kir->n_inst * sizeof *value);
  bool *varies = tc_calloc(kir->n_inst, sizeof *varies),
       copied = value && varies && out->value && copy_kir(kir, &out->kir), found = false;
  tc_hash id;
  uint32_t n = copied ? blank_constants(&out->kir, value) : 0;
  if (n > 0 && hash_of(site, &out->kir, &id)) {
    meet_values(id, n, value, varies);
    found = widen_constants(out, value, varies);
  }
  if (!found) tc_shape_generic_drop(out);
  tc_free(value);
  tc_free(varies);
  return found;
}

bool tc_shape_generic_varies(uint64_t site, int64_t number) {
  bool varies = false;
  meet_values(tc_hash_bytes(&site, sizeof site), 1, &number, &varies);
  return varies;
}

void tc_shape_generic_drop(tc_generic_kernel *g) {
  tc_kir_destroy(&g->kir);
  tc_free(g->value);
  *g = (tc_generic_kernel){0};
}

void tc_shape_generic_clear(void) {
  pthread_mutex_lock(&self.lock);
  forget_all();
  pthread_mutex_unlock(&self.lock);
}
