// The public interface of tc, a lazy-tensor device runtime.
//
// Ops are recorded, not run. A sync point runs what is recorded, as a few fused kernels.
// Sync points: tc_item_*, tc_to_host, tc_eval, tc_sync, tc_map, tc_print, tc_save_npy, the saving
// functions of io.h, and ops whose result's shape depends on values.
// Ops return handles, so calls nest. A wrong call returns a poisoned handle, and tc_last_error()
// says why. Sync points return a status.
// A tensor is a value: a slice does not change when its source is assigned later.
// Threads: thread-compatible. Each thread records its own trace; handles may be passed between
// threads.
#ifndef TC_TC_H
#define TC_TC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// The version of these headers; the library's own is tc_version_text().
#define TC_VERSION_MAJOR 0
#define TC_VERSION_MINOR 1
#define TC_VERSION_PATCH 0

#if defined(TC_BUILD)
#define TC_API __attribute__((visibility("default")))
#else
#define TC_API
#endif
#define TC_MUST_USE __attribute__((warn_unused_result))

// The most axes that a tensor has.
#define TC_MAX_RANK 8
// The most columns of tc_linear_int8's weight: sums of so many products, of 127 times 128, fit i32.
#define TC_MAX_INT8_COLUMNS 131072

// Element types, from dtypes.def. Two types promote by kind, then by width: BOOL < INT < FLOAT.
typedef enum tc_type {
#define TC_TYPE(NAME, name, bytes, kind, npy) TC_##NAME,
#include <tc/dtypes.def>
#undef TC_TYPE
  TC_N_TYPES
} tc_type;

// How a call ended, from status.def. TC_OK is 0; every other value is an error. tc_status_text
// gives the text of a status, tc_last_error what happened.
typedef enum tc_status {
#define TC_STATUS(NAME, text) TC_##NAME,
#include <tc/status.def>
#undef TC_STATUS
  TC_N_STATUSES
} tc_status;

// A value on a device. Copying a handle is free; it names a slot of the thread that made it. {0, 0}
// is no tensor.
typedef struct tc_tensor {
  uint32_t slot, gen;  // the library's own; only {0, 0}, no tensor, is the caller's to write
} tc_tensor;

// Extents, axes or strides: rank numbers. rank -1 in an axes argument means all axes.
typedef struct tc_dims {
  int32_t rank;  // how many of dim count; -1: all axes
  int64_t dim[TC_MAX_RANK];  // the numbers; those from index rank on are ignored
} tc_dims;

// In a field of an options struct 0 means left out: the field's default holds.
// TC_ZERO, the smallest positive number, stands for a true zero: (tc_adam_options){.beta1 =
// TC_ZERO}.
// Arguments of functions mean what they say, 0 included.
#define TC_ZERO 4.94065645841246544177e-324

// A scalar operand: written as a C number, promoted as PyTorch promotes Python numbers.
typedef struct tc_num {
  double f;  // the number, whatever it is
  int64_t i;  // the number if is_int is true
  bool is_int;  // true: written as an integer, so it makes no integer tensor floating
} tc_num;

// Where a call was made: the address of a constant "file:line", or a code address with the top bit
// set.
typedef uint64_t tc_site;

#define TC_STR2(x) #x
#define TC_STR(x) TC_STR2(x)
// Functions that record, can fail or sync have a second form, name_at(.., tc_site site), in sites.h
// (io.h's: io_sites.h, and so on).

#ifdef __cplusplus
#define TC_DIMS_(...) tc_dims_list_(__VA_ARGS__)
#else
#define TC_DIMS_(...) \
  tc_dims_of(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})
#endif
// Lists of 1 to TC_MAX_RANK numbers: TC_SHAPE(2, 3), TC_AXES(0, -1). TC_SCALAR is the shape of a
// scalar, TC_ALL every axis.
#define TC_SHAPE(...) TC_DIMS_(__VA_ARGS__)
#define TC_AXES(...) TC_DIMS_(__VA_ARGS__)
#define TC_SCALAR tc_dims_of(0, NULL)
#define TC_ALL tc_dims_all()

// n extents from dim, copied. More than TC_MAX_RANK give a rank that every op refuses.
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
// The value of TC_ALL.
static inline tc_dims tc_dims_all(void) {
  tc_dims d = tc_dims_of(0, NULL);
  d.rank = -1;
  return d;
}
// A number for the _num forms. For C++ and bindings, which do without the macros of sites.h.
static inline tc_num tc_num_float(double v) {
  tc_num n;
  n.f = v, n.i = 0, n.is_int = false;
  return n;
}
// The same of an integer.
static inline tc_num tc_num_int(int64_t v) {
  tc_num n;
  n.f = (double)v, n.i = v, n.is_int = true;
  return n;
}

// ---- Library ----

// Version as "major.minor.patch". Thread-safe. (The name without _text is gperftools' tcmalloc's.)
TC_API const char *tc_version_text(void);
// Text of a status, as "shapes do not fit". Thread-safe; never NULL.
TC_API const char *tc_status_text(tc_status status);
// Name of a type, as "f32". Thread-safe; never NULL.
TC_API const char *tc_type_name(tc_type type);
// Bytes of an element; 0 for what is no type. Thread-safe.
TC_API size_t tc_type_bytes(tc_type type);
// The type of an op of two tensors of these types (torch.promote_types). Thread-safe.
TC_API tc_type tc_promote_types(tc_type a, tc_type b);

// The error of the latest call of this thread that failed. Its text describes the status, poisoned
// handle or NULL which that call returned.
// If the call was given a poisoned handle, this is the error the handle was poisoned with, wherever
// that was. If a sync point reports an earlier assign, backward or optimizer's step that failed,
// this is that call's error.
typedef struct tc_error {
  tc_status status;  // TC_OK if nothing went wrong
  const char *message;  // one sentence: op, shapes and types, what was expected, and where it was called
  const char *op;  // name of the op or function
  const char *site;  // "file:line" of the caller, or a code address
} tc_error;

// Status TC_OK and an empty message if nothing has failed since the last tc_clear_error. Borrowed
// until the next error or clear.
// The process keeps the messages of its last 60 or so poisoned results. For an older one the
// message is the status's text alone.
TC_API const tc_error *tc_last_error(void);
// Forgets the error, for a program that has dealt with it and goes on.
// Also drops the deferred errors of tc_assign, tc_assign_slice, tc_backward and tc_optimizer_step.
// Without it the thread's next sync point fails with them once.
TC_API void tc_clear_error(void);

// Makes tc a guest in somebody else's process, for libraries that use it inside. A guest writes no
// warnings to stderr, pins no thread and starts no thread that compiles or watches. It keeps no
// files unless TC_CACHE_DIR says where. TC_EMBED=1 does the same. Errors are returned as ever; a
// sink of tc_set_log still gets all lines.
// After tc_embed the shared library stays loaded, and frees nothing in exit(): other threads may
// still call it meanwhile.
// TC_ERR_STATE after another call has read the environment: call it first. Thread-safe.
TC_API tc_status tc_embed(void);
// Threads a run may use: 0 returns to min(affinity mask, cgroup quota, physical cores). Results do
// not depend on it.
// TC_ERR_ARG if n is negative, TC_ERR_STATE inside another call of the thread.
TC_API tc_status tc_set_num_threads(int n);
// As many as a run would use now.
TC_API int tc_num_threads(void);

// The memory of tensors, of this process.
typedef struct tc_memory {
  // tensors and arenas in use; their maximum; pooled for reuse; the cap, 0 for none
  size_t live_bytes, peak_bytes, pooled_bytes, cap_bytes;
  uint64_t n_allocs;  // calls to the system allocator since start
  size_t prepared_bytes;  // of the live: results computed from parameters alone, cached for later runs
  size_t gpu_live_bytes, gpu_peak_bytes, gpu_pooled_bytes;  // the same for GPU memory, which the cap does not count
  // of plans, not counted above: those that are cached (TC_PLAN_CACHE_BYTES), and those that a
  // value needs for recomputation
  size_t plan_bytes;
} tc_memory;
// What is in use now. Thread-safe.
TC_API tc_memory tc_memory_stats(void);
// Refuses allocations beyond bytes with TC_ERR_MEMORY at the sync that needs them; 0 lifts the cap.
TC_API tc_status tc_set_memory_cap(size_t bytes);
// Limits the temporaries of a run of work recorded from now on to so many bytes, where possible.
// Values are rematerialized where they are read, which takes time and changes no bit. Where the
// budget cannot be met, the run uses the least that was found, and TC_LOG=memory reports it.
// 0: no budget. TC_MEMORY_BUDGET sets the initial one. Results, parameters and optimizer state are
// not counted.
// TC_ERR_STATE inside another call of the thread. Thread-safe.
TC_API tc_status tc_set_memory_budget(size_t bytes);
// Gives pooled memory back to the system, results computed from parameters that can be recomputed,
// and what the C library's malloc has free.
TC_API void tc_trim(void);
// Waits for running work, drops caches, pools and threads. Handles die. The library may be used
// again afterwards.
TC_API void tc_shutdown(void);

// The caller's own allocator for tensor memory. Both functions are called by any thread, and call
// nothing of tc.
typedef struct tc_allocator {
  void *(*alloc)(size_t bytes, void *arg);  // memory aligned to 64 bytes; NULL: there is none
  void (*free)(void *ptr, size_t bytes, void *arg);  // what alloc gave, with the same bytes
  void *arg;  // handed to both
} tc_allocator;
// Set before the first tensor is made, else TC_ERR_STATE; TC_ERR_ARG for one function without the
// other. Both NULL: the system's again.
TC_API tc_status tc_set_allocator(tc_allocator allocator);
// What receives log lines (TC_LOG) and warnings, each without a line end, instead of stderr; NULL:
// stderr again. Called by any thread, one line at a time.
TC_API void tc_set_log(void (*sink)(const char *line, void *arg), void *arg);

// What the caches of this process hold, and how they did since its start.
typedef struct tc_cache_info {
  // graphs whose plan was cached; graphs whose plan was not; kernels of new plans that were cached;
  // kernels that were not
  uint64_t plan_hits, plan_misses, kernel_hits, kernel_misses;
  uint64_t compiles;  // of kernel_misses, those not found on disk (TC_CACHE_DIR) either
  size_t n_plans, n_kernels;  // in the caches now
  size_t kernel_bytes;  // bytes of those kernels; tc_memory.plan_bytes counts the plans
  uint64_t n_tuned, cuts_timed;  // TC_AUTOTUNE=1: matmuls that were timed, and how many tilings of them in all
  size_t n_choices;  // matmuls whose tiling is known, from this process or from TC_CACHE_DIR
  uint64_t plan_bound;  // of plan_hits, graphs whose sizes were new and were bound to a plan for many sizes
} tc_cache_info;
// Thread-safe.
TC_API tc_cache_info tc_cache_stats(void);
// Forgets plans and kernels of this process; files stay. With tc_trim after it, their memory is the
// system's again.
TC_API void tc_cache_clear(void);

// One sync point: what ran, where from, and where its time went. TC_PROFILE=1 prints a summary of
// them at exit.
typedef struct tc_sync_point {
  tc_site site;  // see tc_site_text
  const char *cause;  // "item", "to_host", "eval", ...
  // how its kernels run: "llvm"; "interp" if one is interpreted, for now or always; "ref" reference
  // kernels alone; "gpu". By others: "backend" a loaded back end, "own" the program's function.
  // "none": nothing ran
  const char *tier;
  uint64_t hash;  // of the recorded graph: within a process, equal work on as many threads has equal hashes
  uint32_t n_nodes, n_left;  // nodes recorded; nodes left after simplification
  uint32_t n_kernels,
      // launched, tensors that run through the same code at once counting once; created by this
      // sync, compiled or to be interpreted first
      n_compiled;
  uint32_t n_wrong;  // results that TC_VERIFY=1 found wrong
  bool hit;  // true: its plan was cached, or bound
  bool replayed;  // true: on a GPU, its kernels were one launch of a graph
  bool bound;  // true: its sizes were new, and were bound to a cached plan for many sizes
  // on a GPU, static: why its kernels were not one launch, the program waited for them, or the
  // graph copies; NULL: none of these
  const char *gpu_note;
  tc_status status;  // of the sync
  uint64_t bytes;  // moved by kernels, as planned
  // on a GPU: operands and results of vendors' libraries that the graph copied, since they have
  // other addresses in this run
  uint64_t copied_bytes;
  uint32_t n_fallbacks;  // on a loaded back end: kernels of ops that it does not take, which the CPU ran
  uint64_t fallback_bytes;  // copied between the back end's memory and the host's for them
  // Memory of the device that it ran on, a GPU's or the host's, with everything in use there at its
  // begin. First the planned maximum, then the maximum measured during the run.
  // The measured one includes other threads' tensors, rounding of sizes, and copies of memory that
  // was borrowed as writable.
  uint64_t planned_bytes, peak_bytes;
  uint64_t before_ns;  // since this thread's last sync point: recording and the caller's own work
  // allocate: memory that no pool had; publish: handing results over, and freeing what the run used
  uint64_t lookup_ns, compile_ns, allocate_ns, run_ns, publish_ns;
  uint64_t total_ns;  // of the sync: the five together
} tc_sync_point;
// Copies the latest sync points of the process, at most n, the newest last, and returns how many.
// The library keeps 256. Thread-safe.
TC_API int tc_sync_points(int n, tc_sync_point *out);
// ---- Questions from inside a program ----

#define TC_EXPLAIN_SYNCS 64  // sync points that an explanation keeps
// What the sync points of a function were.
typedef struct tc_explanation {
  // sync points; different graphs among those kept; sync points whose plan was new
  uint64_t n_syncs, n_graphs, n_new;
  uint64_t n_nodes, n_kernels;  // recorded; launched
  uint64_t bytes, ns;  // moved by kernels, as planned; nanoseconds in the sync points
  int n_kept;  // of sync
  tc_sync_point sync[TC_EXPLAIN_SYNCS];  // the first of them, each with cause and site
} tc_explanation;
// Runs fn(user) once and says which sync points this thread had meanwhile. Pending work runs
// before; what fn leaves pending runs at its end, as one more sync point. Returns fn's status, else
// that of the last sync. TC_ERR_ARG: fn or out is NULL. Calls nest: the outer one has the inner
// one's sync points, too. Source: torch._dynamo.explain.
TC_API tc_status tc_explain(tc_status (*fn)(void *user), void *user, tc_explanation *out) TC_MUST_USE;
// For tests: this thread had n sync points since its last call of tc_expect_syncs, or since it
// began; below 0: any number. TC_ERR_STATE: it had others, which the error lists by cause and site.
TC_API tc_status tc_expect_syncs(int n) TC_MUST_USE;
// Gets a counter of this process by its name, a row of metrics.def. TC_ERR_ARG: there is no such
// name. Thread-safe.
TC_API tc_status tc_metrics_get(const char *name, uint64_t *out) TC_MUST_USE;
// The name of metric number i, from 0, and what it counts, unless out_meaning is NULL. Returns NULL
// beyond the last. Both are static. Thread-safe.
TC_API const char *tc_metrics_name(int i, const char **out_meaning);

// Writes a site as "file:line", or as "symbol+0x..(module)" where only a code address is known.
// Never fails.
TC_API void tc_site_text(tc_site site, char *out, size_t bytes);

// ---- Profiles ----
// A file with a record of each sync point, which tc-prof explains (docs/profile-format.md).

// Writes the sync points of all threads from now on to a file, which is emptied if it is there.
// TC_PROFILE=FILE does it from the first one on. TC_ERR_STATE: one is being written already;
// TC_ERR_IO: the file cannot be written. Thread-safe.
TC_API tc_status tc_profile_start(const char *file) TC_MUST_USE;
// Ends it. TC_ERR_STATE: none is being written. Thread-safe.
TC_API tc_status tc_profile_stop(void);

// ---- Regions and options ----
// A region is what a thread does between tc_region_begin and tc_region_end. It has a name in
// profiles, and options that hold for what is recorded and run in it.
// Options are rows of one table (tc_list_options). A value is that of the innermost region that
// gives one, else of tc_set_options, else of the environment (TC_STRICT for strict), else the
// default. Source: the arguments of torch.compile.

// A switch of a region: 0 inherits, so that a C program may write .fullgraph = true.
typedef enum tc_setting {
  TC_INHERIT = 0,  // as outside of the region
  TC_ON = 1,  // true
  TC_OFF = 2,  // false
  TC_AUTO = 3  // for dynamic alone: as it turns out
} tc_setting;

// A graph as a program's backend is shown it, when a plan is made: nodes in the order of recording.
typedef struct tc_graph_node {
  const char *op;  // a row of ops.def, such as "add"; "leaf": an input
  tc_type type;  // of its value
  tc_dims shape;  // of its value
  int n_operands;  // how many of operand
  const uint32_t *operand;  // numbers of earlier nodes
  int n_attributes;  // how many of attribute
  const uint64_t *attribute;  // as ops.def lists them by op: axes, strides, steps
  // its scalars among those that run is given: n_scalars of them from first_scalar on. A scalar has
  // the bits of a double where the node is floating, else of an int64_t; starts are int64_t
  int n_scalars, first_scalar;
  const char *site;  // "file:line" of the call that recorded it; ""
} tc_graph_node;
typedef struct tc_graph_view {
  const char *device;  // such as "tc:cpu"
  int n_nodes, n_inputs, n_outputs, n_scalars;  // how many of node, input and output; that run is given
  const tc_graph_node *node;  // by number
  const uint32_t *input, *output;  // their nodes
} tc_graph_view;

// What a backend makes of a graph.
typedef struct tc_graph_runner {
  // Computes the outputs from the inputs, both dense row-major memory of the host in the graph's
  // order; output memory is none of the inputs'. It is called by any thread, by several at once,
  // and calls nothing of tc. What it returns is the sync's status. NULL: tc makes the plan
  tc_status (*run)(const void *const *input, void *const *output, const uint64_t *scalar, void *state);
  void (*release)(void *state);  // when the plan is dropped. NULL: nothing is to be done
  void *state;  // handed to both
} tc_graph_runner;
// Called once for each new plan, inside a sync point, by the thread that syncs; calls nothing of
// tc. graph: valid during the call. out: empty; left so, tc makes the plan as usual. Another
// status than TC_OK refuses the graph: the sync fails with it, or with suppress_errors=1 tc makes
// the plan.
typedef tc_status (*tc_backend_fn)(const tc_graph_view *graph, tc_graph_runner *out, void *user);

// A field that is 0 or NULL is inherited.
typedef struct tc_region_options {
  const char *name;  // in a profile, as "outer/inner"; copied
  const char *mode;  // "default", "reduce-overhead", ..: tc_list_modes
  tc_setting fullgraph;  // TC_ON: what would run a part of the recorded graph unasked is an error
  tc_setting dynamic;  // sizes as arguments of plans: TC_ON always, TC_OFF never, TC_AUTO from a second value on
  tc_setting disable;  // TC_ON: each op runs when it is recorded
  const char *backend;  // "default", "eager", ..: tc_list_backends
  tc_backend_fn backend_fn;  // or a function of the program's, without a name
  void *backend_user;  // handed to it
  const char *options;  // "key=value,key=value" over all of these: tc_list_options
} tc_region_options;

// Begins a region of this thread. Regions nest, 64 deep, and are ended by the thread that began
// them. Some options make other plans of the same records, such as strict. Where a region of such
// options begins, what is pending runs first; what the region leaves pending runs at its end.
// A region with nothing but a name runs nothing. Without a profile that is all that it costs.
// With fullgraph tc_eval and tc_sync run the graph. Other reasons to run a part of it fail with
// TC_ERR_STATE, and name op, value and line. These are a value that is read while it is pending, a
// bound of the trace, and another memory. Ends of scopes and steps of optimizers run nothing.
// TC_ERR_ARG: no field at all, or a name that is no option's, of which the error names the nearest.
// So for an option that is not set here or does not take the value, and for an unknown backend.
// TC_ERR_STATE: too many regions, or names too long, are open. So where something pending would
// have to run in a region with fullgraph, or after tc_record_only_begin. TC_ERR_MEMORY. The errors
// of that run.
// Where it fails, the region has no options and its end is due; the next sync point reports it.
TC_API tc_status tc_region_begin(const tc_region_options *options);
// Ends the region begun last. TC_ERR_STATE: none is open in this thread.
TC_API void tc_region_end(void);
// Sets the same for the process, over the environment and what was set before. Each thread's syncs
// have it from now on, but for those in regions with options that are open: these keep what they
// have. TC_ERR_ARG, too, if name is set. Thread-safe.
TC_API tc_status tc_set_options(const tc_region_options *options) TC_MUST_USE;
// Names a backend for .backend and TC_BACKEND. user is the program's, and valid until the process
// ends. TC_ERR_ARG: no name, a name with "," or "=", no function. TC_ERR_STATE: the name is another
// backend's. Thread-safe.
TC_API tc_status tc_register_backend(const char *name, tc_backend_fn fn, void *user) TC_MUST_USE;
// The key of option number i, from 0, and what it means, unless out_meaning is NULL; those that
// tc_set_options takes. NULL beyond the last. Static. Thread-safe.
TC_API const char *tc_list_options(int i, const char **out_meaning);
// The same of modes.
TC_API const char *tc_list_modes(int i, const char **out_meaning);
// The same of backends: tc's, then the program's.
TC_API const char *tc_list_backends(int i, const char **out_meaning);
// Forgets all plans, pinned ones too, kernels, and tilings that were timed, of this process, and
// waits for compilers. Files, options and backends stay. TC_ERR_STATE inside another call of the
// thread. Source: torch.compiler.reset.
TC_API tc_status tc_reset(void);

// ---- Devices ----
// "tc" (the best there is), "tc:cpu", "tc:ref", "tc:null", "tc:cuda[:n]", "tc:hip[:n]", and those
// of back ends that are loaded (tc/backend.h).

// Sets the device of this thread's factory calls. TC_DEVICE in the environment is every thread's
// default. TC_ERR_DEVICE, with the reason, if there is no such device; TC_ERR_ARG for NULL.
TC_API tc_status tc_set_default_device(const char *device) TC_MUST_USE;
// The name of this thread's default device, such as "tc:cpu". Static.
TC_API const char *tc_get_default_device(void);
// Sets another default device until tc_pop_device. Calls nest: TC_ERR_STATE beyond the limit that
// the error names. Other errors as tc_set_default_device's.
TC_API tc_status tc_push_device(const char *device) TC_MUST_USE;
// Restores the default device from before the latest push. TC_ERR_STATE if there was none.
TC_API tc_status tc_pop_device(void);

// ---- Lifetime ----

// Handles made after begin belong to the scope and die at its end. tc_keep moves one to the parent
// scope.
// Scopes are per thread and nest, 256 deep. Beyond that a begin fails, and so does the next sync
// point, which names the place of the oldest open scope: an end is missing.
// If the runs of one line leave more and more temporaries alive, since no scope ends between them,
// the log reports it once.
// A handle made in no scope lives until tc_release, or the end of the process.
typedef struct tc_scope {
  uint32_t depth, mark;  // the library's own
} tc_scope;
// Opens a scope, to be ended by the same thread. TC_ERR_STATE beyond 256; tc_scope_end of the
// result then does nothing.
TC_API tc_scope tc_scope_begin(void);
// Ends the scope, and those in it that are still open. Their handles die; recorded work that nobody
// can read any more is dropped. May begin a run. TC_ERR_STATE if it has ended already, or is
// another thread's.
TC_API void tc_scope_end(tc_scope scope);
// Moves t to the parent scope, and returns it; without a parent it lives until tc_release.
// TC_ERR_HANDLE if t is dead.
TC_API tc_tensor tc_keep(tc_tensor t);
// For bindings: a new reference, independent of scopes, given back by tc_release. TC_ERR_HANDLE if
// t is dead.
TC_API tc_tensor tc_retain(tc_tensor t);
// Gives a reference back: that of tc_retain, of tc_param, or a handle's own before its scope ends.
// Any thread may call it. Poison and {0, 0} are fine; TC_ERR_HANDLE if t is dead.
TC_API void tc_release(tc_tensor t);
// Between the two, this thread's work runs only when it is asked for: by a sync point, or by
// another thread that reads a tensor. Ends of scopes and steps of optimizers run nothing.
// What would run unasked fails with TC_ERR_STATE, and is recorded after a tc_sync. That is an op
// that is one too many (TC_MAX_NODES), holds too much (TC_MAX_BYTES) or is in another memory than
// what is pending. So is a borrow of memory that a pending assign reaches.
// An assign to memory that another borrow covers, too, fails in any case.
// Carrying values and gradients to another memory (tc_to) and making an optimizer ask for a run.
// Calls nest.
TC_API void tc_record_only_begin(void);
TC_API void tc_record_only_end(void);
// Whether the handle is alive: not dead, poison or {0, 0}.
TC_API bool tc_is_valid(tc_tensor t);
// Whether the handle is alive and of this thread, which alone may assign to it.
TC_API bool tc_is_assignable(tc_tensor t);

// ---- What is known without running ----
// Nothing runs. Poison and dead handles give the value stated last; a dead one sets the error
// TC_ERR_HANDLE.

TC_API tc_dims tc_shape(tc_tensor t);  // its extents; rank -1
TC_API tc_type tc_dtype(tc_tensor t);  // its element type; TC_N_TYPES
TC_API int64_t tc_numel(tc_tensor t);  // how many elements; -1
TC_API const char *tc_device_of(tc_tensor t);  // such as "tc:cpu", static; ""

// ---- Into tensors ----

// In C the macros of sites.h pass the element type of a pointer, here and in tc_to_host. A double *
// for a tensor of f32 is TC_ERR_DTYPE.
// Unsigned integers stand for signed ones of as many bits, those of 16 bits for halves, too.
// void *, char * and unsigned char * are raw bytes and not checked. C++, bindings and plain calls
// are never checked.
typedef enum tc_ctype {
#define TC_CTYPE(NAME, c, types) TC_C_##NAME,
#include <tc/ctypes.def>
#undef TC_CTYPE
  TC_C_ANY  // to anything: not checked
} tc_ctype;

// A copy of host data, of shape and type, in the current scope. data may be freed at once. strides
// in elements (NULL: dense row-major; negative and zero allowed).
// TC_ERR_ARG if data is NULL and there are elements, TC_ERR_SHAPE for an invalid shape,
// TC_ERR_DTYPE for an invalid type.
TC_API tc_tensor tc_from_host(const void *data, tc_dims shape, tc_type type);
TC_API tc_tensor tc_from_host_strided(const void *data, tc_dims shape, const int64_t *strides, tc_type type);
// Borrows dense host memory, aligned as its type, until the last run that reads it is done. Then
// release(arg) is called (NULL: never; not called where borrowing fails).
// A run reads what the memory holds at that moment. Nothing is read before a sync point, so a write
// between recording and the run shows in what was recorded before it.
// Memory that will be written meanwhile is for tc_from_host, which copies at once.
// Read-only: an assign goes to a new buffer. Writable: an assign lands in data by the next sync;
// views of such a tensor, and its uses in other threads, are copies.
// Memory may be borrowed twice. Writable without a release, where this thread has a writable borrow
// of exactly this memory, shape and type, gives that tensor. It has one more reference, and its
// pending assign. So calls that borrow the same arrays again are recorded one after the other.
// Borrows may share other bytes, one of them writable. Then, too, this thread sees its assigns in
// order: one that is pending runs before the next op or borrow. Values that were computed from the
// other borrow, but not stored by then (tc_eval), may be computed from the new content.
// Other threads see the memory change when a sync has returned.
// On a GPU read-only memory is copied there at once and released; writable memory is copied at each
// run that reads it.
// Constant: read-only, and nobody writes there while it is borrowed. Runs then cache what they
// compute from it alone, as for other parameters (TC_PREPARE).
typedef enum tc_borrow_flags {
  TC_READ_ONLY = 0,  // tc never writes there
  TC_WRITABLE = 1,  // assigns land there
  TC_CONSTANT = 2  // nobody writes there
} tc_borrow_flags;
// A tensor of this shape and type; flags: one of those. Errors are those of tc_from_host, and
// TC_ERR_ARG for other flags. Where it fails the memory stays the caller's.
TC_API tc_tensor tc_borrow(void *data, tc_dims shape, tc_type type, int flags, void (*release)(void *arg), void *arg);
// A tensor of this shape and type in memory that is not dense: strides in elements, one an axis, as
// NumPy's and BLAS's (NULL: dense).
// A matrix [m, n] in row-major memory of leading dimension ld has strides {ld, 1}, in column-major
// memory {1, ld}.
// data is element [0, .., 0]; a negative stride goes down from there. (For a negative incx BLAS is
// given the lowest address instead.) Strides of axes of one element do not matter.
// The bytes between the elements, such as those behind n in a row, stay the caller's. They are
// neither read nor written, and may be another tensor's. Only TC_VERIFY and TC_ANOMALY read them.
// An assign lands by one strided copy, at the next sync. What is mapped is a dense copy.
// TC_ERR_ARG where elements overlap or axes interleave: in order of magnitude, each stride is at
// least what the axes of smaller ones span. tc_expand repeats values, no stride of 0. TC_ERR_SHAPE
// where the span has too many bytes. Other errors are those of tc_borrow.
TC_API tc_tensor tc_borrow_strided(void *data, tc_dims shape, const int64_t *strides, tc_type type, int flags,
                                   void (*release)(void *arg), void *arg);
// Gives up a borrow before its memory is freed. When it returns, release has been called, and the
// library neither reads nor writes there any more. Runs nothing.
// A pending assign to t never lands, and work that only it needed is dropped. What other tensors
// computed, or will compute, from the old content they keep: it is copied if one is alive.
// t dies, whatever references it has. A tensor in memory of tc dies in the same way; poison and {0,
// 0} are fine. What tc_map gave of read-only memory is that memory still.
// TC_ERR_HANDLE for a dead handle, TC_ERR_MEMORY where the copy has no room. TC_ERR_STATE if t is
// another thread's, or read-only memory that another thread's work still reads or that is lent
// (tc_map_shared). Nothing has changed then. Thread-compatible: the borrower's thread calls it.
TC_API tc_status tc_forget(tc_tensor t) TC_MUST_USE;
// Those with the pointer's type, as the macros call them. Their shape, type and errors are the
// same, and TC_ERR_DTYPE for a pointer to another type.
TC_API tc_tensor tc_from_host_as_at(tc_ctype c, const void *data, tc_dims shape, tc_type type, tc_site site);
TC_API tc_tensor tc_from_host_strided_as_at(tc_ctype c, const void *data, tc_dims shape, const int64_t *strides,
                                            tc_type type, tc_site site);
TC_API tc_tensor tc_borrow_as_at(tc_ctype c, void *data, tc_dims shape, tc_type type, int flags,
                                 void (*release)(void *arg), void *arg, tc_site site);
TC_API tc_tensor tc_borrow_strided_as_at(tc_ctype c, void *data, tc_dims shape, const int64_t *strides, tc_type type,
                                         int flags, void (*release)(void *arg), void *arg, tc_site site);

// ---- Sync points: these run what is pending ----
// Each returns the first error since the last sync point (see tc_last_error), or that of its own
// run.
// A run fails with TC_ERR_MEMORY, TC_ERR_COMPILE, TC_ERR_DEVICE, or TC_ERR_INDEX for an index out
// of range.
// TC_ERR_HANDLE for a dead handle; the error of poison.
// TC_ERR_ANOMALY with TC_ANOMALY=1 where a result would hold a NaN or infinity that its operands
// have not; nothing is assigned then. The text names the op that made the first one, its line and
// its operands. For a gradient it names the op that is differentiated, and that op's line.

// Writes the one element of t, of any type, into out as a C number. Its type as is bool, i32, i64,
// f32 or f64, else TC_ERR_DTYPE.
// TC_ERR_SHAPE unless t has one element. tc_item(t, &v) takes v's type, which is bool, int32_t,
// int64_t, float or double.
TC_API tc_status tc_item_at(tc_tensor t, tc_type as, void *out, tc_site site) TC_MUST_USE;
// The same as this type, whatever t's is. What an integer type does not hold gives its nearest
// bound, fractions are truncated, NaN is 0.
TC_API tc_status tc_item_f32(tc_tensor t, float *out) TC_MUST_USE;
TC_API tc_status tc_item_f64(tc_tensor t, double *out) TC_MUST_USE;
TC_API tc_status tc_item_i32(tc_tensor t, int32_t *out) TC_MUST_USE;
TC_API tc_status tc_item_i64(tc_tensor t, int64_t *out) TC_MUST_USE;
TC_API tc_status tc_item_bool(tc_tensor t, bool *out) TC_MUST_USE;
// Copies the value, dense row-major, in t's own type, into out, which holds exactly bytes =
// tc_numel * tc_type_bytes, else TC_ERR_ARG.
TC_API tc_status tc_to_host(tc_tensor t, void *out, size_t bytes) TC_MUST_USE;
// Begins to copy, as tc_to_host would, and on a GPU does not wait for it. out has the value once
// tc_to_host_wait(out), tc_sync of the device or tc_sync(NULL) has returned TC_OK.
// out must stay valid until then; t may be released or assigned. Elsewhere, and where the value is
// larger than 32 MiB, the copy is complete on return.
// A copy that nobody waited for before tc_shutdown is dropped.
TC_API tc_status tc_to_host_async(tc_tensor t, void *out, size_t bytes) TC_MUST_USE;
// The two with the pointer's type, as above.
TC_API tc_status tc_to_host_as_at(tc_ctype c, tc_tensor t, void *out, size_t bytes, tc_site site) TC_MUST_USE;
TC_API tc_status tc_to_host_async_as_at(tc_ctype c, tc_tensor t, void *out, size_t bytes, tc_site site) TC_MUST_USE;
// Waits for the copies to out that any thread began; NULL: for all. TC_ERR_DEVICE if the device is
// lost: then they never arrive. Thread-safe.
TC_API tc_status tc_to_host_wait(const void *out) TC_MUST_USE;
// Runs everything pending on this thread and stores the values of the n tensors.
TC_API tc_status tc_eval(int n, const tc_tensor *tensors) TC_MUST_USE;
// Runs everything pending on this thread, and waits for the device; NULL: for every device.
TC_API tc_status tc_sync(const char *device) TC_MUST_USE;
// Runs everything pending on the thread that made t, and waits for t's device. Any thread may call
// it, for instance before it reads or frees memory that another thread's assigns will reach.
// That thread is not waited for, but where it is inside an op that reads a third thread's tensor.
// An error of the run is returned here, and again by that thread's next sync point if an assign was
// undone.
TC_API tc_status tc_sync_of(tc_tensor t) TC_MUST_USE;
// A read-only view of the value, dense row-major, valid until tc_unmap; NULL on error.
TC_API const void *tc_map(tc_tensor t);
// Ends the latest view that this thread has of t; where it has none, the latest of any thread.
// TC_ERR_STATE where there is none at all.
TC_API tc_status tc_unmap(tc_tensor t);
// The same view, lent by *out_share until tc_unmap_shared, whatever becomes of t: for tensors
// handed to other libraries. Any thread may call tc_unmap_shared, in release callbacks too; NULL is
// fine.
// Until then others may write there, and no result computed from it is cached (TC_PREPARE). On
// failure both are NULL. TC_ERR_ARG if one of the pointers is NULL.
TC_API tc_status tc_map_shared(tc_tensor t, const void **out_data, void **out_share) TC_MUST_USE;
TC_API void tc_unmap_shared(void *share);
// Prints as NumPy does, to stdout.
TC_API tc_status tc_print(tc_tensor t);
// The same text as a string the caller frees with free(); NULL on error.
TC_API char *tc_format(tc_tensor t);
// Saves t as a .npy file. Replaces the file whole or not at all, through symbolic links. A pipe or
// device is written in place (a pipe nobody reads raises SIGPIPE, as write does).
// TC_ERR_IO with the reason where that fails, on a full disk too.
TC_API tc_status tc_save_npy(const char *path, tc_tensor t) TC_MUST_USE;
// A copy of the array in a file, a pipe or /dev/stdin, in either byte order. Nothing behind the
// array is read.
// uint16 becomes i32, uint32 and uint64 i64. Poison with TC_ERR_IO and the reason, with
// TC_ERR_DTYPE or TC_ERR_SHAPE if tc has no such type, number or rank.
TC_API tc_tensor tc_load_npy(const char *path);

// ---- Assignment ----
// Changes what the handle stands for; values taken from it before do not change. Recorded.
// TC_ERR_HANDLE for a dead handle, TC_ERR_STATE if t is another thread's, TC_ERR_DEVICE if value is
// on another device. The next sync point reports an error whose status was ignored.

// value broadcasts to t's shape (TC_ERR_SHAPE) and is cast to t's type as tc_cast does
// (torch.Tensor.copy_). A parameter stays one, and history ends there.
TC_API tc_status tc_assign(tc_tensor t, tc_tensor value);
// t[start : start + extent(value) * step : step] = value, one start and step per axis (step NULL:
// ones). value broadcasts to extents (TC_ERR_SHAPE) and is cast to t's type. start or stop NULL:
// the whole axis. TC_ERR_ARG for a step of 0.
TC_API tc_status tc_assign_slice(tc_tensor t, const int64_t *start, const int64_t *stop, const int64_t *step,
                                 tc_tensor value);

// ---- Gradients ----
// All are recorded. TC_ERR_HANDLE for a dead handle.
// TC_ERR_GRAD where there is no gradient. Either y depends on nothing that requires_grad, or y is
// no scalar, or an earlier backward without TC_RETAIN freed history that this one needs.

// A backward frees the history that it walked, and that of everything the same sync has run. A
// later backward that reaches such a value fails; tc_detach makes a constant of it.
typedef enum tc_grad_flags {
  TC_RETAIN = 1,  // the history stays for another backward (retain_graph)
  TC_CREATE_GRAPH = 2  // it stays, and the gradients have a history of their own (create_graph)
} tc_grad_flags;
// A leaf that requires_grad: the value of t, of the same shape, under a new handle. The handle
// belongs to no scope and lives until tc_release. TC_ERR_DTYPE unless floating.
TC_API tc_tensor tc_param(tc_tensor t);
// Makes t a leaf that requires_grad, or a constant. TC_ERR_DTYPE unless floating, TC_ERR_GRAD if it
// has a history, TC_ERR_STATE if it is another thread's.
TC_API tc_status tc_set_requires_grad(tc_tensor t, bool on);
// Whether t is such a leaf, or computed from one; true also after its history was freed.
TC_API bool tc_requires_grad(tc_tensor t);
// Adds dy/dp to tc_grad(p) for every leaf p that requires_grad. y is a scalar. backward_with takes
// the gradient of y instead, of y's shape (TC_ERR_SHAPE) and on y's device (TC_ERR_DEVICE).
// flags: TC_RETAIN, TC_CREATE_GRAPH.
// Recorded; a sync point where a gradient goes back over a tc_to from one memory to another. If
// that fails, no gradient has changed. History walked until then is freed, unless it is retained.
TC_API tc_status tc_backward(tc_tensor y);
TC_API tc_status tc_backward_with(tc_tensor y, tc_tensor grad, int flags);
// dy/dx for n tensors into out, of their shapes and types, zeros where y does not depend on x;
// differentiable again with TC_CREATE_GRAPH. y is a scalar.
// TC_ERR_GRAD, and poison in out, if an x has neither requires_grad nor history.
TC_API tc_status tc_grads_of(tc_tensor y, const tc_tensor *xs, int n, tc_tensor *out, int flags);
// The accumulated gradient, of p's shape and type, or {0, 0} if there is none. p owns it: it lives
// until it is zeroed, or p is released. What accumulates, unscales or clips it gives this handle
// its new value.
TC_API tc_tensor tc_grad(tc_tensor p);
// Removes the gradients of n parameters, as set_to_none=True: the next backward begins anew.
// TC_ERR_HANDLE if one is dead, TC_ERR_ARG for a NULL list.
TC_API tc_status tc_zero_grad_of(int n, const tc_tensor *params);
// Between the two, what this thread records has no history (torch.no_grad). Calls nest.
TC_API void tc_no_grad_begin(void);
TC_API void tc_no_grad_end(void);

// ---- Autocast: mixed precision, as torch.autocast ----

// Between begin and end this thread's ops cast their floating operands as they are recorded. Matrix
// products, convolutions and attention run in the type, what loses digits in 16 bits in f32.
// The column autocast of ops.def and autocast.def say which; docs/autocast.md lists them. They are
// PyTorch's lists for CUDA, on all devices.
// Parameters stay f32: each is cast once a step, and its gradient is f32. f64 and integers are left
// alone. A backward and an optimizer's step cast nothing: end autocast before them, as in PyTorch.
// Calls nest, and the inner one counts. A begin that fails changes no type, and has its end.
// TC_ERR_DTYPE unless the type is TC_BF16 or TC_F16, TC_ERR_ARG for a device of no known kind.
// TC_ERR_STATE for more than 64 open ones, and for an end without a begin. The next sync point
// tells of them, too.
typedef struct tc_autocast_options {
  tc_type type;  // TC_BF16 or TC_F16; left out: bf16 on tc:cpu, f16 on GPUs
  const char *device;  // the kind of devices it is for: "tc:cpu", "tc:cuda", "tc:hip"; NULL: all
  bool disabled;  // true: until the end, ops there take their operands as they are (enabled=False)
} tc_autocast_options;
TC_API tc_status tc_autocast_begin(tc_type type);
TC_API tc_status tc_autocast_begin_with(tc_autocast_options options);
TC_API tc_status tc_autocast_end(void);
// The type that matrix products on devices of that kind are cast to now (NULL: tc:cpu). TC_N_TYPES:
// none, since no autocast is open for them (torch.get_autocast_dtype).
TC_API tc_type tc_autocast_type(const char *device);

// ---- Random numbers: Philox4x32-10, one stream per recording thread ----
// Restarts this thread's sequence: one seed gives the same draws in any thread. Threads that never
// call it have streams of their own, numbered by their first use of the library.
TC_API void tc_seed(uint64_t seed);
// The position of this thread's sequence. Setting it continues from there, in any thread.
// TC_ERR_ARG for a state that tc_get_rng_state cannot have returned.
typedef struct tc_rng_state {
  uint64_t seed, counter, stream;  // of tc_seed; draws so far; the thread's number
} tc_rng_state;
TC_API tc_rng_state tc_get_rng_state(void);
TC_API tc_status tc_set_rng_state(tc_rng_state state);

// ---- Optimizers ----
// Recorded as ordinary ops; the learning rate is an argument, so schedules never recompile. State
// has its parameter's type, as in PyTorch. For f16 and bf16 a step computes in f32 and rounds each
// new value once.
// f16 cannot hold second moments of gradients below 5e-3; they become 0. Train f32 or bf16
// parameters then: bf16 has f32's range.
// NULL with TC_ERR_ARG where a parameter is given twice or a number makes no sense, TC_ERR_DTYPE
// unless parameters are floating, TC_ERR_HANDLE if one is dead.
// Parameters may be on several devices; a step takes one device after the other. Creating an
// optimizer is a sync point: it evaluates the parameters, so that the first step equals all others.

// Fields left out, or 0, take PyTorch's defaults, which stand beside them; TC_ZERO is a true zero.
#define TC_ADAM_DEFAULTS .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8
#define TC_RMSPROP_DEFAULTS .alpha = 0.99, .eps = 1e-8
// An optimizer retains its parameters and owns their state until tc_optimizer_destroy.
typedef struct tc_optimizer tc_optimizer;
// Of tc_sgd.
typedef struct tc_sgd_options {
  double lr;  // learning rate, 1e-3
  // Factor of the previous update direction; 1 less the new gradient's factor in it; share of the
  // parameter added to its gradient: all 0.
  double momentum, dampening, weight_decay;
  bool nesterov;  // true: Nesterov momentum, which needs momentum and no dampening
} tc_sgd_options;
// Of tc_adam and tc_adamw.
typedef struct tc_adam_options {
  double lr;  // learning rate, 1e-3
  double beta1, beta2;  // decay of the mean of gradients, 0.9, and of the mean of their squares, 0.999
  double eps;  // added to its root, 1e-8
  double weight_decay;  // share of the parameter that is added to its gradient, 0; AdamW 0.01
  bool decoupled;  // true: AdamW, weight decay goes to the parameter and not into its gradient
} tc_adam_options;
// Of tc_rmsprop.
typedef struct tc_rmsprop_options {
  double lr;  // learning rate, 0.01
  double alpha;  // decay of the mean of squares, 0.99
  double eps;  // added to its root, 1e-8
  // share of the parameter that is added to its gradient; factor of the previous update direction:
  // both 0
  double weight_decay, momentum;
} tc_rmsprop_options;
// Of tc_adagrad.
typedef struct tc_adagrad_options {
  double lr;  // learning rate, 0.01
  double lr_decay;  // what each step adds to the learning rate's divisor, 0
  double weight_decay;  // share of the parameter that is added to its gradient, 0
  double initial_accumulator_value;  // where the sum of squares starts, 0
  double eps;  // added to the sum's root, 1e-10
} tc_adagrad_options;
// Of tc_nadam.
typedef struct tc_nadam_options {
  double lr;  // learning rate, 2e-3
  double beta1, beta2;  // as of tc_adam_options: 0.9, 0.999
  double eps;  // added to the root, 1e-8
  double weight_decay;  // share of the parameter that is added to its gradient, 0
  double momentum_decay;  // how fast the momentum comes up to beta1, 4e-3
  bool decoupled;  // true: weight decay goes to the parameter (decoupled_weight_decay)
} tc_nadam_options;
// Of tc_radam.
typedef struct tc_radam_options {
  double lr;  // learning rate, 1e-3
  double beta1, beta2;  // as of tc_adam_options: 0.9, 0.999
  double eps;  // added to the root, 1e-8
  double weight_decay;  // share of the parameter that is added to its gradient, 0
  bool decoupled;  // true: weight decay goes to the parameter (decoupled_weight_decay)
} tc_radam_options;
// Of tc_adamax.
typedef struct tc_adamax_options {
  double lr;  // learning rate, 2e-3
  double beta1, beta2;  // decay of the mean of gradients, 0.9, and of their greatest size, 0.999
  double eps;  // added to that size, 1e-8
  double weight_decay;  // share of the parameter that is added to its gradient, 0
} tc_adamax_options;
// Of tc_lion.
typedef struct tc_lion_options {
  double lr;  // learning rate, 1e-4
  double beta1, beta2;  // share of the mean in a step's direction, 0.9; decay of the mean, 0.99
  double weight_decay;  // share of the parameter that a step takes from it, times lr; 0
} tc_lion_options;
// Over n parameters of any shapes, which are retained; params is copied. The thread that created an
// optimizer destroys it.
TC_API tc_optimizer *tc_sgd(const tc_tensor *params, int n, tc_sgd_options options);  // torch.optim.SGD
TC_API tc_optimizer *tc_adam(const tc_tensor *params, int n, tc_adam_options options);  // torch.optim.Adam
// torch.optim.AdamW: decoupled, whatever the options say
TC_API tc_optimizer *tc_adamw(const tc_tensor *params, int n, tc_adam_options options);
TC_API tc_optimizer *tc_rmsprop(const tc_tensor *params, int n, tc_rmsprop_options options);  // torch.optim.RMSprop
TC_API tc_optimizer *tc_adagrad(const tc_tensor *params, int n, tc_adagrad_options options);  // torch.optim.Adagrad
// torch.optim.NAdam
TC_API tc_optimizer *tc_nadam(const tc_tensor *params, int n, tc_nadam_options options);
// torch.optim.RAdam. Its first steps, which are not rectified, have a plan of their own where eps
// is TC_ZERO.
TC_API tc_optimizer *tc_radam(const tc_tensor *params, int n, tc_radam_options options);
TC_API tc_optimizer *tc_adamax(const tc_tensor *params, int n, tc_adamax_options options);  // torch.optim.Adamax
// Chen et al., Symbolic Discovery of Optimization Algorithms, 2023, program 1. PyTorch has none.
TC_API tc_optimizer *tc_lion(const tc_tensor *params, int n, tc_lion_options options);
// Releases parameters and state; NULL is fine.
TC_API void tc_optimizer_destroy(tc_optimizer *opt);
// Adds n parameters that are not the optimizer's yet as its next group, with a learning rate and
// weight decay of their own (PyTorch's param_groups). The parameters an optimizer is created with
// are its group 0.
// A sync point, as creating an optimizer is. On failure nothing has changed.
//   tc_optimizer *opt = tc_adamw(matrices, n, (tc_adam_options){.lr = 1e-3, .weight_decay = 0.1});
//   tc_status st =
//       tc_optimizer_add_group(opt, biases, m, (tc_group_options){.weight_decay = TC_ZERO});
typedef struct tc_group_options {
  double lr;  // left out: that of group 0 at each step
  double weight_decay;  // left out: that of group 0
} tc_group_options;
// TC_ERR_ARG where a parameter is the optimizer's already or a number makes no sense, TC_ERR_DTYPE
// unless parameters are floating, TC_ERR_HANDLE if one is dead.
TC_API tc_status tc_optimizer_add_group(tc_optimizer *opt, const tc_tensor *params, int n,
                                        tc_group_options options) TC_MUST_USE;
// How many groups there are, and in which one the i-th parameter is (-1 past the end).
TC_API int tc_optimizer_n_groups(const tc_optimizer *opt);
TC_API int tc_optimizer_group(const tc_optimizer *opt, int i);
// "sgd", "adam", "adamw", "rmsprop", "adagrad", "nadam", "radam", "adamax" or "lion"; "" for NULL.
TC_API const char *tc_optimizer_kind(const tc_optimizer *opt);
// Its i-th parameter, which stays the optimizer's; the null handle past the end.
TC_API tc_tensor tc_optimizer_param(const tc_optimizer *opt, int i);
// Records one step: every parameter that has a gradient is assigned its next value. TC_ERR_ARG for
// NULL. The next sync point reports other failures, too.
TC_API tc_status tc_optimizer_step(tc_optimizer *opt);
// tc_zero_grad_of all of its parameters. TC_ERR_ARG for NULL.
TC_API tc_status tc_zero_grad(tc_optimizer *opt);
// The learning rate of later steps, of group 0 and of the groups without one of their own; needs no
// new plan. TC_ERR_ARG if it is negative or not finite, or opt is NULL. tc_get_lr of NULL gives
// NaN.
TC_API tc_status tc_set_lr(tc_optimizer *opt, double lr);
TC_API double tc_get_lr(const tc_optimizer *opt);
// The same for one group, which has its own from then on. TC_ERR_ARG also if there is no such
// group.
TC_API tc_status tc_set_group_lr(tc_optimizer *opt, int group, double lr);
TC_API double tc_get_group_lr(const tc_optimizer *opt, int group);
// The rate that schedules (train.h) start from, PyTorch's initial_lr: the group's rate when its
// first schedule was made, or what was set. NaN, and TC_ERR_ARG, as of tc_get_group_lr and
// tc_set_group_lr.
TC_API double tc_get_initial_lr(const tc_optimizer *opt, int group);
TC_API tc_status tc_set_initial_lr(tc_optimizer *opt, int group, double lr);
// The momentum of later steps, of all groups: momentum of tc_sgd and tc_rmsprop, beta1 of the
// others; needs no new plan. TC_ERR_ARG unless it lies within [0, 1), for an optimizer without one
// (tc_adagrad; tc_sgd and tc_rmsprop created without), and for NULL. tc_get_momentum gives 0 where
// there is none, NaN for NULL.
TC_API tc_status tc_set_momentum(tc_optimizer *opt, double momentum);
TC_API double tc_get_momentum(const tc_optimizer *opt);
// State as a named list: name of entry i ("exp_avg.3"; NULL past the end), its tensor, and setting
// it. A state has its parameter's shape, else TC_ERR_SHAPE, and is cast to its type; "step.3" and
// "mu_product.3" are scalars. TC_ERR_ARG if there is no entry i.
TC_API const char *tc_optimizer_state_name(const tc_optimizer *opt, int i);
TC_API tc_tensor tc_optimizer_state(const tc_optimizer *opt, int i);
TC_API tc_status tc_optimizer_set_state(tc_optimizer *opt, int i, tc_tensor value);
// Scales the gradients of n params so that their global 2-norm is at most max_norm. Returns the
// norm before, a scalar of f32, or f64 where a gradient is.
// TC_ERR_ARG unless max_norm is at least 0, TC_ERR_HANDLE if a parameter is dead. With gradients in
// several memories it is a sync point, and the norm is where the first one is.
TC_API tc_tensor tc_clip_grad_norm(const tc_tensor *params, int n, double max_norm);

// ---- Options of ops ----
// Fields left out, or 0, take PyTorch's defaults; TC_ZERO is a true zero.
// A list holds a number for each spatial axis, or one for all: .stride = TC_SHAPE(2), .padding =
// TC_SHAPE(1, 2).

// Of tc_conv1d to tc_conv_transpose3d, and tc_nn_conv2d.
typedef struct tc_conv_options {
  tc_dims stride, padding, dilation;  // 1, 0 and 1 if left out
  tc_dims output_padding;  // of transposed convolution: elements added at the end
  int64_t groups;  // 1 if left out
} tc_conv_options;
// Of tc_max_pool1d to tc_avg_pool3d.
typedef struct tc_pool_options {
  // the window's size, 0 and 1 if left out; dilation is for max pooling. No window may lie in the
  // padding alone
  tc_dims stride, padding, dilation;
  bool exclude_padding;  // true: an average counts elements of the image alone (count_include_pad=False)
  bool ceil_mode;  // true: windows that begin in the image or before it may end behind it
  int64_t divisor_override;  // what an average divides by; 0: the number of elements
} tc_pool_options;
// Of tc_batch_norm, with PyTorch's numbers.
#define TC_BATCH_NORM_DEFAULTS .momentum = 0.1, .eps = 1e-5
typedef struct tc_batch_norm_options {
  bool training;  // true: by the batch's statistics, which update the running ones; false: by the running ones
  double momentum, eps;  // weight of the new statistics in the running ones, 0.1; added to the variance, 1e-5
} tc_batch_norm_options;
// Of tc_interpolate.
typedef enum tc_interpolation {
  TC_NEAREST = 0,  // the element that is nearest
  TC_LINEAR = 1  // between the neighbours, over one, two or three axes
} tc_interpolation;
typedef struct tc_interpolate_options {
  tc_interpolation mode;  // TC_NEAREST if left out
  bool align_corners;  // true: the first and last elements stay where they are
} tc_interpolate_options;
// Of tc_quantize and tc_dequantize.
typedef struct tc_quantize_options {
  int axis;  // along which the channels of a scale of rank 1, or groups, lie
  int64_t group;  // elements along axis that share a scale; 0: there are no groups
} tc_quantize_options;
// Of tc_scaled_dot_product_attention.
typedef struct tc_attention_options {
  // true: query i sees keys 0 to i; with key_length, the last query sees all of them: keys 0 to
  // key_length - l + i
  bool causal;
  double scale;  // of q k^T; 1 / sqrt(e) if left out
  int64_t key_length;  // only keys below it are seen and read; 0: all. Another value needs no new plan
  double dropout;  // probability, applied to the weights
} tc_attention_options;

// What a loss gives of its elements.
typedef enum tc_reduction {
  TC_REDUCE_MEAN = 0,  // their mean, a scalar; of classes by weight. PyTorch's default
  TC_REDUCE_SUM = 1,  // their sum, a scalar
  TC_REDUCE_NONE = 2,  // themselves
  TC_REDUCE_BATCHMEAN = 3  // their sum by the first extent: of tc_kl_div_loss alone
} tc_reduction;
// An integer field in which 0 means left out takes this for a true 0, as TC_ZERO of a double.
#define TC_ZERO_INT INT64_MIN
// Of tc_mse_loss_with, tc_l1_loss_with, tc_smooth_l1_loss and tc_huber_loss_with.
typedef struct tc_loss_options {
  tc_reduction reduction;  // TC_REDUCE_MEAN if left out
  double delta;  // of huber: where it becomes straight, 1
  double beta;  // of smooth_l1: where it becomes straight, 1; TC_ZERO: nowhere, it is l1
} tc_loss_options;
// Of tc_cross_entropy_loss and tc_nll_loss_with.
typedef struct tc_cross_entropy_options {
  tc_reduction reduction;  // TC_REDUCE_MEAN if left out
  tc_tensor weight;  // [c], the classes' weights; {0, 0}: all 1
  double label_smoothing;  // in [0, 1], the share that all classes have alike; of cross_entropy alone
  int64_t ignore_index;  // the target that does not count, -100; class 0: TC_ZERO_INT
} tc_cross_entropy_options;
// Of tc_bce_loss and tc_bce_with_logits_loss.
typedef struct tc_bce_options {
  tc_reduction reduction;  // TC_REDUCE_MEAN if left out
  tc_tensor weight;  // of the elements, broadcast; {0, 0}: all 1
  tc_tensor pos_weight;  // of what is true, broadcast; {0, 0}: 1. Of tc_bce_with_logits_loss alone
} tc_bce_options;
// Of tc_kl_div_loss.
typedef struct tc_kl_div_options {
  tc_reduction reduction;  // TC_REDUCE_MEAN if left out
  bool log_target;  // true: the target is log probabilities, too
} tc_kl_div_options;
// Of tc_cosine_embedding_loss and tc_triplet_margin_loss.
typedef struct tc_margin_options {
  tc_reduction reduction;  // TC_REDUCE_MEAN if left out
  double margin;  // cosine_embedding 0, triplet_margin 1
  double p, eps;  // of triplet_margin: norm of the distance, 2; added to the differences, 1e-6
  bool swap;  // of triplet_margin, true: the negative's distance to the positive, where that is less
} tc_margin_options;

// Of tc_rotary_embedding.
typedef struct tc_rotary_options {
  bool interleaved;  // true: pairs are neighbours (GPT-J); false: elements of the two halves (LLaMA)
  int64_t offset;  // position of the first row; another value needs no new plan
} tc_rotary_options;

// ---- Ops: each row of api.def, and the same with a call site ----
#define TC_P(...) __VA_ARGS__
#define TC_FN(name, params, args) \
  TC_API tc_tensor name(TC_P params); \
  TC_API tc_tensor name##_at(TC_P params, tc_site site);
#include <tc/api.def>
#undef TC_FN

// ---- Ops whose result's shape depends on values, and ops with several results ----
// Results are on the operand's device and belong to the current scope. TC_ERR_HANDLE for a dead
// handle; the error of poison.

// Data-dependent shapes: these sync, and fail as sync points do (TC_ERR_MEMORY, TC_ERR_COMPILE,
// ...).
TC_API tc_tensor tc_nonzero(tc_tensor x);  // [n, rank] i64: where x is not 0, in row-major order
// [n], of x's type: x where mask is true, which is bool (TC_ERR_DTYPE); they broadcast
// (TC_ERR_SHAPE). Differentiable.
TC_API tc_tensor tc_masked_select(tc_tensor x, tc_tensor mask);
TC_API tc_tensor tc_unique(tc_tensor x);  // [n], of x's type: each value once, sorted
// Syncs. Writes into out whether |a - b| <= atol + rtol |b| everywhere, for operands that broadcast
// (TC_ERR_SHAPE); NaN is close to nothing. TC_ERR_ARG if out is NULL.
TC_API tc_status tc_allclose(tc_tensor a, tc_tensor b, double rtol, double atol, bool *out) TC_MUST_USE;
// Pieces of size along axis (the last may be smaller) into out[0..n). TC_ERR_ARG unless there are n
// of them.
TC_API tc_status tc_split(tc_tensor x, int64_t size, int axis, int n, tc_tensor *out);
// Grids of n tensors [a], [b], .. ("ij" order): n tensors [a, b, ..] into out. TC_ERR_SHAPE if one
// has more axes, TC_ERR_ARG unless n is 1 to TC_MAX_RANK.
TC_API tc_status tc_meshgrid(int n, const tc_tensor *xs, tc_tensor *out);
// Sums of products by labels, as numpy.einsum: "ij,jk->ik" is a matrix product. Without "->" the
// result has the labels that occur once, in order; "..." are axes that broadcast.
// The result has the shape of the labels behind "->", and matmul's type: of several operands that
// are bytes (i8, u8), i32 with every spec. Integers wrap in it, and f16 and bf16 are f32 between
// the sums. bools have no sums of products (TC_ERR_DTYPE).
// The sum of one operand is tc_sum's; of bools it is whether any is true.
// 1 to 64 operands are contracted two at a time. Up to 6 take the cheapest of all orders, more a
// good one.
// TC_ERR_ARG for a spec that is not valid or does not name n operands, TC_ERR_SHAPE if extents that
// share a label differ.
TC_API tc_tensor tc_einsum(const char *spec, int n, const tc_tensor *operands);

#ifdef __cplusplus
}
#endif

#include <tc/sites.h>

#endif
