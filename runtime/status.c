// Statuses and errors of one thread, and the small tables of the public header (version, status and type names).
// The first error since tc_clear_error is kept whole.
// Always: text is complete when the error is recorded, so nothing points into a caller's module, which may be unloaded before it is read.
// Threads: all state is thread-local. The text is allocated with a thread's first error, because thread-local memory of a library that is opened
// late (by a binding) must be small; where there is no memory the message is the status's.
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

#include "runtime/reentry.h"

#define MESSAGE_BYTES 1024  // what holds a GPU's memory is a long list
#define SITE_BYTES 160

typedef struct error_text {
  char message[MESSAGE_BYTES], site[SITE_BYTES];
} error_text;

_Thread_local volatile sig_atomic_t tc_inside;
_Thread_local tc_call tc_inside_call;
_Thread_local const char *tc_outer_op;
static _Thread_local tc_error first = {TC_OK, "", "", ""};
static _Thread_local error_text *kept;  // of first; freed when the thread ends
static _Thread_local uint64_t n_clears = 1;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

static void text_free(void *text) {
  tc_forget_error();
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

// This thread's room for text; NULL without memory.
static error_text *text_room(void) {
  if (kept) return kept;
  pthread_once(&once, make_key);
  kept = malloc(sizeof *kept);
  if (kept && has_key) pthread_setspecific(key, kept);
  return kept;
}

static void append(char *out, size_t bytes, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void append(char *out, size_t bytes, const char *fmt, ...) {
  size_t used = strlen(out);
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(out + used, bytes - used, fmt, args);
  va_end(args);
}

void tc_assert_fail(const char *what, const char *file, int line) {
  fprintf(stderr, "tc: internal error: %s is false (%s:%d)\n", what, file, line);
  abort();
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
  // A return address may be the first byte of the next function: look up the call, print the address.
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

tc_status tc_fail(tc_status status, const char *op, tc_site site, const char *fmt, ...) {
  char message[MESSAGE_BYTES], site_text[SITE_BYTES], place[SITE_BYTES + 8] = "";
  TC_ASSERT(status != TC_OK);
  if (site == 0 && tc_inside) site = tc_inside_call.site;
  tc_site_text(site, site_text, sizeof site_text);
  if (site_text[0]) snprintf(place, sizeof place, " (at %s)", site_text);
  // The place is worth more than the end of a long text, so room is left for it.
  size_t body_bytes = sizeof message - strlen(place);
  int n = snprintf(message, body_bytes, "%s: ", op);
  size_t used = TC_MIN((size_t)TC_MAX_OF(n, 0), body_bytes - 1);
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(message + used, body_bytes - used, fmt, args);
  va_end(args);
  append(message, sizeof message, "%s", place);
  if (first.status != TC_OK) return status;
  error_text *text = text_room();
  first = (tc_error){status, tc_status_text(status), op, ""};
  if (text) {
    memcpy(text->message, message, sizeof message);
    memcpy(text->site, site_text, sizeof site_text);
    first.message = text->message, first.site = text->site;
  }
  return status;
}

const char *tc_call_op(const char *outside) {
  return tc_inside ? tc_inside_call.op : outside;
}

const tc_error *tc_last_error(void) {
  return &first;
}

void tc_forget_error(void) {
  first = (tc_error){TC_OK, "", "", ""};
}

void tc_clear_error(void) {
  tc_forget_error();
  n_clears++;
}

uint64_t tc_error_clears(void) {
  return n_clears;
}

const char *tc_dims_text(const tc_dims *d, char *out, size_t bytes) {
  if (bytes == 0) return out;
  snprintf(out, bytes, "[");
  for (int i = 0; i < d->rank && i < TC_MAX_RANK; i++) append(out, bytes, i ? ", %" PRId64 : "%" PRId64, d->dim[i]);
  append(out, bytes, d->rank > TC_MAX_RANK ? ", ...]" : "]");
  return out;
}

const char *tc_version(void) {
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
