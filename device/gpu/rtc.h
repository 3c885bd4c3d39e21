// What NVRTC and hiprtc share, whose functions differ only in their names: reading a compiled
// program's log and code.
// Threads: thread-safe; a program is one thread's.
#pragma once

#include "device/gpu/driver.h"

typedef void *tc_rtc_program;

typedef struct tc_rtc {
  const char *compiler;  // its name and version
  const char *(*error)(unsigned result);
  unsigned (*log_bytes)(tc_rtc_program program, size_t *bytes);
  unsigned (*log)(tc_rtc_program program, char *log);
  unsigned (*code_bytes)(tc_rtc_program program, size_t *bytes);
  unsigned (*code)(tc_rtc_program program, char *code);
  unsigned (*destroy)(tc_rtc_program *program);
} tc_rtc;

// Finishes a program that was compiled with this result: logs its log, takes its image and destroys
// it. TC_ERR_COMPILE with the log from its first error on.
tc_status tc_rtc_finish(const tc_rtc *c, tc_rtc_program program, unsigned result, const char *arch, const char *name,
                        tc_gpu_image *out);
