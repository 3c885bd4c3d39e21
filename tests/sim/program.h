// A program of the simulated compilers, NVRTC and hiprtc, whose functions and results are the same
// but for their names.
// Threads: a program is one thread's.
#pragma once

#include "tests/sim/image.h"

// What calls give.
enum {
  SIM_RTC_SUCCESS = 0,
  SIM_RTC_OUT_OF_MEMORY = 1,
  SIM_RTC_INVALID_INPUT = 3,
  SIM_RTC_INVALID_PROGRAM = 4,
  SIM_RTC_INVALID_OPTION = 5,
  SIM_RTC_COMPILATION = 6,
  SIM_RTC_BUILTINS = 7,
};

typedef struct sim_program {
  char *source, *name, *log;
  char *words;  // the header "tc_words.h", or NULL: it was not given
  char *text;  // of the image, made when it is asked for
  sim_image *image;  // NULL: not compiled
  bool has_cubin;  // compiled for a device, not for text alone
} sim_program;

unsigned sim_program_create(sim_program **out, const char *source, const char *name, int n_headers,
                            const char *const *header, const char *const *header_name);
void sim_program_destroy(sim_program *p);
// The result, with this for a log.
__attribute__((format(printf, 3, 4))) unsigned sim_program_fail(sim_program *p, unsigned result, const char *format,
                                                                ...);
// Whether its text includes the words without having been given them.
bool sim_program_lacks_words(const sim_program *p);
unsigned sim_program_compile(sim_program *p, const char *arch, int warp, bool contract);
unsigned sim_program_log_bytes(const sim_program *p, size_t *bytes);
unsigned sim_program_log(const sim_program *p, char *log);
