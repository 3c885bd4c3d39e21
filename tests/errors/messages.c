// What is said of wrong calls: the op, the shapes, types and numbers that do not fit, and what was
// expected. Each row is a call and the words that its message begins with.
#include <math.h>
#include <tc/io.h>

#include "tests/expect.h"

#define NONE ((tc_tensor){0, 0})

// The call fails with this status and a message that begins so; the place of the call is at its
// end.
#define SAYS(call, code, begins) \
  do { \
    tc_clear_error(); \
    __typeof__(call) ignored = (call); \
    (void)ignored; \
    const tc_error *e = tc_last_error(); \
    EXPECT( \
        e->status == (code) && strncmp(e->message, begins, strlen(begins)) == 0 && strstr(e->message, __FILE__ ":"), \
        "should say \"%s\"", begins); \
    tc_clear_error(); \
  } while (0)

static tc_tensor x, ids, on, p, dead;
static const char *const gone = "the tensor was released, or its scope has ended",
                         *const null = "a null tensor was given; tc_grad gives one where no backward";

static void shapes_are_named(void) {
  SAYS(tc_reshape(x, TC_SHAPE(-1, -1)), TC_ERR_SHAPE,
       "reshape: [4, 3] cannot become [-1, -1]: -1 is given 2 times, once is possible");
  SAYS(tc_reshape(x, TC_SHAPE(5, -1)), TC_ERR_SHAPE, "reshape: [4, 3] cannot become [5, -1]: it has 12 elements");
  SAYS(tc_reshape(x, TC_SHAPE(5, 2)), TC_ERR_SHAPE, "reshape: [4, 3] cannot become [5, 2]: it has 12 elements");
  SAYS(tc_reshape(x, TC_SHAPE(-2, 6)), TC_ERR_SHAPE, "reshape: [4, 3] cannot become [-2, 6]: extent 0 is negative");
  SAYS(tc_reshape(tc_zeros(TC_SHAPE(0, 3), TC_F32), TC_SHAPE(0, -1)), TC_ERR_SHAPE,
       "reshape: [0, 3] cannot become [0, -1]: beside an extent of 0, -1 could");
  SAYS(tc_reshape(x, TC_SHAPE(1, 1, 1, 1, 1, 1, 1, 4, 3)), TC_ERR_SHAPE, "reshape: rank 9 is not within 0 and 8");
  SAYS(tc_cat(2, (tc_tensor[]){x, ids}, 0), TC_ERR_SHAPE, "cat: [4, 3] and [2], operands 0 and 1, have ranks 2 and 1");
  SAYS(tc_cat(2, (tc_tensor[]){x, tc_scalar(1)}, 0), TC_ERR_SHAPE,
       "cat: [4, 3] and [], operands 0 and 1, have ranks 2 and 0");
  SAYS(tc_cat(2, (tc_tensor[]){tc_scalar(1), x}, 0), TC_ERR_SHAPE,
       "cat: [] and [4, 3], operands 0 and 1, have ranks 0 and 2");
  SAYS(tc_cat(3, (tc_tensor[]){x, x, tc_transpose(x, 0, 1)}, 0), TC_ERR_SHAPE,
       "cat: [4, 3] and [3, 4], operands 0 and 2, differ off axis 0");
  SAYS(tc_stack(2, (tc_tensor[]){x, ids}, 0), TC_ERR_SHAPE,
       "stack: [4, 3] and [2], operands 0 and 1, differ; one shape was expected");
  SAYS(tc_stack(2, (tc_tensor[]){x, tc_transpose(x, 0, 1)}, 0), TC_ERR_SHAPE,
       "stack: [4, 3] and [3, 4], operands 0 and 1, differ");
  SAYS(tc_gather(x, 0, ids), TC_ERR_SHAPE,
       "gather: indices [2] have rank 1, x [4, 3] has rank 2; one rank was expected");
  SAYS(tc_gather(x, 1, tc_zeros(TC_SHAPE(5, 3), TC_I64)), TC_ERR_SHAPE,
       "gather: indices [5, 3] do not fit in x [4, 3] off axis 1");
  SAYS(tc_scatter(x, 0, ids, x), TC_ERR_SHAPE, "scatter: indices [2] have rank 1, x [4, 3] has rank 2");
  SAYS(tc_index_add(x, 0, ids, x), TC_ERR_SHAPE,
       "index_add: src [4, 3] does not broadcast to [2, 3], where the indices say");
  SAYS(tc_take_along_dim(x, ids, 0), TC_ERR_SHAPE,
       "take_along_dim: x [4, 3] has rank 2, index [2] has rank 1; one rank was expected");
  SAYS(tc_take_along_dim(x, tc_zeros(TC_SHAPE(2, 2), TC_I64), 0), TC_ERR_SHAPE,
       "take_along_dim: axis 1 of x is 3, of index 2");
  SAYS(tc_matmul(x, x), TC_ERR_SHAPE, "matmul: [4, 3] @ [4, 3]: k is 3 and 4");
  SAYS(tc_matmul(x, tc_scalar(1)), TC_ERR_SHAPE, "matmul: [4, 3] @ []: an operand has rank 0, at least 1 is needed");
  SAYS(tc_bmm(x, x), TC_ERR_SHAPE, "bmm: operands are [4, 3] and [4, 3]; both should have rank 3");
  SAYS(tc_bmm(tc_ones(TC_SHAPE(2, 3, 4), TC_F32), tc_ones(TC_SHAPE(3, 4, 5), TC_F32)), TC_ERR_SHAPE,
       "bmm: operands are [2, 3, 4] and [3, 4, 5]; axis 0 is 2 and 3");
  SAYS(tc_dot(x, ids), TC_ERR_SHAPE, "dot: operands are [4, 3] and [2]; both should have rank 1");
  SAYS(tc_dot(ids, tc_ones(TC_SHAPE(3), TC_F32)), TC_ERR_SHAPE, "dot: operands are [2] and [3]; axis 0 is 2 and 3");
  SAYS(tc_outer(x, ids), TC_ERR_SHAPE, "outer: operands are [4, 3] and [2]; both should have rank 1");
  SAYS(tc_linear(x, ids, NONE), TC_ERR_SHAPE, "linear: x [4, 3] does not fit weight [2] [out, in]");
  SAYS(tc_add(x, ids), TC_ERR_SHAPE, "add: shapes [4, 3] and [2] do not broadcast: axis 1 is 3 and 2");
  SAYS(tc_expand(x, TC_SHAPE(5, 3)), TC_ERR_SHAPE, "expand: [4, 3] cannot expand to [5, 3]");
  SAYS(tc_permute(x, TC_AXES(0)), TC_ERR_SHAPE, "permute: x is [4, 3], of rank 2, and 1 axes are given");
  SAYS(tc_diagonal(ids, 0), TC_ERR_SHAPE, "diagonal: x is [2]; rank 2 or more is needed");
  SAYS(tc_tril(ids, 0), TC_ERR_SHAPE, "tril: x is [2]; rank 2 or more is needed");
  SAYS(tc_max(tc_zeros(TC_SHAPE(0, 3), TC_F32), TC_AXES(0), false), TC_ERR_SHAPE,
       "max: x is [0, 3] and has no elements to choose from");
  SAYS(tc_pad(x, TC_SHAPE(1), TC_SHAPE(1), 0), TC_ERR_SHAPE,
       "pad: x is [4, 3], of rank 2; low and high have 1 and 1 entries");
  SAYS(tc_bucketize(x, x, true), TC_ERR_SHAPE, "bucketize: boundaries are [4, 3]; rank 1 is needed");
  SAYS(tc_embedding(ids, ids), TC_ERR_SHAPE, "embedding: weight is [2]; [v, d] is needed");
  SAYS(tc_assign(x, ids), TC_ERR_SHAPE, "assign: [2] cannot expand to [4, 3]");
  SAYS(tc_assign_slice(x, NULL, NULL, NULL, ids), TC_ERR_SHAPE,
       "assign_slice: a value of shape [2] does not fit a slice of shape [4, 3]");
  SAYS(tc_backward_with(tc_mul(p, p), ids, 0), TC_ERR_SHAPE, "backward: the gradient is [2], the tensor [4, 3]");
  SAYS(tc_scaled_dot_product_attention(x, tc_ones(TC_SHAPE(4, 5), TC_F32), x, NONE, (tc_attention_options){0}),
       TC_ERR_SHAPE, "scaled_dot_product_attention: q is [4, 3], k [4, 5], v [4, 3]; [.., hq, l, e], [.., hkv, s, e]");
  SAYS(tc_layer_norm(x, ids, NONE, 1e-5), TC_ERR_SHAPE, "layer_norm: weight is [2], x has 3 to go with it");
  SAYS(tc_zeros(TC_SHAPE(2, -1), TC_F32), TC_ERR_SHAPE, "zeros: shape [2, -1] has a negative extent");
  SAYS(tc_zeros(TC_SHAPE(INT64_C(1) << 60, 64), TC_F32), TC_ERR_SHAPE,
       "zeros: shape [1152921504606846976, 64] has more elements than fit in memory");
  SAYS(tc_meshgrid(1, &x, &x), TC_ERR_SHAPE, "meshgrid: operand 0 is [4, 3]; rank 1 is needed");
  float v[4];
  SAYS(tc_item_f32(x, v), TC_ERR_SHAPE, "item: the tensor is [4, 3], of 12 elements; one element was expected");
  SAYS(tc_item_f32(tc_zeros(TC_SHAPE(0), TC_F32), v), TC_ERR_SHAPE,
       "item: the tensor is [0], of 0 elements; one element was expected");
  SAYS(tc_to_host(x, v, 4), TC_ERR_ARG, "to_host: the tensor is f32 [4, 3], of 48 bytes, the buffer has 4");
}

static void axes_are_those_of_the_shape(void) {
  SAYS(tc_select(tc_ones(TC_SHAPE(3, 2), TC_F32), -1, 5), TC_ERR_INDEX,
       "select: index 5 is out of range: axis 1 has 2 elements");
  SAYS(tc_softmax(x, 2), TC_ERR_ARG, "softmax: axis 2 is out of range for rank 2");
  SAYS(tc_softmax(tc_scalar(1), 1), TC_ERR_ARG, "softmax: axis 1 is out of range for rank 0");
  SAYS(tc_stack(1, &x, 3), TC_ERR_ARG, "stack: axis 3 is out of range for rank 2");
  SAYS(tc_flatten(x, -1, 0), TC_ERR_ARG, "flatten: first axis 1 lies after last axis 0");
  SAYS(tc_topk(x, 9, -1, true), TC_ERR_ARG, "topk: k is 9; axis 1 has 3 elements");
  SAYS(tc_sum(x, TC_AXES(0, -2), false), TC_ERR_ARG, "sum: axis 0 is named twice");
}

static void numbers_come_with_what_is_possible(void) {
  SAYS(tc_arange(0, 1, 0, TC_F32), TC_ERR_ARG, "arange: step is 0; from 0 to 1 it would never arrive");
  SAYS(tc_arange(0, INFINITY, 1, TC_F32), TC_ERR_ARG, "arange: start 0, stop inf, step 1 name no finite range");
  SAYS(tc_arange(0, 300, 1, TC_U8), TC_ERR_ARG, "arange: 299 is not a number of u8, which holds 0 to 255");
  SAYS(tc_linspace(0, 1, -1, TC_F32), TC_ERR_ARG, "linspace: n is -1; at least 0 is needed");
  SAYS(tc_randperm(-1), TC_ERR_ARG, "randperm: n is -1; at least 0 is needed");
  SAYS(tc_eye(-1, 2, TC_F32), TC_ERR_SHAPE, "eye: extents are -1 and 2; at least 0 is needed");
  SAYS(tc_tile(x, TC_SHAPE(2, -1)), TC_ERR_ARG, "tile: count 1 is -1; at least 0 is needed");
  SAYS(tc_repeat_interleave(x, -1, 0), TC_ERR_ARG, "repeat_interleave: count is -1; at least 0 is needed");
  SAYS(tc_one_hot(ids, 0), TC_ERR_ARG, "one_hot: n is 0; at least 1 is needed");
  SAYS(tc_clamp(x, NAN, 1), TC_ERR_ARG, "clamp: bounds are nan and 1; NaN bounds nothing");
  SAYS(tc_rotary_angles(-1, 2, 1), TC_ERR_ARG,
       "rotary_angles: -1 positions, dim 2 and base 1; n is at least 0, dim even and at least 2, base above 0");
  SAYS(tc_interpolate(tc_ones(TC_SHAPE(1, 1, 2), TC_F32), TC_SHAPE(2),
                      (tc_interpolate_options){.mode = (tc_interpolation)7}),
       TC_ERR_ARG, "interpolate: mode is 7; TC_NEAREST or TC_LINEAR was expected");
  SAYS(tc_conv1d(tc_ones(TC_SHAPE(1, 1, 2), TC_F32), tc_ones(TC_SHAPE(1, 1, 2), TC_F32), NONE,
                 (tc_conv_options){.groups = -1}),
       TC_ERR_ARG, "conv1d: groups is -1; at least 1 is needed");
  tc_tensor part[2];
  SAYS(tc_split(x, 0, 0, 2, part), TC_ERR_ARG, "split: size is 0; at least 1 is needed");
  SAYS(tc_split(x, 3, 0, 1, part), TC_ERR_ARG, "split: 4 elements in pieces of 3 are 2 pieces, not 1");
}

// The first thing that is wrong, and not what it would lead to.
static void causes_are_told(void) {
  tc_tensor image = tc_ones(TC_SHAPE(1, 1, 2, 2), TC_F32), one = tc_ones(TC_SHAPE(1, 1, 2), TC_F32),
            wide = tc_ones(TC_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), TC_I32);
  SAYS(tc_avg_pool2d(image, TC_SHAPE(2), (tc_pool_options){.dilation = TC_SHAPE(2)}), TC_ERR_ARG,
       "avg_pool2d: dilation is 2; it is for max pooling");
  SAYS(tc_interpolate(one, TC_SHAPE(2, 2), (tc_interpolate_options){0}), TC_ERR_ARG,
       "interpolate: size has 2 numbers; 1 is needed");
  SAYS(tc_max_pool2d(image, TC_SHAPE(2, 2, 2), (tc_pool_options){0}), TC_ERR_ARG,
       "max_pool2d: size has 3 numbers; 1 or 2 are needed");
  SAYS(tc_one_hot(wide, 3), TC_ERR_SHAPE, "one_hot: the result would have rank 9, the limit is 8");
  SAYS(tc_index_select(wide, 0, tc_zeros(TC_SHAPE(1, 1), TC_I64)), TC_ERR_SHAPE,
       "index_select: the result would have rank 9, the limit is 8");
  SAYS(
      tc_batch_norm(tc_ones(TC_SHAPE(1, 3), TC_F32), NONE, NONE, NONE, NONE, (tc_batch_norm_options){.training = true}),
      TC_ERR_SHAPE, "batch_norm: x is [1, 3]; one value for each channel has no variance");
  SAYS(tc_cat(0, &x, 0), TC_ERR_ARG, "cat: 0 operands; at least one is needed");
  SAYS(tc_stack(2, NULL, 0), TC_ERR_ARG, "stack: 2 operands at a null pointer");
  SAYS(tc_einsum(NULL, 1, &x), TC_ERR_ARG, "einsum: the spec is NULL");
  SAYS(tc_einsum("ij", 0, &x), TC_ERR_ARG, "einsum: 0 operands; 1 to 64 are needed");
  SAYS(tc_eval(-1, &x), TC_ERR_ARG, "eval: -1 tensors (");
  SAYS(tc_eval(1, NULL), TC_ERR_ARG, "eval: 1 tensors at a null pointer");
}

static void types_come_with_what_is_possible(void) {
  SAYS(tc_scatter(x, 0, tc_zeros(TC_SHAPE(1, 3), TC_I64), tc_ones(TC_SHAPE(1, 3), TC_F64)), TC_ERR_DTYPE,
       "scatter: x is f32, src is f64; one type was expected, cast src first");
  SAYS(tc_rand(TC_SHAPE(2), TC_I32), TC_ERR_DTYPE, "rand: i32 cannot be drawn; a floating type was expected");
  SAYS(tc_randint(0, 2, TC_SHAPE(2), TC_F32), TC_ERR_DTYPE,
       "randint: f32 cannot be drawn; an integer type was expected");
  SAYS(tc_gather(x, 0, x), TC_ERR_DTYPE, "gather: indices are f32; an integer type was expected");
  SAYS(tc_where(x, x, x), TC_ERR_DTYPE, "where: the condition is f32; bool was expected");
  SAYS(tc_bitwise_and(x, x), TC_ERR_DTYPE, "bitwise_and: f32 is not an integer type");
  SAYS(tc_matmul(on, tc_transpose(on, 0, 1)), TC_ERR_DTYPE, "matmul: bool has no matmul; cast it first");
  SAYS(tc_pow(on, on), TC_ERR_DTYPE, "pow: bool has no pow; cast it first");
  SAYS(tc_neg(on), TC_ERR_DTYPE, "neg: bool has no neg; cast it first");
  SAYS(tc_one_hot(x, 3), TC_ERR_DTYPE, "one_hot: ids are f32, integers are needed");
}

// Each function says of a dead handle and of a null one what the others say.
static void handles_are_told_alike(void) {
  float v;
  tc_tensor out[2];
  char words[160];
  const void *data;
  void *share;
  for (int k = 0; k < 2; k++) {
    tc_tensor bad = k ? NONE : dead;
    const char *what = k ? null : gone;
#define TOLD(op, call) \
  do { \
    snprintf(words, sizeof words, "%s: %s", op, what); \
    SAYS(call, TC_ERR_HANDLE, words); \
  } while (0)
    TOLD("add", tc_add(bad, 1));
    TOLD("matmul", tc_matmul(x, bad));
    TOLD("cat", tc_cat(2, (tc_tensor[]){x, bad}, 0));
    TOLD("print", tc_print(bad));
    TOLD("format", tc_format(bad));
    TOLD("shape", tc_shape(bad));
    TOLD("dtype", tc_dtype(bad));
    TOLD("numel", tc_numel(bad));
    TOLD("device_of", tc_device_of(bad));
    TOLD("item", tc_item_f32(bad, &v));
    TOLD("to_host", tc_to_host(bad, &v, sizeof v));
    TOLD("map", tc_map(bad));
    TOLD("unmap", tc_unmap(bad));
    TOLD("map_shared", tc_map_shared(bad, &data, &share));
    TOLD("eval", tc_eval(1, &bad));
    TOLD("assign", tc_assign(bad, x));
    TOLD("assign", tc_assign(x, bad));
    TOLD("assign_slice", tc_assign_slice(bad, NULL, NULL, NULL, x));
    TOLD("backward", tc_backward(bad));
    TOLD("grads_of", tc_grads_of(tc_sum(p, TC_ALL, false), &bad, 1, out, 0));
    TOLD("param", tc_param(bad));
    TOLD("set_requires_grad", tc_set_requires_grad(bad, true));
    TOLD("zero_grad: parameter 0", tc_zero_grad_of(1, &bad));
    TOLD("nonzero", tc_nonzero(bad));
    TOLD("unique", tc_unique(bad));
    TOLD("masked_select", tc_masked_select(x, bad));
    TOLD("einsum", tc_einsum("ij->", 1, &bad));
    TOLD("split", tc_split(bad, 1, 0, 2, out));
    TOLD("save_npy", tc_save_npy("/nonexistent/x.npy", bad));
    TOLD("keep", tc_keep(bad));
    TOLD("retain", tc_retain(bad));
  }
  // What a program sees that asks for a gradient too early.
  SAYS(tc_mul(tc_grad(p), 2), TC_ERR_HANDLE,
       "mul: a null tensor was given; tc_grad gives one where no backward has reached the parameter yet");
  SAYS(tc_item_f32(tc_grad(p), &v), TC_ERR_HANDLE,
       "item: a null tensor was given; tc_grad gives one where no backward has reached the parameter yet");
}

static void gradients_are_told(void) {
  tc_tensor g;
  SAYS(tc_backward(tc_mul(p, 2)), TC_ERR_GRAD, "backward: [4, 3] is no scalar; give its gradient");
  SAYS(tc_backward(tc_sum(x, TC_ALL, false)), TC_ERR_GRAD, "backward: nothing it was made from wants a gradient");
  SAYS(tc_grads_of(tc_sum(p, TC_ALL, false), &x, 1, &g, 0), TC_ERR_GRAD, "grads_of: tensor 0 does not want a gradient");
}

int main(void) {
  x = tc_ones(TC_SHAPE(4, 3), TC_F32), ids = tc_zeros(TC_SHAPE(2), TC_I64), on = tc_ones(TC_SHAPE(4, 3), TC_BOOL);
  p = tc_param(x), dead = tc_param(x);
  tc_release(dead);
  shapes_are_named();
  axes_are_those_of_the_shape();
  numbers_come_with_what_is_possible();
  causes_are_told();
  types_come_with_what_is_possible();
  handles_are_told_alike();
  gradients_are_told();
  tc_release(p);
  return expect_done("errors-messages");
}
