// Records of a trace as calls of public functions. See c_call.h.
#include "tools/minify/c_call.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- values ----

static void write_list(FILE *out, const char *word, int n, const int64_t *v) {
  fprintf(out, "%s(", word);
  for (int i = 0; i < n; i++) fprintf(out, "%s%" PRId64, i ? ", " : "", v[i]);
  fputc(')', out);
}

void tc_c_shape_write(FILE *out, const tc_dims *d) {
  if (d->rank == 0)
    fputs("TC_SCALAR", out);
  else
    write_list(out, "TC_SHAPE", d->rank, d->dim);
}

void tc_c_type_write(FILE *out, tc_type type) {
  fputs("TC_", out);
  for (const char *c = tc_type_name(type); *c; c++) fputc(toupper((unsigned char)*c), out);
}

void tc_c_number_write(FILE *out, double v) {
  char text[40];
  if (!isfinite(v)) {
    fputs(isnan(v) ? "NAN" : v > 0 ? "INFINITY" : "-INFINITY", out);
    return;
  }
  int digits = 6;
  do snprintf(text, sizeof text, "%.*g", digits, v);
  while (strtod(text, NULL) != v && digits++ < 17);
  fprintf(out, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

static double double_of(uint64_t bits) {
  double v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

// ---- calls ----

typedef struct call {
  FILE *out;
  const tc_text *x;
  const tc_text_node *k;
} call;

static const tc_dims *dims_in(const call *c, int i) {
  return &c->x->node[c->k->in[i]].dims;
}

static bool write_axis(const call *c) {
  fprintf(c->out, "tc_%s(t%u, %d", tc_op_names[c->k->op], c->k->in[0], (int)c->k->attr[0]);
  return true;
}

static void end_flag(const call *c, bool flag) {
  fprintf(c->out, ", %s)", flag ? "true" : "false");
}

// The function of the op's name on the operands.
static bool write_plain(const call *c) {
  fprintf(c->out, "tc_%s(", tc_op_names[c->k->op]);
  for (int i = 0; i < c->k->n_in; i++) fprintf(c->out, "%st%u", i ? ", " : "", c->k->in[i]);
  fputc(')', c->out);
  return true;
}

static bool write_full(const call *c) {
  const tc_text_node *k = c->k;
  bool floats = tc_type_is_float(k->type);
  fputs(floats ? "tc_full(" : "tc_full_int(", c->out);
  tc_c_shape_write(c->out, &k->dims);
  fputs(", ", c->out);
  if (floats)
    tc_c_number_write(c->out, double_of(k->arg[0]));
  else
    fprintf(c->out, "%" PRId64, (int64_t)k->arg[0]);
  fputs(", ", c->out);
  tc_c_type_write(c->out, k->type);
  fputc(')', c->out);
  return true;
}

static bool write_iota(const call *c) {
  const tc_text_node *k = c->k;
  bool floats = tc_type_is_float(k->type), row = k->dims.rank == 1;
  double start = floats ? double_of(k->arg[0]) : (double)(int64_t)k->arg[0],
         step = floats ? double_of(k->arg[1]) : (double)(int64_t)k->arg[1];
  const double words[] = {start, start + step * ((double)tc_dims_count(&k->dims) - 0.5), step};
  fputs(row ? "tc_arange(" : "tc_reshape(tc_arange(", c->out);
  for (int i = 0; i < 3; i++) tc_c_number_write(c->out, words[i]), fputs(", ", c->out);
  tc_c_type_write(c->out, k->type);
  fputs(row ? ")" : "), ", c->out);
  if (!row) tc_c_shape_write(c->out, &k->dims), fputc(')', c->out);
  return step != 0 && tc_dims_count(&k->dims) > 0;
}

static bool write_draw(const call *c) {
  const tc_text_node *k = c->k;
  const uint64_t counter = (UINT64_C(1) << 40) - 1;
  fprintf(c->out, "drawn(%" PRIu64 "u, %" PRIu64 "u, %" PRIu64 "u, tc_%s(", k->arg[0], k->arg[1] & counter,
          k->arg[1] >> 40, tc_op_names[k->op]);
  if (k->op == TC_OP_RANDPERM) {
    fprintf(c->out, "%" PRId64 "))", k->dims.dim[0]);
    return true;
  }
  if (k->op == TC_OP_RANDINT) fprintf(c->out, "%" PRId64 ", %" PRId64 ", ", (int64_t)k->arg[2], (int64_t)k->arg[3]);
  tc_c_shape_write(c->out, &k->dims);
  fputs(", ", c->out);
  tc_c_type_write(c->out, k->type);
  fputs("))", c->out);
  return true;
}

// ---- movement ----

// One axis after the other, those that are cut.
static bool write_slice(const call *c) {
  const tc_dims *from = dims_in(c, 0), *to = &c->k->dims;
  int n_cut = 0, axis[TC_MAX_RANK];
  for (int i = 0; i < to->rank; i++)
    if (from->dim[i] != to->dim[i] || c->k->arg[i] != 0 || c->k->attr[i] != 1) axis[n_cut++] = i;
  for (int i = 0; i < n_cut; i++) fputs("tc_slice(", c->out);
  fprintf(c->out, "%st%u%s", n_cut ? "" : "tc_reshape(", c->k->in[0], n_cut ? "" : ", ");
  if (!n_cut) tc_c_shape_write(c->out, to), fputc(')', c->out);
  for (int i = 0; i < n_cut; i++) {
    int64_t start = (int64_t)c->k->arg[axis[i]], step = (int64_t)c->k->attr[axis[i]], n = to->dim[axis[i]];
    if (step < 1) return false;
    fprintf(c->out, ", %d, %" PRId64 ", %" PRId64 ", %" PRId64 ")", axis[i], start,
            n ? start + (n - 1) * step + 1 : start, step);
  }
  return true;
}

static bool write_written(const call *c) {
  const tc_dims *part = dims_in(c, 1);
  int64_t word[3][TC_MAX_RANK];
  bool fits = part->rank > 0;
  for (int i = 0; i < part->rank; i++) {
    int64_t start = (int64_t)c->k->arg[i], step = (int64_t)c->k->attr[i];
    word[0][i] = start, word[1][i] = start + (part->dim[i] - 1) * step + 1, word[2][i] = step;
    fits = fits && step >= 1 && part->dim[i] > 0;
  }
  fprintf(c->out, "written(t%u", c->k->in[0]);
  for (int w = 0; w < 3; w++) write_list(c->out, ", TC_AXES", part->rank, word[w]);
  fprintf(c->out, ", t%u)", c->k->in[1]);
  return fits;
}

static bool write_pad(const call *c) {
  int rank = c->k->dims.rank;
  const int64_t *low = (const int64_t *)c->k->attr;
  fprintf(c->out, "tc_pad(t%u, ", c->k->in[0]);
  write_list(c->out, "TC_SHAPE", rank, low);
  write_list(c->out, ", TC_SHAPE", rank, low + rank);
  fputs(", ", c->out);
  tc_c_number_write(c->out, tc_type_is_float(c->k->type) ? double_of(c->k->arg[0]) : (double)(int64_t)c->k->arg[0]);
  fputc(')', c->out);
  return rank > 0;
}

static bool write_moved(const call *c) {
  const tc_text_node *k = c->k;
  int64_t axes[TC_MAX_RANK];
  int rank = dims_in(c, 0)->rank, n = 0;
  switch (k->op) {
    case TC_OP_PERMUTE:
      for (int i = 0; i < rank; i++) axes[i] = (int64_t)(k->attr[0] >> (8 * i) & 255);
      fprintf(c->out, "tc_permute(t%u, ", k->in[0]);
      write_list(c->out, "TC_AXES", rank, axes);
      return fputc(')', c->out), rank > 0;
    case TC_OP_FLIP:
      for (int i = 0; i < rank; i++)
        if (k->attr[0] >> i & 1) axes[n++] = i;
      fprintf(c->out, "tc_flip(t%u, ", k->in[0]);
      write_list(c->out, "TC_AXES", n, axes);
      return fputc(')', c->out), n > 0;
    case TC_OP_ROLL:
      fprintf(c->out, "tc_roll(t%u, %" PRId64 ", %d)", k->in[0], -(int64_t)k->arg[k->attr[0]], (int)k->attr[0]);
      return true;
    case TC_OP_CAT:
      fprintf(c->out, "tc_cat(%d, (const tc_tensor[]){", k->n_in);
      for (int i = 0; i < k->n_in; i++) fprintf(c->out, "%st%u", i ? ", " : "", k->in[i]);
      fprintf(c->out, "}, %d)", (int)k->attr[0]);
      return true;
    case TC_OP_WINDOW:
      fprintf(c->out, "tc_unfold(t%u, %d, %d, %d)", k->in[0], (int)k->attr[0], (int)k->attr[1], (int)k->attr[2]);
      return k->attr[3] == 1;
    case TC_OP_UNWINDOW:
      fputs("gradient(tc_unfold(variable(", c->out);
      tc_c_shape_write(c->out, &k->dims);
      fputs(", ", c->out);
      tc_c_type_write(c->out, k->type);
      fprintf(c->out, "), %d, %d, %d), t%u)", (int)k->attr[0], (int)k->attr[1], (int)k->attr[2], k->in[0]);
      return k->attr[3] == 1 && tc_type_is_float(k->type);
    default:
      fprintf(c->out, "tc_%s(t%u, ", tc_op_names[k->op], k->in[0]);
      tc_c_shape_write(c->out, &k->dims);
      return fputc(')', c->out), true;
  }
}

static bool write_fold(const call *c) {
  int64_t axes[TC_MAX_RANK];
  int n = 0, rank = dims_in(c, 0)->rank;
  for (int i = 0; i < rank; i++)
    if (c->k->attr[0] >> i & 1) axes[n++] = i;
  bool one = c->k->op == TC_OP_ARGMAX || c->k->op == TC_OP_ARGMIN;
  fprintf(c->out, "tc_%s(t%u, ", tc_op_names[c->k->op], c->k->in[0]);
  if (one)
    fprintf(c->out, "%d", n ? (int)axes[0] : 0);
  else if (n == rank)
    fputs("TC_ALL", c->out);
  else
    write_list(c->out, "TC_AXES", n, axes);
  end_flag(c, c->k->attr[0] >> 8 & 1);
  return one ? n == 1 : n > 0 || rank == 0;
}

// ---- convolution and attention ----

// Records have the channels last, the public functions behind the images.
static void write_order(const call *c, int axes, bool last) {
  fprintf(c->out, ", TC_AXES(0%s", last ? "" : ", ");
  if (!last) fprintf(c->out, "%d", axes + 1);
  for (int i = 0; i < axes; i++) fprintf(c->out, ", %d", i + 1 + (last ? 1 : 0));
  fputs(last ? ", 1))" : "))", c->out);
}

static void write_variable(const call *c, const tc_dims *d) {
  fputs("variable(", c->out);
  tc_c_shape_write(c->out, d);
  fputs(", ", c->out);
  tc_c_type_write(c->out, c->k->type);
  fputc(')', c->out);
}

// The convolution of x and w, each an operand's number or -1 for what is differentiated by.
static bool write_conv_of(const call *c, int x, int w, int axes) {
  const tc_text_node *k = c->k;
  int64_t word[3][3];
  bool even = true;
  for (int i = 0; i < axes; i++) {
    uint64_t pad = k->attr[axes + i];
    word[0][i] = (int64_t)(k->attr[i] & UINT32_MAX), word[1][i] = (int64_t)(pad & UINT32_MAX);
    word[2][i] = (int64_t)(k->attr[i] >> 32);
    even = even && pad >> 32 == (pad & UINT32_MAX);
  }
  fprintf(c->out, "tc_conv%dd(tc_permute(", axes);
  if (x < 0)
    write_variable(c, &k->dims);
  else
    fprintf(c->out, "t%u", k->in[x]);
  write_order(c, axes, false);
  fputs(", ", c->out);
  if (w < 0)
    write_variable(c, &k->dims);
  else
    fprintf(c->out, "t%u", k->in[w]);
  fputs(", (tc_tensor){0, 0}, (tc_conv_options){.stride = ", c->out);
  write_list(c->out, "TC_SHAPE", axes, word[0]);
  write_list(c->out, ", .padding = TC_SHAPE", axes, word[1]);
  write_list(c->out, ", .dilation = TC_SHAPE", axes, word[2]);
  fprintf(c->out, ", .groups = %" PRIu64 "})", k->attr[2 * axes]);
  return even;
}

static bool write_conv(const call *c) {
  const tc_text_node *k = c->k;
  int axes = k->dims.rank - 2, given = k->op == TC_OP_CONV_INPUT ? 0 : 1;
  bool forward = k->op == TC_OP_CONV;
  fputs(forward ? "tc_permute(" : "gradient(", c->out);
  bool fits = write_conv_of(c, k->op == TC_OP_CONV_INPUT ? -1 : 0, k->op == TC_OP_CONV_WEIGHT ? -1 : 1, axes);
  if (forward) return write_order(c, axes, true), fits;
  fprintf(c->out, ", tc_permute(t%u", k->in[given]);
  write_order(c, axes, false);
  fputc(')', c->out);
  return fits && k->type == c->x->node[k->in[0]].type;
}

// The scale's place among the operands; a length and a mask follow.
static int scale_of(const tc_text_node *k) {
  return k->op == TC_OP_ATTENTION ? 3 : 6;
}

// What is differentiated by q, k or v makes sums of exponents of its own.
static bool write_attention(const call *c) {
  const tc_text_node *k = c->k;
  int at = scale_of(k), by = k->op == TC_OP_ATTENTION_DQ   ? 0
                             : k->op == TC_OP_ATTENTION_DK ? 1
                             : k->op == TC_OP_ATTENTION_DV ? 2
                                                           : -1;
  if (k->op == TC_OP_ATTENTION_LSE || c->x->node[k->in[at]].op != TC_OP_FULL) return false;
  fprintf(c->out, "tc_permute(%stc_scaled_dot_product_attention(", by < 0 ? "" : "gradient(");
  for (int i = 0; i < 3; i++) fprintf(c->out, i == by ? "differentiated(t%u), " : "t%u, ", k->in[i]);
  if (k->attr[2])
    fprintf(c->out, "t%u", k->in[k->n_in - 1]);
  else
    fputs("(tc_tensor){0, 0}", c->out);
  fprintf(c->out, ", (tc_attention_options){.causal = %s, .scale = ", k->attr[0] ? "true" : "false");
  tc_c_number_write(c->out, double_of(c->x->node[k->in[at]].arg[0]));
  if (k->attr[1]) fprintf(c->out, ", .key_length = %" PRId64, (int64_t)c->x->node[k->in[at + 1]].arg[0]);
  fputs("})", c->out);
  if (by >= 0) fprintf(c->out, ", t%u)", k->in[3]);
  fputs(", TC_AXES(0, 2, 1, 3))", c->out);
  return true;
}

bool tc_c_call_reads(const tc_text *x, uint32_t n, int i) {
  const tc_text_node *k = &x->node[n];
  if (k->op == TC_OP_POOL) return i == 0;
  if (tc_op_kind_of(k->op) != TC_KIND_ATTENTION || k->op == TC_OP_ATTENTION_LSE) return true;
  return i < 4 ? i != scale_of(k) : k->attr[2] && i == k->n_in - 1;
}

// ---- a record ----

static bool write_indexed(const call *c) {
  const tc_text_node *k = c->k;
  fprintf(c->out, "tc_%s(t%u, %d, t%u", tc_op_names[k->op], k->in[0], (int)k->attr[0], k->in[1]);
  if (k->n_in > 2) fprintf(c->out, ", t%u", k->in[2]);
  fputc(')', c->out);
  return true;
}

static bool write_ordered(const call *c) {
  const tc_text_node *k = c->k;
  switch (k->op) {
    case TC_OP_ARGSORT: write_axis(c), end_flag(c, k->attr[1] == 1); return true;
    case TC_OP_ARGTOPK:
      fprintf(c->out, "tc_argtopk(t%u, %" PRId64 ", %d", k->in[0], k->dims.dim[k->attr[0]], (int)k->attr[0]);
      end_flag(c, k->attr[1] == 1);
      return true;
    case TC_OP_SEARCHSORTED:
      fprintf(c->out, "tc_searchsorted(t%u, t%u", k->in[0], k->in[1]);
      end_flag(c, k->attr[0] == 1);
      return true;
    default: return write_axis(c), fputc(')', c->out), k->op != TC_OP_ARGKTH;
  }
}

// Sums of half types in f32 are of operands that were cast.
static bool write_matmul(const call *c) {
  const tc_text_node *k = c->k;
  bool wide = k->type != c->x->node[k->in[0]].type;
  const char *open = wide ? "tc_cast(" : "", *close = wide ? ", TC_F32)" : "";
  fprintf(c->out, "tc_matmul(%st%u%s, %st%u%s)", open, k->in[0], close, open, k->in[1], close);
  return true;
}

bool tc_c_call_write(FILE *out, const tc_text *x, uint32_t n) {
  const call c = {out, x, &x->node[n]};
  switch (c.k->op) {
    case TC_OP_FULL: return write_full(&c);
    case TC_OP_IOTA: return write_iota(&c);
    case TC_OP_CAST:
      fprintf(out, "tc_cast(t%u, ", c.k->in[0]);
      tc_c_type_write(out, c.k->type);
      return fputc(')', out), true;
    case TC_OP_POLYGAMMA: return fprintf(out, "tc_polygamma(%d, t%u)", (int)c.k->attr[0], c.k->in[0]) > 0;
    case TC_OP_SLICE: return write_slice(&c);
    case TC_OP_PAD: return write_pad(&c);
    case TC_OP_WRITE_SLICE: return write_written(&c);
    case TC_OP_DETACH: return write_plain(&c);
    case TC_OP_POOL:
    case TC_OP_TO: return fprintf(out, "t%u", c.k->in[0]) > 0;
    case TC_OP_UNWINDOW: return write_moved(&c);
    case TC_OP_MATMUL: return write_matmul(&c);
    case TC_OP_SOFTMAX:
    case TC_OP_LOG_SOFTMAX: return write_axis(&c), fputc(')', out), true;
    case TC_OP_ASSIGN: return fprintf(out, "assigned(t%u, t%u)", c.k->in[1], c.k->in[0]) > 0;
    default: break;
  }
  switch (tc_op_kind_of(c.k->op)) {
    case TC_KIND_RNG: return write_draw(&c);
    case TC_KIND_ELEM: return write_plain(&c);
    case TC_KIND_MOVE: return write_moved(&c);
    case TC_KIND_FOLD: return write_fold(&c);
    case TC_KIND_SCAN: return write_ordered(&c);
    case TC_KIND_INDEX: return write_indexed(&c);
    case TC_KIND_CONTRACT: return write_conv(&c);
    case TC_KIND_ATTENTION: return write_attention(&c);
    default: return false;
  }
}
