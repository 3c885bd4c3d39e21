// The log and the code of a compiled program. See rtc.h.
#include "device/gpu/rtc.h"

#include <string.h>

#include "runtime/arena.h"
#include "runtime/log.h"

// Returns the compiler's log, to be freed; NULL: there is none, or no memory.
static char *log_of(const tc_rtc *c, tc_rtc_program program) {
  size_t bytes = 0;
  if (c->log_bytes(program, &bytes) != 0 || bytes < 2) return NULL;
  char *log = tc_calloc(1, bytes + 1);
  if (log && c->log(program, log) != 0) *log = 0;
  return log;
}

// Returns the log from the line of its first error on: a message has room for no more.
static const char *first_error(const char *log) {
  const char *at = log ? strstr(log, "error") : NULL;
  while (at && at > log && at[-1] != '\n') at--;
  return at ? at : log ? log : "";
}

static tc_status take_image(const tc_rtc *c, tc_rtc_program program, const char *name, tc_gpu_image *out) {
  size_t bytes = 0;
  unsigned result = c->code_bytes(program, &bytes);
  char *data = result == 0 && bytes > 0 ? tc_calloc(1, bytes + 1) : NULL;
  if (result == 0 && bytes > 0 && !data)
    return TC_FAIL(TC_ERR_MEMORY, "no memory for %zu bytes of code of %s", bytes, name);
  if (data) result = c->code(program, data);
  if (!data || result != 0) {
    tc_free(data);
    return TC_FAIL(TC_ERR_COMPILE, "%s: %s gives no code: %s", name, c->compiler, c->error(result));
  }
  *out = (tc_gpu_image){data, bytes};
  return TC_OK;
}

tc_status tc_rtc_finish(const tc_rtc *c, tc_rtc_program program, unsigned result, const char *arch, const char *name,
                        tc_gpu_image *out) {
  char *log = log_of(c, program);
  if (log) tc_log_line(TC_LOG_KERNEL, "%s for %s: %s", name, arch, log);
  tc_status st = result == 0 ? take_image(c, program, name, out)
                             : TC_FAIL(TC_ERR_COMPILE, "%s: %s for %s: %s: %s", name, c->compiler, arch,
                                       c->error(result), first_error(log));
  tc_free(log);
  (void)c->destroy(&program);
  return st;
}
