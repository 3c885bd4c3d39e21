// The gradient scaler: losses are multiplied by a scale, gradients divided by it, and steps with
// gradients that are not finite left out. All of it is recorded.
//
// In: losses, optimizers. Out: scaled losses, assigned gradients, parameters and the next scale.
// Source: torch.amp.GradScaler, and ATen's _amp_update_scale_ for the next scale.
// Invariants: an optimizer's gradients are divided once between two updates. What is found is a
// tensor; nothing here reads it.
// Threads: thread-compatible; a scaler belongs to the thread that made it.
// Owner: a scaler has a reference to its state, and to what it found since the last update.
#define TC_NO_SITES
#include <tc/amp.h>

#include <math.h>

#include "lazy/autograd/optim.h"
#include "lazy/autograd/params_check.h"
#include "lazy/record/formula.h"
#include "lazy/trace/capture.h"
#include "lazy/trace/deferred_error.h"
#include "lazy/trace/trace.h"
#include "lazy/trace/watched.h"
#include "runtime/arena.h"

enum { N_STATES = 2 };
static const char *const state_names[N_STATES] = {"scale", "growth_tracker"};

typedef enum stage { UNSCALED = 1, STEPPED } stage;

// Of an optimizer since the last update.
typedef struct seen {
  const tc_optimizer *opt;
  stage stage;
  tc_tensor *found;  // of each part of its parameters: bool, rank 0; owned
  int n_found;
} seen;

struct tc_grad_scaler {
  tc_grad_scaler_options options;
  tc_tensor scale, growth_tracker;
  tc_watched *n_given;  // how often these were replaced
  seen *seen;
  uint32_t n_seen, cap_seen;
};

static tc_status no_scaler(const char *op, tc_site site) {
  char why[256];
  return tc_fail(TC_ERR_ARG, op, site, "no gradient scaler%s", tc_error_of("grad_scaler_create", why, sizeof why));
}

// ---- Making and unmaking ----

tc_grad_scaler *tc_grad_scaler_create_at(tc_grad_scaler_options o, tc_site site) {
  TC_CALLED_AS("grad_scaler_create");
  o.init_scale = tc_option(o.init_scale, 65536), o.growth_factor = tc_option(o.growth_factor, 2);
  o.backoff_factor = tc_option(o.backoff_factor, 0.5);
  if (o.growth_interval == 0) o.growth_interval = 2000;
  bool good = o.init_scale > 0 && o.init_scale <= 0x1.fffffep127 && o.growth_factor > 1 && isfinite(o.growth_factor) &&
              o.backoff_factor > 0 && o.backoff_factor < 1 && o.growth_interval >= 1 && o.growth_interval <= INT32_MAX;
  if (!good) {
    tc_fail(TC_ERR_ARG, "grad_scaler_create", site,
            "init_scale is %g, growth_factor %g, backoff_factor %g, growth_interval %lld; above 0, above 1, within 0 "
            "and 1, and at least 1 are needed",
            o.init_scale, o.growth_factor, o.backoff_factor, (long long)o.growth_interval);
    return NULL;
  }
  tc_grad_scaler *s = tc_calloc(1, sizeof *s);
  if (s) s->n_given = tc_watched_create("how often a gradient scaler was given its state", 0);
  if (!s || !s->n_given) {
    tc_free(s);
    tc_fail(TC_ERR_MEMORY, "grad_scaler_create", site, "no room for a scaler");
    return NULL;
  }
  float scale = o.disabled ? 1 : (float)o.init_scale;
  int32_t tracker = 0;
  s->options = o;
  tc_scope scope = tc_scope_begin_at(site);
  s->scale = tc_retain_at(tc_from_host_at(&scale, TC_SCALAR, TC_F32, site), site);
  s->growth_tracker = tc_retain_at(tc_from_host_at(&tracker, TC_SCALAR, TC_I32, site), site);
  tc_scope_end_at(scope, 0);
  if (tc_is_valid(s->scale) && tc_is_valid(s->growth_tracker)) return s;
  tc_grad_scaler_destroy(s);
  return NULL;
}

static void forget_seen(tc_grad_scaler *s) {
  for (uint32_t i = 0; i < s->n_seen; i++) {
    for (int k = 0; k < s->seen[i].n_found; k++) tc_release_at(s->seen[i].found[k], 0);
    tc_free(s->seen[i].found);
  }
  s->n_seen = 0;
}

void tc_grad_scaler_destroy(tc_grad_scaler *s) {
  if (!s) return;
  forget_seen(s);
  tc_free(s->seen);
  tc_watched_release(s->n_given);
  tc_release_at(s->scale, 0);
  tc_release_at(s->growth_tracker, 0);
  tc_free(s);
}

// ---- Scaling ----

tc_tensor tc_grad_scaler_scale_at(tc_grad_scaler *s, tc_tensor loss, tc_site site) {
  TC_CALLED_AS("grad_scaler_scale");
  if (!s) return tc_poison(no_scaler("grad_scaler_scale", site));
  if (s->options.disabled) return loss;
  tc_tensor scale = s->scale;
  (void)tc_capture_read(s->n_given);
  if (tc_is_valid(loss)) scale = tc_to_at(scale, tc_device_of_at(loss, site), site);
  tc_trace *t = tc_op_begin("grad_scaler_scale", site);
  tc_node x = tc_op_in(t, loss), by = tc_op_in(t, scale);
  if (x != TC_NODE_ERR && !tc_type_is_float(tc_node_type(t, x)))
    x = tc_rec_fail(t, TC_ERR_DTYPE, "the loss is %s; a floating type was expected", tc_type_name(tc_node_type(t, x)));
  return tc_op_end(t, f_mul(t, x, by));
}

// ---- Dividing gradients ----

static seen *find_seen(const tc_grad_scaler *s, const tc_optimizer *opt) {
  for (uint32_t i = 0; i < s->n_seen; i++)
    if (s->seen[i].opt == opt) return &s->seen[i];
  return NULL;
}

// Divides the gradients of one part, by scale, which is on its device. Returns whether one of them
// was not finite, owned by the caller; n_grads: how many there were.
static tc_tensor unscale_part(tc_optimizer *opt, int part, tc_tensor scale, int *n_grads, tc_site site) {
  tc_trace *t = tc_op_begin("grad_scaler_unscale", site);
  bool tape = tc_rec_tape(t, false);
  tc_tensor p;
  tc_node inverse =
              tc_rec_cast(t, tc_rec_unary(t, TC_OP_RECIPROCAL, tc_rec_cast(t, tc_op_in(t, scale), TC_F64)), TC_F32),
          finite = TC_NODE_ERR;
  for (int i = 0; (p = tc_optimizer_param(opt, i)).gen && t->op_status == TC_OK; i++) {
    tc_node g = tc_optimizer_part(opt, i) == part ? tc_rec_grad(t, p) : TC_NODE_ERR;
    if (g == TC_NODE_ERR) continue;
    tc_type type = tc_node_type(t, g);
    if (type == TC_F16) {
      tc_rec_fail(t, TC_ERR_DTYPE,
                  "the gradient of parameter %d is f16, which cannot be divided without loss; "
                  "keep parameters in f32 and let autocast cast them",
                  i);
      break;
    }
    tc_node all = tc_rec_fold(t, TC_OP_ALL, f_num(t, TC_OP_LT, tc_rec_unary(t, TC_OP_ABS, g), INFINITY),
                              (1u << tc_node_dims(t, g)->rank) - 1, false);
    finite = finite == TC_NODE_ERR ? all : tc_rec_binary(t, TC_OP_LOGICAL_AND, finite, all);
    (void)tc_rec_set_grad(t, p, tc_rec_cast(t, f_mul(t, tc_rec_cast(t, g, TC_MAX_OF(type, TC_F32)), inverse), type));
    ++*n_grads;
  }
  tc_node found =
      finite == TC_NODE_ERR ? tc_rec_full(t, &(tc_dims){0}, TC_BOOL, 0) : tc_rec_unary(t, TC_OP_LOGICAL_NOT, finite);
  tc_rec_tape(t, tape);
  return tc_op_end(t, found);
}

// What one part found every part has to know.
static tc_status share_found(seen *e, const char *const *device, tc_site site) {
  tc_tensor any = e->found[0];
  for (int k = 1; k < e->n_found; k++) any = tc_logical_or_at(any, tc_to_at(e->found[k], device[0], site), site);
  for (int k = 0; k < e->n_found; k++) {
    tc_tensor there = tc_retain_at(tc_to_at(any, device[k], site), site);
    if (!tc_is_valid(there)) return tc_last_status();
    tc_release_at(e->found[k], site);
    e->found[k] = there;
  }
  return TC_OK;
}

static tc_status find_in_parts(tc_grad_scaler *s, tc_optimizer *opt, seen *e, const char **device, tc_site site) {
  int n_grads = 0;
  tc_tensor p;
  for (int i = 0; (p = tc_optimizer_param(opt, i)).gen; i++)
    device[tc_optimizer_part(opt, i)] = tc_device_of_at(p, site);
  for (; e->n_found < tc_optimizer_n_parts(opt); e->n_found++) {
    tc_tensor scale = tc_to_at(s->scale, device[e->n_found], site);
    tc_tensor found = tc_retain_at(unscale_part(opt, e->n_found, scale, &n_grads, site), site);
    if (!tc_is_valid(found)) return tc_last_status();
    e->found[e->n_found] = found;
  }
  if (n_grads == 0)
    return tc_fail(TC_ERR_STATE, "grad_scaler_unscale", site,
                   "no parameter of the optimizer has a gradient: a tc_backward of a scaled loss is missing");
  return e->n_found > 1 ? share_found(e, device, site) : TC_OK;
}

static tc_status unscale(const char *op, tc_grad_scaler *s, tc_optimizer *opt, tc_site site) {
  int n_parts = tc_optimizer_n_parts(opt);
  tc_capture_break_mine("gradients that a scaler divides", op, site);
  seen e = {.opt = opt, .stage = UNSCALED, .found = tc_calloc((size_t)n_parts, sizeof(tc_tensor))};
  const char **device = tc_calloc((size_t)n_parts, sizeof *device);
  bool room = e.found && device && TC_GROW(s->seen, s->cap_seen, s->n_seen + 1);
  tc_status st = room ? TC_OK : tc_fail(TC_ERR_MEMORY, op, site, "no room for what is found");
  tc_scope scope = tc_scope_begin_at(site);
  tc_no_grad_begin();
  if (st == TC_OK) st = find_in_parts(s, opt, &e, device, site);
  tc_no_grad_end();
  tc_scope_end_at(scope, 0);
  tc_free(device);
  if (st == TC_OK) {
    s->seen[s->n_seen++] = e;
    return TC_OK;
  }
  for (int k = 0; k < e.n_found; k++) tc_release_at(e.found[k], 0);
  tc_free(e.found);
  return st;
}

static tc_status check_both(const char *op, const tc_grad_scaler *s, const tc_optimizer *opt, tc_site site) {
  if (!s) return no_scaler(op, site);
  return opt ? TC_OK : tc_fail(TC_ERR_ARG, op, site, "no optimizer");
}

static tc_status unscale_once(tc_grad_scaler *s, tc_optimizer *opt, tc_site site) {
  TC_TRY(check_both("grad_scaler_unscale", s, opt, site));
  if (s->options.disabled) return TC_OK;
  const seen *e = find_seen(s, opt);
  if (e && e->stage == STEPPED)
    return tc_fail(TC_ERR_STATE, "grad_scaler_unscale", site,
                   "the optimizer was stepped already: unscale comes before the step, and tc_grad_scaler_update after");
  if (e)
    return tc_fail(TC_ERR_STATE, "grad_scaler_unscale", site,
                   "the optimizer's gradients were divided already since the last tc_grad_scaler_update");
  return unscale("grad_scaler_unscale", s, opt, site);
}

tc_status tc_grad_scaler_unscale_at(tc_grad_scaler *s, tc_optimizer *opt, tc_site site) {
  TC_CALLED_AS("grad_scaler_unscale");
  return tc_defer_error(unscale_once(s, opt, site), site);
}

// ---- The step and the next scale ----

static tc_status step(tc_grad_scaler *s, tc_optimizer *opt, tc_site site) {
  TC_TRY(check_both("grad_scaler_step", s, opt, site));
  if (s->options.disabled) return tc_optimizer_step_unless(opt, NULL, site);
  seen *e = find_seen(s, opt);
  if (e && e->stage == STEPPED)
    return tc_fail(TC_ERR_STATE, "grad_scaler_step", site,
                   "the optimizer was stepped already since the last tc_grad_scaler_update, which is missing");
  if (!e) {
    TC_TRY(unscale("grad_scaler_step", s, opt, site));
    e = find_seen(s, opt);
  }
  TC_TRY(tc_optimizer_step_unless(opt, e->found, site));
  e->stage = STEPPED;
  return TC_OK;
}

tc_status tc_grad_scaler_step_at(tc_grad_scaler *s, tc_optimizer *opt, tc_site site) {
  TC_CALLED_AS("grad_scaler_step");
  return tc_defer_error(step(s, opt, site), site);
}

// What any optimizer found, on the scale's device; poison after reporting.
static tc_tensor found_by_any(const tc_grad_scaler *s, tc_site site) {
  tc_tensor any = {0, 0};
  const char *device = tc_device_of_at(s->scale, site);
  for (uint32_t i = 0; i < s->n_seen; i++) {
    tc_tensor found = tc_to_at(s->seen[i].found[0], device, site);
    any = i ? tc_logical_or_at(any, found, site) : found;
  }
  return any;
}

static tc_status record_update(tc_grad_scaler *s, tc_tensor any, tc_site site) {
  tc_trace *t = tc_op_begin("grad_scaler_update", site);
  bool tape = tc_rec_tape(t, false);
  tc_node found = tc_op_in(t, any), scale = tc_op_in(t, s->scale);
  tc_node done = f_int(t, TC_OP_ADD, tc_op_in(t, s->growth_tracker), 1);
  tc_node grows = f_int(t, TC_OP_EQ, done, s->options.growth_interval);
  tc_node larger = f_num(t, TC_OP_MUL, scale, s->options.growth_factor);
  tc_node larger_is_good = f_num(t, TC_OP_LT, larger, INFINITY);
  tc_node kept = tc_rec_where(t, tc_rec_binary(t, TC_OP_LOGICAL_AND, grows, larger_is_good), larger, scale);
  tc_node next = tc_rec_where(t, found, f_num(t, TC_OP_MUL, scale, s->options.backoff_factor), kept);
  tc_node count = f_fill(t, tc_rec_binary(t, TC_OP_LOGICAL_OR, found, grows), 0, done);
  if (next != TC_NODE_ERR && count != TC_NODE_ERR) {
    (void)tc_rec_assign(t, s->scale, next);
    (void)tc_rec_assign(t, s->growth_tracker, count);
  }
  tc_rec_tape(t, tape);
  return tc_op_done(t);
}

static tc_status update(tc_grad_scaler *s, tc_site site) {
  if (!s) return no_scaler("grad_scaler_update", site);
  if (s->options.disabled) return TC_OK;
  if (s->n_seen == 0)
    return tc_fail(TC_ERR_STATE, "grad_scaler_update", site,
                   "no gradients were looked at since the last update: a tc_grad_scaler_step is missing");
  tc_capture_break_mine("the next scale of a gradient scaler", "grad_scaler_update", site);
  tc_scope scope = tc_scope_begin_at(site);
  tc_tensor any = found_by_any(s, site);
  tc_status st = tc_is_valid(any) ? record_update(s, any, site) : tc_last_status();
  tc_scope_end_at(scope, 0);
  if (st == TC_OK) forget_seen(s);
  return st;
}

tc_status tc_grad_scaler_update_at(tc_grad_scaler *s, tc_site site) {
  TC_CALLED_AS("grad_scaler_update");
  return tc_defer_error(update(s, site), site);
}

tc_tensor tc_grad_scaler_found_inf_at(tc_grad_scaler *s, const tc_optimizer *opt, tc_site site) {
  TC_CALLED_AS("grad_scaler_found_inf");
  tc_status st = check_both("grad_scaler_found_inf", s, opt, site);
  if (st != TC_OK) return tc_poison(st);
  if (s->options.disabled) return tc_full_at(TC_SCALAR, 0, TC_BOOL, site);
  const seen *e = find_seen(s, opt);
  if (!e)
    return tc_poison(tc_fail(TC_ERR_STATE, "grad_scaler_found_inf", site,
                             "the optimizer's gradients were not divided since the last tc_grad_scaler_update"));
  return tc_detach_at(e->found[0], site);
}

double tc_grad_scaler_get_scale_at(tc_grad_scaler *s, tc_site site) {
  TC_CALLED_AS("grad_scaler_get_scale");
  double scale = NAN;
  if (!s)
    (void)no_scaler("grad_scaler_get_scale", site);
  else if (tc_item_at(s->scale, TC_F64, &scale, site) != TC_OK)
    scale = NAN;
  return scale;
}

tc_status tc_grad_scaler_set_scale_at(tc_grad_scaler *s, double scale, tc_site site) {
  TC_CALLED_AS("grad_scaler_set_scale");
  if (!s) return no_scaler("grad_scaler_set_scale", site);
  if (!(scale > 0 && scale <= 0x1.fffffep127))
    return tc_fail(TC_ERR_ARG, "grad_scaler_set_scale", site, "scale is %g; above 0 and finite was expected", scale);
  if (s->options.disabled) return TC_OK;
  forget_seen(s);
  tc_scope scope = tc_scope_begin_at(site);
  tc_status st = tc_assign_at(s->scale, tc_full_like_at(s->scale, scale, site), site);
  tc_scope_end_at(scope, 0);
  return st;
}

// ---- State ----

const char *tc_grad_scaler_state_name(const tc_grad_scaler *s, int i) {
  return s && i >= 0 && i < N_STATES ? state_names[i] : NULL;
}

tc_tensor tc_grad_scaler_state_at(const tc_grad_scaler *s, int i, tc_site site) {
  if (!s) return tc_poison(no_scaler("grad_scaler_state", site));
  if (i < 0 || i >= N_STATES)
    return tc_poison(tc_fail(TC_ERR_ARG, "grad_scaler_state", site, "no state %d; there are %d", i, N_STATES));
  return i ? s->growth_tracker : s->scale;
}

static tc_status check_state(tc_tensor x, int i, tc_type type, tc_site site) {
  if (!tc_is_valid(x)) return tc_fail(TC_ERR_HANDLE, "grad_scaler_use_state", site, "%s is no tensor", state_names[i]);
  tc_type have = tc_dtype_at(x, site);
  if (have != type)
    return tc_fail(TC_ERR_DTYPE, "grad_scaler_use_state", site, "%s is %s; %s was expected", state_names[i],
                   tc_type_name(have), tc_type_name(type));
  int rank = tc_shape_at(x, site).rank;
  if (rank != 0)
    return tc_fail(TC_ERR_SHAPE, "grad_scaler_use_state", site, "%s has rank %d; 0 was expected", state_names[i], rank);
  return TC_OK;
}

tc_status tc_grad_scaler_use_state_at(tc_grad_scaler *s, tc_tensor scale, tc_tensor growth_tracker, tc_site site) {
  TC_CALLED_AS("grad_scaler_use_state");
  if (!s) return no_scaler("grad_scaler_use_state", site);
  TC_TRY(check_state(scale, 0, TC_F32, site));
  TC_TRY(check_state(growth_tracker, 1, TC_I32, site));
  tc_capture_break_mine("a state that it gives a gradient scaler", "grad_scaler_use_state", site);
  tc_watched_set(s->n_given, tc_watched_value(s->n_given) + 1);
  tc_tensor old[N_STATES] = {s->scale, s->growth_tracker};
  s->scale = tc_retain_at(scale, site), s->growth_tracker = tc_retain_at(growth_tracker, site);
  for (int i = 0; i < N_STATES; i++) tc_release_at(old[i], site);
  return TC_OK;
}
