// tc-run --minify and --bisect. See minify.h.
//
// In: a file of traces. Out: a C program and a trace, or the name of what is at fault.
#include "tools/minify/minify.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "runtime/mem_available.h"
#include "tools/minify/bisect.h"
#include "tools/minify/c_program.h"
#include "tools/minify/shrink.h"
#include "tools/minify/trace_file.h"

// Exit statuses: done; not done, for a reason on standard error; the trace does not fail.
enum { DONE, NOT_DONE, NO_FAILURE };

typedef struct request {
  tc_judge judge;
  const char *file, *out, *device;
  uint64_t which, seed, attempts;  // which: the trace's place in the file, from 1; 0: the first that fails
  bool bisect;
} request;

static const char help[] =
    "usage: tc-run --minify [options] FILE      makes the first failing trace of FILE small, and prints a C program\n"
    "       tc-run --bisect [options] FILE      names the graph pass, or the part of lowering, that breaks it\n"
    "FILE is a log written with TC_LOG=trace. A trace fails where a result differs from the reference\n"
    "kernels', where its run gives an error, crashes, or does not end. Each run is a process of its own.\n"
    "  -d, --device DEVICE    on this device instead of the recorded one\n"
    "  -t, --trace NUMBER     only the trace of this number in the file, from 1\n"
    "  -s, --seed SEED        of the formula that fills leaves whose data are not in the file (1)\n"
    "  -v, --verify           a report of TC_VERIFY=1 is the failure, instead of a wrong result\n"
    "  -o, --output NAME      writes NAME.c and NAME.trace instead of a program to standard output\n"
    "      --check COMMAND    the trace fails where COMMAND FILE has exit status 0 (--minify)\n"
    "      --tolerance X      of results, relative to their greatest element; by default by type\n"
    "      --timeout SECONDS  that a run may take (20)\n"
    "      --attempts NUMBER  that shrinking makes at most (2000)\n"
    "exit status: 0; 1 where nothing could be done, the command line being wrong, too; 2 where the trace does not fail\n";

enum { MINIFY = 256, BISECT, CHECK, TOLERANCE, TIMEOUT, ATTEMPTS };
static const struct option words[] = {{"minify", no_argument, NULL, MINIFY},
                                      {"bisect", no_argument, NULL, BISECT},
                                      {"check", required_argument, NULL, CHECK},
                                      {"tolerance", required_argument, NULL, TOLERANCE},
                                      {"timeout", required_argument, NULL, TIMEOUT},
                                      {"attempts", required_argument, NULL, ATTEMPTS},
                                      {"device", required_argument, NULL, 'd'},
                                      {"trace", required_argument, NULL, 't'},
                                      {"seed", required_argument, NULL, 's'},
                                      {"verify", no_argument, NULL, 'v'},
                                      {"output", required_argument, NULL, 'o'},
                                      {"help", no_argument, NULL, 'h'},
                                      {NULL, 0, NULL, 0}};

// What a run is given besides the environment, tried in this order until one fails. What is on disk
// comes last: attempts write there, too.
static const tc_way ways[] = {
    {"nothing on disk", {"TC_CACHE_BYTES", "0"}},
    {"compiled before the first run", {"TC_CACHE_BYTES", "0", "TC_INTERPRET_FIRST", "0"}},
    {"as the environment says", {NULL}},
};

bool tc_minify_is_asked(int argc, char **argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
    if (strcmp(argv[i], "--minify") == 0 || strcmp(argv[i], "--bisect") == 0) return true;
  return false;
}

// ---- the trace ----

// The values of all records are in memory at once, with what rounding may do to them.
static tc_status expect_room(const tc_text *x) {
  const double copies = 4;
  double bytes = 0, room = (double)tc_mem_available("");
  for (uint32_t n = 0; n < x->n; n++)
    bytes += (double)tc_dims_count(&x->node[n].dims) * ((double)tc_type_bytes(x->node[n].type) + sizeof(double));
  return copies * bytes <= room ? TC_OK
                                : TC_FAIL(TC_ERR_MEMORY, "the values of all records take %.3g bytes, and %.3g are free",
                                          copies * bytes, room);
}

static tc_status prepare(tc_text *x, const request *r) {
  static uint64_t to;  // the device as an op's word
  tc_device device = TC_DEVICE_CPU;
  uint32_t n_filled = 0;
  TC_TRY(expect_room(x));
  if (r->device) TC_TRY(tc_device_of_name(r->device, "tc-run", 0, &device));
  to = (uint64_t)device;
  for (tc_text_body *b = x->body; b && r->device; b = b->next)
    for (uint32_t n = 0; n < b->n; n++) b->node[n].dev = device;
  for (uint32_t n = 0; n < x->n; n++) {
    tc_text_node *k = &x->node[n];
    if (r->device) k->dev = device;
    if (r->device && k->op == TC_OP_TO && k->n_attr == 1) k->attr = &to;
    if (k->op != TC_OP_LEAF || k->data) continue;
    if (!tc_trace_file_fill(x, n, r->seed)) return TC_FAIL(TC_ERR_MEMORY, "no room for data");
    n_filled++;
  }
  if (n_filled)
    fprintf(stderr, "%u leaves have no data in the file (TC_TRACE_BYTES), and are filled with seed %llu\n", n_filled,
            (unsigned long long)r->seed);
  return TC_OK;
}

// The first way in which the trace fails; judge.way is that.
static tc_outcome find_failure(request *r, const tc_text *x) {
  tc_outcome o = {.failure = TC_FAILS_NOT};
  for (size_t i = 0; i < sizeof ways / sizeof *ways && o.failure == TC_FAILS_NOT && !(i && r->judge.check); i++) {
    r->judge.way = &ways[i];
    o = tc_attempt(&r->judge, x);
  }
  return o;
}

// ---- what was asked for ----

static FILE *open_output(const char *name, const char *suffix) {
  char *path = NULL;
  FILE *out = asprintf(&path, "%s%s", name, suffix) > 0 ? fopen(path, "w") : NULL;
  if (!out) fprintf(stderr, "tc-run: %s%s cannot be written: %s\n", name, suffix, strerror(errno));
  free(path);
  return out;
}

static int write_small(const request *r, const tc_text *x, const tc_outcome *o, const char *origin) {
  const char *op = NULL;
  FILE *program = r->out ? open_output(r->out, ".c") : stdout, *trace = r->out ? open_output(r->out, ".trace") : NULL;
  bool ok = program && (trace || !r->out), whole = true;
  if (ok && trace) tc_text_write(trace, x);
  if (ok && !tc_c_program_write(program, x, &r->judge, o, origin, &op)) {
    fprintf(stderr, "tc-run: no public function records %s; %s\n", op,
            r->out ? "the trace alone was written" : "this is the trace");
    if (!r->out) tc_text_write(stdout, x);
    whole = false;
  }
  if (program && program != stdout && fclose(program) != 0) ok = false;
  if (trace && fclose(trace) != 0) ok = false;
  if (fflush(stdout) != 0) ok = false;
  return ok && whole ? DONE : NOT_DONE;
}

static int minify(request *r, const tc_text *x, tc_outcome *o) {
  tc_text small;
  char *origin = NULL;
  uint64_t before = r->judge.n_attempts;
  if (asprintf(&origin, "%u nodes, \"%s\"", x->n, x->title) < 0) return NOT_DONE;
  tc_status st = tc_shrink(&r->judge, x, r->attempts, o, &small);
  int status = NOT_DONE;
  if (st == TC_OK) {
    fprintf(stderr, "%u nodes are left after %llu attempts: ", small.n,
            (unsigned long long)(r->judge.n_attempts - before));
    tc_outcome_print(stderr, &small, o);
    fprintf(stderr, "%s\n", r->judge.n_attempts >= r->attempts ? "; --attempts allows no more" : "");
    status = write_small(r, &small, o, origin);
  } else {
    fprintf(stderr, "tc-run: %s\n", tc_last_error()->message);
  }
  tc_text_fini(&small);
  free(origin);
  return status;
}

// A trace that was read: whether it fails, and what was asked for then.
static int judge_trace(request *r, tc_text *x, int number) {
  if (prepare(x, r) != TC_OK) return fprintf(stderr, "tc-run: %s\n", tc_last_error()->message), NOT_DONE;
  tc_outcome o = find_failure(r, x);
  fprintf(stderr, "trace %d, %s: %u nodes; ", number, x->title, x->n);
  tc_outcome_print(stderr, x, &o);
  fputc('\n', stderr);
  switch (o.failure) {
    case TC_FAILS_NOT: return NO_FAILURE;
    case TC_FAILS_UNFIT:
    case TC_FAILS_UNKNOWN: return NOT_DONE;
    default: break;
  }
  if (!r->bisect) return minify(r, x, &o);
  tc_bisect(&r->judge, x, &o, stdout);
  return fflush(stdout) == 0 ? DONE : NOT_DONE;
}

static int judge_file(request *r, const char *text) {
  int status = NO_FAILURE;
  bool none = false;
  for (int k = 1; status == NO_FAILURE && !none && (!r->which || r->which >= (uint64_t)k); k++) {
    tc_text x;
    tc_status st = tc_text_read(&x, &text);
    none = st == TC_OK && !x.title;
    if (st != TC_OK) {
      fprintf(stderr, "tc-run: trace %d: %s\n", k, tc_last_error()->message);
      status = NOT_DONE;
    } else if (none && (k == 1 || r->which >= (uint64_t)k)) {
      fprintf(stderr, "tc-run: the file has %d traces%s\n", k - 1, k == 1 ? "; TC_LOG=trace writes them" : "");
      status = NOT_DONE;
    } else if (!none && (!r->which || r->which == (uint64_t)k)) {
      status = judge_trace(r, &x, k);
    }
    tc_text_fini(&x);
  }
  if (status == NO_FAILURE) fputs("tc-run: no trace fails\n", stderr);
  return status;
}

// ---- the command line ----

static int refuse(const char *fmt, const char *word) {
  fputs("tc-run: ", stderr);
  fprintf(stderr, fmt, word);
  fputs("; tc-run --minify --help says what there is\n", stderr);
  return NOT_DONE;
}

static bool read_number(const char *text, uint64_t least, uint64_t most, uint64_t *out) {
  char *end;
  errno = 0;
  *out = strtoull(text, &end, 0);
  return *text >= '0' && *text <= '9' && *end == 0 && errno == 0 && *out >= least && *out <= most;
}

static bool read_positive(const char *text, double *out) {
  char *end;
  *out = strtod(text, &end);
  return end != text && !*end && *out > 0 && *out < 1e6;
}

// Takes over one word of the command line; false if its value is none.
static bool take_word(request *r, int word) {
  switch (word) {
    case BISECT: r->bisect = true; return true;
    case CHECK: r->judge.check = optarg; return true;
    case TOLERANCE: return read_positive(optarg, &r->judge.tolerance);
    case TIMEOUT: return read_positive(optarg, &r->judge.seconds);
    case ATTEMPTS: return read_number(optarg, 1, INT64_MAX, &r->attempts);
    case 'd': r->device = optarg; return true;
    case 't': return read_number(optarg, 1, INT32_MAX, &r->which);
    case 's': return read_number(optarg, 0, UINT64_MAX, &r->seed);
    case 'v': r->judge.verify = true; return true;
    case 'o': r->out = optarg; return true;
    default: return true;
  }
}

int tc_minify(int argc, char **argv) {
  request r = {.judge = {.seconds = 20}, .seed = 1, .attempts = 2000};
  bool small = false;
  opterr = 0;
  for (int c; (c = getopt_long(argc, argv, ":d:t:s:vo:h", words, NULL)) != -1;) {
    const char *given = argv[optind - 1];
    if (c == 'h') return fputs(help, stdout), DONE;
    if (c == ':') return refuse("'%s' wants a value", given);
    if (c == '?') return refuse("there is no option '%s'", given);
    if (!take_word(&r, c)) return refuse("'%s' is no value of that option", optarg);
    small |= c == MINIFY;
  }
  if (small && r.bisect) return refuse("%s", "one of --minify and --bisect at a time");
  if (r.bisect && r.judge.check) return refuse("%s", "--check is of --minify");
  if (optind != argc - 1) return refuse("%s", "one file is wanted");
  char *text = tc_trace_file_read(argv[optind]);
  if (!text) return fprintf(stderr, "tc-run: %s cannot be read: %s\n", argv[optind], strerror(errno)), NOT_DONE;
  int status = judge_file(&r, text);
  free(text);
  return status;
}
