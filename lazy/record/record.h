// Recording: appends checked records to this thread's pending trace. The floor on which public ops,
// compositions, vjps and optimizers stand.
//
// In: nodes, shapes and numbers. Out: the node of one new record, or TC_NODE_ERR.
// Invariants: every function takes TC_NODE_ERR and returns it silently, so calls nest. The failure
// was reported when it arose, with the name and site of the op that tc_op_begin opened.
// Temporaries are nodes, not handles: they are never live and cost nothing at a sync.
// Threads: between tc_op_begin and tc_op_end the trace's lock is held; no public function may be
// called there. Owner: the trace.
//
//   tc_tensor tc_silu_at(tc_tensor x, tc_site site) {
//     tc_trace *t = tc_op_begin("silu", site);
//     tc_node a = tc_op_in(t, x);
//     return tc_op_end(t, tc_rec_binary(t, TC_OP_MUL, a, tc_rec_unary(t, TC_OP_SIGMOID, a)));
//   }
#pragma once

#include "lazy/trace/node.h"
#include "runtime/given.h"

// Opens an op on this thread's trace and takes its lock; name is a static string. Never NULL (in a
// signal handler or out of memory the op is poisoned from the start).
tc_trace *tc_op_begin(const char *name, tc_site site);
// Opens a sync point as tc_op_begin opens an op, whatever the bounds of the trace.
tc_trace *tc_op_begin_sync(const char *name, tc_site site);
// The node of a handle; poison passes silently, stale, null and foreign handles are reported,
// pending tensors of other threads are flushed.
tc_node tc_op_in(tc_trace *t, tc_tensor x);
// The node of a handle, as tc_op_in has it, but never cast by autocast.
tc_node tc_op_in_uncast(tc_trace *t, tc_tensor x);
// A handle for the node in the current scope (poison for TC_NODE_ERR); releases the lock.
tc_tensor tc_op_end(tc_trace *t, tc_node n);
// Releases the lock without a result: TC_OK, or the status of the failure reported since
// tc_op_begin.
tc_status tc_op_done(tc_trace *t);

#define TC_MAX_HEAD 256  // elements of a head that attention's rows take
// The least and the greatest value of an integer type; 0 and 1 of bool.
void tc_type_range(tc_type type, int64_t *low, int64_t *high);
// axis in [-rank, rank) to [0, rank); -1 after reporting. extra: 1 where one past the last axis is
// allowed (unsqueeze, stack).
int tc_rec_axis(tc_trace *t, tc_node n, int axis, int extra);
// Axes as a bit mask (rank -1: all); false after reporting a bad or repeated axis. Axis 0 of a
// scalar may be named, and is not in the mask.
bool tc_rec_axes(tc_trace *t, tc_node n, const tc_dims *axes, uint32_t *out_mask);

// ---- Primitives ----
// Each checks, infers type and shape, appends one record (plus the casts that promotion asks for).
tc_node tc_rec_full(tc_trace *t, const tc_dims *shape, tc_type type, double value);
tc_node tc_rec_full_int(tc_trace *t, const tc_dims *shape, tc_type type, int64_t value);
// Whether the type holds a number: an integer type those whose whole part is in its range, a float
// or a bool any. False after reporting.
bool tc_rec_good_number(tc_trace *t, tc_type type, double v);
// Rank 0, of the type of n. number: of the user, reported if the type does not hold it; const: of a
// formula.
tc_node tc_rec_number(tc_trace *t, tc_node n, double value);
tc_node tc_rec_const(tc_trace *t, tc_node n, double value);
// start + step * flat index
tc_node tc_rec_iota(tc_trace *t, const tc_dims *shape, tc_type type, double start, double step);
// Whether integers from low to less than high can be drawn.
bool tc_can_draw(tc_type type, int64_t low, int64_t high);
// TC_OP_RAND, RANDN, RANDINT, RANDPERM: takes the next counter of the thread's stream.
tc_node tc_rec_rng(tc_trace *t, tc_op op, const tc_dims *shape, tc_type type, int64_t low, int64_t high);
tc_node tc_rec_unary(tc_trace *t, tc_op op, tc_node a);  // integer operands of floating rows become f32
tc_node tc_rec_polygamma(tc_trace *t, int64_t n, tc_node a);  // type as of a floating row
tc_node tc_rec_cast(tc_trace *t, tc_node a, tc_type type);  // a itself if it has the type
tc_node tc_rec_binary(tc_trace *t, tc_op op, tc_node a,
                      tc_node b);  // promotes, broadcasts (operands are recorded unexpanded); DIV of integers is f32
// a op number, promoted as PyTorch promotes Python scalars
tc_node tc_rec_num(tc_trace *t, tc_op op, tc_node a, tc_num b);
tc_node tc_rec_num_first(tc_trace *t, tc_op op, tc_num a, tc_node b);  // number op b, likewise
// A number of rank 0 that stands beside a, in the type they are promoted to; TC_ERR_ARG if an
// integer type does not hold it. alone: f32 or i64, where at is.
tc_node tc_rec_num_beside(tc_trace *t, tc_num b, tc_node a);
tc_node tc_rec_num_alone(tc_trace *t, tc_num b, bool floating, tc_node at);
tc_node tc_rec_where(tc_trace *t, tc_node cond, tc_node a, tc_node b);
tc_node tc_rec_reshape(tc_trace *t, tc_node a, const tc_dims *shape);  // one extent may be -1; a itself if equal
tc_node tc_rec_drop_axis(tc_trace *t, tc_node a, int axis);  // of one element
tc_node tc_rec_permute(tc_trace *t, tc_node a, const tc_dims *axes);
tc_node tc_rec_expand(tc_trace *t, tc_node a, const tc_dims *shape);  // new leading axes allowed; -1 keeps
// out[i] = a[start + i * step] per axis, out extents given; steps may be negative; start and the
// last index must lie within a.
tc_node tc_rec_slice(tc_trace *t, tc_node a, const int64_t *start, const int64_t *step, const tc_dims *out);
// n elements from start on along one axis, step apart, all of the others.
tc_node tc_rec_slice_axis(tc_trace *t, tc_node a, int axis, int64_t start, int64_t step, int64_t n);
tc_node tc_rec_write_slice(tc_trace *t, tc_node old, tc_node value, const int64_t *start,
                           const int64_t *step);  // value has the slice's shape and old's type
tc_node tc_rec_flip(tc_trace *t, tc_node a, uint32_t axes_mask);
// a's element start comes first; start is within the extent
tc_node tc_rec_roll(tc_trace *t, tc_node a, int64_t start, int axis);
tc_node tc_rec_pad(tc_trace *t, tc_node a, const int64_t *low, const int64_t *high, double value);
// Windows along an axis, `step` apart, of `size` elements, `dilation` apart: the axis counts
// windows, a new last axis a window's elements. Windows that tile the axis are recorded as a slice,
// a reshape and a permutation.
tc_node tc_rec_window(tc_trace *t, tc_node a, int axis, int64_t size, int64_t step, int64_t dilation);
// The other way: each element goes back to where a window of an axis of `length` read it. What
// lands on one place is added, in the order of windows.
tc_node tc_rec_unwindow(tc_trace *t, tc_node a, int axis, int64_t length, int64_t step, int64_t dilation);
tc_node tc_rec_cat(tc_trace *t, int n, const tc_node *xs, int axis);
// SUM PROD MAX MIN ARGMAX ARGMIN ANY ALL
tc_node tc_rec_fold(tc_trace *t, tc_op op, tc_node a, uint32_t axes_mask, bool keepdim);
tc_node tc_rec_scan(tc_trace *t, tc_op op, tc_node a, int axis);
// Positions (i64) along an axis in the order of the values: of all, or of the first k. The order is
// stable, and NaN is the greatest.
tc_node tc_rec_argsort(tc_trace *t, tc_node a, int axis, bool descending);
tc_node tc_rec_argtopk(tc_trace *t, tc_node a, int64_t k, int axis, bool descending);
tc_node tc_rec_argkth(tc_trace *t, tc_node a, int64_t k, int axis, bool descending);  // the last of these k alone
// sorted [n], or [.., n] with values [.., m]: where each value would go, before equals or after
// them (right).
tc_node tc_rec_searchsorted(tc_trace *t, tc_node sorted, tc_node values, bool right);
tc_node tc_rec_softmax(tc_trace *t, tc_op op, tc_node a, int axis);  // SOFTMAX, LOG_SOFTMAX
tc_node tc_rec_matmul(tc_trace *t, tc_node a, tc_node b);  // NumPy's rules
tc_node tc_rec_biased_product(tc_trace *t, tc_node a, tc_node b, tc_node bias);  // a [.., m, k] @ b [k, n] + bias [n]
// Convolution of an image with channels last: x [n, h.., c] by w [o, c / groups, r..] -> y [n, p..,
// o].
// Its transposes: CONV_INPUT of (y, w) -> x's shape; CONV_WEIGHT of (x, y) -> w's shape.
// attr: as at the head of ops.def. out: the shape of the result, which fits.
tc_node tc_rec_conv(tc_trace *t, tc_op op, tc_node a, tc_node b, int n_attr, const uint64_t *attr, const tc_dims *out);
// tc_rec_conv plus a bias of one value for each output. f16 and bf16 are rounded once, except on a
// GPU.
tc_node tc_rec_biased_conv(tc_trace *t, tc_op op, tc_node a, tc_node b, tc_node bias, int n_attr, const uint64_t *attr,
                           const tc_dims *out);
tc_node tc_rec_gather(tc_trace *t, tc_node x, int axis, tc_node index);
tc_node tc_rec_index_select(tc_trace *t, tc_node x, int axis, tc_node index);
// SCATTER, SCATTER_ADD, INDEX_ADD
tc_node tc_rec_scatter(tc_trace *t, tc_op op, tc_node x, int axis, tc_node index, tc_node src);
// Zeros in a shape to which src is added where index, of rank 1, says along axis.
tc_node tc_rec_sum_at(tc_trace *t, const tc_dims *shape, int axis, tc_node index, tc_node src);
// a + alpha * g. Of a g that tc_rec_sum_at made, of few places of many, no others of a are touched
// if a is written in place.
tc_node tc_rec_add_sum_at(tc_trace *t, tc_node a, tc_node g, double alpha);
// y, the greatest or the sum of each window over axes of a: with its gradient. attr as ops.def has
// it.
tc_node tc_rec_pool(tc_trace *t, tc_node y, tc_node a, int n_attr, const uint64_t *attr);
tc_node tc_rec_detach(tc_trace *t, tc_node a);

// The handle stands for node n from here on (n has the handle's shape and type). A parameter stays
// a leaf.
tc_status tc_rec_assign(tc_trace *t, tc_tensor handle, tc_node n);
// Assigns as tc_rec_assign does, by an ASSIGN record that is in the trace already, and among its
// param_nodes if the handle is a parameter.
tc_status tc_rec_take_assign(tc_trace *t, tc_tensor handle, tc_node assigned);
// The gradient accumulated for a parameter as a node, or TC_NODE_ERR (silent) if there is none;
// sets it; forgets it.
tc_node tc_rec_grad(tc_trace *t, tc_tensor param);
tc_status tc_rec_set_grad(tc_trace *t, tc_tensor param, tc_node grad);
void tc_rec_clear_grad(tc_trace *t, tc_tensor param);
// An op of its own: zeros of the parameter's shape and type where it lies, in memory and not
// recorded, owned by the caller.
tc_status tc_param_zeros(const char *op, tc_tensor param, tc_site site, tc_tensor *out);
// tc_eval on the library's own account: what is deferred stays deferred.
tc_status tc_compute(int n, const tc_tensor *tensors, tc_site site);
// A leaf holding a copy of dense host data, on the trace's device.
tc_node tc_rec_data(tc_trace *t, const void *data, const tc_dims *shape, tc_type type);
