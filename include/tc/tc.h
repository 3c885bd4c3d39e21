// The public interface of tc, a lazy-tensor device runtime.
//
// Ops are recorded, not run; a sync point (tc_item_*, tc_to_host, tc_eval, tc_sync, tc_map, tc_print, tc_save_npy, saving in io.h, ops whose shape
// depends on values) runs what was recorded as a few fused kernels. Ops return handles, so expressions nest; a wrong call returns a poisoned handle
// and tc_last_error() says why; status comes back at sync points. A tensor is a value: a slice never changes because its source is assigned later.
//
// Threads: thread-compatible. Each thread records its own trace; handles may be passed between threads.
#ifndef TC_TC_H
#define TC_TC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TC_VERSION_MAJOR 0
#define TC_VERSION_MINOR 1
#define TC_VERSION_PATCH 0

#if defined(TC_BUILD)
#define TC_API __attribute__((visibility("default")))
#else
#define TC_API
#endif
#define TC_MUST_USE __attribute__((warn_unused_result))

#define TC_MAX_RANK 8

typedef enum tc_type {
#define TC_TYPE(NAME, name, bytes, kind, npy) TC_##NAME,
#include <tc/dtypes.def>
#undef TC_TYPE
  TC_N_TYPES
} tc_type;

typedef enum tc_status {
#define TC_STATUS(NAME, text) TC_##NAME,
#include <tc/status.def>
#undef TC_STATUS
  TC_N_STATUSES
} tc_status;

// A value on a device. Copying a handle is free; it names a slot of the thread that made it. {0, 0} is no tensor.
typedef struct tc_tensor {
  uint32_t slot, gen;
} tc_tensor;

// Extents, axes or strides: rank numbers. rank -1 in an axes argument means all axes.
typedef struct tc_dims {
  int32_t rank;
  int64_t dim[TC_MAX_RANK];
} tc_dims;

// In a field of options 0 means left out: the field's default holds. Where a true zero is meant it is written TC_ZERO, which is the
// smallest number above it, and taken for 0 there: (tc_adam_options){.beta1 = TC_ZERO}. Arguments of functions are what they say, 0 too.
#define TC_ZERO 4.94065645841246544177e-324

// A scalar operand: written as a C number, promoted as PyTorch promotes Python numbers.
typedef struct tc_num {
  double f;
  int64_t i;
  bool is_int;
} tc_num;

// Where a call was made: the address of a constant "file:line", or a code address with the top bit set.
typedef uint64_t tc_site;

#define TC_STR2(x) #x
#define TC_STR(x) TC_STR2(x)
// Functions that record, can fail or sync have a second form, name_at(.., tc_site site), in sites.h (io.h's and nn.h's: io_sites.h, nn_sites.h).
#define TC_HERE ((tc_site)(uintptr_t)(__FILE__ ":" TC_STR(__LINE__)))

#ifdef __cplusplus
#define TC_DIMS_(...) tc_dims_list_(__VA_ARGS__)
#else
#define TC_DIMS_(...) tc_dims_of(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})
#endif
#define TC_SHAPE(...) TC_DIMS_(__VA_ARGS__)
#define TC_AXES(...) TC_DIMS_(__VA_ARGS__)
#define TC_SCALAR tc_dims_of(0, NULL)
#define TC_ALL tc_dims_all()

// n extents from dim, copied; more than TC_MAX_RANK gives a rank that every op refuses.
static inline tc_dims tc_dims_of(size_t n, const int64_t *dim) {
  tc_dims d;
  d.rank = (int32_t)n;
  for (size_t i = 0; i < TC_MAX_RANK; i++) d.dim[i] = i < n ? dim[i] : 0;
  return d;
}
#ifdef __cplusplus
extern "C++" {
template <typename... N>
inline tc_dims tc_dims_list_(N... n) {
  const int64_t dim[] = {static_cast<int64_t>(n)...};
  return tc_dims_of(sizeof...(n), dim);
}
}
#endif
static inline tc_dims tc_dims_all(void) {
  tc_dims d = tc_dims_of(0, NULL);
  d.rank = -1;
  return d;
}
static inline tc_num tc_num_float(double v) {
  tc_num n;
  n.f = v, n.i = 0, n.is_int = false;
  return n;
}
static inline tc_num tc_num_int(int64_t v) {
  tc_num n;
  n.f = (double)v, n.i = v, n.is_int = true;
  return n;
}

// ---- Library ----

// Version as "major.minor.patch". Thread-safe. (The name without _text is gperftools' tcmalloc's.)
TC_API const char *tc_version_text(void);
// Text of a status and name of a type ("f32"). Thread-safe; never NULL.
TC_API const char *tc_status_text(tc_status status);
TC_API const char *tc_type_name(tc_type type);
TC_API size_t tc_type_bytes(tc_type type);

// What the latest call of this thread that failed has failed with: its text belongs to the status, poisoned handle or NULL which that call returned. Of a
// call that was given a poisoned handle it is what the handle was poisoned with, wherever that was; a sync point that tells of an assign, a backward or an
// optimizer's step that failed before gives that one's.
typedef struct tc_error {
  tc_status status;
  const char *message;  // one sentence: op, shapes and types, what was expected, and where it was called
  const char *op;  // name of the op or function
  const char *site;  // "file:line" of the caller, or a code address
} tc_error;

// Status TC_OK and an empty message if nothing has failed since the last tc_clear_error. Borrowed until the next error or clear. Of what was poisoned more
// than some 60 errors of the process ago the message is the status's text alone.
TC_API const tc_error *tc_last_error(void);
// Forgets it, as a program does that has dealt with an error and goes on.
// Also settles what tc_assign, tc_assign_slice, tc_backward and tc_optimizer_step failed with: else the thread's next sync point fails with it, too, once.
TC_API void tc_clear_error(void);

// Threads a run may use: 0 returns to min(affinity mask, cgroup quota, physical cores). Results do not depend on it.
TC_API tc_status tc_set_num_threads(int n);
TC_API int tc_num_threads(void);

typedef struct tc_memory {
  size_t live_bytes, peak_bytes, pooled_bytes, cap_bytes;  // tensors and arenas in use, their maximum, kept for reuse, cap (0: none)
  uint64_t n_allocs;  // calls to the system allocator since start
  size_t prepared_bytes;  // of the live: forms of parameters kept for later runs
  size_t gpu_live_bytes, gpu_peak_bytes, gpu_pooled_bytes;  // the same of GPUs' memory, which the cap does not count
} tc_memory;
TC_API tc_memory tc_memory_stats(void);
// Refuses allocations beyond bytes with TC_ERR_MEMORY at the sync that needs them; 0 lifts the cap.
TC_API tc_status tc_set_memory_cap(size_t bytes);
// Work recorded from now on holds at most so many bytes of temporaries in a run, where that can be: values are made again where they are read, which takes
// time and changes no bit. Where it cannot be, the run holds as little as was found, and TC_LOG=memory says so. 0: no budget. TC_MEMORY_BUDGET says the first.
// Results, parameters and optimizers' state are not counted. Thread-safe.
TC_API tc_status tc_set_memory_budget(size_t bytes);
// Gives pooled memory back to the system, and what is prepared from parameters and can be made again.
TC_API void tc_trim(void);
// Waits for running work, drops caches, pools and threads. Handles die. The library may be used again afterwards.
TC_API void tc_shutdown(void);

// The caller's own allocator for tensor memory (64-byte aligned results) and log sink. Set before the first tensor is made.
typedef struct tc_allocator {
  void *(*alloc)(size_t bytes, void *arg);
  void (*free)(void *ptr, size_t bytes, void *arg);
  void *arg;
} tc_allocator;
TC_API tc_status tc_set_allocator(tc_allocator allocator);
TC_API void tc_set_log(void (*sink)(const char *line, void *arg), void *arg);

typedef struct tc_cache_info {
  uint64_t plan_hits, plan_misses, kernel_hits, kernel_misses;
  uint64_t compiles;  // of kernel_misses, those that were not found on disk (TC_CACHE_DIR) either
  size_t n_plans, n_kernels;
  uint64_t n_tuned, cuts_timed;  // TC_AUTOTUNE=1: products that were timed, in so many cuts in all
  size_t n_choices;  // products whose cut is known, from this process or from TC_CACHE_DIR
} tc_cache_info;
TC_API tc_cache_info tc_cache_stats(void);
// Forgets plans and kernels of this process; files stay.
TC_API void tc_cache_clear(void);

// One sync point: what ran, where from, and where its time went. TC_PROFILE=1 prints their sums by site at exit.
typedef struct tc_sync_point {
  tc_site site;  // see tc_site_text
  const char *cause;  // "item", "to_host", "eval", ...
  const char *tier;  // how its kernels run: "llvm"; "interp" if one is interpreted, or is yet; "ref" reference kernels alone; "none" nothing ran
  uint64_t hash;  // of the recorded graph: equal work, on as many threads, has equal hashes within a process
  uint32_t n_nodes, n_left;  // recorded; after simplification
  uint32_t n_kernels,
      n_compiled;  // launched, tensors that go through the same code at once counting once; made for it now, compiled or to be interpreted first
  uint32_t n_wrong;  // results that TC_VERIFY=1 found wrong
  bool hit;  // its plan was known
  bool replayed;  // on a GPU: its kernels were one launch of a graph
  const char *gpu_note;  // on a GPU, static: why they were not, why the program had to wait for them, or why the graph copies; NULL: none of these
  tc_status status;
  uint64_t bytes;  // moved by kernels, as planned
  uint64_t copied_bytes;  // on a GPU: of operands and results of vendors' libraries, by the graph, since they were elsewhere in this run
  // Of the memory that it ran in, a GPU's or the host's, with all else that was in use there when it began: what it was planned to come to, and the most that
  // was measured while it ran. What is measured has other threads' tensors, sizes rounded up, and copies of memory that was borrowed as writable.
  uint64_t planned_bytes, peak_bytes;
  uint64_t before_ns;  // since this thread's last sync point: recording and the caller's own work
  // allocate: getting memory that no pool had; publish: handing results over, and giving back what the run used
  uint64_t lookup_ns, compile_ns, allocate_ns, run_ns, publish_ns;
  uint64_t total_ns;  // of the sync: the five together
} tc_sync_point;
// Copies the latest sync points of the process, at most n, the newest last, and gives how many. The library keeps 256. Thread-safe.
TC_API int tc_sync_points(int n, tc_sync_point *out);
// Writes a site as "file:line", or as "symbol+0x..(module)" where only a code address is known. Never fails.
TC_API void tc_site_text(tc_site site, char *out, size_t bytes);

// ---- Devices: "tc" (the best there is), "tc:cpu", "tc:ref", "tc:null", "tc:cuda[:n]", "tc:hip[:n]" ----

// The device factory calls of this thread use. TC_DEVICE in the environment is the default of every thread.
TC_API tc_status tc_set_default_device(const char *device) TC_MUST_USE;
TC_API const char *tc_get_default_device(void);
TC_API tc_status tc_push_device(const char *device) TC_MUST_USE;
TC_API tc_status tc_pop_device(void);

// ---- Lifetime ----

// Handles made after begin belong to the scope and die at its end; tc_keep moves one to the parent scope. Scopes are per thread and nest, 256 deep: beyond
// that a begin fails, and so does the next sync point, with the place of the oldest open scope, for an end is missing. Where the runs of one line leave more
// and more temporaries alive, since no scope ends between them, that is told once in the log.
typedef struct tc_scope {
  uint32_t depth, mark;
} tc_scope;
TC_API tc_scope tc_scope_begin(void);
TC_API void tc_scope_end(tc_scope scope);
TC_API tc_tensor tc_keep(tc_tensor t);
// For bindings: a reference of one's own, independent of scopes.
TC_API tc_tensor tc_retain(tc_tensor t);
TC_API void tc_release(tc_tensor t);
TC_API bool tc_is_valid(tc_tensor t);
// Whether the handle is alive and of this thread, which alone may assign to it.
TC_API bool tc_is_assignable(tc_tensor t);

// ---- What is known without running ----
TC_API tc_dims tc_shape(tc_tensor t);
TC_API tc_type tc_dtype(tc_tensor t);
TC_API int64_t tc_numel(tc_tensor t);
TC_API const char *tc_device_of(tc_tensor t);

// ---- Into tensors ----

// In C the macros of sites.h tell the library what a pointer to elements points to, here and in tc_to_host: a double * for a tensor of f32 is TC_ERR_DTYPE.
// Unsigned integers stand for whole numbers of as many bits, those of 16 bits for halves, too. What is void *, char * or unsigned char * is raw
// bytes, and not looked at. From C++, bindings and plain calls nothing is.
typedef enum tc_ctype {
#define TC_CTYPE(NAME, c, types) TC_C_##NAME,
#include <tc/ctypes.def>
#undef TC_CTYPE
  TC_C_ANY  // not looked at
} tc_ctype;

// A copy of host data. strides in elements (NULL: dense row-major; negative and zero allowed).
TC_API tc_tensor tc_from_host(const void *data, tc_dims shape, tc_type type);
TC_API tc_tensor tc_from_host_strided(const void *data, tc_dims shape, const int64_t *strides, tc_type type);
// Borrows dense host memory, aligned as its type, until the last run that reads it is done, when release(arg) is called (NULL: never; not called
// where borrowing fails).
// What the memory holds when a run reads it is what counts: nothing is read before a sync point, so a write of the caller's between recording and the run
// shows in what was recorded before it. Memory that is to be written meanwhile is for tc_from_host, which copies at once.
// Read-only: an assign goes to a new buffer. Writable: an assign lands in data by the next sync; views of such a tensor, and what other threads use of it,
// are copies.
// On a GPU: what is read-only is copied there at once, and released; what is writable is copied at each run that reads it.
// Constant: read-only, and nobody writes there while it is borrowed; then forms that runs make of it are kept, as those of other parameters are (TC_PREPARE).
typedef enum tc_borrow_flags { TC_READ_ONLY = 0, TC_WRITABLE = 1, TC_CONSTANT = 2 } tc_borrow_flags;
TC_API tc_tensor tc_borrow(void *data, tc_dims shape, tc_type type, int flags, void (*release)(void *arg), void *arg);
// The three with the pointer's type, which is what the macros call.
TC_API tc_tensor tc_from_host_as_at(tc_ctype c, const void *data, tc_dims shape, tc_type type, tc_site site);
TC_API tc_tensor tc_from_host_strided_as_at(tc_ctype c, const void *data, tc_dims shape, const int64_t *strides, tc_type type, tc_site site);
TC_API tc_tensor tc_borrow_as_at(tc_ctype c, void *data, tc_dims shape, tc_type type, int flags, void (*release)(void *arg), void *arg, tc_site site);

// ---- Sync points: these run what is pending ----
// The one element, converted to the type asked for: in C and C++ tc_item(t, &v) asks for v's, which is bool, int32_t, int64_t, float or double.
TC_API tc_status tc_item_at(tc_tensor t, tc_type as, void *out, tc_site site) TC_MUST_USE;
TC_API tc_status tc_item_f32(tc_tensor t, float *out) TC_MUST_USE;
TC_API tc_status tc_item_f64(tc_tensor t, double *out) TC_MUST_USE;
TC_API tc_status tc_item_i32(tc_tensor t, int32_t *out) TC_MUST_USE;
TC_API tc_status tc_item_i64(tc_tensor t, int64_t *out) TC_MUST_USE;
TC_API tc_status tc_item_bool(tc_tensor t, bool *out) TC_MUST_USE;
// Copies the value, dense row-major, into out, which holds exactly bytes = tc_numel * tc_type_bytes.
TC_API tc_status tc_to_host(tc_tensor t, void *out, size_t bytes) TC_MUST_USE;
// Begins to copy, as tc_to_host would, and on a GPU does not wait for it: out has the value once tc_to_host_wait(out), tc_sync of the device or
// tc_sync(NULL) has returned TC_OK, and must stay where it is until then. What becomes of t meanwhile does not matter. Elsewhere, and where the value is larger
// than 32 MiB, it is there at once. A copy that nobody waited for before tc_shutdown is given up.
TC_API tc_status tc_to_host_async(tc_tensor t, void *out, size_t bytes) TC_MUST_USE;
// The two with the pointer's type, as above.
TC_API tc_status tc_to_host_as_at(tc_ctype c, tc_tensor t, void *out, size_t bytes, tc_site site) TC_MUST_USE;
TC_API tc_status tc_to_host_async_as_at(tc_ctype c, tc_tensor t, void *out, size_t bytes, tc_site site) TC_MUST_USE;
// Waits for copies that were begun to out, by any thread; NULL: for all. TC_ERR_DEVICE if the device is lost: then they will not come. Thread-safe.
TC_API tc_status tc_to_host_wait(const void *out) TC_MUST_USE;
// Runs everything pending on this thread and stores the n tensors.
TC_API tc_status tc_eval(int n, const tc_tensor *tensors) TC_MUST_USE;
// Runs everything pending on this thread, and waits for the device; NULL: for every device.
TC_API tc_status tc_sync(const char *device) TC_MUST_USE;
// A read-only view of the value, dense row-major, valid until tc_unmap; NULL on error.
TC_API const void *tc_map(tc_tensor t);
// Ends the latest view that this thread has of t; where it has none, the latest of any thread.
TC_API tc_status tc_unmap(tc_tensor t);
// The same view, lent by *out_share until tc_unmap_shared, whatever becomes of t: for tensors handed to other libraries. tc_unmap_shared may be
// called by any thread, in release callbacks too; NULL is fine. On failure both are NULL.
// Until then others may write there, and no forms are kept of it (TC_PREPARE).
TC_API tc_status tc_map_shared(tc_tensor t, const void **out_data, void **out_share) TC_MUST_USE;
TC_API void tc_unmap_shared(void *share);
// Prints as NumPy does, to stdout.
TC_API tc_status tc_print(tc_tensor t);
// The same text as a string the caller frees with free(); NULL on error.
TC_API char *tc_format(tc_tensor t);
// Replaces the file whole or not at all, through symbolic links; a pipe or device is written in place (a pipe nobody reads raises SIGPIPE, as write
// does). TC_ERR_IO with the reason where that fails, on a full disk too.
TC_API tc_status tc_save_npy(const char *path, tc_tensor t) TC_MUST_USE;
// A copy of the array in a file, a pipe or /dev/stdin, of which no more than the array is read; either byte order.
// uint16 becomes i32, uint32 and uint64 i64. Poison with TC_ERR_IO and the reason, with TC_ERR_DTYPE or TC_ERR_SHAPE if tc has no such type, number or rank.
TC_API tc_tensor tc_load_npy(const char *path);

// ---- Assignment: changes what the handle stands for; values taken from it before do not change ----
TC_API tc_status tc_assign(tc_tensor t, tc_tensor value);
// t[start : start + extent(value) * step : step] = value, one start and step per axis (step NULL: ones). value broadcasts to extents.
TC_API tc_status tc_assign_slice(tc_tensor t, const int64_t *start, const int64_t *stop, const int64_t *step, tc_tensor value);

// ---- Gradients ----
typedef enum tc_grad_flags { TC_RETAIN = 1, TC_CREATE_GRAPH = 2 } tc_grad_flags;
// A leaf that wants a gradient: the value of t under a new handle, released from its scope (it lives until tc_release).
TC_API tc_tensor tc_param(tc_tensor t);
TC_API tc_status tc_set_requires_grad(tc_tensor t, bool on);
TC_API bool tc_requires_grad(tc_tensor t);
// Adds dy/dp to tc_grad(p) for every leaf p that wants one. y is a scalar; backward_with takes the gradient of y instead, on y's device.
// Recorded; a sync point where a gradient goes back over a tc_to from one memory to another. If that fails no gradient has changed, but history that was walked
// by then is freed, unless it is retained.
TC_API tc_status tc_backward(tc_tensor y);
TC_API tc_status tc_backward_with(tc_tensor y, tc_tensor grad, int flags);
// dy/dx for n tensors into out; differentiable again with TC_CREATE_GRAPH.
TC_API tc_status tc_grads_of(tc_tensor y, const tc_tensor *xs, int n, tc_tensor *out, int flags);
// The accumulated gradient, or {0, 0} if there is none.
TC_API tc_tensor tc_grad(tc_tensor p);
TC_API tc_status tc_zero_grad_of(int n, const tc_tensor *params);
TC_API void tc_no_grad_begin(void);
TC_API void tc_no_grad_end(void);

// ---- Random numbers: Philox4x32-10, one stream per recording thread ----
// Starts this thread's sequence over: one seed gives the same draws in any thread. Threads that never call it have streams of their own, numbered by
// when they first used the library.
TC_API void tc_seed(uint64_t seed);
// Where this thread's sequence is: setting it goes on from there, in any thread. TC_ERR_ARG if it is no state that was ever given.
typedef struct tc_rng_state {
  uint64_t seed, counter, stream;
} tc_rng_state;
TC_API tc_rng_state tc_get_rng_state(void);
TC_API tc_status tc_set_rng_state(tc_rng_state state);

// ---- Optimizers: recorded as ordinary ops; the learning rate is an argument, so schedules never recompile ----
// NULL with TC_ERR_ARG where a parameter is given twice or a number makes no sense, TC_ERR_DTYPE unless parameters are floating. Parameters may be on several
// devices; a step does one device's after the other's. Making one is a sync point: the parameters are evaluated, so that the first step is as all others are.
// Fields left out, or 0, are PyTorch's defaults, which stand beside them; TC_ZERO is a true zero.
#define TC_ADAM_DEFAULTS .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8
#define TC_RMSPROP_DEFAULTS .alpha = 0.99, .eps = 1e-8
typedef struct tc_optimizer tc_optimizer;
typedef struct tc_sgd_options {
  double lr;  // 1e-3
  double momentum, dampening, weight_decay;  // 0
  bool nesterov;
} tc_sgd_options;
typedef struct tc_adam_options {
  double lr, beta1, beta2, eps;  // 1e-3, 0.9, 0.999, 1e-8
  double weight_decay;  // 0; of AdamW 0.01
  bool decoupled;  // AdamW
} tc_adam_options;
typedef struct tc_rmsprop_options {
  double lr, alpha, eps;  // 0.01, 0.99, 1e-8
  double weight_decay, momentum;  // 0
} tc_rmsprop_options;
TC_API tc_optimizer *tc_sgd(const tc_tensor *params, int n, tc_sgd_options options);
TC_API tc_optimizer *tc_adam(const tc_tensor *params, int n, tc_adam_options options);
TC_API tc_optimizer *tc_adamw(const tc_tensor *params, int n, tc_adam_options options);
TC_API tc_optimizer *tc_rmsprop(const tc_tensor *params, int n, tc_rmsprop_options options);
TC_API void tc_optimizer_destroy(tc_optimizer *opt);
// Groups of parameters with numbers of their own, as PyTorch's param_groups. What an optimizer is made over is its group 0. This adds n parameters, which
// it does not have yet, as its next group, and is a sync point as making one is. On failure nothing has changed.
//   tc_optimizer *opt = tc_adamw(matrices, n, (tc_adam_options){.lr = 1e-3, .weight_decay = 0.1});
//   tc_status st = tc_optimizer_add_group(opt, biases, m, (tc_group_options){.weight_decay = TC_ZERO});
typedef struct tc_group_options {
  double lr;  // left out: that of group 0, whatever it is at a step
  double weight_decay;  // left out: that of group 0
} tc_group_options;
TC_API tc_status tc_optimizer_add_group(tc_optimizer *opt, const tc_tensor *params, int n, tc_group_options options) TC_MUST_USE;
// How many groups there are, and in which one the i-th parameter is (-1 past the end).
TC_API int tc_optimizer_n_groups(const tc_optimizer *opt);
TC_API int tc_optimizer_group(const tc_optimizer *opt, int i);
// "sgd", "adam", "adamw" or "rmsprop"; "" for NULL. Its i-th parameter, which stays the optimizer's; the null handle past the end.
TC_API const char *tc_optimizer_kind(const tc_optimizer *opt);
TC_API tc_tensor tc_optimizer_param(const tc_optimizer *opt, int i);
TC_API tc_status tc_optimizer_step(tc_optimizer *opt);
TC_API tc_status tc_zero_grad(tc_optimizer *opt);
// The learning rate of group 0, and of the groups that have none of their own; of one group, which has its own from then on.
TC_API tc_status tc_set_lr(tc_optimizer *opt, double lr);
TC_API double tc_get_lr(const tc_optimizer *opt);
TC_API tc_status tc_set_group_lr(tc_optimizer *opt, int group, double lr);
TC_API double tc_get_group_lr(const tc_optimizer *opt, int group);
// State as a named list: name of entry i ("exp_avg.3"; NULL past the end), its tensor, and setting it.
TC_API const char *tc_optimizer_state_name(const tc_optimizer *opt, int i);
TC_API tc_tensor tc_optimizer_state(const tc_optimizer *opt, int i);
TC_API tc_status tc_optimizer_set_state(tc_optimizer *opt, int i, tc_tensor value);
// Scales the gradients of params so that their global 2-norm is at most max_norm; returns the norm before. Of gradients in several memories it is a sync point,
// and the norm is where the first one is.
TC_API tc_tensor tc_clip_grad_norm(const tc_tensor *params, int n, double max_norm);

// ---- Options of ops: fields left out, or 0, are PyTorch's defaults; TC_ZERO is a true zero ----
// A list holds a number for each spatial axis, or one for all: .stride = TC_SHAPE(2), .padding = TC_SHAPE(1, 2).
typedef struct tc_conv_options {
  tc_dims stride, padding, dilation;  // 1, 0 and 1 if left out
  tc_dims output_padding;  // of transposed convolution: more elements at the end
  int64_t groups;  // 1 if left out
} tc_conv_options;
typedef struct tc_pool_options {
  tc_dims stride, padding, dilation;  // the window's size, 0 and 1 if left out; dilation is for max pooling. No window may be in the padding alone
  bool exclude_padding;  // an average is over what lies in the image: count_include_pad=False
  bool ceil_mode;  // windows that begin in the image or before it may end behind it
  int64_t divisor_override;  // what an average divides by; 0: the number of elements
} tc_pool_options;
#define TC_BATCH_NORM_DEFAULTS .momentum = 0.1, .eps = 1e-5
typedef struct tc_batch_norm_options {
  bool training;
  double momentum, eps;  // 0.1, 1e-5
} tc_batch_norm_options;
typedef enum tc_interpolation { TC_NEAREST = 0, TC_LINEAR = 1 } tc_interpolation;  // linear over one, two or three axes
typedef struct tc_interpolate_options {
  tc_interpolation mode;
  bool align_corners;  // the first and last elements stay where they are
} tc_interpolate_options;
typedef struct tc_attention_options {
  bool causal;  // query i sees keys 0 to i; with key_length, the last query sees all of them: keys 0 to key_length - l + i
  double scale;  // of q k^T; 1 / sqrt(e) if left out
  int64_t key_length;  // keys from here on are neither seen nor read; 0: all count. Changing it makes no new plan
  double dropout;  // probability, applied to the weights
} tc_attention_options;

typedef struct tc_rotary_options {
  bool interleaved;  // pairs are neighbours (GPT-J), not elements of the two halves (LLaMA)
  int64_t offset;  // position of the first row; changing it makes no new plan
} tc_rotary_options;

// ---- Ops: every row of api.def, and the same with a call site ----
#define TC_P(...) __VA_ARGS__
#define TC_FN(name, params, args) \
  TC_API tc_tensor name(TC_P params); \
  TC_API tc_tensor name##_at(TC_P params, tc_site site);
#include <tc/api.def>
#undef TC_FN

// Data-dependent shapes: these sync. Results are new tensors.
TC_API tc_tensor tc_nonzero(tc_tensor x);  // [n, rank] i64
TC_API tc_tensor tc_masked_select(tc_tensor x, tc_tensor mask);  // [n]
TC_API tc_tensor tc_unique(tc_tensor x);  // sorted, [n]
TC_API tc_status tc_allclose(tc_tensor a, tc_tensor b, double rtol, double atol, bool *out) TC_MUST_USE;
// Several results: pieces of size along axis (the last may be smaller) into out[0..n); grids of rank-1 tensors, "ij" order.
TC_API tc_status tc_split(tc_tensor x, int64_t size, int axis, int n, tc_tensor *out);
TC_API tc_status tc_meshgrid(int n, const tc_tensor *xs, tc_tensor *out);
TC_API tc_tensor tc_einsum(const char *spec, int n, const tc_tensor *operands);

#ifdef __cplusplus
}
#endif

#include <tc/sites.h>

#endif
