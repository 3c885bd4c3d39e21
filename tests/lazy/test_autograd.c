// Gradients where laziness could lose them: reads and flushes in mid-forward, assigns before
// backward, history kept or freed, gradients of gradients. Expected values are worked out by hand
// in the comments.
#include <criterion/criterion.h>
#include <math.h>
#include <tc/tc.h>

static const char *const devices[] = {"tc:ref", "tc:cpu"};
#define EACH_DEVICE for (int d = 0; d < 2 && use(devices[d]); d++)

static bool use(const char *device) {
  tc_clear_error();
  cr_assert_eq(tc_set_default_device(device), TC_OK, "%s", tc_last_error()->message);
  return true;
}

static tc_tensor vector(float a, float b, float c) {
  return tc_from_host((const float[]){a, b, c}, TC_SHAPE(3), TC_F32);
}

static tc_tensor total(tc_tensor x) {
  return tc_sum(x, TC_ALL, false);
}

static void expect_is(tc_tensor t, float a, float b, float c, const char *what) {
  float v[3] = {NAN, NAN, NAN};
  cr_assert_eq(tc_to_host(t, v, sizeof v), TC_OK, "%s: %s", what, tc_last_error()->message);
  cr_expect(fabsf(v[0] - a) < 1e-4f && fabsf(v[1] - b) < 1e-4f && fabsf(v[2] - c) < 1e-4f,
            "%s on %s is %g %g %g, should be %g %g %g", what, tc_get_default_device(), (double)v[0], (double)v[1],
            (double)v[2], (double)a, (double)b, (double)c);
}

#define EXPECT_OK(call) cr_expect_eq((call), TC_OK, "%s", tc_last_error()->message)

Test(autograd, a_loss_read_before_backward_keeps_its_gradient) {
  EACH_DEVICE {
    float loss;
    tc_tensor x = tc_param(vector(1, 2, 3)), y = total(tc_mul(tc_square(x), x));  // 3 x^2
    EXPECT_OK(tc_item_f32(y, &loss));
    cr_expect_float_eq(loss, 36, 1e-4);
    EXPECT_OK(tc_item_f32(y, &loss));
    EXPECT_OK(tc_backward(y));
    expect_is(tc_grad(x), 3, 12, 27, "gradient of x^3");
    tc_release(x);
  }
}

// One element of every row: y = sum of x[i, at[i]]^2, so the gradient is 2 x there and 0 elsewhere;
// its square's sum has the gradient 8 x there.
Test(autograd, picking_one_of_a_row_puts_its_gradient_back) {
  EACH_DEVICE {
    tc_tensor x = tc_param(tc_from_host((const float[]){1, 2, 3, 4, 5, 6, 7, 8, 9}, TC_SHAPE(3, 3), TC_F32)), g;
    tc_tensor at = tc_from_host((const int64_t[]){2, 0, -2}, TC_SHAPE(3, 1), TC_I64);  // 3, 4, 8
    tc_tensor y = total(tc_square(tc_gather(x, 1, at)));
    EXPECT_OK(tc_grads_of(y, &x, 1, &g, TC_CREATE_GRAPH));
    expect_is(tc_select(g, 0, 0), 0, 0, 6, "gradient of row 0");
    expect_is(tc_select(g, 0, 1), 8, 0, 0, "gradient of row 1");
    expect_is(tc_select(g, 0, 2), 0, 16, 0, "gradient of row 2");
    EXPECT_OK(tc_backward(total(tc_square(g))));
    expect_is(tc_select(tc_grad(x), 0, 0), 0, 0, 24, "second gradient of row 0");
    expect_is(tc_select(tc_grad(x), 0, 2), 0, 64, 0, "second gradient of row 2");
    tc_release(x);
  }
}

Test(autograd, a_flush_in_mid_forward_keeps_the_gradient) {
  EACH_DEVICE {
    tc_tensor x = tc_param(vector(1, 2, 3)), h = tc_mul(x, 2), a = tc_square(h);
    EXPECT_OK(tc_eval(1, &a));
    tc_tensor b = tc_mul(a, h);  // 8 x^3, through a stored value and one that was only a recipe
    EXPECT_OK(tc_sync(NULL));
    tc_tensor y = total(b);
    EXPECT_OK(tc_sync(NULL));
    EXPECT_OK(tc_backward(y));
    EXPECT_OK(tc_sync(NULL));
    expect_is(tc_grad(x), 24, 96, 216, "gradient of 8 x^3");
    tc_release(x);
  }
}

Test(autograd, a_flush_between_the_layers_of_a_network_changes_no_gradient) {
  EACH_DEVICE {
    float plain[6], read[6], h[4];
    for (int flush = 0; flush < 2; flush++) {
      tc_tensor w = tc_param(tc_from_host((const float[]){1, -2, 3, 0.5f, 1, -1}, TC_SHAPE(3, 2), TC_F32));
      tc_tensor x = tc_from_host((const float[]){1, 2, 3, -1, 0, 1}, TC_SHAPE(2, 3), TC_F32),
                hidden = tc_relu(tc_matmul(x, w));
      if (flush) EXPECT_OK(tc_to_host(hidden, h, sizeof h));
      tc_tensor p = tc_softmax(hidden, 1);
      if (flush) EXPECT_OK(tc_to_host(p, h, sizeof h));
      EXPECT_OK(tc_backward(total(tc_mul(p, hidden))));
      EXPECT_OK(tc_to_host(tc_grad(w), flush ? read : plain, sizeof plain));
      tc_release(w);
    }
    for (int i = 0; i < 6; i++)
      cr_expect_eq(plain[i], read[i], "element %d: %g when read, %g when not", i, (double)read[i], (double)plain[i]);
  }
}

Test(autograd, a_parameter_used_twice_gets_both_gradients) {
  EACH_DEVICE {
    tc_tensor x = tc_param(vector(1, 2, 3));
    EXPECT_OK(tc_backward(total(tc_add(tc_mul(x, x), tc_mul(x, 5)))));  // 2 x + 5
    expect_is(tc_grad(x), 7, 9, 11, "gradient of x x + 5 x");
    tc_release(x);
    x = tc_param(vector(1, 2, 3));
    tc_tensor e = tc_expand(tc_reshape(x, TC_SHAPE(1, 3)), TC_SHAPE(4, 3));
    // 4 x0 (x0 + x1 + x2): [4 (2 x0 + x1 + x2), 4 x0, 4 x0]
    EXPECT_OK(tc_backward(total(tc_mul(e, tc_slice(x, 0, 0, 1, 1)))));
    expect_is(tc_grad(x), 28, 4, 4, "gradient through a broadcast and a slice");
    tc_release(x);
  }
}

Test(autograd, a_second_backward_needs_retain) {
  EACH_DEVICE {
    tc_tensor x = tc_param(vector(1, 2, 3)), y = total(tc_mul(tc_square(x), x)), one = tc_scalar(1);
    EXPECT_OK(tc_backward_with(y, one, TC_RETAIN));
    expect_is(tc_grad(x), 3, 12, 27, "first");
    EXPECT_OK(tc_backward_with(y, one, 0));
    expect_is(tc_grad(x), 6, 24, 54, "second, added");
    cr_expect_eq(tc_backward(y), TC_ERR_GRAD, "history was freed");
    cr_expect(tc_last_error()->message[0], "and the error says so");
    tc_clear_error();
    expect_is(tc_grad(x), 6, 24, 54, "after the refused one");
    tc_release(x);
  }
}

Test(autograd, a_second_backward_without_retain_is_refused_after_a_flush_too) {
  EACH_DEVICE {
    tc_tensor x = tc_param(vector(1, 2, 3)), y = total(tc_exp(tc_mul(x, 0.0)));
    EXPECT_OK(tc_sync(NULL));
    EXPECT_OK(tc_backward(y));
    EXPECT_OK(tc_sync(NULL));
    cr_expect_eq(tc_backward(y), TC_ERR_GRAD);
    tc_clear_error();
    tc_release(x);
  }
}

Test(autograd, gradients_of_gradients) {
  EACH_DEVICE {
    tc_tensor x = tc_param(vector(1, 2, -1)), y = total(tc_mul(tc_square(x), tc_square(x))), g, gg, ggg;
    EXPECT_OK(tc_grads_of(y, &x, 1, &g, TC_CREATE_GRAPH));
    EXPECT_OK(tc_grads_of(total(g), &x, 1, &gg, TC_CREATE_GRAPH));
    EXPECT_OK(tc_grads_of(total(gg), &x, 1, &ggg, 0));
    expect_is(g, 4, 32, -4, "4 x^3");
    expect_is(gg, 12, 48, 12, "12 x^2");
    expect_is(ggg, 24, 48, -24, "24 x");
    cr_expect(!tc_is_valid(tc_grad(x)), "tc_grads_of leaves tc_grad alone");
    tc_clear_error();
    tc_release(x);
    // A gradient penalty, read between the two: y = sum x^3, p = sum (3 x^2)^2 = 9 x^4, dp/dx = 36
    // x^3.
    x = tc_param(vector(1, 2, -1));
    EXPECT_OK(tc_grads_of(total(tc_mul(tc_square(x), x)), &x, 1, &g, TC_CREATE_GRAPH));
    expect_is(g, 3, 12, 3, "3 x^2");
    EXPECT_OK(tc_backward(total(tc_square(g))));
    expect_is(tc_grad(x), 36, 288, -36, "36 x^3");
    tc_release(x);
  }
}

Test(autograd, an_assign_between_forward_and_backward_does_not_reach_the_forward) {
  for (int sync = 0; sync < 2; sync++) EACH_DEVICE {
      tc_tensor x = tc_param(vector(1, 2, 3)), y = total(tc_mul(tc_square(x), x));
      if (sync) EXPECT_OK(tc_sync(NULL));
      EXPECT_OK(tc_assign(x, vector(10, 10, 10)));
      if (sync) EXPECT_OK(tc_sync(NULL));
      EXPECT_OK(tc_backward(y));
      expect_is(tc_grad(x), 3, 12, 27, "gradient at the old value");
      expect_is(x, 10, 10, 10, "the new value");
      EXPECT_OK(tc_zero_grad_of(1, &x));
      EXPECT_OK(tc_backward(total(tc_square(x))));
      expect_is(tc_grad(x), 20, 20, 20, "gradient at the new value");
      tc_release(x);
    }
}

Test(autograd, an_assign_to_a_value_on_the_way_passes_the_gradient_of_what_is_left) {
  EACH_DEVICE {
    tc_tensor x = tc_param(vector(1, 2, 3)), h = tc_square(x);
    EXPECT_OK(tc_assign_slice(h, (const int64_t[]){0}, (const int64_t[]){2}, (const int64_t[]){2},
                              tc_full(TC_SHAPE(1), 5, TC_F32)));
    expect_is(h, 5, 4, 9, "assigned");
    EXPECT_OK(tc_backward(total(h)));
    expect_is(tc_grad(x), 0, 4, 6, "what was overwritten has no gradient");
    tc_release(x);
  }
}

Test(autograd, gradients_accumulate_until_they_are_zeroed) {
  EACH_DEVICE {
    tc_tensor x = tc_param(vector(1, 2, 3));
    cr_expect(tc_grad(x).gen == 0 && tc_grad(x).slot == 0, "no gradient yet");
    for (int k = 1; k <= 3; k++) {
      tc_scope s = tc_scope_begin();
      EXPECT_OK(tc_backward(total(tc_square(x))));
      tc_scope_end(s);
      expect_is(tc_grad(x), 2 * (float)k, 4 * (float)k, 6 * (float)k, "sum so far");
    }
    EXPECT_OK(tc_zero_grad_of(1, &x));
    EXPECT_OK(tc_backward(total(tc_mul(x, 2))));
    expect_is(tc_grad(x), 2, 2, 2, "after zeroing");
    tc_release(x);
  }
}

Test(autograd, backward_with_a_gradient_of_ones_own) {
  EACH_DEVICE {
    tc_tensor x = tc_param(vector(1, 2, 3));
    EXPECT_OK(tc_backward_with(tc_square(x), vector(1, 10, 100), 0));
    expect_is(tc_grad(x), 2, 40, 600, "weighted");
    cr_expect_eq(tc_backward(tc_square(x)), TC_ERR_GRAD, "y is no scalar");
    tc_clear_error();
    tc_release(x);
  }
}

// A value of a trunk whose history a backward has freed, as later passes meet it: right away, and
// stored by a sync.
Test(autograd, a_value_whose_history_was_freed_is_no_constant) {
  for (int stored = 0; stored < 2; stored++) {
    tc_tensor x = tc_param(vector(1, 2, 3)), h = tc_exp(x);
    EXPECT_OK(tc_backward(total(h)));
    EXPECT_OK(tc_zero_grad_of(1, &x));
    if (stored) EXPECT_OK(tc_sync(NULL));
    cr_expect(tc_requires_grad(h) && tc_requires_grad(tc_mul(h, 3)));
    tc_tensor mixed = tc_add(total(tc_mul(h, 3)), total(tc_mul(x, 5)));
    if (stored) EXPECT_OK(tc_eval(1, &mixed));
    const tc_tensor losses[] = {total(tc_mul(h, 3)), mixed, total(tc_mul(h, x))};
    for (int i = 0; i < 3; i++) {
      cr_expect_eq(tc_backward(losses[i]), TC_ERR_GRAD, "loss %d, stored %d", i, stored);
      cr_expect(strstr(tc_last_error()->message, "was freed by the backward at"), "%s", tc_last_error()->message);
      cr_expect(strstr(tc_last_error()->message, "TC_RETAIN"), "%s", tc_last_error()->message);
      tc_clear_error();
    }
    cr_expect(!tc_is_valid(tc_grad(x)), "a backward that fails gives no gradient");
    tc_clear_error();
    tc_release(x);
  }
}

// What reads such a value and passes no gradient to it is as good as before; so is a copy that was
// detached, and a parameter made of it.
Test(autograd, a_value_whose_history_was_freed_may_be_read) {
  for (int stored = 0; stored < 2; stored++) {
    tc_tensor x = tc_param(vector(1, 2, 3)), h = tc_exp(x);
    EXPECT_OK(tc_backward(total(h)));
    EXPECT_OK(tc_zero_grad_of(1, &x));
    if (stored) EXPECT_OK(tc_sync(NULL));
    tc_tensor mask = tc_cast(tc_gt(h, 3.0), TC_F32), whole = tc_floor(h), copy = tc_detach(h), p = tc_param(h);
    cr_expect(!tc_requires_grad(mask) && !tc_requires_grad(whole) && !tc_requires_grad(copy) && tc_requires_grad(p));
    EXPECT_OK(tc_backward(total(tc_mul(tc_mul(mask, x), tc_add(p, tc_sub(whole, tc_floor(copy)))))));
    expect_is(tc_grad(x), 0, 7.3890561f, 20.0855369f, "gradient of mask p x");
    expect_is(tc_grad(p), 0, 2, 3, "gradient of the parameter");
    tc_release(x), tc_release(p);
  }
}

// A sum of losses that is never differentiated: no history grows, and from the second step on no
// plan is made.
Test(autograd, a_sum_of_losses_costs_no_plan) {
  tc_tensor x = tc_param(vector(1, 2, 3)), sum = tc_zeros(TC_SCALAR, TC_F32);
  uint64_t misses = 0;
  EXPECT_OK(tc_eval(1, &sum));
  for (int i = 0; i < 4; i++) {
    tc_scope s = tc_scope_begin();
    tc_tensor loss = total(tc_square(x));
    EXPECT_OK(tc_backward(loss));
    EXPECT_OK(tc_zero_grad_of(1, &x));
    EXPECT_OK(tc_assign(sum, tc_add(tc_mul(sum, 0.5), loss)));
    EXPECT_OK(tc_eval(1, &sum));
    tc_scope_end(s);
    if (i == 0) misses = tc_cache_stats().plan_misses;
  }
  cr_expect_eq(tc_cache_stats().plan_misses, misses, "plans made after the first step: %d",
               (int)(tc_cache_stats().plan_misses - misses));
  float v = 0;
  EXPECT_OK(tc_item_f32(sum, &v));
  cr_expect_eq(v, 26.25f, "%g", (double)v);
  tc_release(x);
}

// A loss that outlives its step, whose intermediates were alive when a sync ran: before the
// backward, or after it.
Test(autograd, a_kept_loss_holds_no_intermediates) {
  enum { N = 1 << 16, STEPS = 8 };
  for (int before = 0; before < 2; before++) {
    tc_tensor w = tc_param(tc_scalar(2)), loss[STEPS];
    size_t live = 0;
    for (int i = 0; i < STEPS; i++) {
      float v;
      tc_scope s = tc_scope_begin();
      tc_tensor x = tc_rand(TC_SHAPE(N), TC_F32), y = tc_tanh(tc_mul(x, w)), z = tc_square(tc_sub(y, x));
      loss[i] = total(z);
      if (before) EXPECT_OK(tc_item_f32(loss[i], &v));
      EXPECT_OK(tc_backward(loss[i]));
      EXPECT_OK(tc_eval(1, (tc_tensor[]){tc_grad(w)}));
      EXPECT_OK(tc_zero_grad_of(1, &w));
      (void)tc_retain(loss[i]);
      tc_scope_end(s);
      if (i == 0) live = tc_memory_stats().live_bytes;
    }
    size_t more = tc_memory_stats().live_bytes - live;
    cr_expect(more < N, "%d losses of 4 bytes hold %zu more bytes, read before the backward: %d", STEPS - 1, more,
              before);
    for (int i = 0; i < STEPS; i++) tc_release(loss[i]);
    tc_release(w);
  }
}

Test(autograd, detach_stops_the_gradient) {
  EACH_DEVICE {
    tc_tensor x = tc_param(vector(1, 2, 3));
    EXPECT_OK(tc_backward(total(tc_mul(tc_detach(tc_square(x)), x))));  // x^2 as a constant
    expect_is(tc_grad(x), 1, 4, 9, "gradient of c x");
    cr_expect(!tc_requires_grad(tc_detach(x)) && tc_requires_grad(x));
    cr_expect_eq(tc_backward(total(tc_detach(x))), TC_ERR_GRAD, "nothing to differentiate");
    tc_clear_error();
    tc_release(x);
  }
}

Test(autograd, no_grad_records_no_history) {
  EACH_DEVICE {
    tc_tensor x = tc_param(vector(1, 2, 3));
    tc_no_grad_begin();
    tc_tensor c = tc_square(x);
    tc_no_grad_begin();
    tc_no_grad_end();
    tc_tensor e = tc_square(x);  // the outer one still holds
    tc_no_grad_end();
    cr_expect(!tc_requires_grad(c) && !tc_requires_grad(e) && tc_requires_grad(tc_square(x)));
    EXPECT_OK(tc_backward(total(tc_mul(c, x))));
    expect_is(tc_grad(x), 1, 4, 9, "gradient of c x");
    cr_expect_eq(tc_backward(total(c)), TC_ERR_GRAD);
    tc_clear_error();
    tc_release(x);
  }
}

Test(autograd, requires_grad_can_be_switched) {
  EACH_DEVICE {
    tc_tensor x = tc_param(vector(1, 2, 3)), y = tc_param(vector(4, 5, 6));
    EXPECT_OK(tc_set_requires_grad(y, false));
    EXPECT_OK(tc_backward(total(tc_mul(x, y))));
    expect_is(tc_grad(x), 4, 5, 6, "gradient of x");
    cr_expect(!tc_is_valid(tc_grad(y)), "a frozen parameter has no gradient");
    tc_clear_error();
    tc_release(x), tc_release(y);
  }
}

Test(autograd, a_loss_kept_out_of_its_scope_can_be_differentiated) {
  EACH_DEVICE {
    tc_tensor x = tc_param(vector(1, 2, 3));
    tc_scope s = tc_scope_begin();
    tc_tensor y = total(tc_mul(tc_square(x), x));
    tc_keep(y);
    tc_scope_end(s);
    EXPECT_OK(tc_sync(NULL));
    EXPECT_OK(tc_backward(y));
    expect_is(tc_grad(x), 3, 12, 27, "gradient of x^3");
    tc_release(x);
  }
}

Test(autograd, the_gradient_of_max_is_shared_by_equal_values) {
  EACH_DEVICE {
    tc_tensor x = tc_param(vector(2, 1, 2));  // as torch.amax: one half each
    EXPECT_OK(tc_backward(tc_max(x, TC_ALL, false)));
    expect_is(tc_grad(x), 0.5f, 0, 0.5f, "gradient of max");
    tc_release(x);
  }
}

Test(autograd, a_training_step_matches_the_one_worked_out_by_hand) {
  EACH_DEVICE {
    // w = 2, x = 3, target 5: loss (w x - 5)^2 = 1, dw = 2 (w x - 5) x = 6; momentum 0.5, lr 0.1:
    // v1 = 6, w1 = 1.4; residual -0.8, dw = -4.8, v2 = -1.8, w2 = 1.58.
    float w, loss;
    tc_tensor p = tc_param(tc_scalar(2));
    tc_optimizer *opt = tc_sgd(&p, 1, (tc_sgd_options){.lr = 0.1, .momentum = 0.5});
    cr_assert(opt);
    const float want[2] = {1.4f, 1.58f}, want_loss[2] = {1, 0.64f};
    for (int k = 0; k < 2; k++) {
      tc_scope s = tc_scope_begin();
      tc_tensor y = tc_square(tc_sub(tc_mul(p, 3), 5));
      EXPECT_OK(tc_backward(y));
      EXPECT_OK(tc_optimizer_step(opt));
      EXPECT_OK(tc_zero_grad(opt));
      EXPECT_OK(tc_item_f32(y, &loss));
      EXPECT_OK(tc_item_f32(p, &w));
      tc_scope_end(s);
      cr_expect_float_eq(w, want[k], 1e-5, "w is %g, should be %g", (double)w, (double)want[k]);
      cr_expect_float_eq(loss, want_loss[k], 1e-5);
    }
    tc_optimizer_destroy(opt);
    tc_release(p);
  }
}
