// Prints the profile at exit, or writes it to a file as JSON lines.
// In: records of all threads. Out: a table of 80 columns on stderr, or a line of the process and a
// line a record behind what the file has. Invariants: nothing of a process that called no BLAS.
// Threads: the one that ends the process.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/write_whole.h"
#include "shim/defer.h"
#include "shim/find.h"
#include "shim/least.h"
#include "shim/options.h"
#include "shim/peak.h"
#include "shim/profile.h"

enum { ROWS = 20 };

static const double LAUNCH_SECONDS = 1e-5;  // of a kernel on a device that one thinks of

typedef struct summary {
  const tc_shim_options *options;
  tc_shim_record *record;
  uint32_t n_records;
  double tick, wall, peak;
  double seconds, calls, direct, moving, staying;
} summary;

static double record_seconds(const summary *s, const tc_shim_record *r) {
  return (double)r->ticks * s->tick;
}

static const tc_shim_routine *record_routine(const tc_shim_record *r) {
  return &tc_shim_routines[tc_shim_entries[r->entry].routine];
}

// On a device with a bus: operands moved for each call, or each page once.
static double device_seconds(const summary *s, const tc_shim_record *r, double bytes) {
  return (double)r->calls * LAUNCH_SECONDS + r->flops / (s->options->device * 1e9) + bytes / (s->options->bus * 1e9);
}

// Since the process began, which /proc tells in hundredths; else since the first call.
static double wall_seconds(void) {
  char text[1024];
  struct timespec now;
  int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  ssize_t n = file >= 0 ? read(file, text, sizeof text - 1) : -1;
  if (file >= 0) close(file);
  if (n <= 0 || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  text[n] = 0;
  const char *at = strrchr(text, ')');  // field 2; the beginning is field 22
  for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
  return at ? (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - strtod(at + 1, NULL) / (double)sysconf(_SC_CLK_TCK) : 0;
}

// Where an estimate is meant at all: calls whose arguments were read.
static bool is_read(const tc_shim_record *r) {
  return r->bucket >= 0;
}

static double least(double x, double y) {
  return x < y ? x : y;
}

static void summarize(summary *s) {
  for (uint32_t i = 0; i < s->n_records; i++) {
    const tc_shim_record *r = &s->record[i];
    s->calls += (double)r->calls;
    s->direct += (double)r->direct;
    double here = record_seconds(s, r);
    s->seconds += here;
    // A call that gains nothing by the device stays here: small ones would only wait for launches.
    s->moving += is_read(r) ? least(here, device_seconds(s, r, r->moved_bytes)) : here;
    s->staying += is_read(r) ? least(here, device_seconds(s, r, r->new_bytes)) : here;
  }
}

static double rate(const summary *s, const tc_shim_record *r) {
  double seconds = record_seconds(s, r);
  return seconds > 0 ? r->flops / seconds * 1e-9 : 0;
}

static double peak_of(const summary *s, const tc_shim_record *r) {
  char type = record_routine(r)->type;
  return type == 's' || type == 'c' ? 2 * s->peak : s->peak;
}

// ---- The table ----

// A number, and a time, in at most 6 columns.
static const char *short_number(char *out, size_t bytes, double x) {
  static const char suffix[] = " kMGT";
  int n = 0;
  while (x >= 9999.5 && n < 4) {
    x /= 1000;
    n++;
  }
  snprintf(out, bytes,
           n                                 ? "%.0f%c"
           : x >= 100 || x == (double)(int)x ? "%.0f"
           : x >= 10                         ? "%.1f"
                                             : "%.2f",
           x, suffix[n]);
  return out;
}

static const char *short_seconds(char *out, size_t bytes, double x) {
  if (x >= 1)
    snprintf(out, bytes, x >= 100 ? "%.0fs" : x >= 10 ? "%.1fs" : "%.2fs", x);
  else if (x >= 1e-3)
    snprintf(out, bytes, x >= 0.1 ? "%.0fms" : x >= 0.01 ? "%.1fms" : "%.2fms", x * 1e3);
  else
    snprintf(out, bytes, "%.0fus", x * 1e6);
  return out;
}

// How often a page of the operands is used; calls all of whose operands were used before say so.
static const char *reuse(char *out, size_t bytes, const tc_shim_record *r) {
  if (r->new_bytes > 0) return short_number(out, bytes, r->bytes / r->new_bytes);
  snprintf(out, bytes, "all");
  return out;
}

// The file without what stands behind its first dot, and the symbol or the offset.
static void print_site(FILE *f, const tc_shim_record *r) {
  char where[200] = "elsewhere";
  const tc_shim_site *site = tc_shim_profile_site(r->caller);
  if (site && *site->symbol)
    snprintf(where, sizeof where, "%.*s %s", (int)strcspn(site->module, "."), site->module, site->symbol);
  else if (site)
    snprintf(where, sizeof where, "%.*s+0x%zx", (int)strcspn(site->module, "."), site->module, (size_t)site->offset);
  fprintf(f, "  %-39.39s", where);
}

// A long name without its first word, which is scipy's.
static const char *short_name(const tc_shim_record *r) {
  const char *name = tc_shim_entry_name(r->entry);
  return strlen(name) > 18 && strncmp(name, "scipy_", 6) == 0 ? name + 6 : name;
}

static void print_record(FILE *f, const summary *s, const tc_shim_record *r) {
  char text[7][16], sizes[32] = "";
  double seconds = record_seconds(s, r), peak = peak_of(s, r);
  if (is_read(r) && record_routine(r)->level > 1)
    snprintf(sizes, sizeof sizes, "%llu-%llu", 1ull << r->bucket, (2ull << r->bucket) - 1);
  else if (is_read(r))
    snprintf(sizes, sizeof sizes, "2^%d", r->bucket);
  fprintf(f, "%-18.18s %-11s %5s", short_name(r), sizes, short_number(text[0], sizeof text[0], (double)r->calls));
  if (!is_read(r)) {
    fprintf(f, "   arguments not read\n");
    print_site(f, r);
    fprintf(f, "\n");
    return;
  }
  fprintf(f, " %6s %4.0f%% %6s %3.0f%% %6s %4.0f%% %5s\n", short_seconds(text[1], sizeof text[1], seconds),
          s->wall > 0 ? 100 * seconds / s->wall : 0, short_number(text[2], sizeof text[2], rate(s, r)),
          peak > 0 ? 100 * rate(s, r) / peak : 0, short_number(text[3], sizeof text[3], (double)r->shapes),
          100 * (double)r->strided / (double)r->calls, reuse(text[4], sizeof text[4], r));
  print_site(f, r);
  fprintf(f, " device %6s, if operands stay %6s\n",
          short_seconds(text[5], sizeof text[5], device_seconds(s, r, r->moved_bytes)),
          short_seconds(text[6], sizeof text[6], device_seconds(s, r, r->new_bytes)));
}

static int by_time(const void *a, const void *b) {
  const tc_shim_record *x = a, *y = b;
  if (x->ticks != y->ticks) return x->ticks < y->ticks ? 1 : -1;
  return (x->calls < y->calls) - (x->calls > y->calls);
}

// Of the real routines of level 3, calls whose sizes are those that libtc takes.
static double suited_seconds(const summary *s) {
  double seconds = 0;
  for (uint32_t i = 0; i < s->n_records; i++) {
    const tc_shim_record *r = &s->record[i];
    char type = record_routine(r)->type;
    if (is_read(r) && record_routine(r)->level > 2 && (type == 's' || type == 'd') &&
        (double)(2ull << r->bucket) > tc_shim_least_size(s->options, &tc_shim_entries[r->entry]))
      seconds += record_seconds(s, r);
  }
  return seconds;
}

static void print_table(FILE *f, summary *s) {
  char moving[16], staying[16], rest[16];
  double left = 0;
  fprintf(f, "tc-shim: %s (%d): %.0f calls of BLAS took %.3f s", program_invocation_short_name, (int)getpid(), s->calls,
          s->seconds);
  if (s->wall > 0) fprintf(f, ", %.0f %% of %.2f s", 100 * s->seconds / s->wall, s->wall);
  if (s->direct > 0) fprintf(f, "; libtc did %.0f", s->direct);
  fprintf(
      f,
      "\npeak %.0f GFLOP/s in f64; a device of %g TFLOP/s and %g GB/s for rows that gain:\n%s with copies for each call, %s if operands stay\n",
      s->peak, s->options->device * 1e-3, s->options->bus, short_seconds(moving, sizeof moving, s->moving),
      short_seconds(staying, sizeof staying, s->staying));
  fprintf(f, "routine            sizes       calls   time share GFLOPS peak shapes gaps reuse\n");
  qsort(s->record, s->n_records, sizeof *s->record, by_time);
  for (uint32_t i = 0; i < s->n_records; i++) {
    if (i < ROWS)
      print_record(f, s, &s->record[i]);
    else
      left += record_seconds(s, &s->record[i]);
  }
  if (s->n_records > ROWS)
    fprintf(f, "and %u more rows of %s; all are in the file that TC_SHIM_PROFILE names\n", s->n_records - ROWS,
            short_seconds(rest, sizeof rest, left));
  double suited = suited_seconds(s);
  if (s->options->level == TC_SHIM_TRACE && suited > 0.05 * s->wall)
    fprintf(f, "%s in larger products: tc-run --shim=eager has libtc make them\n",
            short_seconds(rest, sizeof rest, suited));
}

// ---- The file ----

static void print_text(FILE *f, const char *text) {
  fputc('"', f);
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') fputc('\\', f);
    if ((unsigned char)*text >= ' ') fputc(*text, f);
  }
  fputc('"', f);
}

static void print_lines(FILE *f, const summary *s) {
  fprintf(f, "{\"kind\": \"process\", \"pid\": %d, \"program\": ", (int)getpid());
  print_text(f, program_invocation_name);
  fprintf(
      f,
      ", \"wall_s\": %.6f, \"blas_s\": %.6f, \"calls\": %.0f, \"direct\": %.0f, \"peak_gflops\": %.1f, \"bus_gb_s\": %g, \"device_gflops\": %g, \"device_s\": %.6f, \"device_staying_s\": %.6f",
      s->wall, s->seconds, s->calls, s->direct, s->peak, s->options->bus, s->options->device, s->moving, s->staying);
  tc_shim_defer_report(f);
  fprintf(f, "}\n");
  for (uint32_t i = 0; i < s->n_records; i++) {
    const tc_shim_record *r = &s->record[i];
    const tc_shim_site *site = tc_shim_profile_site(r->caller);
    fprintf(f, "{\"kind\": \"site\", \"pid\": %d, \"module\": ", (int)getpid());
    print_text(f, site ? site->module : "");
    fprintf(f, ", \"offset\": %zu, \"symbol\": ", site ? (size_t)site->offset : 0);
    print_text(f, site ? site->symbol : "");
    fprintf(f, ", \"name\": \"%s\", \"routine\": \"%.8s\", \"calls\": %llu, \"direct\": %llu",
            tc_shim_entry_name(r->entry), record_routine(r)->name, (unsigned long long)r->calls,
            (unsigned long long)r->direct);
    if (is_read(r))
      fprintf(
          f,
          ", \"size\": %llu, \"seconds\": %.9f, \"gflops\": %.3f, \"of_peak\": %.4f, \"flops\": %.0f, \"shapes\": %llu, \"strided\": %llu, \"bytes\": %.0f, \"new_bytes\": %.0f, \"moved_bytes\": %.0f, \"largest\": [%.0f, %.0f, %.0f], \"device_s\": %.6f, \"device_staying_s\": %.6f",
          1ull << r->bucket, record_seconds(s, r), rate(s, r), s->peak > 0 ? rate(s, r) / peak_of(s, r) : 0, r->flops,
          (unsigned long long)r->shapes, (unsigned long long)r->strided, r->bytes, r->new_bytes, r->moved_bytes,
          r->dims[0], r->dims[1], r->dims[2], device_seconds(s, r, r->moved_bytes), device_seconds(s, r, r->new_bytes));
    fprintf(f, "}\n");
  }
}

// Behind what is there, in one write, so that processes do not mix their lines.
static void write_file(const char *path, const char *text, size_t bytes) {
  int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0 || !tc_write_whole(file, text, bytes))
    tc_shim_say("the profile cannot be written to %s: %s", path, strerror(errno));
  if (file >= 0) close(file);
}

__attribute__((destructor)) static void report(void) {
  summary s = {.options = tc_shim_report_options()};
  char *text = NULL;
  size_t bytes = 0;
  if (!s.options || !s.options->counts) return;
  s.record = tc_shim_profile_merge(&s.n_records);
  if (!s.n_records && s.options->level == TC_SHIM_TRACE && tc_shim_has_left_out())
    tc_shim_say("no call was counted: TC_SHIM_ONLY and TC_SHIM_NOT leave no module that called BLAS");
  FILE *f = s.n_records ? open_memstream(&text, &bytes) : NULL;
  if (!f) return;
  locale_t before = tc_shim_locale_enter();
  s.tick = tc_shim_tick_seconds();
  s.wall = wall_seconds();
  s.peak = s.options->peak > 0 ? s.options->peak : tc_shim_measure_peak();
  summarize(&s);
  if (s.options->profile)
    print_lines(f, &s);
  else
    print_table(f, &s);
  tc_shim_locale_leave(before);
  if (fclose(f) == 0 && text) {
    if (s.options->profile)
      write_file(s.options->profile, text, bytes);
    else if (write(STDERR_FILENO, text, bytes) < 0)
      tc_shim_say("the profile cannot be printed");
  }
  free(text);
}
