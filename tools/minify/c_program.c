// A complete C program that shows what a trace shows. See c_program.h.
#include "tools/minify/c_program.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "kernels/ref/ref.h"
#include "tools/minify/c_call.h"
#include "tools/minify/reference.h"

extern char **environ;

// ---- data ----

static bool is_even(const tc_text_node *k) {
  size_t bytes = tc_type_bytes(k->type);
  for (int64_t i = 1; i < tc_dims_count(&k->dims); i++)
    if (memcmp(k->data, (const char *)k->data + (size_t)i * bytes, bytes) != 0) return false;
  return true;
}

static void write_element(FILE *out, const tc_text_node *k, int64_t i) {
  uint16_t half;
  switch (k->type) {
    case TC_F16:
    case TC_BF16:
      memcpy(&half, (const char *)k->data + 2 * i, sizeof half);
      fprintf(out, "0x%04x", half);
      break;
    case TC_F32:
    case TC_F64: tc_c_number_write(out, tc_get_f64(k->type, k->data, i)); break;
    case TC_I64:
      if (tc_get_i64(k->type, k->data, i) == INT64_MIN)
        fputs("INT64_MIN", out);
      else
        fprintf(out, "%" PRId64, tc_get_i64(k->type, k->data, i));
      break;
    default: fprintf(out, "%" PRId64, tc_get_i64(k->type, k->data, i)); break;
  }
}

static const char *c_type_of(tc_type type) {
  switch (type) {
    case TC_BOOL: return "bool";
    case TC_U8: return "uint8_t";
    case TC_I8: return "int8_t";
    case TC_I16: return "int16_t";
    case TC_I32: return "int32_t";
    case TC_I64: return "int64_t";
    case TC_F32: return "float";
    case TC_F64: return "double";
    default: return "uint16_t";  // the bits of a half type
  }
}

static void write_leaf(FILE *out, const tc_text *x, uint32_t n) {
  const tc_text_node *k = &x->node[n];
  int64_t count = tc_dims_count(&k->dims);
  if (count == 0 || (is_even(k) && tc_type_is_float(k->type) && count > 1)) {
    fprintf(out, "  tc_tensor t%u = stored(tc_full(", n);
    tc_c_shape_write(out, &k->dims);
    fputs(", ", out);
    tc_c_number_write(out, count ? tc_get_f64(k->type, k->data, 0) : 0);
  } else {
    fprintf(out, "  static const %s d%u[] = {", c_type_of(k->type), n);
    for (int64_t i = 0; i < count; i++) {
      fputs(i == 0 ? "" : i % 8 ? ", " : ",\n    ", out);
      write_element(out, k, i);
    }
    fprintf(out, "};\n  tc_tensor t%u = stored(tc_from_host(d%u, ", n, n);
    tc_c_shape_write(out, &k->dims);
  }
  fputs(", ", out);
  tc_c_type_write(out, k->type);
  fputs("));\n", out);
}

// ---- the program's functions ----

static const char head[] =
    "#include <math.h>\n"
    "#include <stdbool.h>\n"
    "#include <stdint.h>\n"
    "#include <stdio.h>\n"
    "#include <stdlib.h>\n"
    "\n"
    "#include <tc/tc.h>\n"
    "\n"
    "static bool op_by_op;\n"
    "\n"
    "static void check(tc_status st) {\n"
    "  if (st == TC_OK) return;\n"
    "  fprintf(stderr, \"%s\\n\", tc_last_error()->message);\n"
    "  exit(1);\n"
    "}\n"
    "\n"
    "static tc_tensor stored(tc_tensor t) {\n"
    "  check(tc_eval(1, &t));\n"
    "  return t;\n"
    "}\n"
    "\n"
    "static tc_tensor made(tc_tensor t) {\n"
    "  return op_by_op ? stored(t) : t;\n"
    "}\n";

// Helpers of expressions, each written where its name is used.
static const struct {
  const char *name, *text;
} helpers[] = {
    {"gradient(",
     "static tc_tensor by;\n"
     "static tc_tensor differentiated(tc_tensor t) {\n"
     "  return by = tc_param(t);\n"
     "}\n"
     "\n"
     "// Of y by the latest variable, where y's gradient is g.\n"
     "static tc_tensor gradient(tc_tensor y, tc_tensor g) {\n"
     "  tc_tensor out;\n"
     "  check(tc_grads_of(tc_sum(tc_mul(y, g), TC_ALL, false), &by, 1, &out, 0));\n"
     "  return out;\n"
     "}\n"},
    {"variable(",
     "static tc_tensor variable(tc_dims shape, tc_type type) {\n"
     "  return differentiated(stored(tc_zeros(shape, type)));\n"
     "}\n"},
    {"written(",
     "static tc_tensor written(tc_tensor x, tc_dims start, tc_dims stop, tc_dims step, tc_tensor value) {\n"
     "  tc_tensor t = tc_reshape(x, tc_shape(x));\n"
     "  check(tc_assign_slice(t, start.dim, stop.dim, step.dim, value));\n"
     "  return t;\n"
     "}\n"},
    {"assigned(",
     "static tc_tensor assigned(tc_tensor old, tc_tensor value) {\n"
     "  check(tc_assign(old, value));\n"
     "  return old;\n"
     "}\n"},
    {"drawn(",
     "static uint64_t placed(uint64_t seed, uint64_t counter, uint64_t stream) {\n"
     "  check(tc_set_rng_state((tc_rng_state){seed, counter, stream}));\n"
     "  return seed;\n"
     "}\n"
     "#define drawn(seed, counter, stream, draw) (placed(seed, counter, stream), draw)\n"},
};

static const char compare[] =
    "\n"
    "// The values as doubles, of the whole at once or op by op.\n"
    "static double *values(const char *device, bool each, size_t *count) {\n"
    "  tc_tensor out[N_OUT];\n"
    "  size_t at = 0;\n"
    "  check(tc_set_default_device(device));\n"
    "  op_by_op = each;\n"
    "  record(out);\n"
    "  check(tc_eval(N_OUT, out));\n"
    "  for (int i = *count = 0; i < N_OUT; i++) *count += (size_t)tc_numel(out[i]);\n"
    "  double *v = malloc((*count + 1) * sizeof *v);\n"
    "  for (int i = 0; v && i < N_OUT; at += (size_t)tc_numel(out[i++]))\n"
    "    check(tc_to_host(tc_cast(out[i], TC_F64), v + at, (size_t)tc_numel(out[i]) * sizeof *v));\n"
    "  return v;\n"
    "}\n"
    "\n";

static const char compare_main[] =
    "  size_t n, m;\n"
    "  double *got = values(DEVICE, false, &n), *alone = values(\"tc:ref\", true, &m);\n"
    "  for (size_t i = 0; got && alone && i < n; i++) {\n"
    "    bool same = got[i] == WANT[i] || (isnan(got[i]) && isnan(WANT[i]));\n"
    "    if (same || fabs(got[i] - WANT[i]) <= ALLOWED) continue;\n"
    "    printf(\"element %zu is %.9g, not %.9g; op by op on tc:ref it is %.9g\\n\", i, got[i], WANT[i], alone[i]);\n"
    "    return 1;\n"
    "  }\n"
    "  puts(\"no value is wrong\");\n"
    "  return 0;\n"
    "}\n";

static const char run_main[] =
    "  size_t n;\n"
    "  (void)values(DEVICE, false, &n);\n"
    "  puts(\"it ran\");\n"
    "  return 0;\n"
    "}\n";

static const char verify_main[] =
    "  size_t n;\n"
    "  tc_sync_point p[16];\n"
    "  (void)values(DEVICE, false, &n);\n"
    "  for (int i = tc_sync_points(16, p); i-- > 0;)\n"
    "    if (p[i].n_wrong) return 1;\n"
    "  puts(\"TC_VERIFY reports nothing\");\n"
    "  return 0;\n"
    "}\n";

// ---- the whole ----

// What the program evaluates.
static bool is_root(const tc_text_node *k) {
  bool stored = k->flag & TC_NODE_LIVE && (k->flag & TC_NODE_KEEP || k->op == TC_OP_ASSIGN);
  return k->op != TC_OP_LEAF && (k->flag & TC_NODE_ASKED || stored);
}

// The node's line of the function that records. False: no public function makes it.
static bool write_node(FILE *out, const tc_text *x, uint32_t n, int *n_out) {
  const tc_text_node *k = &x->node[n];
  if (k->op == TC_OP_LEAF) {
    write_leaf(out, x, n);
    if (!(k->flag & TC_NODE_SOLE)) fprintf(out, "  tc_keep(t%u);\n", n);
    return true;
  }
  fprintf(out, "  tc_tensor t%u = made(", n);
  if (!tc_c_call_write(out, x, n)) return false;
  fputs(");\n", out);
  if (is_root(k)) fprintf(out, "  out[%d] = t%u;\n", (*n_out)++, n);
  return true;
}

// The function that records. Handles die with its scope, as in the trace nobody holds most values.
// False: *op has no public function.
static bool write_record(FILE *out, const tc_text *x, const char **op) {
  int n_out = 0;
  bool *needed = calloc(x->n + 1, 1), ok = needed != NULL;
  for (uint32_t n = x->n; n-- > 0 && ok;) {
    needed[n] |= is_root(&x->node[n]);
    for (int i = 0; needed[n] && i < x->node[n].n_in; i++)
      if (tc_c_call_reads(x, n, i)) needed[x->node[n].in[i]] = true;
  }
  fputs("\nstatic void record(tc_tensor *out) {\n  tc_scope s = tc_scope_begin();\n", out);
  for (uint32_t n = 0; n < x->n && ok; n++) {
    *op = tc_op_names[x->node[n].op];
    ok = !needed[n] || write_node(out, x, n, &n_out);
  }
  fputs("  for (int i = 0; i < N_OUT; i++) tc_keep(out[i]);\n  tc_scope_end(s);\n}\n", out);
  free(needed);
  return ok;
}

// Text of others' in a line of a comment: one line, and nothing that goes on behind it.
static void write_comment(FILE *out, const char *before, const char *text, size_t n, const char *after) {
  enum { MOST = 300 };
  fprintf(out, "//%s", before);
  for (size_t i = 0; i < n && i < MOST; i++)
    fputc(text[i] == '\\' ? '/' : (text[i] & 0x80) || text[i] < ' ' ? '?' : text[i], out);
  fprintf(out, "%s%s\n", n > MOST ? " .." : "", after);
}

static void write_title(FILE *out, const tc_text *x, const tc_outcome *o, const char *origin) {
  char *text = NULL, *end = NULL;
  size_t bytes = 0;
  FILE *to = open_memstream(&text, &bytes);
  if (to) tc_outcome_print(to, x, o), fclose(to);
  write_comment(out, " Made by tc-run --minify of ", origin, strlen(origin), ". Where it was made,");
  if (text) write_comment(out, "   ", text, bytes, "");
  free(text), text = NULL;
  fputs("//   cc program.c $(pkg-config --cflags --libs tc) -lm && ./a.out; exit status 1 while it fails\n", out);
  for (char **v = environ; *v; v++)
    if (strncmp(*v, "TC_", 3) == 0) write_comment(out, " ", *v, strcspn(*v, "\n"), " was set.");
  fputs("// Its trace:\n", out);
  to = open_memstream(&text, &bytes);
  if (to) tc_text_write(to, x), fclose(to);
  for (char *line = text; line && (end = strchr(line, '\n')); line = end + 1)
    write_comment(out, "   ", line, (size_t)(end - line), "");
  free(text);
}

// What the reference kernels make of the trace, where that is short; else the program's own run on
// tc:ref is what is wanted. A wrong pass may be wrong there, too. *allowed: the most that a right
// value may be from it.
static void write_wanted(FILE *out, const tc_text *x, const tc_judge *j, double *allowed) {
  enum { MOST = 256 };
  tc_arena arena = {0};
  tc_allowance allow = {NULL};
  void **value = tc_arena_alloc(&arena, (x->n + 1) * sizeof *value);
  int64_t count = 0, written = 0;
  bool known = value && tc_reference_trace(x, &arena, value) == TC_OK &&
               tc_reference_allow(x, value, j->tolerance, &arena, &allow) == TC_OK;
  for (uint32_t n = 0; n < x->n; n++) count += is_root(&x->node[n]) ? tc_dims_count(&x->node[n].dims) : 0;
  bool literal = known && count > 0 && count <= MOST;
  fputs(literal ? "// By the kernels in kernels/ref.\nstatic const double WANT[] = {" : "#define WANT alone\n", out);
  for (uint32_t n = 0; n < x->n && known; n++)
    for (int64_t i = 0; is_root(&x->node[n]) && i < tc_dims_count(&x->node[n].dims); i++) {
      if (allow.of[n]) *allowed = fmax(*allowed, allow.of[n][i]);
      if (!literal) continue;
      fputs(written == 0 ? "" : written % 8 ? ", " : ",\n  ", out);
      tc_c_number_write(out, tc_get_f64(x->node[n].type, value[n], i));
      written++;
    }
  if (literal) fputs("};\n", out);
  tc_arena_fini(&arena);
}

// Of what a command says fails the values are compared, too.
static bool compares(const tc_outcome *o) {
  return o->failure == TC_FAILS_WRONG || o->failure == TC_FAILS_CHECK;
}

static void write_main(FILE *out, const tc_judge *j, const tc_outcome *o) {
  const char *const *set = j->way->set;
  fputs("int main(void) {\n", out);
  for (; *set; set += 2) fprintf(out, "  setenv(\"%s\", \"%s\", 1);\n", set[0], set[1]);
  if (j->verify) fputs("  setenv(\"TC_VERIFY\", \"1\", 1);\n", out);
  fputs(compares(o) ? compare_main : o->failure == TC_FAILS_VERIFY ? verify_main : run_main, out);
}

bool tc_c_program_write(FILE *out, const tc_text *x, const tc_judge *j, const tc_outcome *o, const char *origin,
                        const char **op) {
  char *body = NULL;
  size_t bytes, n_out = 0;
  FILE *to = open_memstream(&body, &bytes);
  *op = "nothing";
  bool ok = to && write_record(to, x, op);
  if (to) fclose(to);
  if (!ok || !body) return free(body), false;
  for (uint32_t n = 0; n < x->n; n++) n_out += is_root(&x->node[n]);
  write_title(out, x, o, origin);
  fputs(head, out);
  for (size_t i = 0; i < sizeof helpers / sizeof *helpers; i++)
    if (strstr(body, helpers[i].name)) fprintf(out, "\n%s", helpers[i].text);
  fprintf(out, "\nenum { N_OUT = %zu };\n#define DEVICE \"%s\"\n", n_out, tc_device_name(x->node[0].dev));
  fputs(body, out);
  fputc('\n', out);
  if (compares(o)) {
    double apart = fabs(o->got - o->want), allowed = 0;
    write_wanted(out, x, j, &allowed);
    if (o->failure == TC_FAILS_WRONG) allowed = isfinite(apart) ? o->allowed + (apart - o->allowed) / 8 : o->allowed;
    fputs("#define ALLOWED ", out);
    tc_c_number_write(out, allowed);
    fputc('\n', out);
  }
  fputs(compare, out);
  write_main(out, j, o);
  free(body);
  return true;
}
