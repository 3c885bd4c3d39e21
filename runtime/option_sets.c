// See option_sets.h.
#include "runtime/option_sets.h"

#include <pthread.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/fork.h"
#include "runtime/hash.h"
#include "runtime/status.h"

#define MOST_SETS 1024
#define MOST_ROWS 32  // that one text gives
#define BUCKETS 256
#define MOST_PAST 64

// What a mode sets. Source: PyTorch, torch._inductor.list_mode_options.
static const struct {
  const char *name, *implies, *meaning;
} modes[] = {
    {"default", "", "tc's own: kernels fused and compiled, those of short runs interpreted until then"},
    {"reduce-overhead", "pin_plans=1,interpret_first=0,gpu_replay=1",
     "plans stay in the cache and are compiled before their first run; a GPU's runs are one launch"},
    {"max-autotune", "autotune=1,pin_plans=1,interpret_first=0,gpu_replay=1",
     "the same, and matrix products are timed in several tilings before their first run"},
    {"max-autotune-no-cudagraphs", "autotune=1,pin_plans=1,interpret_first=0,gpu_replay=0",
     "the same, but each kernel of a GPU is launched by itself"},
};
enum { N_MODES = sizeof modes / sizeof *modes };

// What a text made of a set, so that a region that is begun again costs a look.
typedef struct overlay {
  struct overlay *next;
  const tc_options *under;
  bool region;
  const tc_options *made;
  char text[];
} overlay;

typedef struct interned {
  struct interned *next;
  char text[];
} interned;

typedef struct past_environment {
  tc_hash hash;
  uint32_t plan_class;
} past_environment;

static struct {
  pthread_mutex_t lock;
  tc_option_set *sets;
  uint32_t n_sets, n_classes;
  overlay *overlays[BUCKETS];
  interned *texts;
  past_environment past[MOST_PAST];  // those that were read; tests read many
  uint32_t n_past;
  bool ends;  // true: the destructor frees all
} self = {.lock = PTHREAD_MUTEX_INITIALIZER};
TC_FORK_SAFE(&self.lock, 10)

const char *tc_option_mode(int i, const char **out_meaning) {
  if (i < 0 || i >= N_MODES) return NULL;
  if (out_meaning) *out_meaning = modes[i].meaning;
  return modes[i].name;
}

// ---- values ----

static void *field_of(tc_options *o, int row) {
  return (char *)o + tc_option_rows[row].offset;
}

static const void *value_of(const tc_options *o, int row) {
  return (const char *)o + tc_option_rows[row].offset;
}

static bool is_same_value(const tc_options *a, const tc_options *b, int row) {
  if (tc_option_rows[row].is_number) return memcmp(value_of(a, row), value_of(b, row), sizeof(tc_option_number)) == 0;
  tc_option_string x, y;
  memcpy(&x, value_of(a, row), sizeof x), memcpy(&y, value_of(b, row), sizeof y);
  return x == y || (x && y && strcmp(x, y) == 0);
}

static bool is_same(const tc_options *a, const tc_options *b, tc_option_by least) {
  for (int i = 0; i < TC_N_OPTION_ROWS; i++)
    if (tc_option_rows[i].by >= least && !is_same_value(a, b, i)) return false;
  return true;
}

// pre: locked. The text, for the life of the process. NULL: no memory.
static const char *intern(const char *text) {
  for (const interned *i = self.texts; i; i = i->next)
    if (strcmp(i->text, text) == 0) return i->text;
  interned *i = tc_malloc(sizeof *i + strlen(text) + 1);
  if (!i) return NULL;
  strcpy(i->text, text);
  i->next = self.texts, self.texts = i;
  return i->text;
}

// ---- reading an overlay ----

// The pairs of a text.
typedef struct pairs {
  int n, row[MOST_ROWS];
  char *value[MOST_ROWS];  // in room
  char room[4096];
} pairs;

static tc_status no_such_option(const char *key, const char *op, tc_site site) {
  const char *near = tc_option_near(key, strlen(key));
  return tc_fail(TC_ERR_ARG, op, site, "there is no option '%.64s'%s%s; tc_list_options lists them", key,
                 near ? ", the nearest is " : "", near ? near : "");
}

static tc_status check_pair(int row, const char *key, const char *value, bool region, const char *op, tc_site site) {
  const tc_option_facts *r = &tc_option_rows[row];
  char why[TC_OPTION_WHY];
  int64_t number;
  if (r->by == TC_BY_start)
    return tc_fail(TC_ERR_ARG, op, site, "%s is read when the library begins: set %s in the environment", key,
                   r->variable);
  if (r->by == TC_BY_process && region)
    return tc_fail(TC_ERR_ARG, op, site, "%s is the whole process's, not a region's: tc_set_options sets it", key);
  if (tc_option_takes((tc_option_row)row, value, &number, why)) return TC_OK;
  return tc_fail(TC_ERR_ARG, op, site, "%s is '%.64s', %s", key, value, why);
}

static tc_status read_pairs(const char *text, bool region, const char *op, tc_site site, pairs *out) {
  out->n = 0;
  if (strlen(text) >= sizeof out->room)
    return tc_fail(TC_ERR_ARG, op, site, "the options are longer than %zu bytes", sizeof out->room - 1);
  strcpy(out->room, text);
  for (char *at = out->room, *end = at + strlen(at), *key; at < end; at += strlen(at) + 1) {
    at += strspn(at, " ");
    key = at;
    at[strcspn(at, ",")] = 0;
    if (!*key) continue;
    char *value = strchr(key, '=');
    if (value) *value++ = 0;
    int row = tc_option_find(key, strlen(key));
    if (row < 0) return no_such_option(key, op, site);
    if (!value || !*value) return tc_fail(TC_ERR_ARG, op, site, "%s has no value: write %s=VALUE", key, key);
    TC_TRY(check_pair(row, key, value, region, op, site));
    if (out->n == MOST_ROWS) return tc_fail(TC_ERR_ARG, op, site, "more than %d options", MOST_ROWS);
    out->row[out->n] = row, out->value[out->n++] = value;
    at = value;
  }
  return TC_OK;
}

// pre: locked. False: no memory.
static bool set_row(tc_options *o, int row, const char *value) {
  char why[TC_OPTION_WHY];
  tc_option_number number = 0;
  (void)tc_option_takes((tc_option_row)row, value, &number, why);
  tc_option_string text = tc_option_rows[row].is_number ? NULL : intern(value);
  if (tc_option_rows[row].is_number) return memcpy(field_of(o, row), &number, sizeof number), true;
  return memcpy(field_of(o, row), &text, sizeof text), text != NULL;
}

// ---- making a set ----

// pre: locked. The class of a set by its rows: that of another set with equal ones, or a new one.
static uint32_t class_of(const tc_option_set *base, const tc_options *o) {
  if (is_same(&base->as, o, TC_BY_plan)) return base->as.plan_class;
  for (const tc_option_set *s = self.sets; s; s = s->next)
    if (is_same(&s->as, o, TC_BY_plan)) return s->as.plan_class;
  return self.n_classes++;
}

// The hash of the rows that a class is of.
static tc_hash hash_of(const tc_options *o) {
  uint64_t word[2 * TC_N_OPTION_ROWS];
  size_t n = 0;
  for (int i = 0; i < TC_N_OPTION_ROWS; i++) {
    if (tc_option_rows[i].by < TC_BY_plan) continue;
    tc_option_string text = NULL;
    if (!tc_option_rows[i].is_number) memcpy(&text, value_of(o, i), sizeof text);
    size_t bytes = tc_option_rows[i].is_number ? sizeof(tc_option_number) : text ? strlen(text) + 1 : 0;
    tc_hash hash = tc_hash_bytes(text ? (const void *)text : value_of(o, i), bytes);
    word[n++] = hash.lo, word[n++] = hash.hi;
  }
  return tc_hash_bytes(word, n * sizeof *word);
}

// pre: locked. The class of an environment: one that is read again has its class again.
static uint32_t class_of_environment(const tc_options *o) {
  tc_hash hash = hash_of(o);
  for (uint32_t i = 0; i < self.n_past; i++)
    if (self.past[i].hash.lo == hash.lo && self.past[i].hash.hi == hash.hi) return self.past[i].plan_class;
  if (self.n_past < MOST_PAST) self.past[self.n_past++] = (past_environment){hash, self.n_classes};
  return self.n_classes++;
}

// pre: locked. Fills `as`: what was given, and what the mode implies where nothing else was given.
static void imply(tc_option_set *s) {
  static pairs implied;  // under the lock
  int mode = 0;
  s->as = s->given;
  while (mode + 1 < N_MODES && strcmp(modes[mode].name, s->given.mode) != 0) mode++;
  (void)read_pairs(modes[mode].implies, true, "mode", 0, &implied);
  for (int i = 0; i < implied.n; i++)
    if (!s->later[implied.row[i]]) (void)set_row(&s->as, implied.row[i], implied.value[i]);
  if (strncmp(s->as.backend, "tc:", 3) == 0) s->as.backend += 3;
  if (s->as.disable || strcmp(s->as.backend, "eager") == 0) s->as.eager = 1;
}

static tc_option_set *of_environment;

void tc_option_sets_begin(tc_option_set *base) {
  pthread_mutex_lock(&self.lock);
  memset(self.overlays, 0, sizeof self.overlays);  // what they made stays: threads may have it
  self.sets = NULL, self.n_sets = 0;
  imply(base);
  base->as.plan_class = class_of_environment(&base->as);
  of_environment = base;
  pthread_mutex_unlock(&self.lock);
}

void tc_option_sets_end(void) {
  self.ends = true;
}

// Of the lowest priority for destructors, so the last: those of other files read options.
static void free_at_exit(void) __attribute__((destructor(101)));
static void free_at_exit(void) {
  if (!self.ends) return;
  for (int i = 0; i < BUCKETS; i++)
    for (overlay *o = self.overlays[i], *next; o; o = next) next = o->next, tc_free(o);
  for (tc_option_set *s = self.sets, *next; s; s = next) next = s->next, tc_free(s);
  for (interned *t = self.texts, *next; t; t = next) next = t->next, tc_free(t);
}

// pre: locked.
static tc_status make_set(const tc_options *under, const pairs *p, bool region, const char *op, tc_site site,
                          const tc_options **out) {
  const tc_option_set *from = (const tc_option_set *)(const void *)under;
  tc_option_set s = *from;
  bool has_mode = false;
  for (int i = 0; i < p->n; i++) has_mode |= p->row[i] == TC_ROW_mode;
  if (has_mode) memset(s.later, 0, sizeof s.later);
  for (int i = 0; i < p->n; i++) {
    if (!set_row(&s.given, p->row[i], p->value[i])) return tc_fail(TC_ERR_MEMORY, op, site, "no room for options");
    s.later[p->row[i]] = true;
    s.given.has_budget |= region && p->row[i] == TC_ROW_memory_budget;
  }
  imply(&s);
  for (const tc_option_set *old = of_environment; old; old = old == of_environment ? self.sets : old->next)
    if (is_same(&old->given, &s.given, TC_BY_start) && memcmp(old->later, s.later, sizeof s.later) == 0 &&
        old->given.has_budget == s.given.has_budget)
      return *out = &old->as, TC_OK;
  if (self.n_sets == MOST_SETS)
    return tc_fail(TC_ERR_STATE, op, site, "there are %d different sets of options in this process already", MOST_SETS);
  tc_option_set *made = tc_malloc(sizeof *made);
  if (!made) return tc_fail(TC_ERR_MEMORY, op, site, "no room for options");
  s.as.plan_class = class_of(of_environment, &s.as), s.as.has_budget = s.given.has_budget;
  *made = s;
  made->next = self.sets, self.sets = made, self.n_sets++;
  return *out = &made->as, TC_OK;
}

// pre: locked. Of what was not noted only the time is lost.
static void note_overlay(overlay **bucket, const tc_options *under, const char *text, bool region,
                         const tc_options *made) {
  overlay *o = tc_malloc(sizeof *o + strlen(text) + 1);
  if (!o) return;
  *o = (overlay){*bucket, under, region, made};
  strcpy(o->text, text);
  *bucket = o;
}

tc_status tc_options_overlay(const tc_options *under, const char *text, bool region, const char *op, tc_site site,
                             const tc_options **out) {
  overlay **bucket = &self.overlays[tc_hash_bytes(text, strlen(text)).lo % BUCKETS];
  tc_status st = TC_OK;
  *out = NULL;
  pthread_mutex_lock(&self.lock);
  for (const overlay *o = *bucket; o && !*out; o = o->next)
    if (o->under == under && o->region == region && strcmp(o->text, text) == 0) *out = o->made;
  pthread_mutex_unlock(&self.lock);
  if (*out) return TC_OK;
  pairs *p = tc_malloc(sizeof *p);
  if (!p) return tc_fail(TC_ERR_MEMORY, op, site, "no room for options");
  st = read_pairs(text, region, op, site, p);
  if (st == TC_OK) {
    pthread_mutex_lock(&self.lock);
    st = make_set(under, p, region, op, site, out);
    if (st == TC_OK) note_overlay(bucket, under, text, region, *out);
    pthread_mutex_unlock(&self.lock);
  }
  tc_free(p);
  return st;
}
