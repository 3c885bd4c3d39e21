// tc-run: reads traces (lazy/text/text.h) from a file, such as the log of a program run with
// TC_LOG=trace, and runs them again.
//   tc-run [-d DEVICE] [-t NUMBER] [-n TIMES] [-s SEED] [-v] [-p] FILE      FILE "-": standard input; --help says what each is
//   tc-run --minify FILE, tc-run --bisect FILE      find what is wrong with a failing trace (minify/minify.c)
//   tc-run --shim=LEVEL [--profile FILE] -- PROGRAM ARGUMENTS      runs a program with its calls of BLAS looked at or
//   taken over (shim_run/shim_run.c)
//   tc-run --profile FILE -- PROGRAM ARGUMENTS      runs a program of tc's with TC_PROFILE=FILE
//   tc-run MODEL.tcx, tc-run --embed MODEL.tcx -o model.c      a compiled program in a file (program_run/program_run.c)
// Leaves whose data are not in the file are filled by a formula of the seed and their number, so
// that two runs see the same values.
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lazy/text/text.h"
#include "runtime/hash.h"
#include "tools/minify/minify.h"
#include "tools/minify/trace_file.h"
#include "tools/program_run/program_run.h"
#include "tools/shim_run/shim_run.h"

typedef struct options {
  const char *device;  // NULL: as recorded
  int which;  // the trace's place in the file, from 1; 0: all
  int times;
  uint64_t seed;
  bool print;  // the text itself
} options;

static const char help[] =
    "usage: tc-run [options] FILE\n"
    "       tc-run --minify FILE | --bisect FILE\n"
    "       tc-run --shim=LEVEL [--profile FILE] -- PROGRAM ARGUMENTS..\n"
    "       tc-run --profile FILE -- PROGRAM ARGUMENTS..\n"
    "       tc-run MODEL.tcx --input x.npy --output y.npy\n"
    "       tc-run --embed MODEL.tcx -o FILE.c\n"
    "runs the traces in FILE again, such as a log written with TC_LOG=trace; FILE - is standard input\n"
    "  -d, --device DEVICE   on this device instead of the recorded one (tc:cpu, tc:ref, tc:null)\n"
    "  -t, --trace NUMBER    only the trace of this number in the file, from 1\n"
    "  -n, --times TIMES     runs each so often and tells the fastest (1)\n"
    "  -s, --seed SEED       of the formula that fills leaves whose data are not in the file (1)\n"
    "  -v, --verify          compares with the reference, as TC_VERIFY=1\n"
    "  -p, --print           prints the trace as it was read\n"
    "  -h, --help            this text\n"
    "finds what is wrong with a trace that fails; tc-run --minify --help says more\n"
    "      --minify          makes it small, and prints a C program that fails so\n"
    "      --bisect          names the graph pass, or the part of lowering, that breaks it\n"
    "runs a program as it is, with tc between it and its BLAS (docs/shim.md)\n"
    "      --shim LEVEL      off; trace: its calls are counted and timed; eager: tc does its larger products;\n"
    "                        writeback: operands stay on a device; lazy: chains of calls run as fewer kernels\n"
    "      --profile FILE    the profile as JSON lines, which tc-prof prints, instead of a table at exit\n"
    "runs a program that uses tc, and writes each of its sync points to FILE, which tc-prof reads\n"
    "      --profile FILE    as TC_PROFILE=FILE\n"
    "runs a compiled program of tc_export, or makes it a part of another; tc-run --help MODEL.tcx says more\n"
    "exit status: 0; 1 where a trace cannot be read or run, or its results differ from the reference; 2 for a wrong command line\n";

static const struct option words[] = {{"device", required_argument, NULL, 'd'}, {"trace", required_argument, NULL, 't'},
                                      {"times", required_argument, NULL, 'n'},  {"seed", required_argument, NULL, 's'},
                                      {"verify", no_argument, NULL, 'v'},       {"print", no_argument, NULL, 'p'},
                                      {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};

// What was asked and kept: each a number of the trace, what it is and the hash of its bits; of what
// was asked, the value.
static tc_status show(const tc_text *x, const tc_tensor *out) {
  for (uint32_t n = 0; n < x->n; n++) {
    if (!out[n].gen || x->node[n].op == TC_OP_LEAF || !(x->node[n].flag & (TC_NODE_ASKED | TC_NODE_KEEP))) continue;
    size_t bytes = (size_t)tc_numel(out[n]) * tc_type_bytes(x->node[n].type);
    const void *data = tc_map(out[n]);
    char dims[128], *text = x->node[n].flag & TC_NODE_ASKED ? tc_format(out[n]) : NULL;
    if (data)
      printf("%%%u %s%s, bits %016" PRIx64 "\n%s%s", n, tc_type_name(x->node[n].type),
             tc_dims_text(&x->node[n].dims, dims, sizeof dims), tc_hash_bytes(data, bytes).lo, text ? text : "",
             text ? "\n" : "");
    free(text);
    if (!data) return tc_last_error()->status;
    TC_TRY(tc_unmap(out[n]));
  }
  return TC_OK;
}

static tc_status run(tc_text *x, const options *o) {
  tc_tensor *out = calloc(x->n + 1, sizeof *out);
  tc_sync_point best = {.total_ns = UINT64_MAX}, first = {0};
  tc_status st = out ? TC_OK : TC_ERR_MEMORY;
  for (int k = 0; k < o->times && st == TC_OK; k++) {
    tc_sync_point now;
    st = tc_text_run(x, out);
    (void)tc_sync_points(1, &now);
    if (k == 0) first = now;
    if (now.total_ns < best.total_ns) best = now;
    if (k == 0 && st == TC_OK) st = show(x, out);
    for (uint32_t n = 0; n < x->n; n++) tc_release(out[n]);
  }
  free(out);
  if (st != TC_OK) return fprintf(stderr, "tc-run: %s\n", tc_last_error()->message), st;
  printf("%u nodes, %u left, %u kernels (%s), %u compiled in %.1f us; run %.1f us, the fastest of %d %.1f us\n",
         first.n_nodes, first.n_left, first.n_kernels, first.tier, first.n_compiled, (double)first.compile_ns * 1e-3,
         (double)first.run_ns * 1e-3, o->times, (double)best.run_ns * 1e-3);
  if (first.n_wrong) printf("%u results differ from the reference\n", first.n_wrong);
  return first.n_wrong ? TC_ERR_STATE : TC_OK;
}

// Makes a trace that was read ready: its device, and its leaves' data.
static tc_status prepare(tc_text *x, const options *o) {
  static uint64_t to;  // the device as an op's word
  tc_device device = TC_DEVICE_CPU;
  uint32_t n_filled = 0;
  if (o->device) TC_TRY(tc_device_parse(o->device, "tc-run", 0, &device));
  to = (uint64_t)device;
  for (tc_text_body *b = x->body; b && o->device; b = b->next)
    for (uint32_t n = 0; n < b->n; n++) b->node[n].dev = device;
  for (uint32_t n = 0; n < x->n; n++) {
    if (o->device) x->node[n].dev = device;
    if (o->device && x->node[n].op == TC_OP_TO && x->node[n].n_attr == 1) x->node[n].attr = &to;
    if (x->node[n].op != TC_OP_LEAF || x->node[n].data) continue;
    if (!tc_trace_file_fill(x, n, o->seed)) return TC_FAIL(TC_ERR_MEMORY, "no room for data");
    n_filled++;
  }
  if (n_filled) printf("%u leaves filled with seed %" PRIu64 "\n", n_filled, o->seed);
  return TC_OK;
}

static int run_all(const char *text, const options *o) {
  int n_failed = 0;
  for (int k = 1;; k++) {
    tc_text x;
    tc_clear_error();
    tc_status st = tc_text_read(&x, &text);
    bool unread = st != TC_OK, none = !unread && !x.title;
    if (unread) fprintf(stderr, "tc-run: trace %d: %s\n", k, tc_last_error()->message);
    if (st == TC_OK && !none && (!o->which || o->which == k)) {
      printf("trace %d: %s\n", k, x.title);
      if (o->print) tc_text_write(stdout, &x);
      st = prepare(&x, o);
      if (st != TC_OK)
        fprintf(stderr, "tc-run: %s\n", tc_last_error()->message);
      else
        st = run(&x, o);
    }
    tc_text_fini(&x);
    n_failed += st != TC_OK;
    if (none || unread) {
      bool missing = none && o->which >= k;
      if (k == 1 && none)
        fprintf(stderr, "tc-run: the file has no trace; TC_LOG=trace writes them\n");
      else if (missing)
        fprintf(stderr, "tc-run: there is no trace %d; the file has %d\n", o->which, k - 1);
      return n_failed || k == 1 || missing;
    }
  }
}

__attribute__((format(printf, 1, 0))) static int wrong_line(const char *fmt, const char *word) {
  fputs("tc-run: ", stderr);
  fprintf(stderr, fmt, word);
  fputs("; tc-run --help says what there is\n", stderr);
  return 2;
}

// A whole number of at least so much, in decimal or after 0x.
static bool parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *out) {
  char *end;
  errno = 0;
  *out = strtoull(text, &end, 0);
  return *text >= '0' && *text <= '9' && *end == 0 && errno == 0 && *out >= least && *out <= most;
}

// In the place of this process: the program, with TC_PROFILE set to the file's absolute name.
static int run_profiled(int argc, char **argv) {
  bool joined = argv[1][9] == '=';
  const char *file = joined ? argv[1] + 10 : argc > 2 ? argv[2] : NULL;
  int at = joined ? 2 : 3;
  if (!joined && argv[1][9]) return wrong_line("there is no option '%s'", argv[1]);
  if (!file || !*file) return wrong_line("'%s' wants a value", "--profile");
  if (!joined && strcmp(file, "--") == 0)
    return wrong_line("'%s' wants a file before --; --profile=-- names one of that name", "--profile");
  if (at < argc && strcmp(argv[at], "--") == 0) at++;
  if (at >= argc) return wrong_line("no program is named behind --profile %s", file);
  char *here = file[0] == '/' ? NULL : getcwd(NULL, 0), path[PATH_MAX];
  bool fits = (size_t)snprintf(path, sizeof path, "%s%s%s", here ? here : "", here ? "/" : "", file) < sizeof path;
  free(here);
  if (!fits) return wrong_line("'%s' is too long a name", file);
  if (setenv("TC_PROFILE", path, 1) != 0) return 1;
  execvp(argv[at], argv + at);
  fprintf(stderr, "tc-run: %s cannot be run: %s\n", argv[at], strerror(errno));
  return errno == ENOENT ? 127 : 126;
}

int main(int argc, char **argv) {
  options o = {.times = 1, .seed = 1};
  uint64_t n;
  if (tc_shim_run_is_asked(argc, argv)) return tc_shim_run(argc, argv);
  if (tc_minify_is_asked(argc, argv)) return tc_minify(argc, argv);
  if (tc_program_run_is_asked(argc, argv)) return tc_program_run_main(argc, argv);
  if (argc > 1 && strncmp(argv[1], "--profile", 9) == 0) return run_profiled(argc, argv);
  opterr = 0;
  for (int c; (c = getopt_long(argc, argv, ":d:t:n:s:vph", words, NULL)) != -1;) {
    const char *given = argv[optind - 1];
    switch (c) {
      case 'd': o.device = optarg; break;
      case 't':
        if (!parse_number(optarg, 1, INT32_MAX, &n))
          return wrong_line("-t takes the number of a trace, from 1, not '%s'", optarg);
        o.which = (int)n;
        break;
      case 'n':
        if (!parse_number(optarg, 1, INT32_MAX, &n))
          return wrong_line("-n takes how often, at least 1, not '%s'", optarg);
        o.times = (int)n;
        break;
      case 's':
        if (!parse_number(optarg, 0, UINT64_MAX, &o.seed)) return wrong_line("-s takes a number, not '%s'", optarg);
        break;
      case 'v': setenv("TC_VERIFY", "1", 1); break;
      case 'p': o.print = true; break;
      case 'h': return fputs(help, stdout), 0;
      case ':': return wrong_line("'%s' wants a value", given);
      default: {
        const char letter[] = {'-', (char)optopt, 0};
        return wrong_line("there is no option '%s'", optopt ? letter : given);
      }
    }
  }
  if (optind == argc) return wrong_line("%s", "no file is named");
  if (optind < argc - 1) return wrong_line("one file at a time: '%s' is too many", argv[optind + 1]);
  char *text = tc_trace_file_read(argv[optind]);
  if (!text) return fprintf(stderr, "tc-run: %s cannot be read: %s\n", argv[optind], strerror(errno)), 1;
  int failed = run_all(text, &o);
  free(text);
  return failed;
}
