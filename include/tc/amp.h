// Automatic mixed precision: the gradient scaler, torch.amp.GradScaler. tc.h has autocast itself.
//
// Gradients of f16 below 6e-8 are 0. A scaler multiplies the loss, and so all gradients, and
// divides them again before the optimizer's step. It leaves out a step whose gradients are not
// finite, and takes a smaller scale then. bf16 has f32's range and needs none.
//
//   tc_grad_scaler *scaler = tc_grad_scaler_create((tc_grad_scaler_options){0});
//   for (...) {
//     tc_autocast_begin(TC_F16);
//     tc_tensor loss = tc_cross_entropy(model(x), y);
//     tc_autocast_end();
//     tc_backward(tc_grad_scaler_scale(scaler, loss));
//     tc_grad_scaler_step(scaler, opt);
//     tc_grad_scaler_update(scaler);
//     tc_zero_grad(opt);
//   }
//
// Everything is recorded. Whether a step is left out is decided where the gradients are. Nothing
// waits for it, unless parameters are in several memories.
// Errors are tc.h's; a status that is not looked at is told by the next sync point, too.
// Threads: thread-compatible; a scaler belongs to the thread that made it.
#ifndef TC_AMP_H
#define TC_AMP_H

#include <tc/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

// The scale of losses, and what decides about it.
typedef struct tc_grad_scaler tc_grad_scaler;

// Fields left out, or 0, take PyTorch's defaults, which stand beside them.
typedef struct tc_grad_scaler_options {
  double init_scale;  // the first scale, 65536
  double growth_factor;  // of the scale, after growth_interval steps in a row that were done, 2
  double backoff_factor;  // of the scale, after a step that was left out, 0.5
  int64_t growth_interval;  // 2000
  bool disabled;  // true: scales by 1 and leaves no step out (enabled=False)
} tc_grad_scaler_options;

// NULL on error. TC_ERR_ARG unless init_scale is above 0 and finite, growth_factor above 1,
// backoff_factor within 0 and 1, growth_interval at least 1. The scale is on the default device.
TC_API tc_grad_scaler *tc_grad_scaler_create(tc_grad_scaler_options options);
// Releases the state; NULL is fine.
TC_API void tc_grad_scaler_destroy(tc_grad_scaler *s);
// loss times the scale, f32 at least where loss is a scalar; loss itself if disabled. Poison with
// TC_ERR_DTYPE unless loss is floating, TC_ERR_ARG for NULL, and as of tc_mul.
TC_API tc_tensor tc_grad_scaler_scale(tc_grad_scaler *s, tc_tensor loss);
// Divides the gradients of the optimizer's parameters by the scale, for who looks at them or clips
// them before the step. A sync point if the parameters are in several memories.
// TC_ERR_STATE if it was called already since the last update, or the step was; also where no
// parameter has a gradient. TC_ERR_DTYPE for f16 gradients: keep parameters in f32. TC_ERR_ARG for
// NULL.
TC_API tc_status tc_grad_scaler_unscale(tc_grad_scaler *s, tc_optimizer *opt);
// tc_optimizer_step with gradients divided by the scale, by this call unless they are already. If
// one of them is infinite or NaN, parameters, state and the count of steps stay as they are, to the
// bit. TC_ERR_STATE if it was called already since the last update; and unscale's errors.
TC_API tc_status tc_grad_scaler_step(tc_grad_scaler *s, tc_optimizer *opt);
// The next scale. If a step since the last update was left out it is backoff_factor times this one.
// After growth_interval updates in a row without that it is growth_factor times this one, unless
// that is infinite. TC_ERR_STATE if no gradients were divided since the last update; TC_ERR_ARG for
// NULL.
TC_API tc_status tc_grad_scaler_update(tc_grad_scaler *s);
// Whether a gradient of the optimizer's was infinite or NaN when they were divided: a bool of rank
// 0 in the current scope. Poison with TC_ERR_STATE if they were not since the last update.
TC_API tc_tensor tc_grad_scaler_found_inf(tc_grad_scaler *s, const tc_optimizer *opt);
// The scale; a sync point. 1 if disabled. NaN on error: TC_ERR_ARG for NULL, or those of the sync.
TC_API double tc_grad_scaler_get_scale(tc_grad_scaler *s);
// Sets the scale, as update(new_scale). TC_ERR_ARG unless it is above 0 and finite.
TC_API tc_status tc_grad_scaler_set_scale(tc_grad_scaler *s, double scale);

// ---- State in checkpoints ----

// State as a named list, as an optimizer's: "scale", f32, and "growth_tracker", i32, of rank 0. The
// name is NULL past the end. The tensors are the scaler's own: give them and their names to
// tc_checkpoint_save and tc_checkpoint_load beside the parameters.
TC_API const char *tc_grad_scaler_state_name(const tc_grad_scaler *s, int i);
// Entry i: a scalar of type f32 or i32, as above. Poison with TC_ERR_ARG if there is none.
TC_API tc_tensor tc_grad_scaler_state(const tc_grad_scaler *s, int i);
// The state lives in these two tensors from now on, which are retained and must be assignable:
// their values are taken. TC_ERR_DTYPE, TC_ERR_SHAPE unless they are as above.
TC_API tc_status tc_grad_scaler_use_state(tc_grad_scaler *s, tc_tensor scale, tc_tensor growth_tracker);
// Adds the state to a model's buffers as "path.scale" and "path.growth_tracker", so that
// tc_nn_checkpoint_save and _load hold it. TC_ERR_ARG if a name is taken.
TC_API tc_status tc_nn_add_grad_scaler(tc_nn_params *p, const char *path, tc_grad_scaler *s);

#ifdef __cplusplus
}
#endif

#include <tc/amp_sites.h>

#endif
