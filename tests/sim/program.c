// Source, image and log of a program. See program.h.
#include "tests/sim/program.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned sim_program_create(sim_program **out, const char *source, const char *name, int n_headers, const char *const *header,
                            const char *const *header_name) {
  *out = NULL;
  if (!source || n_headers < 0 || (n_headers && (!header || !header_name))) return SIM_RTC_INVALID_INPUT;
  sim_program *p = calloc(1, sizeof *p);
  if (!p) return SIM_RTC_OUT_OF_MEMORY;
  p->source = strdup(source);
  p->name = strdup(name ? name : "default_program");
  for (int i = 0; i < n_headers && !p->words; i++)
    if (strcmp(header_name[i], "tc_words.h") == 0 && header[i][0]) p->words = strdup(header[i]);
  if (!p->source || !p->name) {
    sim_program_destroy(p);
    return SIM_RTC_OUT_OF_MEMORY;
  }
  *out = p;
  return SIM_RTC_SUCCESS;
}

void sim_program_destroy(sim_program *p) {
  free(p->source);
  free(p->words);
  free(p->name);
  free(p->log);
  free(p->text);
  free(p->image);
  free(p);
}

unsigned sim_program_fail(sim_program *p, unsigned result, const char *format, ...) {
  char log[512];
  va_list args;
  va_start(args, format);
  vsnprintf(log, sizeof log, format, args);
  va_end(args);
  free(p->log);
  p->log = strdup(log);
  return result;
}

bool sim_program_lacks_words(const sim_program *p) {
  return !p->words && strstr(p->source, "\"tc_words.h\"");
}

unsigned sim_program_compile(sim_program *p, const char *arch, int warp, bool contract) {
  free(p->log);
  free(p->text);
  free(p->image);
  p->text = NULL;
  p->image = sim_compile(p->name, p->source, arch, warp, contract, &p->log);
  return p->image ? SIM_RTC_SUCCESS : SIM_RTC_COMPILATION;
}

unsigned sim_program_log_bytes(const sim_program *p, size_t *bytes) {
  if (!p) return SIM_RTC_INVALID_PROGRAM;
  *bytes = strlen(p->log ? p->log : "") + 1;
  return SIM_RTC_SUCCESS;
}

unsigned sim_program_log(const sim_program *p, char *log) {
  if (!p) return SIM_RTC_INVALID_PROGRAM;
  strcpy(log, p->log ? p->log : "");
  return SIM_RTC_SUCCESS;
}
