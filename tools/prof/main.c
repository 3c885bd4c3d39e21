// tc-prof: what a profile (TC_PROFILE=FILE) says of a program that uses tc.
//   tc-prof [SUBCOMMAND] [--json] FILE      --help says what there is
#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/edits.h"
#include "tools/prof/blas_profile.h"
#include "tools/prof/prof.h"

static const tc_prof_command commands[] = {
    {"report", "FILE", 1, tc_command_report, "the whole program by place, and what to change",
     "  tc-prof run.prof                 the same: report is what tc-prof does without a subcommand\n"
     "  tc-prof report --all run.prof    every place, not only the dearest\n"
     "  tc-prof report --json run.prof | jq '.sites[] | {site, syncs, verdict}'\n"},
    {"steps", "FILE", 1, tc_command_steps, "the step that repeats: its syncs, time and growth",
     "A step is found by the order of places and causes in each thread, whatever\n"
     "comes before, between, or now and then within.\n\n"
     "  tc-prof steps run.prof           each thread's step, its time over the run, and the slowest ones\n"
     "  tc-prof steps --json run.prof | jq '.threads[0].steps[] | .ns'\n"},
    {"sync", "N FILE", 2, tc_command_sync, "one sync in full: its graph, kernels and time",
     "With --dot the graph before and after lowering, each kernel a cluster, for\n"
     "Graphviz. Times of kernels are in the file where TC_PROFILE_KERNELS=1 was set.\n"
     "roof: the share of what the machine can do at most, of bytes or of operations,\n"
     "whichever is nearer.\n\n"
     "  tc-prof sync 17 run.prof\n"
     "  tc-prof sync --dot 17 run.prof | dot -Tsvg >graph.svg\n"
     "  tc-prof sync --json 17 run.prof | jq '.plan.kernels[]'\n"},
    {"misses", "FILE", 1, tc_command_misses, "what made each graph new: what differs from a known one",
     "Places that have a new graph in most of their syncs (storms) come first. A\n"
     "graph is compared with the latest one of its place, of the same structure where\n"
     "there is one.\n\n"
     "  tc-prof misses run.prof\n"
     "  tc-prof misses --all run.prof    every miss\n"},
    {"fusion", "FILE", 1, tc_command_fusion, "what kernels hand to each other, and why they are not one",
     "Bytes are those written and read again, over all runs.\n\n"
     "  tc-prof fusion run.prof          the dearest first\n"
     "  tc-prof fusion --json run.prof | jq '.boundaries[] | {bytes, reason}'\n"},
    {"memory", "FILE", 1, tc_command_memory, "the peak: what lived then, and the plan that needs most",
     "  tc-prof memory run.prof\n"
     "  tc-prof memory --all run.prof    every tensor of the record\n"},
    {"compile", "FILE", 1, tc_command_compile, "what it took to make each kernel, by stage",
     "A kernel without a sync was made beside the program.\n\n"
     "  tc-prof compile run.prof\n"
     "  tc-prof compile -n 5 run.prof    the five that took longest\n"},
    {"html", "FILE", 1, tc_command_html, "a page for a browser: places, time line, graphs, misses",
     "The page is one file and needs no network.\n\n"
     "  tc-prof html -o run.html run.prof\n"},
    {"trace", "FILE", 1, tc_command_trace, "events for Perfetto (ui.perfetto.dev) and chrome://tracing",
     "A track a thread, of compiles and of kernels; arrows lead from recording to running.\n\n"
     "  tc-prof trace -o run.json run.prof\n"},
    {"diff", "A B", 2, tc_command_diff, "what got worse or better between runs; 3 if any is worse",
     "A place is slower if its median sync takes 10 % longer, its best one is slower\n"
     "too, and all its syncs make 1 % of the first run. That counts syncs whose plan\n"
     "was cached, where each run has 8 or more. Of the same syncs, the program's own\n"
     "time before a sync, outside tc and recording, is longer from 25 % and 1 % of the\n"
     "run on, if one thread syncs; what comes before rarer syncs or behind the last is\n"
     "not compared. More syncs, nodes, kernels, graphs or bytes are worse however long\n"
     "they take.\n\n"
     "  tc-prof diff before.prof after.prof || echo slower\n"},
    {"live", "FILE", 1, tc_command_live, "the report of a program that runs, each second",
     "  TC_PROFILE=run.prof ./program & tc-prof live run.prof\n"},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static const struct option words[] = {{"json", no_argument, NULL, 'j'},
                                      {"dot", no_argument, NULL, 'd'},
                                      {"all", no_argument, NULL, 'a'},
                                      {"top", required_argument, NULL, 'n'},
                                      {"output", required_argument, NULL, 'o'},
                                      {"help", no_argument, NULL, 'h'},
                                      {NULL, 0, NULL, 0}};

static void print_help(void) {
  printf(
      "usage: tc-prof [SUBCOMMAND] [OPTIONS] FILE\n"
      "says what a program that uses tc did at each sync point. FILE is written by\n"
      "  TC_PROFILE=FILE ./program\n"
      "  tc-run --profile FILE -- ./program\n"
      "  tc-run --shim=trace --profile FILE -- ./program    its calls of BLAS\n\n");
  for (int i = 0; i < N_COMMANDS; i++)
    printf("  %-9s %-7s %s\n", commands[i].name, commands[i].words, commands[i].says);
  printf(
      "\n  -n, --top N      rows of a table\n"
      "  -a, --all        all rows\n"
      "  -d, --dot        graphs for Graphviz: sync\n"
      "  -j, --json       every figure as JSON\n"
      "  -o, --output F   into this file, not to standard output\n"
      "  -h, --help       this text; after a subcommand, its own with examples\n"
      "exit status: 0; 1 where the file cannot be read, is damaged or lacks what is\n"
      "asked for; 2 for a wrong command line; 3 where diff finds something worse\n");
}

static void print_command_help(const tc_prof_command *c) {
  printf("usage: tc-prof %s [OPTIONS] %s\n%s\n\n%s", c->name, c->words, c->says, c->help);
}

__attribute__((format(printf, 1, 0))) static int wrong_line(const char *fmt, const char *word) {
  fputs("tc-prof: ", stderr);
  fprintf(stderr, fmt, word);
  fputs("; tc-prof --help says what there is\n", stderr);
  return 2;
}

void tc_prof_print_head(tc_profile *p) {
  const char *program = tc_profile_text(p, p->process.program), *name = strrchr(program, '/');
  printf("%s (%u)%s%s%s%s, %u threads\n",
         tc_show_colour(TC_BOLD, tc_show_begin(name ? name + 1 : program, tc_terminal_get()->columns - 50)),
         p->process.pid, p->process.library ? ", tc " : "", tc_profile_text(p, p->process.library),
         p->process.device ? ", " : "", tc_profile_text(p, p->process.device), p->process.threads);
  if (p->note[0]) printf("%s\n", tc_show_colour(TC_YELLOW, p->note));
  if (p->end.n_lost) printf("%u syncs could not be written\n", p->end.n_lost);
}

void tc_prof_json_head(tc_profile *p, const char *command) {
  tc_json_text("command", command);
  tc_json_text("file", p->path);
  tc_json_text("note", p->note);
  tc_json_bool("damaged", p->damaged);
  tc_json_object("process");
  tc_json_text("program", tc_profile_text(p, p->process.program));
  tc_json_text("command", tc_profile_text(p, p->process.command));
  tc_json_count("pid", p->process.pid);
  tc_json_count("parent", p->process.parent);
  tc_json_text("parent_file", tc_profile_text(p, p->process.parent_file));
  tc_json_text("library", tc_profile_text(p, p->process.library));
  tc_json_text("device", tc_profile_text(p, p->process.device));
  tc_json_text("cpu", tc_profile_text(p, p->process.cpu));
  tc_json_text("isa", tc_profile_text(p, p->process.isa));
  tc_json_text("options", tc_profile_text(p, p->process.options));
  tc_json_count("threads", p->process.threads);
  tc_json_count("start_utc_ns", p->process.start_utc_ns);
  tc_json_number("peak_flops", p->process.peak_flops);
  tc_json_number("peak_bytes_per_s", p->process.peak_bytes);
  tc_json_end();
}

size_t tc_prof_rows(const tc_prof_options *o, size_t usual, size_t n) {
  size_t most = o->all ? n : o->top ? o->top : usual;
  return most < n ? most : n;
}

static int end_output(int status) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return status;
  if (errno != EPIPE) fprintf(stderr, "tc-prof: the output cannot be written: %s\n", strerror(errno));
  return 1;
}

// Whether the file of -o, if there is one, is standard output from here on; else says why not.
static bool open_output(const tc_prof_command *c, const tc_prof_options *o) {
  struct stat out, in;
  if (o->output && stat(o->output, &out) == 0)
    for (int i = c->run == tc_command_diff ? 0 : o->n_words - 1; i < o->n_words; i++)
      if (stat(o->word[i], &in) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
        return fprintf(stderr, "tc-prof: %s is the profile itself: -o takes another file\n", o->output), false;
  if (o->output && !freopen(o->output, "w", stdout))
    return fprintf(stderr, "tc-prof: %s cannot be written: %s\n", o->output, strerror(errno)), false;
  tc_terminal_get();
  return true;
}

static int run(const tc_prof_command *c, const tc_prof_options *o) {
  tc_profile p;
  int status = 1;
  const char *path = o->word[o->n_words - 1];
  if (tc_blas_profile_is(path)) {
    if (c->run == tc_command_report) return open_output(c, o) ? end_output(tc_blas_profile_print(path, o)) : 1;
    return fprintf(stderr, "tc-prof: %s is a profile of calls of BLAS; report alone reads it\n", path), 1;
  }
  if (tc_profile_open(&p, path) && tc_profile_read(&p)) {
    status = open_output(c, o) ? c->run(&p, o) : 1;
    if (p.damaged) {
      fflush(stdout);
      fprintf(stderr, "tc-prof: %s is %s\n", p.path, p.note);
      status = 1;
    }
  }
  tc_profile_close(&p);
  return end_output(status);
}

static const tc_prof_command *find_command(const char *name) {
  for (int i = 0; i < N_COMMANDS; i++)
    if (strcmp(commands[i].name, name) == 0) return &commands[i];
  return NULL;
}

// The subcommand that was probably meant.
static const char *nearest_command(const char *name) {
  const char *nearest = commands[0].name;
  size_t n = strlen(name), least = SIZE_MAX;
  for (int i = 0; i < N_COMMANDS && n <= TC_EDITS_BYTES; i++) {
    size_t edits = tc_edits(name, n, commands[i].name, strlen(commands[i].name));
    if (edits < least) least = edits, nearest = commands[i].name;
  }
  return nearest;
}

// A word beyond those that the subcommand takes. implied: none was named, and the first word is the file.
static int wrong_word(const tc_prof_options *o, const char *word, bool implied) {
  if (!implied || access(o->word[0], F_OK) == 0) return wrong_line("'%s' is a word too many", word);
  fprintf(stderr, "tc-prof: there is no subcommand '%s'; the nearest is '%s'; tc-prof --help says what there is\n",
          o->word[0], nearest_command(o->word[0]));
  return 2;
}

// At least one, in digits alone.
static bool parse_rows(const char *text, uint32_t *out) {
  char *end;
  errno = 0;
  unsigned long n = strtoul(text, &end, 10);
  *out = (uint32_t)n;
  return *text >= '0' && *text <= '9' && *end == 0 && errno == 0 && n > 0 && n <= UINT32_MAX;
}

int main(int argc, char **argv) {
  tc_prof_options o = {0};
  const tc_prof_command *c = NULL;
  bool help = false;
  opterr = 0;
  for (int k; (k = getopt_long(argc, argv, ":jdan:o:h", words, NULL)) != -1;) {
    const char *given = argv[optind - 1];
    switch (k) {
      case 'j': o.json = true; break;
      case 'd': o.dot = true; break;
      case 'a': o.all = true; break;
      case 'n':
        if (!parse_rows(optarg, &o.top)) return wrong_line("-n takes a number of rows, not '%s'", optarg);
        break;
      case 'o': o.output = optarg; break;
      case 'h': help = true; break;
      case ':': return wrong_line("'%s' wants a value", given);
      default: {
        const char letter[] = {'-', (char)optopt, 0};
        return wrong_line("there is no option '%s'", optopt ? letter : given);
      }
    }
  }
  if (optind < argc) c = find_command(argv[optind]);
  if (help) return c ? print_command_help(c) : print_help(), 0;
  bool implied = !c;
  if (c)
    optind++;
  else
    c = find_command("report");
  for (; optind < argc; optind++) {
    if (o.n_words == c->n_words) return wrong_word(&o, argv[optind], implied);
    o.word[o.n_words++] = argv[optind];
  }
  if (o.n_words == 0) return wrong_line("%s", "no file is named");
  if (o.n_words < c->n_words) return wrong_line("it takes: %s", c->words);
  return run(c, &o);
}
