// Random programs as C programs over the public API. See random_graph.h.
#include "tests/random/parts.h"

static void print_leaf(const rg_program *p, int i, FILE *out) {
  const rg_instr *s = &p->instr[i];
  static const char *const c_types[TC_N_TYPES] = {"uint8_t", "uint8_t", "int8_t", "int16_t", "int32_t",
                                                  "int64_t", "double",  "double", "double",  "double"};
  int64_t n = near_count(s->dims);
  fprintf(out, "  const %s d%d[] = {", c_types[s->type], i);
  for (int64_t e = 0; e < n; e++) fprintf(out, "%s%.17g", e ? ", " : "", rg_leaf_value(p, s, e));
  fprintf(out, "%s};\n  tc_tensor v%d = ", n ? "" : "0", i);
  fprintf(out, near_is_float(s->type) ? "tc_cast(" : "(");
  fprintf(out, "tc_from_host(d%d, tc_dims_of(%d, (const int64_t[]){", i, s->dims.rank);
  for (int k = 0; k < s->dims.rank || k == 0; k++) fprintf(out, "%s%lld", k ? ", " : "", (long long)s->dims.dim[k]);
  bool fl = near_is_float(s->type);
  const char *name = fl ? "f64" : tc_type_name(s->type);
  fprintf(out, "}), TC_");
  for (const char *c = name; *c; c++) fputc(*c >= 'a' ? *c - 32 : *c, out);
  fprintf(out, ")");
  if (fl) {
    fprintf(out, ", TC_");
    for (const char *c = tc_type_name(s->type); *c; c++) fputc(*c >= 'a' ? *c - 32 : *c, out);
  }
  fprintf(out, ");\n");
  if (s->op == RG_PARAM) fprintf(out, "  v%d = tc_param(v%d);\n", i, i);
}

// The numbers of a list as long as the rank: value's (NULL: 0), but another at an axis (-1: none).
static void print_along(FILE *out, int rank, const int64_t *value, int axis, int64_t at_axis) {
  for (int k = 0; k < rank; k++)
    fprintf(out, "%s%lld", k ? ", " : "", k == axis ? (long long)at_axis : value ? (long long)value[k] : 0LL);
}

static void print_assign_slice(FILE *out, const rg_instr *s, const tc_dims *d, int axis, const char *x, const char *y) {
  int64_t start, stop, step_of, ones[TC_MAX_RANK];
  for (int k = 0; k < d->rank; k++) ones[k] = 1;
  rg_slice_of(d->dim[axis], s->p / 8, s->q, &start, &stop, &step_of);
  fprintf(out, "tc_assign_slice(%s, (const int64_t[]){", x);
  print_along(out, d->rank, NULL, axis, start);
  fprintf(out, "}, (const int64_t[]){");
  print_along(out, d->rank, d->dim, -1, 0);
  fprintf(out, "}, (const int64_t[]){");
  print_along(out, d->rank, ones, axis, step_of);
  fprintf(out, "}, %s)", y);
}

static void print_max_pool(FILE *out, const rg_instr *s, int64_t extent, const char *x) {
  int64_t size, n;
  tc_pool_options o = rg_pool_of(extent, s->p, s->q, &size, &n);
  fprintf(
      out,
      "tc_max_pool1d(%s, TC_SHAPE(%lld), (tc_pool_options){.stride = TC_SHAPE(%lld), .padding = TC_SHAPE(%lld), .ceil_mode = %s})",
      x, (long long)size, (long long)o.stride.dim[0], (long long)o.padding.dim[0], o.ceil_mode ? "true" : "false");
}

static void print_scope_end(FILE *out, const rg_program *p, int i, int a) {
  for (int k = i; k >= 0; k--)
    if (p->instr[k].op == RG_SCOPE_BEGIN) {
      if (a > k) fprintf(out, "tc_keep(v%d), ", a);
      fprintf(out, "tc_scope_end(s%d)", k);
      break;
    }
}

// What moves elements of x.
static void print_move(FILE *out, const rg_instr *s, const rg_fact *fa, const tc_dims *to, const char *x,
                       const char *y) {
  int rank = fa->dims.rank, axis = rank > 0 ? s->p % rank : 0, axis_q = rank > 0 ? s->q % rank : 0;
  int64_t start = 0, stop = 0, step_of = 1, extent = rank > 0 ? fa->dims.dim[axis] : 1;
  switch (s->op) {
    case RG_TRANSPOSE: fprintf(out, "tc_transpose(%s, %d, %d)", x, axis, axis_q); break;
    case RG_SLICE:
      rg_slice_of(extent, s->p / 8, s->q, &start, &stop, &step_of);
      fprintf(out, "tc_slice(%s, %d, %lld, %lld, %lld)", x, axis, (long long)start, (long long)stop,
              (long long)step_of);
      break;
    case RG_FLIP: fprintf(out, "tc_flip(%s, TC_AXES(%d))", x, axis); break;
    case RG_UNFOLD:
      fprintf(out, "tc_unfold(%s, %d, %lld, %d)", x, axis, (long long)rg_window_of(extent, s->p), 1 + s->q % 3);
      break;
    case RG_FLATTEN: fprintf(out, "tc_reshape(%s, TC_SHAPE(-1))", x); break;
    case RG_EXPAND:
      fprintf(out, "tc_expand(%s, TC_SHAPE(", x);
      print_along(out, to->rank, to->dim, -1, 0);
      fprintf(out, "))");
      break;
    case RG_PAD:
      fprintf(out, "tc_pad(%s, TC_SHAPE(", x);
      print_along(out, rank, NULL, axis, 1);
      fprintf(out, "), TC_SHAPE(");
      print_along(out, rank, NULL, axis, 2);
      fprintf(out, "), %d)", fa->type == TC_BOOL ? 1 : 2);
      break;
    case RG_CAT: fprintf(out, "tc_cat(2, (const tc_tensor[]){%s, %s}, %d)", x, y, axis); break;
    case RG_SORT: fprintf(out, "tc_sort(%s, %d, %s)", x, axis_q, s->p % 2 ? "true" : "false"); break;
    case RG_MAX_POOL: print_max_pool(out, s, rank > 0 ? fa->dims.dim[rank - 1] : 1, x); break;
    case RG_INDEX:
      fprintf(out, "tc_index_select(%s, %d, tc_from_host((const int64_t[]){%lld, %lld, %lld}, TC_SHAPE(3), TC_I64))", x,
              axis, (long long)(s->q % extent), (long long)extent - 1, (long long)(-1 - s->q / 64 % extent));
      break;
    default: break;
  }
}

static void print_cast(FILE *out, const char *x, tc_type to) {
  fprintf(out, "tc_cast(%s, TC_", x);
  for (const char *c = tc_type_name(to); *c; c++) fputc(*c >= 'a' ? *c - 32 : *c, out);
  fprintf(out, ")");
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void print_call(FILE *out, const rg_program *p, const rg_plan *pl, int i, const char *x, const char *y) {
  const rg_instr *s = &p->instr[i];
  const rg_fact *fa = &pl->f[s->a];
  int axis_q = fa->dims.rank > 0 ? s->q % fa->dims.rank : 0;
  switch (s->op) {
    case RG_UNARY: fprintf(out, rg_unary(s->p)->text, x); break;
    case RG_BINARY: fprintf(out, rg_binary_texts[s->p % RG_N_BINARY], x, y); break;
    case RG_COMPARE: fprintf(out, rg_compare_texts[s->p % RG_N_COMPARE], x, y); break;
    case RG_NUM: s->q % 2 ? fprintf(out, "tc_mul(%s, 2)", x) : fprintf(out, "tc_add(%s, %d)", x, s->p % 3); break;
    case RG_WHERE: fprintf(out, "tc_where(%s, %s, v%d)", x, y, pl->f[s->c].handle); break;
    case RG_CAST: print_cast(out, x, s->type); break;
    case RG_FOLD:
      fprintf(out, "tc_%s(%s, TC_AXES(%d), %s)", rg_fold_texts[s->p % RG_N_FOLD], x, axis_q,
              s->q & 8 ? "true" : "false");
      break;
    case RG_ARGMAX: fprintf(out, "tc_argmax(%s, %d, true)", x, axis_q); break;
    case RG_CUMSUM: fprintf(out, "tc_cumsum(%s, %d)", x, axis_q); break;
    case RG_SOFTMAX: fprintf(out, "tc_softmax(%s, %d)", x, axis_q); break;
    case RG_MATMUL: rg_print_matmul(out, s->q, x, y); break;
    case RG_ASSIGN_SLICE: print_assign_slice(out, s, &fa->dims, s->p % fa->dims.rank, x, y); break;
    case RG_READ: fprintf(out, "tc_print(%s)", x); break;
    case RG_SCOPE_BEGIN: fprintf(out, "tc_scope s%d = tc_scope_begin()", i); break;
    case RG_SCOPE_END: print_scope_end(out, p, i, fa->handle); break;
    case RG_BACKWARD: fprintf(out, "tc_backward(tc_sum(%s, TC_ALL, false))", x); break;
    default: print_move(out, s, fa, &pl->f[i].dims, x, y);
  }
}
#pragma GCC diagnostic pop

static void print_step(const rg_program *p, const rg_plan *pl, int i, FILE *out) {
  const rg_instr *s = &p->instr[i];
  char x[16], y[16];
  if (s->op == RG_NOP) return;
  if (s->op == RG_LEAF || s->op == RG_PARAM) {
    print_leaf(p, i, out);
    return;
  }
  snprintf(x, sizeof x, "v%d", pl->f[s->a].handle), snprintf(y, sizeof y, "v%d", pl->f[s->b].handle);
  fprintf(out, "  ");
  if (pl->f[i].value && s->op != RG_ASSIGN_SLICE) fprintf(out, "tc_tensor v%d = ", i);
  print_call(out, p, pl, i, x, y);
  fprintf(out, ";\n");
}

void rg_print(const rg_program *p, FILE *out) {
  rg_plan pl;
  if (!rg_plan_program(p, &pl)) return;
  fprintf(
      out,
      "// cc -std=gnu11 -Iinclude repro.c -ltc && ./a.out tc:cpu && TC_EAGER=1 ./a.out tc:cpu && ./a.out tc:ref\n#include <stdio.h>\n#include "
      "<tc/tc.h>\n\n"
      "int main(int n, char **words) {\n  if (n > 1 && tc_set_default_device(words[1]) != TC_OK) return 1;\n  tc_seed(1);\n");
  for (int i = 0; i < p->n; i++) print_step(p, &pl, i, out);
  for (int i = 0; i < p->n; i++) {
    if (pl.f[i].value && pl.f[i].alive && pl.f[i].handle == i)
      fprintf(out, "  printf(\"v%d = \"), tc_print(v%d);\n", i, i);
    if (p->instr[i].op == RG_PARAM && pl.backward)
      fprintf(out, "  if (tc_is_valid(tc_grad(v%d))) printf(\"grad v%d = \"), tc_print(tc_grad(v%d));\n", i, i, i);
  }
  fprintf(out, "  printf(\"%%s\\n\", tc_last_error()->message);\n}\n");
}
