// Comparing ways to run random programs, at one size and at others, and shrinking those where two
// ways disagree; see random_graph.h.
#include "runtime/options.h"
#include "tests/random/parts.h"

// ---- Comparing ----

static char text[700];

static const char *compare(const rg_plan *pl, const rg_run *x, const rg_run *y, const char *x_name, const char *y_name,
                           bool bits) {
  if (x->status != TC_OK || y->status != TC_OK) {
    if (x->status == y->status && bits) return NULL;  // refused alike: the first comparison reports it
    snprintf(text, sizeof text, "%s: %s; %s: %s", x_name, x->message, y_name, y->message);
    return text;
  }
  if (x->n != y->n) return snprintf(text, sizeof text, "%s shows %d values, %s %d", x_name, x->n, y_name, y->n), text;
  for (int k = 0; k < x->n; k++) {
    const rg_seen *a = &x->seen[k], *b = &y->seen[k];
    const rg_fact *f = &pl->f[a->instr];
    int64_t n = near_count(a->dims), at = -1;
    char da[100], db[100];
    if (a->type != b->type || !near_dims_equal(a->dims, b->dims)) {
      snprintf(text, sizeof text, "%c%d is %s%s in %s, %s%s in %s", a->kind, a->instr, tc_type_name(a->type),
               near_dims_text(a->dims, da, sizeof da), x_name, tc_type_name(b->type),
               near_dims_text(b->dims, db, sizeof db), y_name);
      return text;
    }
    if (a->kind == 'v' && (a->type != f->type || !near_dims_equal(a->dims, f->dims))) {
      snprintf(text, sizeof text, "v%d is %s%s, should be %s%s", a->instr, tc_type_name(a->type),
               near_dims_text(a->dims, da, sizeof da), tc_type_name(f->type), near_dims_text(f->dims, db, sizeof db));
      return text;
    }
    if (bits) {
      at = near_find(a->type, a->data, b->data, n, (near_tol){0, 0, true});
    } else if (a->kind == 'g') {
      double big = 0;
      for (int64_t i = 0; i < n; i++) big = fmax(big, fabs(near_get(b->type, b->data, i)));
      if (!pl->kink)
        at = near_find(a->type, a->data, b->data, n, (near_tol){0, (pl->half ? 0.1 : 0.01) * (1 + big), false});
    } else if (a->kind == 'v') {
      at = near_find(a->type, a->data, b->data, n, (near_tol){0, f->exact ? 0 : f->err, false});
    } else {
      // a read's value may be assigned later: its bound is not the final one, and the same node is
      // seen elsewhere
      continue;
    }
    if (at >= 0) {
      snprintf(text, sizeof text, "%c%d[%lld] of %s%s is %.9g in %s, %.9g in %s", a->kind, a->instr, (long long)at,
               tc_type_name(a->type), near_dims_text(a->dims, da, sizeof da), near_get(a->type, a->data, at), x_name,
               near_get(b->type, b->data, at), y_name);
      return text;
    }
  }
  return NULL;
}

// The gradient along one direction against central differences at two distances, which must agree
// with each other to count.
static const char *check_slope(const rg_program *p, const rg_plan *pl, const rg_run *ref) {
  double direction[64], slope = 0, size = 0, numeric[2];
  int64_t at = 0;
  for (int k = 0; k < 64; k++) direction[k] = cos(1.0 + 0.7 * k);
  for (int i = 0; i < p->n; i++) {
    if (p->instr[i].op != RG_PARAM) continue;
    int64_t n = near_count(p->instr[i].dims);
    for (int k = 0; k < ref->n; k++)
      for (int64_t e = 0; e < n && ref->seen[k].kind == 'g' && ref->seen[k].instr == i; e++) {
        double g = near_get(ref->seen[k].type, ref->seen[k].data, e);
        slope += g * direction[(at + e) % 64], size += fabs(g * direction[(at + e) % 64]);
      }
    at += n;
  }
  for (int k = 0; k < 2; k++) {
    double by = k ? 1e-5 : 2e-5, loss[2];
    for (int sign = 0; sign < 2; sign++) {
      static rg_run r;
      memset(&r, 0, sizeof r);
      r.no_backward = true, r.nudge = direction, r.by = sign ? by : -by;
      rg_run_program(p, pl, RG_REFERENCE, &r);
      loss[sign] = r.loss;
      rg_run_fini(&r);
      if (r.status != TC_OK) return snprintf(text, sizeof text, "central differences: %.500s", r.message), text;
    }
    numeric[k] = (loss[1] - loss[0]) / (2 * by);
  }
  if (fabs(numeric[0] - numeric[1]) > 1e-3 * (1 + fabs(numeric[1]))) return NULL;
  if (fabs(slope - numeric[1]) <= 1e-2 * (1 + fabs(numeric[1])) + 1e-6 * size) return NULL;
  return snprintf(text, sizeof text, "backward says the slope is %.9g, central differences %.9g", slope, numeric[1]),
         text;
}

// The fused run against two calls of the compiled function.
static const char *check_compiled(const rg_program *p, const rg_plan *pl, const rg_run *fused) {
  static rg_run first, second;
  bool twice;
  memset(&first, 0, sizeof first), memset(&second, 0, sizeof second);
  rg_run_compiled(p, pl, &first, &second, &twice);
  const char *bad = compare(pl, fused, &first, "fused", "compiled", true);
  if (!bad && twice) bad = compare(pl, fused, &second, "fused", "the compiled function's second call", true);
  rg_run_fini(&first), rg_run_fini(&second);
  return bad;
}

const char *rg_check(const rg_program *p) {
  static rg_run fused, eager, ref;
  rg_plan pl;
  if (!rg_plan_program(p, &pl)) return NULL;  // a shrinking step went too far
  memset(&fused, 0, sizeof fused), memset(&eager, 0, sizeof eager), memset(&ref, 0, sizeof ref);
  bool both = !near_is_slow() || p->n % 4 == 0;  // op by op most kernels are made
  rg_run_program(p, &pl, RG_FUSED, &fused), rg_run_program(p, &pl, RG_REFERENCE, &ref);
  if (both) rg_run_program(p, &pl, RG_OP_BY_OP, &eager);
  const char *bad = compare(&pl, &fused, &ref, "fused", "tc:ref", false);
  if (!bad && both) bad = compare(&pl, &fused, &eager, "fused", "op by op", true);
  if (!bad && fused.status == TC_OK) bad = check_compiled(p, &pl, &fused);
  if (!bad && p->smooth && pl.backward && ref.status == TC_OK) bad = check_slope(p, &pl, &ref);
  rg_run_fini(&fused), rg_run_fini(&eager), rg_run_fini(&ref);
  return bad;
}

// ---- Other sizes ----

// The extent of more than one that most leaves have; 0: none has.
static int64_t usual_extent(const rg_program *p) {
  int count[64] = {0}, best = 0;
  for (int i = 0; i < p->n; i++)
    for (int k = 0; k < p->instr[i].dims.rank && (p->instr[i].op == RG_LEAF || p->instr[i].op == RG_PARAM); k++)
      if (p->instr[i].dims.dim[k] > 1 && p->instr[i].dims.dim[k] < 64) count[p->instr[i].dims.dim[k]]++;
  for (int v = 2; v < 64; v++)
    if (count[v] > count[best]) best = v;
  return count[best] ? best : 0;
}

// The program where that extent is another. False: its ops do not allow it.
static bool at_size(const rg_program *p, int64_t was, int64_t now, rg_program *q, rg_plan *pl) {
  *q = *p;
  for (int i = 0; i < q->n; i++)
    for (int e = 0; e < q->instr[i].dims.rank; e++)
      if (q->instr[i].dims.dim[e] == was) q->instr[i].dims.dim[e] = now;
  return rg_plan_program(q, pl);
}

static void run_all(const char *dynamic, const rg_program *p, int64_t was, const int64_t *size, int n, rg_run *all) {
  rg_program q;
  rg_plan pl;
  setenv("TC_DYNAMIC", dynamic, 1);
  tc_options_reload();
  memset(all, 0, (size_t)n * sizeof *all);
  for (int k = 0; k < n; k++)
    if (at_size(p, was, size[k], &q, &pl)) rg_run_program(&q, &pl, RG_FUSED, &all[k]);
}

const char *rg_check_sizes(const rg_program *p, const int64_t *size, int n) {
  static rg_run bound[RG_MAX_SIZES], lowered[RG_MAX_SIZES];
  static char where[900];
  int64_t was = usual_extent(p);
  const char *bad = NULL;
  if (!was) return NULL;
  n = n < RG_MAX_SIZES ? n : RG_MAX_SIZES;
  run_all("auto", p, was, size, n, bound);
  run_all("0", p, was, size, n, lowered);
  for (int k = 0; k < n; k++) {
    rg_program q;
    rg_plan pl;
    if (at_size(p, was, size[k], &q, &pl) && !bad) bad = compare(&pl, &bound[k], &lowered[k], "bound", "lowered", true);
    if (bad && bad != where)
      snprintf(where, sizeof where, "%.700s, where %d is %d", bad, (int)was, (int)size[k]), bad = where;
    rg_run_fini(&bound[k]), rg_run_fini(&lowered[k]);
  }
  return bad;
}

// ---- Shrinking ----

int rg_size(const rg_program *p) {
  int n = 0;
  for (int i = 0; i < p->n; i++) n += p->instr[i].op != RG_NOP;
  return n;
}

static bool still_fails(rg_program *p, const rg_program *smaller) {
  rg_plan pl;
  if (!rg_plan_program(smaller, &pl) || !rg_check(smaller)) return false;
  *p = *smaller;
  return true;
}

// Leaves out instruction i (or makes it a leaf if others need it); the smaller program still fails.
static bool drop(rg_program *p, const rg_plan *pl, int i) {
  rg_program q = *p;
  rg_instr *s = &q.instr[i];
  if (s->op == RG_NOP) return false;
  if (s->op == RG_SCOPE_BEGIN)
    for (int k = i; k < q.n; k++)
      if (q.instr[k].op == RG_SCOPE_END) {
        q.instr[k].op = RG_NOP;
        break;
      }
  s->op = RG_NOP;
  if (still_fails(p, &q)) return true;
  if (!pl->f[i].value || p->instr[i].op == RG_LEAF) return false;
  q = *p;
  s->op = RG_LEAF, s->type = pl->f[i].type, s->dims = pl->f[i].dims;
  return still_fails(p, &q);
}

static bool shrink_dims(rg_program *p, int i, int k) {
  static const int64_t to[] = {1, 2, 3, 5, 17};
  if (p->instr[i].op != RG_LEAF && p->instr[i].op != RG_PARAM) return false;
  for (size_t t = 0; t < sizeof to / sizeof *to && to[t] < p->instr[i].dims.dim[k]; t++) {
    rg_program q = *p;
    int64_t was = p->instr[i].dims.dim[k];
    // All leaves' extents of this size together, else operands stop fitting; then this one alone.
    for (int j = 0; j < q.n; j++)
      for (int e = 0; e < q.instr[j].dims.rank; e++)
        if (q.instr[j].dims.dim[e] == was) q.instr[j].dims.dim[e] = to[t];
    if (still_fails(p, &q)) return true;
    q = *p;
    q.instr[i].dims.dim[k] = to[t];
    if (still_fails(p, &q)) return true;
  }
  return false;
}

const char *rg_shrink(rg_program *p) {
  rg_plan pl;
  for (bool progress = true; progress;) {
    progress = false;
    for (int i = p->n - 1; i >= 0; i--) {
      rg_plan_program(p, &pl);
      progress |= drop(p, &pl, i);
      for (int k = 0; k < p->instr[i].dims.rank; k++) progress |= shrink_dims(p, i, k);
    }
  }
  return rg_check(p);
}

static void write_line(const char *line, void *arg) {
  fprintf(arg, "%s\n", line);
}

void rg_trace(const rg_program *p, FILE *out) {
  static rg_run r;
  rg_plan pl;
  if (!rg_plan_program(p, &pl)) return;
  setenv("TC_LOG", "trace", 1);
  tc_options_reload();
  tc_set_log(write_line, out);
  memset(&r, 0, sizeof r);
  rg_run_program(p, &pl, RG_FUSED, &r);
  rg_run_fini(&r);
  tc_set_log(NULL, NULL);
  unsetenv("TC_LOG");
  tc_options_reload();
}
