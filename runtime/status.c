// Errors of threads, and the small tables of the public header (version, names of statuses and
// types). See status.h.
//
// A thread's latest error is kept whole. The latest errors of all threads are in a ring. A poisoned
// handle names its error there, and a call that is given the handle reports it. Within a call the
// first error of a status stays, because errors that follow from it know less.
// Invariants: text is complete when the error is recorded. It points into no module of the caller,
// which may be unloaded before it is read.
// Threads: all but the ring, which has a lock, belongs to one thread. The text is allocated with a
// thread's first error: a binding may open the library late, when thread-local memory is scarce.
// Without memory for it the message is the status's text.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // dladdr
#endif
#include "runtime/status.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/fork.h"
#include "runtime/inside.h"

#define MESSAGE_BYTES 1024  // enough for the list of what holds a GPU's memory
#define SITE_BYTES 160

typedef struct error_text {
  char message[MESSAGE_BYTES], site[SITE_BYTES];
} error_text;

_Thread_local tc_call tc_inside_call;
_Thread_local const char *tc_outer_op;
_Thread_local bool tc_call_failed;
static _Thread_local tc_error latest = {TC_OK, "", "", ""};
static _Thread_local uint32_t latest_id;  // 0: there is none
static _Thread_local error_text *kept;  // text of latest; freed when the thread ends
static _Thread_local uint64_t n_clears = 1;

// Errors by number, so that handles can name them. An error that the ring has overwritten has its
// status's text.
#define RING 64
#define ID_LOST 1  // the number of errors that the ring did not take
static struct {
  uint32_t id;  // 0: the slot is empty
  tc_status status;
  const char *op;
  error_text text;
} ring_at[RING];  // apart from ring: all zero, it takes no bytes in the library's file
static struct {
  pthread_mutex_t lock;
  uint32_t n_ids;
} ring = {.lock = PTHREAD_MUTEX_INITIALIZER, .n_ids = ID_LOST};
// 1: this thread holds the ring's lock; a signal handler that interrupts it does without the ring
static _Thread_local volatile sig_atomic_t has_ring;
TC_FORK_SAFE(&ring.lock, 11)

static bool ring_take(void) {
  if (has_ring) return false;
  has_ring = 1;
  return pthread_mutex_lock(&ring.lock) == 0;
}

static void ring_give(void) {
  pthread_mutex_unlock(&ring.lock);
  has_ring = 0;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

static void text_free(void *text) {
  latest = (tc_error){TC_OK, "", "", ""}, latest_id = 0;
  kept = NULL;
  free(text);
}

static void make_key(void) {
  has_key = pthread_key_create(&key, text_free) == 0;
}

static void at_exit(void) __attribute__((destructor));
static void at_exit(void) {
  if (tc_inside) return;
  text_free(kept);
  if (has_key) pthread_key_delete(key);
  has_key = false;
}

// Returns this thread's buffer for text; NULL without memory.
static error_text *text_room(void) {
  if (kept) return kept;
  pthread_once(&once, make_key);
  kept = malloc(sizeof *kept);
  if (kept && has_key) pthread_setspecific(key, kept);
  return kept;
}

void tc_text_append(char *out, size_t bytes, const char *fmt, ...) {
  size_t used = strlen(out);
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(out + used, bytes - used, fmt, args);
  va_end(args);
}

void tc_site_text(tc_site site, char *out, size_t bytes) {
  if (bytes == 0) return;
  out[0] = 0;
  if (site == 0) return;
  if (!(site >> 63)) {
    snprintf(out, bytes, "%s", (const char *)(uintptr_t)site);
    return;
  }
  uintptr_t address = (uintptr_t)(site & ~(UINT64_C(1) << 63));
  Dl_info info = {0};
  // A return address may be the first byte of the next function, so the call's address is looked up
  // and the return address printed.
  int found = dladdr((void *)(address - 1), &info);
  const char *slash = found && info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
  const char *module = slash ? slash + 1 : found && info.dli_fname ? info.dli_fname : "";
  if (found && info.dli_sname)
    snprintf(out, bytes, "%s+0x%" PRIxPTR "(%s)", info.dli_sname, address - (uintptr_t)info.dli_saddr, module);
  else if (found && info.dli_fbase)
    snprintf(out, bytes, "0x%" PRIxPTR "(%s)", address - (uintptr_t)info.dli_fbase, module);
  else
    snprintf(out, bytes, "0x%" PRIxPTR, address);
}

// from NULL: the text is lost.
static void set_latest(uint32_t id, tc_status status, const char *op, const error_text *from) {
  error_text *text = from ? text_room() : NULL;
  latest = (tc_error){status, status == TC_OK ? "" : tc_status_text(status), op, ""};
  latest_id = id;
  if (text) {
    *text = *from;
    latest.message = text->message, latest.site = text->site;
  }
  tc_call_failed = status != TC_OK && (tc_inside || tc_outer_op);
}

static uint32_t ring_add(tc_status status, const char *op, const error_text *text) {
  if (!ring_take()) return ID_LOST;
  uint32_t id = ++ring.n_ids > ID_LOST ? ring.n_ids : (ring.n_ids = ID_LOST + 1);
  ring_at[id % RING].id = id, ring_at[id % RING].status = status, ring_at[id % RING].op = op;
  ring_at[id % RING].text = *text;
  ring_give();
  return id;
}

tc_status tc_fail(tc_status status, const char *op, tc_site site, const char *fmt, ...) {
  error_text text = {"", ""};
  char place[SITE_BYTES + 8] = "";
  TC_ASSERT(status != TC_OK);
  if (site == 0 && tc_inside) site = tc_inside_call.site;
  tc_site_text(site, text.site, sizeof text.site);
  if (text.site[0]) snprintf(place, sizeof place, " (at %s)", text.site);
  // The place is worth more than the end of a long text, so room is left for it.
  size_t body_bytes = sizeof text.message - strlen(place);
  int n = snprintf(text.message, body_bytes, "%s: ", op);
  size_t used = TC_MIN((size_t)TC_MAX_OF(n, 0), body_bytes - 1);
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(text.message + used, body_bytes - used, fmt, args);
  va_end(args);
  tc_text_append(text.message, sizeof text.message, "%s", place);
  if ((tc_inside || tc_outer_op) && tc_call_failed && latest.status == status) return status;
  set_latest(ring_add(status, op, &text), status, op, &text);
  return status;
}

const char *tc_call_op(const char *outside) {
  return tc_inside ? tc_inside_call.op : outside;
}

const tc_error *tc_last_error(void) {
  return &latest;
}

void tc_clear_error(void) {
  set_latest(0, TC_OK, "", NULL);
  n_clears++;
}

const char *tc_error_of(const char *ops, char *out, size_t bytes) {
  size_t n = strlen(latest.op);
  out[0] = 0;
  for (const char *at = strstr(ops, latest.op); n && at; at = strstr(at + 1, latest.op))
    if ((at == ops || at[-1] == ' ') && (at[n] == ' ' || at[n] == 0)) snprintf(out, bytes, ": %s", latest.message);
  return out;
}

tc_error_mark tc_error_now(void) {
  return (tc_error_mark){latest_id, latest.status, tc_call_failed};
}

bool tc_error_tell(tc_error_mark e) {
  error_text text;
  const char *op = "";
  bool here = e.id == latest_id && e.status == latest.status, found = !here && e.id > ID_LOST && ring_take();
  if (found) {
    found = ring_at[e.id % RING].id == e.id && ring_at[e.id % RING].status == e.status;
    if (found) op = ring_at[e.id % RING].op, text = ring_at[e.id % RING].text;
    ring_give();
  }
  if (!here) set_latest(e.id, e.status, op, found ? &text : NULL);
  tc_call_failed = e.in_call && (here || found);
  return here || found;
}

tc_tensor tc_poison(tc_status st) {
  if (st == TC_OK) st = TC_ERR_STATE;
  return (tc_tensor){TC_POISON + (uint32_t)st, st == latest.status && latest_id ? latest_id : ID_LOST};
}

tc_status tc_poison_told(tc_tensor h) {
  tc_status st = tc_poison_status(h);
  if (st == TC_OK) return TC_FAIL(TC_ERR_HANDLE, "the handle is no tensor");
  (void)tc_error_tell((tc_error_mark){h.gen, st, true});
  return st;
}

tc_status tc_invalid(tc_tensor h, const char *op, tc_site site, const char *fmt, ...) {
  char text[128];
  va_list args;
  if (tc_inside) return tc_refuse_inside(op, site);
  if (tc_poison_status(h) != TC_OK) return tc_poison_told(h);
  va_start(args, fmt);
  (void)vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return tc_fail(TC_ERR_HANDLE, op, site, "%s", text);
}

uint64_t tc_error_clears(void) {
  return n_clears;
}

const char *tc_dims_text(const tc_dims *d, char *out, size_t bytes) {
  if (bytes == 0) return out;
  snprintf(out, bytes, "[");
  for (int i = 0; i < d->rank && i < TC_MAX_RANK; i++)
    tc_text_append(out, bytes, i ? ", %" PRId64 : "%" PRId64, d->dim[i]);
  tc_text_append(out, bytes, d->rank > TC_MAX_RANK ? ", ...]" : "]");
  return out;
}

const char *tc_version_text(void) {
  return TC_STR(TC_VERSION_MAJOR) "." TC_STR(TC_VERSION_MINOR) "." TC_STR(TC_VERSION_PATCH);
}

const char *tc_status_text(tc_status status) {
  static const char *const texts[] = {
#define TC_STATUS(NAME, text) [TC_##NAME] = text,
#include <tc/status.def>
#undef TC_STATUS
  };
  return (unsigned)status < TC_N_STATUSES ? texts[status] : "unknown status";
}

const char *tc_type_name(tc_type type) {
  static const char *const names[] = {
#define TC_TYPE(NAME, name, bytes, kind, npy) [TC_##NAME] = #name,
#include <tc/dtypes.def>
#undef TC_TYPE
  };
  return (unsigned)type < TC_N_TYPES ? names[type] : "unknown type";
}

size_t tc_type_bytes(tc_type type) {
  static const unsigned char sizes[] = {
#define TC_TYPE(NAME, name, bytes, kind, npy) [TC_##NAME] = bytes,
#include <tc/dtypes.def>
#undef TC_TYPE
  };
  return (unsigned)type < TC_N_TYPES ? sizes[type] : 0;
}
