// The kernel IR by cases of text in, text out: tests/lowering/kir/*.txt, which `test-lowering-kir
// --update` writes again as the code says.
//
// A file has cases with a line of "====" between them. A case: header lines, an empty line, the
// input, a line "---", and what is expected. The first header line is "KIND: what it shows"; others
// are settings.
//   verify     input: kernel IR as print.h prints it. Expected: "right", or why it is refused. Settings: nums N, scratch N.
//   accepts    input: kernel IR. Each op is put behind it with each type, number of lanes, imm and
//              choice of operands. Expected: how many the verifier accepts, their hash, the first.
//   print      input: kernel IR. Expected: how it is printed, here again and after its key was written and read.
//   math       input: a function of math.h and the type of its argument. Expected: the instructions. Settings: lookups.
//   scalar_op  input: an elementwise op and the types of its operands. Expected: the instructions. Settings: lookups, strict.
//   builder    input: calls of builder.h, operands by the number of their instruction. Expected: the instructions.
#include <criterion/criterion.h>
#include <dirent.h>

#include "lazy/trace/trace.h"
#include "lowering/kir/math.h"
#include "lowering/kir/print.h"
#include "lowering/kir/scalar_ops.h"
#include "lowering/kir/serialize.h"
#include "lowering/kir/verify.h"
#include "runtime/hash.h"
#include "runtime/options.h"
#include "tests/lowering/kir_text.h"

#define FOLDER "tests/lowering/kir"

// What a test of its own process knows of --update.
#define UPDATES "TC_TEST_UPDATES"

typedef struct test_case {
  char kind[32], *head, *input, *want;  // parts of the file's text
  int nums;
  int64_t scratch;
  bool lookups, strict;
} test_case;

// ---- what each kind does: text in, text out ----

static void print_refusal(const char *line, FILE *out) {
  fprintf(out, "cannot read: %s\n", line);
}

static bool parse_kir(const test_case *c, tc_kir *n, FILE *out) {
  char *text = strdup(c->input), *at = text, *line;
  bool ok = true;
  *n = (tc_kir){.n_num = (uint32_t)c->nums, .scratch_bytes = c->scratch};
  while (ok && (line = strsep(&at, "\n"))) {
    line += strspn(line, " ");
    char *copy = strdup(line);
    if (*line && !(ok = parse_kir_line(n, line))) print_refusal(copy, out);
    free(copy);
  }
  free(text);
  return ok;
}

static void run_verify(const test_case *c, FILE *out) {
  tc_kir n;
  char why[256];
  if (parse_kir(c, &n, out)) fprintf(out, "%s\n", tc_kir_verify(&n, why, sizeof why) == TC_OK ? "right" : why);
  tc_kir_destroy(&n);
}

// What is tried behind a kernel's instructions, and what the verifier accepted of it.
typedef struct trial {
  tc_kir *n;
  tc_kir_inst *inst;  // the last instruction
  uint64_t tried, accepted, hash;
  char first[200];
} trial;

static bool is_accepted(trial *t) {
  const bool opens = tc_kir_is(t->inst, TC_KIR_OPENS);
  const tc_kir_op end = t->inst->op == TC_IR_LOOP ? TC_IR_ENDLOOP : TC_IR_ENDIF;
  if (opens) (void)put(t->n, end, TC_BOOL, 1, 0, TC_NONE, TC_NONE, TC_NONE);
  const tc_status st = tc_kir_verify(t->n, NULL, 0);
  t->n->n_inst -= opens;
  return st == TC_OK;
}

static void try_inst(trial *t) {
  const tc_kir_inst *i = t->inst;
  t->tried++;
  if (!is_accepted(t)) return;
  t->hash ^= tc_hash_bytes(i, sizeof *i).lo;
  if (t->accepted++) return;
  int at = snprintf(t->first, sizeof t->first, "%sx%u imm %" PRId64, tc_type_name((tc_type)i->dtype), i->lanes, i->imm);
  for (int k = 0; k < 4 && i->src[k] != TC_NONE; k++)
    at += snprintf(t->first + at, sizeof t->first - (size_t)at, " %%%u", i->src[k]);
}

// Operand k and those behind it.
static void try_operands(trial *t, int k) {
  if (k == tc_kir_op_of(t->inst)->operands) {
    try_inst(t);
    return;
  }
  for (uint32_t v = 0; v < t->n->n_inst; v++) {
    t->inst->src[k] = v + 1 < t->n->n_inst ? v : TC_NONE;
    try_operands(t, k + 1);
  }
  t->inst->src[k] = TC_NONE;
}

static void try_op(trial *t, tc_kir_op op) {
  static const int64_t imms[] = {0, -1, 1, 2, TC_IR_ADD};
  const unsigned threads = t->n->threads ? t->n->threads : 8, lanes[] = {1, threads, 4 * threads};
  *t->inst = (tc_kir_inst){.op = (uint8_t)op, .src = {TC_NONE, TC_NONE, TC_NONE, TC_NONE}};
  const tc_kir_op_row *row = tc_kir_op_of(t->inst);
  const bool typed = row->result != TC_KIR_RESULT_NONE;
  const size_t n_types = typed ? TC_N_TYPES : 1, n_lanes = typed ? 3 : 1, n_imms = row->imm ? 5 : 1;
  for (size_t type = 0; type < n_types; type++)
    for (size_t l = 0; l < n_lanes; l++)
      for (size_t k = 0; k < n_imms; k++) {
        t->inst->dtype = (uint8_t)type, t->inst->lanes = (uint16_t)lanes[l], t->inst->imm = imms[k];
        try_operands(t, 0);
      }
}

static void run_accepts(const test_case *c, FILE *out) {
  tc_kir n;
  if (parse_kir(c, &n, out)) {
    (void)put(&n, TC_IR_BEGIN, TC_I64, 1, 0, TC_NONE, TC_NONE, TC_NONE);  // the one that is tried
    (void)put(&n, TC_IR_BEGIN, TC_I64, 1, 0, TC_NONE, TC_NONE, TC_NONE);  // room for an end
    n.n_inst--;
    for (int op = 0; op < TC_N_KIR_OPS; op++) {
      trial t = {.n = &n, .inst = &n.inst[n.n_inst - 1]};
      try_op(&t, (tc_kir_op)op);
      if (t.accepted)
        fprintf(out, "%-10s %6" PRIu64 " of %" PRIu64 " %016" PRIx64 ": %s\n", tc_kir_op_name((tc_kir_op)op),
                t.accepted, t.tried, t.hash, t.first);
    }
  }
  tc_kir_destroy(&n);
}

static void run_print(const test_case *c, FILE *out) {
  tc_kir n;
  if (parse_kir(c, &n, out)) {
    tc_kir_print(&n, out);
    uint64_t *key = calloc(1, tc_kir_key_bytes(&n));
    tc_kir_write_key(&n, key);
    const tc_kir again = tc_kir_of_key(key);  // a CPU's
    cr_expect(n.threads > 0 || (again.n_inst == n.n_inst && memcmp(again.inst, n.inst, n.n_inst * sizeof *n.inst) == 0),
              "%s", c->head);
    free(key);
  }
  tc_kir_destroy(&n);
}

// The instructions behind the arguments, which are the kernel's numbers.
static void print_built(tc_kir_builder *e, FILE *out) {
  char why[256];
  for (uint32_t k = 0; k < e->kir->n_inst; k++) e->kir->n_num += e->kir->inst[k].op == TC_IR_NUM;
  cr_expect(!e->failed);
  cr_expect_eq(tc_kir_verify(e->kir, why, sizeof why), TC_OK, "%s", why);
  tc_kir_print(e->kir, out);
  tc_kir_destroy(e->kir);
}

static tc_val put_argument(tc_kir_builder *e, const char *word, tc_type *type) {
  int lanes, number = (int)e->kir->n_inst;
  if (!word || !parse_value_type(word, type, &lanes)) return TC_NONE;
  return tc_build_raw(e, TC_IR_NUM, *type, lanes, TC_NONE, TC_NONE, TC_NONE, number);
}

static tc_val call_function(tc_kir_builder *e, const char *name, tc_val x, tc_type type) {
  static const struct {
    const char *name;
    tc_val (*call)(tc_kir_builder *e, tc_val x);
  } row[] = {{"exp_f32", tc_kir_exp_f32},
             {"log_f32", tc_kir_log_f32},
             {"tanh_f32", tc_kir_tanh_f32},
             {"erf_f32", tc_kir_erf_f32},
             {"gelu_f32", tc_kir_gelu_f32},
             {"gelu_f64", tc_kir_gelu_f64},
             {"gelu_tanh_f32", tc_kir_gelu_tanh_f32},
             {"gelu_tanh_f64", tc_kir_gelu_tanh_f64}};
  for (size_t k = 0; k < sizeof row / sizeof *row; k++)
    if (strcmp(name, row[k].name) == 0) return row[k].call(e, x);
  if (strcmp(name, "sin_f32") == 0) return tc_kir_trig_f32(e, x, false);
  if (strcmp(name, "cos_f32") == 0) return tc_kir_trig_f32(e, x, true);
  if (strcmp(name, "sigmoid") == 0) return tc_kir_sigmoid(e, x, type);
  if (strcmp(name, "exp_of_negative") == 0) return tc_build_exp_of_negative(e, type, x);
  if (strcmp(name, "call_libm_tan") == 0) return tc_kir_call_libm(e, TC_KIR_MATH_TAN, x, 0, false);
  if (strcmp(name, "power_of_sixteenths") == 0) return tc_build_power_of_sixteenths(e, x, x);
  return TC_NONE;
}

static void run_function(const test_case *c, FILE *out) {
  tc_kir n = {.n_inst = 0};
  tc_kir_builder e = {.kir = &n, .lookups = c->lookups};
  char *text = strdup(c->input), *at = text, *name = strsep(&at, " \n");
  tc_type type = TC_F32, other;
  tc_val v[3];
  for (int k = 0; k < 3; k++) v[k] = put_argument(&e, strsep(&at, " \n"), k == 0 ? &type : &other);
  if (strcmp(c->kind, "math") == 0) {
    if (call_function(&e, name, v[0], type) == TC_NONE) print_refusal(name, out);
  } else {
    int op = 0;
    while (op < TC_N_OP_ROWS && strcmp(tc_op_names[op], name) != 0) op++;
    if (op < TC_N_OP_ROWS)
      (void)tc_build_scalar_op(&e, (uint32_t)op, v[2] != TC_NONE ? other : type, v[0], v[1], v[2]);
    else
      print_refusal(name, out);
  }
  print_built(&e, out);
  free(text);
}

static bool build_line(tc_kir_builder *e, char *line) {
  char word[32], type_name[32] = "";
  unsigned a = 0, b = 0, d = 0;
  double number = 0;
  int lanes = 1, op;
  tc_type type;
  if (sscanf(line, "arg %31s", type_name) == 1) return put_argument(e, type_name, &type) != TC_NONE;
  if (sscanf(line, "const %31s %lf", type_name, &number) == 2) {
    if (!parse_type(type_name, &type)) return false;
    return tc_type_is_float(type) ? tc_build_const_f(e, type, number) : tc_build_const_i(e, type, (int64_t)number),
           true;
  }
  if (sscanf(line, "cast %%%u %31s", &a, type_name) == 2)
    return parse_type(type_name, &type) && (tc_build_cast(e, a, type), true);
  if (sscanf(line, "settled %%%u", &a) == 1) return tc_build_cast_bf16_daz(e, a), true;
  if (sscanf(line, "splat %%%u %d", &a, &lanes) == 2) return tc_build_splat(e, a, lanes), true;
  if (sscanf(line, "words %%%u %%%u", &a, &b) == 2) return tc_build_words(e, a, b), true;
  if (sscanf(line, "halve %%%u %%%u", &a, &b) == 2) return tc_build_halve(e, a, b), true;
  if (sscanf(line, "var %%%u", &a) == 1) return tc_build_var(e, a), true;
  if (sscanf(line, "set %%%u %%%u", &a, &b) == 2) return tc_build_set(e, a, b), true;
  if (sscanf(line, "fma %%%u %%%u %%%u", &a, &b, &d) == 3) return tc_build_fma(e, a, b, d), true;
  if (sscanf(line, "select %%%u %%%u %%%u", &a, &b, &d) == 3) return tc_build_select(e, a, b, d), true;
  if (sscanf(line, "transpose %%%u %d", &a, &lanes) == 2 && lanes <= 8) {
    tc_val v[8];
    for (int k = 0; k < lanes; k++) v[k] = a + (tc_val)k;
    return tc_build_transpose(e, v, lanes), true;
  }
  const int n = sscanf(line, "%31s %%%u %%%u", word, &a, &b);
  if (n < 2 || !parse_op(word, &op)) return false;
  return n == 2 ? tc_build_un(e, (tc_kir_op)op, a) : tc_build_bin(e, (tc_kir_op)op, a, b), true;
}

static void run_builder(const test_case *c, FILE *out) {
  tc_kir n = {.n_inst = 0};
  tc_kir_builder e = {.kir = &n};
  char *text = strdup(c->input), *at = text, *line;
  while ((line = strsep(&at, "\n")))
    if (*line && !build_line(&e, line)) print_refusal(line, out);
  print_built(&e, out);
  free(text);
}

static char *run_case(const test_case *c) {
  static const struct {
    const char *kind;
    void (*run)(const test_case *c, FILE *out);
  } row[] = {{"verify", run_verify}, {"accepts", run_accepts},    {"print", run_print},
             {"math", run_function}, {"scalar_op", run_function}, {"builder", run_builder}};
  char *text = NULL;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  setenv("TC_STRICT", c->strict ? "1" : "0", 1);
  tc_options_reload();
  size_t k = 0;
  while (k < sizeof row / sizeof *row && strcmp(row[k].kind, c->kind) != 0) k++;
  cr_assert(k < sizeof row / sizeof *row, "no kind %s", c->kind);
  row[k].run(c, out);
  fclose(out);
  return text;
}

// ---- files ----

static void read_head(test_case *c) {
  char *text = strdup(c->head), *at = text, *line;
  cr_assert_eq(sscanf(c->head, "%31[a-z_]:", c->kind), 1, "no kind: %s", c->head);
  while ((line = strsep(&at, "\n"))) {
    (void)sscanf(line, "nums %d", &c->nums);
    (void)sscanf(line, "scratch %" SCNd64, &c->scratch);
    c->lookups |= strcmp(line, "lookups") == 0;
    c->strict |= strcmp(line, "strict") == 0;
  }
  free(text);
}

// Cuts the text in front of the mark; what stands behind that, or NULL.
static char *cut_at(char *text, const char *mark) {
  char *at = strstr(text, mark);
  if (at) *at = 0;
  return at ? at + strlen(mark) : NULL;
}

// In which order C evaluates a call's arguments is the compiler's. The texts are GCC's; where it is
// another, what is built is verified alone.
static bool is_compared(const test_case *c) {
#ifdef __clang__
  return strcmp(c->kind, "math") != 0 && strcmp(c->kind, "scalar_op") != 0;
#else
  return *c->kind != 0;
#endif
}

static void run_file(const char *path) {
  char *text = NULL, *updated = NULL;
  size_t bytes, room = 0;
  int n_cases = 0;
  const bool is_update = getenv(UPDATES) != NULL;
  FILE *f = fopen(path, "r");
  cr_assert(f, "cannot open %s", path);
  cr_assert(getdelim(&text, &room, 0, f) > 0);
  fclose(f);
  FILE *again = open_memstream(&updated, &bytes);
  for (char *at = text; at;) {
    test_case c = {.head = at};
    at = cut_at(at, "====\n");
    cr_assert((c.input = cut_at(c.head, "\n\n")) && (c.want = cut_at(c.input, "---\n")), "%s: case %d is not whole",
              path, n_cases + 1);
    read_head(&c);
    char *got = run_case(&c);
    fprintf(again, "%s%s\n\n%s---\n%s", n_cases++ ? "====\n" : "", c.head, c.input, got);
    if (!is_update && is_compared(&c)) cr_expect_str_eq(got, c.want, "%s: %s\ngot:\n%s", path, c.head, got);
    free(got);
  }
  fclose(again);
  if (is_update && (f = fopen(path, "w"))) {
    fputs(updated, f);
    fclose(f);
  }
  fprintf(stderr, "%s: %d cases\n", path, n_cases);
  free(updated);
  free(text);
}

Test(kir, cases_of_every_file) {
  struct dirent **entry;
  const int n = scandir(FOLDER, &entry, NULL, alphasort);
  int n_files = 0;
  cr_assert(n > 0, "cannot read " FOLDER);
  for (int k = 0; k < n; k++) {
    char path[512];
    snprintf(path, sizeof path, FOLDER "/%.300s", entry[k]->d_name);
    if (strstr(path, ".txt")) n_files++, run_file(path);
    free(entry[k]);
  }
  free(entry);
  cr_expect(n_files >= 5);
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--update") == 0) setenv(UPDATES, "1", 1), argc = 1;
  struct criterion_test_set *tests = criterion_initialize();
  const int st = criterion_handle_args(argc, argv, true) ? !criterion_run_all_tests(tests) : 0;
  criterion_finalize(tests);
  return st;
}
