// Compiled functions: a function over tensors is traced once, and later calls take its graph
// without running it, as torch.compile does.
//
//   static tc_status step(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
//     struct model *m = user;
//     out[0] = tc_mse_loss(forward(m, in[0]), in[1]);
//     return tc_backward(out[0]);
//   }
//   ..
//   tc_compiled *c = tc_compile(step, &model, NULL);
//   for (..) {
//     if (tc_compiled_call(c, (tc_tensor[]){x, y}, 2, &loss, 1) != TC_OK) ..
//   }
//   tc_compiled_destroy(c);
//
// A call does what the function would. Results have history, gradients are set, optimizers step,
// and random draws take the thread's next counters. Nothing runs before a value is asked for.
// What the function computes in C is done when it is traced alone, and is constant afterwards:
// numbers, branches, counters, what it prints. docs/compile.md says how to let it vary.
//
// Errors are tc.h's. Threads: thread-safe but for tc_compiled_destroy. Each thread records its own
// trace; several threads may run the function at a time.
#ifndef TC_COMPILE_H
#define TC_COMPILE_H

#include <tc/tc.h>

#ifdef __cplusplus
extern "C" {
#endif

// A function in its compiled form: its graphs, and the guards of each.
typedef struct tc_compiled tc_compiled;

// A function that can be compiled: reads n_in tensors and the numbers behind them, and sets n_out
// results. TC_OK, or the status of what failed.
// A result may be an argument, or a tensor from elsewhere. {0, 0} is no tensor. A result need not
// be kept, and must not be retained. Other tensors that it makes end with it.
typedef tc_status (*tc_compile_fn)(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out);

// Memory that the function reads in C: a call at which it holds other bytes is another graph.
typedef struct tc_static {
  const char *name;  // in texts; borrowed for the compiled function's life. NULL: its number
  const void *data;  // read by every call
  size_t bytes;  // how many are compared
} tc_static;

// All may be left out.
typedef struct tc_compile_options {
  const char *name;  // in texts; borrowed for the compiled function's life. NULL: "compiled"
  // true: a function without one graph is an error, with the line; false: it is recorded each time
  bool fullgraph;
  // graphs at most; 0: 8, as torch's recompile_limit. Beyond it calls that fit none are recorded
  int limit;
  // what calls are made in, as if by tc_region_begin and tc_region_end: mode, dynamic, backend,
  // disable, options. Copied, but for its texts. NULL: the caller's. What options that make other
  // plans leave pending runs at the call's end
  const tc_region_options *region;
  const tc_static *statics;  // copied, but for what they point to
  int n_statics;  // of statics
} tc_compile_options;

// What became of a compiled function's calls.
typedef struct tc_compiled_info {
  int n_graphs;  // at most the limit
  uint64_t n_calls, n_taken;  // n_taken: those that took a graph without running the function
  uint64_t n_traced, n_recorded;  // calls that traced it; calls that ran it as without tc_compile
  uint64_t n_checked;  // by TC_CHECK_COMPILED
  char why_recorded[320];  // why calls are recorded. "": none was
} tc_compiled_info;

// A compiled form of fn. options may be NULL. Nothing is traced before the first call. NULL on
// error: TC_ERR_ARG (fn is NULL, a negative count or limit), TC_ERR_MEMORY.
TC_API tc_compiled *tc_compile(tc_compile_fn fn, void *user, const tc_compile_options *options);
// Does what fn would with these arguments, and sets n_out results, of the current scope; poison
// where the call fails. The first call traces fn, and later ones take its graph where all guards
// hold; where one fails fn is traced again. Guards are:
// - the number of arguments and results; each argument's type, shape, device and history, and
//   which of them are the same tensor; a parameter must be the same one;
// - the same facts of tensors that fn found elsewhere, and which parameters have gradients;
// - statics, tc_no_grad_begin, the default device, autocast, and the options of regions.
// Records; a sync point only where fn is one. A function with a sync point, or that copies the
// host's memory, has no graph: each call records it (TC_LOG=guards says why).
// TC_ERR_STATE with fullgraph for such a function, or beyond the limit. Errors of fn and of
// tc_region_begin are passed on.
TC_API tc_status tc_compiled_call(tc_compiled *c, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) TC_MUST_USE;
// The same with n_num numbers, which may differ from call to call without another graph. fn has
// them behind its tensors, in[n_in] .., as tensors of rank 0, f32; its n_in counts both.
// TC_ERR_ARG for numbers at a null pointer, and the errors of tc_compiled_call.
TC_API tc_status tc_compiled_call_with(tc_compiled *c, const tc_tensor *in, int n_in, const double *num, int n_num,
                                       tc_tensor *out, int n_out) TC_MUST_USE;
// Frees it and its graphs. Calls must have returned. NULL is fine.
TC_API void tc_compiled_destroy(tc_compiled *c);
// Counts of its calls. All zero for NULL.
TC_API tc_compiled_info tc_compiled_stats(const tc_compiled *c);
// The guards of a graph (0: the first one traced) as text, one a line; what does not fit is cut.
// Returns the length of the text; 0 if there is no such graph.
TC_API size_t tc_compiled_guards(const tc_compiled *c, int graph, char *out, size_t bytes);

#ifdef __cplusplus
}
#endif

#include <tc/compile_sites.h>

#endif
