// Compares a device with tc:ref: every op that has samples, moves, gathers and values from
// arguments. See conform.h.
#define TC_NO_SITES
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/op_cases.h"
#include "tools/conform/conform.h"

// ---- one result ----

typedef struct result {
  tc_status status;
  tc_type type;
  tc_dims dims;
  bool left;  // true: the CPU ran a part of it
  void *data;
  char message[300];
} result;

static uint64_t fallbacks(void) {
  uint64_t n;
  return tc_metrics_get("fallbacks", &n) == TC_OK ? n : 0;
}

// Reads y. Only what runs from now on counts as the op's.
static result read_result(tc_tensor y) {
  result r;
  memset(&r, 0, sizeof r);
  uint64_t before = fallbacks();
  r.type = tc_dtype(y), r.dims = tc_shape(y);
  if (tc_is_valid(y)) {
    size_t bytes = (size_t)near_count(r.dims) * tc_type_bytes(r.type);
    r.data = calloc(bytes + 1, 1);
    r.status = tc_to_host(y, r.data, bytes);
  } else {
    r.status = tc_last_error()->status;
  }
  r.left = fallbacks() != before;
  if (r.status != TC_OK) snprintf(r.message, sizeof r.message, "%s", tc_last_error()->message);
  tc_clear_error();
  return r;
}

// Compares and frees the two.
static void judge(result *ref, result *got, near_tol tol, const char *what) {
  bool both = ref->status == TC_OK && got->status == TC_OK;
  if (both && got->left) {
    conform_left();
  } else if (both) {
    bool alike = ref->type == got->type && near_dims_equal(ref->dims, got->dims);
    int64_t i = alike ? near_find(ref->type, got->data, ref->data, near_count(ref->dims), tol) : 0;
    conform_check(i < 0, "%s: element %lld is %.17g; tc:ref has %.17g", what, (long long)i,
                  i < 0 ? 0 : near_get(got->type, got->data, i), i < 0 ? 0 : near_get(ref->type, ref->data, i));
  } else if (ref->status != got->status) {
    conform_check(false, "%s: %s; tc:ref says %s", what, got->status == TC_OK ? "no error" : got->message,
                  ref->status == TC_OK ? "no error" : ref->message);
  }
  free(ref->data);
  free(got->data);
}

// ---- ops that have samples ----

static result run_on(const char *device, const op_row *op, const op_call *c) {
  tc_tensor x[3] = {{0, 0}};
  if (tc_set_default_device(device) != TC_OK) return read_result((tc_tensor){0, 0});
  tc_scope scope = tc_scope_begin();
  for (int k = 0; k < c->n; k++) x[k] = near_present(c->x[k].data, c->x[k].dims, c->x[k].type, c->x[k].how);
  if (tc_eval(c->n, x) != TC_OK) conform_check(false, "operands: %s", tc_last_error()->message);
  result r = read_result(op_row_call(op, c, x));
  tc_scope_end(scope);
  return r;
}

static void compare_call(const op_row *op, const op_call *c, void *device) {
  char what[400];
  result ref = run_on("tc:ref", op, c), got = run_on(device, op, c);
  judge(&ref, &got, op_row_tolerance(op, ref.type, c->folded), op_call_text(op, c, what, sizeof what));
}

void conform_ops(const char *device, bool all) {
  const op_row *op;
  for (int i = 0; (op = op_row_at(i)); i++) {
    conform_begin(op_row_name(op));
    op_row_each(op, all, compare_call, (void *)(uintptr_t)device);
    conform_end();
  }
}

// ---- moves ----

typedef tc_tensor make_fn(tc_tensor x, tc_tensor y);  // x [5, 4, 3], y [2, 4, 3]

static tc_tensor permute_all(tc_tensor x, tc_tensor y) {
  (void)y;
  return tc_permute(x, TC_AXES(2, 0, 1));
}
static tc_tensor transpose_two(tc_tensor x, tc_tensor y) {
  (void)y;
  return tc_transpose(x, 1, 2);
}
static tc_tensor expand_leading(tc_tensor x, tc_tensor y) {
  (void)x;
  return tc_expand(tc_slice(y, 0, 0, 1, 1), TC_SHAPE(3, 7, 4, 3));
}
static tc_tensor slice_steps(tc_tensor x, tc_tensor y) {
  (void)y;
  return tc_slice(tc_slice(x, 0, 1, 5, 2), 2, 0, 3, 2);
}
static tc_tensor slice_nothing(tc_tensor x, tc_tensor y) {
  (void)y;
  return tc_slice(x, 0, 2, 2, 1);
}
static tc_tensor flip_two(tc_tensor x, tc_tensor y) {
  (void)y;
  return tc_flip(x, TC_AXES(0, 2));
}
static tc_tensor roll_one(tc_tensor x, tc_tensor y) {
  (void)y;
  return tc_roll(x, 2, 0);
}
static tc_tensor pad_around(tc_tensor x, tc_tensor y) {
  (void)y;
  return tc_pad(x, TC_SHAPE(1, 0, 2), TC_SHAPE(0, 3, 1), 1.0);
}
static tc_tensor cat_two(tc_tensor x, tc_tensor y) {
  return tc_cat(2, (tc_tensor[]){x, y}, 0);
}
static tc_tensor cat_inner(tc_tensor x, tc_tensor y) {
  (void)y;
  return tc_cat(3, (tc_tensor[]){x, x, x}, 2);
}
static tc_tensor write_part(tc_tensor x, tc_tensor y) {
  if (tc_assign_slice(x, (const int64_t[]){2, 0, 0}, (const int64_t[]){4, 4, 3}, NULL, y) != TC_OK) return tc_neg(y);
  return x;
}
static tc_tensor reshape_all(tc_tensor x, tc_tensor y) {
  (void)y;
  return tc_reshape(x, TC_SHAPE(12, 5));
}
static tc_tensor filled(tc_tensor x, tc_tensor y) {
  (void)y;
  return tc_full(TC_SHAPE(3, 7), 1.0, tc_dtype(x));
}
static tc_tensor counted(tc_tensor x, tc_tensor y) {
  (void)y;
  return tc_arange(1, 40, 3, tc_dtype(x));
}
static tc_tensor of_a_scalar(tc_tensor x, tc_tensor y) {
  (void)y;
  return tc_maximum(x, tc_full(TC_SHAPE(4, 1), 2.0, tc_dtype(x)));
}
static tc_tensor of_broadcasts(tc_tensor x, tc_tensor y) {
  return tc_maximum(tc_slice(x, 1, 0, 1, 1), tc_slice(y, 0, 0, 1, 1));
}
static tc_tensor of_itself(tc_tensor x, tc_tensor y) {
  (void)y;
  return tc_maximum(x, tc_flip(x, TC_AXES(0)));
}

static const struct {
  const char *name;
  make_fn *make;
} moves[] = {
    {"permute", permute_all},
    {"transpose", transpose_two},
    {"expand", expand_leading},
    {"slice", slice_steps},
    {"slice of nothing", slice_nothing},
    {"flip", flip_two},
    {"roll", roll_one},
    {"pad", pad_around},
    {"cat", cat_two},
    {"cat of an inner axis", cat_inner},
    {"a slice assigned", write_part},
    {"reshape", reshape_all},
    {"full", filled},
    {"arange", counted},
    {"a scalar broadcast", of_a_scalar},
    {"two broadcasts", of_broadcasts},
    {"an operand twice", of_itself},
};

static result move_on(const char *device, make_fn *make, tc_type type) {
  double data[60];
  tc_tensor x[2];
  if (tc_set_default_device(device) != TC_OK) return read_result((tc_tensor){0, 0});
  tc_scope scope = tc_scope_begin();
  for (int i = 0; i < 60; i++) data[i] = type == TC_BOOL ? i % 3 == 0 : i % 23;
  x[0] = tc_cast(tc_from_host(data, TC_SHAPE(5, 4, 3), TC_F64), type);
  x[1] = tc_cast(tc_from_host(data + 7, TC_SHAPE(2, 4, 3), TC_F64), type);
  if (tc_eval(2, x) != TC_OK) conform_check(false, "operands: %s", tc_last_error()->message);
  result r = read_result(make(x[0], x[1]));
  tc_scope_end(scope);
  return r;
}

void conform_moves(const char *device) {
  conform_begin("moves");
  for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
    for (int type = 0; type < TC_N_TYPES; type++) {
      char what[80];
      snprintf(what, sizeof what, "%s of %s", moves[i].name, tc_type_name((tc_type)type));
      result ref = move_on("tc:ref", moves[i].make, (tc_type)type), got = move_on(device, moves[i].make, (tc_type)type);
      judge(&ref, &got, (near_tol){0, 0, true}, what);
    }
  conform_check(tc_set_default_device(device) == TC_OK, "%s", tc_last_error()->message);
  conform_end();
}
