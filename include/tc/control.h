// Control flow in the graph: loops, branches and recomputation whose bodies are recorded once.
//
//   // h' = tanh(x w + h u), over all rows of xs
//   static tc_status cell(void *user, const tc_tensor *in, tc_tensor *out) {
//     const tc_tensor *w = user;
//     out[0] = out[1] = tc_tanh(tc_add(tc_matmul(in[1], w[0]), tc_matmul(in[0], w[1])));
//     return TC_OK;
//   }
//   tc_tensor out[2];  // the last h, and all of them
//   tc_status st = tc_scan(cell, w, &h, 1, &xs, 1, out, 1, NULL);
//
// A body is a function of the program that records ops on what it is given. It is called once, and
// what it recorded is compiled once, however often it runs. Tensors from outside that it uses are
// operands, so gradients reach them. Its inputs have no values: a read inside it (tc_item_f32,
// tc_print ..) is TC_ERR_STATE. It makes no parameters, and assigns nothing from outside.
// A body that returns another status than TC_OK ends the call with that status.
//
// Results, first gradients and random draws are those of the loop written out in C, to the bit.
// docs/control-flow.md lists what differs: weights' gradients under autocast are summed in f32.
// Gradients of tensors that reach a body in two ways may have their terms in another order.
// tc_while draws from counters of its own, and a branch that is not taken draws none.
// Bodies may have control flow of their own.
// On failure every result is poison, and tc_last_error has the text of the status.
// Threads: thread-compatible; each thread records its own trace. Bodies run in the calling thread.
#ifndef TC_CONTROL_H
#define TC_CONTROL_H

#include <tc/tc.h>

#ifdef __cplusplus
extern "C" {
#endif

// in: the inputs, in the order of each function below. out: the results, to be set. user: what the
// caller passed. Handles that it makes end with the call, but for its results.
typedef tc_status tc_body_fn(void *user, const tc_tensor *in, tc_tensor *out);

// Records one of two bodies, both of the n_in tensors `in`: `then` where pred is true, else
// `otherwise`. out: the n_out results. pred: bool, of one element; TC_ERR_DTYPE, TC_ERR_SHAPE.
// Both bodies give results of the same shapes and types, else TC_ERR_SHAPE names the first one that
// differs. Only the body that is taken runs. Gradients go through it.
// Random draws of both begin at the same counter.
// Source: torch.cond.
TC_API tc_status tc_cond(tc_tensor pred, tc_body_fn *then, tc_body_fn *otherwise, void *user, const tc_tensor *in,
                         int n_in, tc_tensor *out, int n_out) TC_MUST_USE;
// Records a loop: while test(carry) is true, carry = body(carry). out: the n_carry last carries.
// test gives one bool of one element. body gives carries of the shapes and types that it was given,
// else TC_ERR_SHAPE (TC_ERR_DTYPE) names the first one that differs.
// Not differentiable: a backward through it is TC_ERR_GRAD. On a GPU each step waits for the bool.
// Source: torch's while_loop.
TC_API tc_status tc_while(tc_body_fn *test, tc_body_fn *body, void *user, const tc_tensor *carry, int n_carry,
                          tc_tensor *out) TC_MUST_USE;

// Options of tc_scan; all 0 by default.
typedef struct tc_scan_options {
  bool reverse;    // from the last slice to the first
  int64_t length;  // steps, where there is nothing to scan; else 0, or the length of xs
} tc_scan_options;

// Records a loop over the first axis: of each step body is given the carries, then a slice of each
// of the n_xs tensors xs. It gives the next carries, then n_ys results of the step.
// out: the n_carry last carries, then the n_ys results of all steps, stacked on a new first axis.
// options: NULL: as if all were 0. All of xs have the same first extent, else TC_ERR_SHAPE.
// body gives carries of the shapes and types that it was given, else TC_ERR_SHAPE (TC_ERR_DTYPE)
// names the first one that differs. Differentiable, and its gradient is. A backward keeps the
// carries of each step, and computes what is inside the body again.
// Source: JAX's lax.scan.
TC_API tc_status tc_scan(tc_body_fn *body, void *user, const tc_tensor *carry, int n_carry, const tc_tensor *xs,
                         int n_xs, tc_tensor *out, int n_ys, const tc_scan_options *options) TC_MUST_USE;

// Records fn of the n_in tensors `in`, with n_out results. A backward keeps none of the values
// inside it: it computes them again, with the same random draws, so gradients have the same bits.
// TC_ERR_ARG without a result, or where fn does not set one.
// Source: torch.utils.checkpoint.
TC_API tc_status tc_checkpoint(tc_body_fn *fn, void *user, const tc_tensor *in, int n_in, tc_tensor *out,
                               int n_out) TC_MUST_USE;

#ifdef __cplusplus
}
#endif

#include <tc/control_sites.h>
#endif
