// tc-run MODEL.tcx: see program_run.h.
//   tc-run MODEL.tcx                                       what is in the file
//   tc-run MODEL.tcx --input x.npy --output y.npy          runs it; several: --input name=x.npy
//   tc-run --embed MODEL.tcx -o model.c                    a C file and a header to link in
#include "tools/program_run/program_run.h"

#include <ctype.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tc/program.h>
#include <time.h>

#define MOST_FILES 64

typedef struct command {
  const char *model, *embed_to;
  const char *input[MOST_FILES], *output[MOST_FILES];  // FILE, or NAME=FILE
  int n_inputs, n_outputs, times;
  bool embeds, verifies;
} command;

static const char help[] =
    "usage: tc-run MODEL.tcx [--input [NAME=]x.npy].. [--output [NAME=]y.npy]..\n"
    "       tc-run --embed MODEL.tcx -o FILE.c\n"
    "runs a compiled program that tc_export wrote, or tells what is in it if there are no files\n"
    "  -i, --input FILE      a .npy file; NAME=FILE where the program has several inputs\n"
    "  -o, --output FILE     where an output goes, as .npy; NAME=FILE where the program has several\n"
    "  -n, --times TIMES     runs so often and tells the times\n"
    "      --verify          compares the weights with their checksums first\n"
    "      --embed           writes FILE.c, and FILE.h, which make the file a part of a program\n"
    "exit status: 0; 1 where the file does not load or run; 2 for a wrong command line\n";

static const struct option words[] = {{"input", required_argument, NULL, 'i'},
                                      {"output", required_argument, NULL, 'o'},
                                      {"times", required_argument, NULL, 'n'},
                                      {"verify", no_argument, NULL, 'v'},
                                      {"embed", no_argument, NULL, 'e'},
                                      {"help", no_argument, NULL, 'h'},
                                      {NULL, 0, NULL, 0}};

static bool ends_in(const char *text, const char *end) {
  size_t n = strlen(text), k = strlen(end);
  return n > k && strcmp(text + n - k, end) == 0;
}

bool tc_program_run_is_asked(int argc, char **argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
    if (strcmp(argv[i], "--embed") == 0 || (argv[i][0] != '-' && ends_in(argv[i], ".tcx"))) return true;
  return false;
}

static int failed(void) {
  return fprintf(stderr, "tc-run: %s\n", tc_last_error()->message), 1;
}

static int wrong_line(const char *what, const char *word) {
  fprintf(stderr, "tc-run: %s%s%s; tc-run --help says what there is\n", what, word ? " " : "", word ? word : "");
  return 2;
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

// ---- what is in it ----

static void print_values(const char *what, const tc_program_file *p, const tc_program_value *v, int n) {
  for (int i = 0; i < n; i++) {
    printf("%s %s: %s[", what, v[i].name, tc_type_name(v[i].type));
    for (int k = 0; k < v[i].shape.rank; k++) {
      if (v[i].dims[k])
        printf("%s%s", k ? ", " : "", v[i].dims[k]);
      else
        printf("%s%lld", k ? ", " : "", (long long)v[i].shape.dim[k]);
    }
    printf("]\n");
    for (int k = 0; k < v[i].shape.rank; k++) {
      int n_sizes;
      const int64_t *size = v[i].dims[k] ? tc_program_sizes(p, v[i].dims[k], &n_sizes) : NULL;
      if (!size) continue;
      printf("  %s:", v[i].dims[k]);
      for (int s = 0; s < n_sizes; s++) printf(" %lld", (long long)size[s]);
      printf("\n");
    }
  }
}

static int show(const tc_program_file *p) {
  int n;
  const tc_program_value *v = tc_program_inputs(p, &n);
  print_values("input", p, v, n);
  v = tc_program_outputs(p, &n);
  print_values("output", p, v, n);
  v = tc_program_weights(p, &n);
  double bytes = 0;
  for (int i = 0; i < n; i++) {
    double all = (double)tc_type_bytes(v[i].type);
    for (int k = 0; k < v[i].shape.rank; k++) all *= (double)v[i].shape.dim[k];
    bytes += all;
  }
  printf("%d weights, %.1f MB\nruns as %s here\n", n, bytes * 1e-6, tc_program_target(p));
  return 0;
}

// ---- a run ----

// The value that "NAME=FILE" or "FILE" is for, and the file. NULL: after saying why.
static const char *split_name(const char *given, const tc_program_value *v, int n, const char *what,
                              const char **name) {
  const char *equals = strchr(given, '=');
  static char names[2 * MOST_FILES][128];
  static int k;
  if (!equals && n == 1) return *name = v[0].name, given;
  if (!equals || (size_t)(equals - given) >= sizeof names[0]) {
    fprintf(stderr, "tc-run: the program has %d %ss: --%s NAME=FILE says which '%s' is\n", n, what, what, given);
    return NULL;
  }
  char *to = names[k++ % (2 * MOST_FILES)];
  snprintf(to, sizeof names[0], "%.*s", (int)(equals - given), given);
  return *name = to, equals + 1;
}

static int find_output(const tc_program_value *v, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(v[i].name, name) == 0) return i;
  fprintf(stderr, "tc-run: the program has no output '%s'; it has", name);
  for (int i = 0; i < n; i++) fprintf(stderr, " %s", v[i].name);
  fprintf(stderr, "\n");
  return -1;
}

static int run_times(const tc_program_file *p, const command *c, const tc_program_input *in, tc_tensor *out, int n) {
  double least = 1e300, first = 0;
  for (int k = 0; k < c->times; k++) {
    for (int i = 0; i < n && k; i++) tc_release(out[i]);
    double start = now_ms();
    if (tc_program_run(p, c->n_inputs, in, out) != TC_OK) return failed();
    double took = now_ms() - start;
    if (k == 0) first = took;
    if (took < least) least = took;
  }
  if (c->times > 1) printf("first run %.3f ms, the fastest of %d %.3f ms\n", first, c->times, least);
  return 0;
}

static int run(const tc_program_file *p, const command *c) {
  int n_in, n_out;
  const tc_program_value *in = tc_program_inputs(p, &n_in), *out = tc_program_outputs(p, &n_out);
  tc_program_input given[MOST_FILES];
  tc_tensor *made = calloc((size_t)n_out + 1, sizeof *made);
  if (!made) return fprintf(stderr, "tc-run: out of memory\n"), 1;
  int status = 0;
  for (int i = 0; i < c->n_inputs && status == 0; i++) {
    const char *file = split_name(c->input[i], in, n_in, "input", &given[i].name);
    if (!file)
      status = 2;
    else if (!tc_is_valid(given[i].value = tc_load_npy(file)))
      status = failed();
  }
  if (status == 0) status = run_times(p, c, given, made, n_out);
  for (int i = 0; i < c->n_outputs && status == 0; i++) {
    const char *name, *file = split_name(c->output[i], out, n_out, "output", &name);
    int at = file ? find_output(out, n_out, name) : -1;
    if (at < 0)
      status = 2;
    else if (tc_save_npy(file, made[at]) != TC_OK)
      status = failed();
  }
  for (int i = 0; i < n_out && status == 0 && c->n_outputs == 0; i++) {
    char *text = tc_format(made[i]);
    printf("%s = %s\n", out[i].name, text ? text : "");
    free(text);
  }
  free(made);
  return status;
}

// ---- a C file that carries it ----

// A name of C's from the file's: letters, digits and _.
static void c_name(const char *path, char *out, size_t bytes) {
  const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
  size_t n = 0;
  if (isdigit((unsigned char)*base)) out[n++] = '_';
  for (; *base && *base != '.' && n + 1 < bytes; base++) out[n++] = isalnum((unsigned char)*base) ? *base : '_';
  out[n] = 0;
}

static int write_text(const char *path, const char *text) {
  FILE *f = fopen(path, "w");
  bool written = f && fputs(text, f) >= 0;
  if (f && fclose(f) != 0) written = false;
  if (!written) perror(path);
  return !written;
}

// The assembler copies the file in (.incbin): a list of 45 million numbers takes a C compiler
// minutes and gigabytes.
static int embed(const command *c) {
  char name[100], header[PATH_MAX], model[PATH_MAX], *text = NULL, *head = NULL;
  if (!c->embed_to || !ends_in(c->embed_to, ".c")) return wrong_line("--embed writes a C file: -o FILE.c", NULL);
  if (!realpath(c->model, model)) return perror(c->model), 1;
  if (strpbrk(model, "\"\\\n")) return fprintf(stderr, "tc-run: '%s' has a quote or backslash in its name\n", model), 1;
  c_name(c->embed_to, name, sizeof name);
  if ((size_t)snprintf(header, sizeof header, "%.*s.h", (int)strlen(c->embed_to) - 2, c->embed_to) >= sizeof header)
    return wrong_line("too long a name:", c->embed_to);
  const char *slash = strrchr(header, '/');
  if (asprintf(&head,
               "// Made by tc-run --embed: a compiled program as a part of this one.\n#pragma once\n\n"
               "#include <tc/program.h>\n\n// The program; NULL on error, as tc_program_load. Closed by "
               "tc_program_close.\ntc_program_file *%s_load(void);\n",
               name) < 0 ||
      asprintf(
          &text,
          "// Made by tc-run --embed. The assembler copies the program's file in where this is compiled, at a "
          "page's\n// boundary, so that processes share it. -D%s_FILE='\"elsewhere.tcx\"' says where it is.\n"
          "#include \"%s\"\n\n#ifndef %s_FILE\n#define %s_FILE \"%s\"\n#endif\n\n"
          "__asm__(\n    \".pushsection .rodata.%s, \\\"a\\\"\\n\"\n    \".balign 4096\\n\"\n"
          "    \".globl %s_tcx, %s_tcx_end\\n\"\n    \".hidden %s_tcx, %s_tcx_end\\n\"\n    \"%s_tcx:\\n\"\n"
          "    \".incbin \\\"\" %s_FILE \"\\\"\\n\"\n    \"%s_tcx_end:\\n\"\n    \".byte 0\\n\"\n    \".popsection\\n\");\n\n"
          "extern const char %s_tcx[], %s_tcx_end[];\n\ntc_program_file *%s_load(void) {\n"
          "  return tc_program_load_memory(%s_tcx, (size_t)(%s_tcx_end - %s_tcx));\n}\n",
          name, slash ? slash + 1 : header, name, name, model, name, name, name, name, name, name, name, name, name,
          name, name, name, name, name) < 0)
    return fprintf(stderr, "tc-run: out of memory\n"), 1;
  int status = write_text(header, head) || write_text(c->embed_to, text);
  if (status == 0) printf("%s, %s: %s_load() gives the program\n", c->embed_to, header, name);
  free(text), free(head);
  return status;
}

// ---- the command line ----

static int read_line(int argc, char **argv, command *c) {
  opterr = 0;
  for (int k; (k = getopt_long(argc, argv, ":i:o:n:vh", words, NULL)) != -1;) switch (k) {
      case 'i':
        if (c->n_inputs == MOST_FILES) return wrong_line("too many inputs:", optarg);
        c->input[c->n_inputs++] = optarg;
        break;
      case 'o':
        if (c->n_outputs == MOST_FILES) return wrong_line("too many outputs:", optarg);
        c->output[c->n_outputs++] = optarg;
        break;
      case 'n':
        if ((c->times = atoi(optarg)) < 1) return wrong_line("-n takes how often, at least 1, not", optarg);
        break;
      case 'v': c->verifies = true; break;
      case 'e': c->embeds = true; break;
      case 'h': fputs(help, stdout); exit(0);
      case ':': return wrong_line("a value is missing behind", argv[optind - 1]);
      default: return wrong_line("there is no option", argv[optind - 1]);
    }
  if (optind == argc) return wrong_line("no file is named", NULL);
  if (optind < argc - 1) return wrong_line("one file at a time; too many is", argv[optind + 1]);
  c->model = argv[optind];
  if (c->embeds) c->embed_to = c->n_outputs ? c->output[0] : NULL;
  return 0;
}

int tc_program_run_main(int argc, char **argv) {
  command c = {.times = 1};
  int status = read_line(argc, argv, &c);
  if (status) return status;
  tc_program_file *p = tc_program_load(c.model);
  if (!p) return failed();
  if (c.verifies && tc_program_verify(p) != TC_OK)
    status = failed();
  else if (c.embeds)
    status = embed(&c);
  else if (c.n_inputs == 0 && c.n_outputs == 0)
    status = show(p);
  else
    status = run(p, &c);
  tc_program_close(p);
  return status;
}
