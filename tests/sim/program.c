// Source, image and log of a program. See program.h.
#include "tests/sim/program.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

unsigned sim_program_create(sim_program **out, const char *source, const char *name, int n_headers,
                            const char *const *header, const char *const *header_name) {
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

// TC_SIM_KEEP: a directory where each text is kept, once for each architecture, for the real
// compilers. Under its own name when it is whole.
static void keep(const sim_program *p, const char *arch) {
  const char *dir = getenv("TC_SIM_KEEP");
  static int calls;
  char path[512], part[560];
  if (!dir || !*dir || !p->words) return;
  const char *target = strchr(arch, '_');  // "compute_90" is text for sm_90
  snprintf(path, sizeof path, "%.400s/%016llx.%s%.*s", dir,
           (unsigned long long)sim_hash(p->source, strlen(p->source), 0), target ? "sm" : "",
           (int)strcspn(target ? target : arch, ":"), target ? target : arch);
  if (access(path, F_OK) == 0) return;
  snprintf(part, sizeof part, "%s.%d-%d", path, (int)getpid(), __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED));
  FILE *f = fopen(part, "w");
  bool good = f && fputs(p->source, f) >= 0;
  if (f && fclose(f) != 0) good = false;
  if (!good || rename(part, path) != 0) fprintf(stderr, "simulated compiler: %s cannot be kept\n", path);
}

unsigned sim_program_compile(sim_program *p, const char *arch, int warp, bool contract) {
  free(p->log);
  free(p->text);
  free(p->image);
  p->text = NULL;
  p->image = sim_compile(p->name, p->source, arch, warp, contract, &p->log);
  if (p->image) keep(p, arch);
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
