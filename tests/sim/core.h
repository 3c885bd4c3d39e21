// A simulated GPU driver: what its faces (CUDA's names in cuda*.c, HIP's in hip.c) have in common.
// Devices, memory, streams, graphs, code and faults.
//
// Idea: nothing of it is a device's. Memory is host memory with a state for every byte; work is a
// queue for every stream, run as late as a seed says and in any order that the rules allow; a
// kernel is the generated text compiled for the host and run by a fiber for every thread (run.h).
// Invariants: every function here is called with the one lock held (sim_enter takes it). Objects
// are never freed, only marked dead, so that a stale handle is an error and not a crash. Errors
// have CUDA's numbers; HIP's are the same where both have them.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_EXPORT __attribute__((visibility("default")))

typedef enum sim_error {
  SIM_OK = 0,
  SIM_INVALID = 1,
  SIM_MEMORY = 2,
  SIM_NOT_INITIALIZED = 3,
  SIM_INVALID_FUNCTION = 98,
  SIM_NO_DEVICE = 100,
  SIM_INVALID_DEVICE = 101,
  SIM_INVALID_IMAGE = 200,
  SIM_INVALID_CONTEXT = 201,
  SIM_NO_BINARY = 209,
  SIM_INVALID_PTX = 218,
  SIM_UNSUPPORTED_PTX = 222,
  SIM_INVALID_HANDLE = 400,
  SIM_ILLEGAL_STATE = 401,
  SIM_NOT_FOUND = 500,
  SIM_NOT_READY = 600,
  SIM_ILLEGAL_ADDRESS = 700,
  SIM_TOO_MANY_RESOURCES = 701,
  SIM_PEER_ENABLED = 704,
  SIM_HOST_REGISTERED = 712,
  SIM_HOST_NOT_REGISTERED = 713,
  SIM_MISALIGNED = 716,
  SIM_LAUNCH_FAILED = 719,
  SIM_NOT_SUPPORTED = 801,
  SIM_CAPTURE_UNSUPPORTED = 900,
  SIM_CAPTURE_INVALIDATED = 901,
  SIM_CAPTURE_UNMATCHED = 903,
  SIM_CAPTURE_UNJOINED = 904,
  SIM_GRAPH_UPDATE = 910,
  SIM_INVALID_CLUSTER = 912,
  SIM_UNKNOWN = 999,
} sim_error;

#define SIM_TRY(call) \
  do { \
    sim_error sim_try = (call); \
    if (sim_try != SIM_OK) return sim_try; \
  } while (0)

enum { SIM_MAX_DEVICES = 8, SIM_MAX_THREADS = 1024, SIM_MAX_SHARED = 232448, SIM_MAX_CLUSTER = 8 };

typedef struct sim_device sim_device;
typedef struct sim_stream sim_stream;

// What a handle points at. A face gives its own pointer types to these.
typedef enum sim_kind {
  SIM_CONTEXT = 0x51a0,
  SIM_STREAM,
  SIM_EVENT,
  SIM_MODULE,
  SIM_KERNEL,
  SIM_GRAPH,
  SIM_NODE,
  SIM_EXEC,
  SIM_POOL,
  SIM_LIBRARY
} sim_kind;
typedef struct sim_object {
  sim_kind kind;
  bool dead;
  sim_device *device;
  struct sim_object *next;  // every object there ever was
} sim_object;

// What is exported here and below is for simulated libraries (blas_lt.c, rocblas.c), which are libraries
// of their own.
SIM_EXPORT void *sim_object_new(sim_kind kind, sim_device *device, size_t bytes);  // zeroed
SIM_EXPORT void sim_object_end(void *object);
SIM_EXPORT bool sim_alive(const void *object, sim_kind kind);

SIM_EXPORT uint64_t sim_hash(const void *p, size_t bytes, uint64_t seed);

// ---- code ----

typedef struct sim_module {
  sim_object object;
  struct sim_code *steps;  // what the simulator runs itself (code.h); NULL: the host's code
  uint8_t *code;  // mapped
  size_t code_bytes;
  void *image;  // the object file, for the places of faults
  size_t image_bytes;
  char *source;
  struct sim_kernel *kernel;  // linked
} sim_module;

typedef struct sim_kernel {
  sim_object object;
  sim_module *module;
  struct sim_kernel *next;
  char *name;
  void (*entry)(void *params);  // of the host's code
  const struct sim_function *function;  // of steps
  int threads, param_bytes;
  int cluster;  // blocks that run together, 1: each is alone
  int shared_limit;  // of dynamic shared memory, by attribute
} sim_kernel;

// An image as the simulated compilers make it: this header, the object file, the source. Without an
// object the simulator runs the source itself.
typedef struct sim_image {
  char magic[8];
  char arch[16];
  uint64_t object_bytes, source_bytes, hash;
} sim_image;
#define SIM_IMAGE_MAGIC "SIMCODE2"

// *out is the device's. The image is copied. An image runs on its architecture alone; one that was
// text also on newer ones.
sim_error sim_module_load(sim_device *d, const void *image, bool was_text, sim_module **out);
void sim_module_unload(sim_module *m);
// The module's kernel of that name, or NULL.
sim_kernel *sim_kernel_find(sim_module *m, const char *name);
// "line 12: text" of code at this address, or "" where it is not known. Valid until the next call.
const char *sim_place(const sim_module *m, const void *address);

// ---- work ----

typedef struct sim_launch {
  sim_kernel *kernel;
  unsigned grid[3], block[3], shared;
  void *params;  // owned
} sim_launch;

// Whether a record of an event has been reached. Counted.
typedef struct sim_mark {
  int refs;
  bool done;
  double ms;
} sim_mark;

typedef struct sim_event {
  sim_object object;
  sim_mark *mark;  // of the last record; NULL: never
  bool timing;
  struct sim_node *node;  // where it was recorded last in a capture
  struct sim_graph *graph;
} sim_event;

typedef enum sim_op_kind {
  SIM_OP_EMPTY,
  SIM_OP_KERNEL,
  SIM_OP_COPY,
  SIM_OP_SET,
  SIM_OP_RECORD,
  SIM_OP_WAIT,
  SIM_OP_HOST,
  SIM_OP_ALLOC,
  SIM_OP_FREE,
  SIM_OP_CHILD,
  SIM_OP_CALL,
} sim_op_kind;

// One thing for a device to do. Owns launch.params, `staged` and a reference to `mark`.
typedef struct sim_op {
  sim_op_kind kind;
  sim_launch launch;
  uintptr_t to, from;  // COPY; SET, ALLOC, FREE: to
  size_t bytes;
  // COPY: the source as it was when asked for; then `from` is this. CALL: what it is given, of so
  // many bytes
  void *staged;
  sim_error (*call)(sim_device *, const void *staged);  // CALL: what a library does
  uint32_t value;  // SET
  int width;  // SET: bytes of the value
  sim_mark *mark;  // RECORD, WAIT
  sim_event *event;  // of graph nodes
  void (*host)(void *);
  void *data;
  sim_stream *stream;  // FREE: in whose order, NULL for at once;
  uint64_t number;  // and which of its frees
  struct sim_plan *child;
} sim_op;

// One launch, its parameter copied, if a device allows it: no more threads and shared memory than
// the kernel may have, grids of 2^31 x 65535 x 65535.
sim_error sim_launch_new(sim_kernel *k, const unsigned grid[3], const unsigned block[3], unsigned shared,
                         void **parameters, int most_param_bytes, sim_op *out);
void sim_op_fini(sim_op *op);
sim_error sim_op_copy(const sim_op *op, sim_op *out);  // a deep copy

typedef struct sim_work {
  sim_op op;
  struct sim_work *next;
  uint64_t number;  // in the order of asking
  double asked_ms;  // by the host's clock
  struct sim_plan *plan;  // of a graph's launch: what is run,
  bool *done;  // which of its nodes have been,
  sim_mark **mark;  // and of its nodes with events, what this launch reaches or waits for
  int n_left;
  struct sim_exec *exec;
} sim_work;

struct sim_stream {
  sim_object object;
  sim_work *first, **last;
  double clock_ms;  // when the work that was done last was done
  bool busy;  // its first work is being done
  bool blocking;  // waits for the legacy stream, and it for this one
  bool per_device;  // the legacy stream: lives as long as the device
  struct sim_stream *sibling;  // of the device's streams
  // Capture:
  struct sim_graph *capture;  // NULL: none
  bool capture_broken, capture_adopted;  // invalidated; into a graph of the caller's
  bool capture_origin, capture_relaxed;
  struct sim_node **tip;  // what the next captured node comes after
  int n_tip;
  uintptr_t capture_thread;
};

// Graphs: nodes in the order in which they were added. A plan is a graph's copy that is run;
// counted, never changed once it was launched.
typedef struct sim_node {
  sim_object object;
  struct sim_graph *graph;
  sim_op op;
  int index, n_deps;
  int *deps;
} sim_node;

typedef struct sim_graph {
  sim_object object;
  sim_node **node;
  int n, cap;
} sim_graph;

typedef struct sim_plan_node {
  sim_op op;
  int n_deps, *deps;
} sim_plan_node;
typedef struct sim_plan {
  int refs, n;
  sim_plan_node *node;
} sim_plan;

typedef struct sim_exec {
  sim_object object;
  sim_graph *graph;
  sim_plan *plan;
} sim_exec;

sim_mark *sim_mark_new(void);
void sim_mark_drop(sim_mark *m);
sim_error sim_event_renew(sim_event *e);  // gives it a new mark
void sim_event_end(sim_event *e);
// In the stream's order, or in its capture.
sim_error sim_record(sim_stream *s, sim_event *e);
sim_error sim_wait_event(sim_stream *s, sim_event *e);
// Captures what is asked of s into a graph, into `into` where that is given, after its nodes
// `deps`.
sim_error sim_capture_begin(sim_stream *s, bool relaxed, sim_graph *into, sim_node *const *deps, size_t n_deps);
sim_error sim_capture_end(sim_stream *s, sim_graph **out);
// A stream that captures does not run: nobody can wait for it, and who tries has spoilt the
// capture.
sim_error sim_not_captured(sim_stream *s);
// Puts work at a stream's end, or into its capture. Takes what op owns, also on failure.
SIM_EXPORT sim_error sim_enqueue(sim_stream *s, sim_op *op);
sim_error sim_enqueue_exec(sim_stream *s, sim_exec *e);
sim_stream *sim_stream_new(sim_device *d, bool blocking);
void sim_stream_end(sim_stream *s);
// Runs until what is waited for is done; what else is run meanwhile is the seed's to say. The
// device's sticky error, if it has one.
sim_error sim_wait_stream(sim_stream *s);
sim_error sim_wait_recorded(const sim_event *e);  // for its last record, if there is one
sim_error sim_wait_device(sim_device *d);
// One piece of work, if any is ready: progress for those who poll.
bool sim_step(sim_device *d);
// Does now what op says, as the device would, in this stream, or in none (NULL).
void sim_perform(sim_device *d, sim_stream *s, const sim_op *op);

sim_graph *sim_graph_new(sim_device *d);
void sim_graph_end(sim_graph *g);
// deps of g. Takes what op owns, also on failure.
sim_error sim_graph_add(sim_graph *g, sim_node *const *deps, size_t n_deps, sim_op *op, sim_node **out);
sim_error sim_exec_new(sim_device *d, sim_graph *g, sim_exec **out);
void sim_exec_end(sim_exec *e);
// This kernel node of its graph is another launch from the next launch of e on. Takes what op owns,
// also on failure.
sim_error sim_exec_set(sim_exec *e, const sim_node *node, sim_op *op);
sim_plan *sim_plan_new(const sim_graph *g);
void sim_plan_drop(sim_plan *p);

// ---- devices and memory ----

typedef struct sim_segment {
  uintptr_t at;
  size_t bytes, asked;
  enum { SIM_FREE, SIM_USED, SIM_FREEING } use;
  sim_stream *stream;  // FREEING: in whose order it will be free,
  uint64_t number;  // after which of its frees
  struct sim_pool *pool;
  struct sim_segment *next;
} sim_segment;

typedef struct sim_pool {
  sim_object object;
  uint64_t release_threshold, used, used_high;
} sim_pool;

struct sim_device {
  int index, refs;  // refs: of the primary context
  sim_object *context;
  sim_error sticky;
  sim_segment *segment;  // its memory, by address
  size_t used_bytes;
  sim_stream *streams, *legacy;
  sim_pool *pool;  // the default one
  bool peer[SIM_MAX_DEVICES];  // whose memory kernels here may reach
  double host_ms;  // when the host came back from the last thing that it waited for
  double copies_ms, others_ms;  // what all work took, one thing after the other
};

// Each face says whether it is HIP's.
extern const bool sim_is_hip;

// What the environment chose (TC_SIM_*), read once.
typedef struct sim_options {
  int n_devices, arch;  // 90: sm_90
  char gfx[32];  // of HIP's face: "gfx90a"
  int warp, processors;
  size_t memory_bytes, shared_optin;
  uint64_t seed;
  int eager;  // percent of calls at which a piece of work runs
  bool truncating, slow_copies, leaks;
  unsigned slow_capture_us;  // for which a call that is captured gives the lock up
  bool idle;  // no kernel runs, and nothing of a library's
  int driver_version;
} sim_options;

extern sim_options sim_option;
extern sim_device sim_devices[SIM_MAX_DEVICES];

bool sim_setup(void);  // reads the options, takes address space; false: no memory for it
uint32_t sim_random(uint32_t below);
uint64_t sim_next_number(void);

// States of a byte of device or shared memory.
enum { SIM_NOTHING, SIM_UNWRITTEN, SIM_WRITTEN, SIM_GONE, SIM_COPYING };
SIM_EXPORT extern uint8_t *sim_memory, *sim_state;  // of all devices, one after the other
extern size_t sim_memory_size;
bool sim_memory_setup(void);
SIM_EXPORT sim_device *sim_memory_device(uintptr_t at);  // whose memory this is, or NULL

void sim_pool_end(sim_pool *p);  // memory of it that is in use is a mistake
// stream NULL: at once. Otherwise in its order: memory whose giving back was asked for earlier in
// it may be taken.
sim_error sim_alloc(sim_device *d, size_t bytes, sim_stream *stream, sim_pool *pool, uintptr_t *out);
sim_error sim_free(sim_device *d, uintptr_t at, sim_stream *stream);
sim_segment *sim_segment_of(uintptr_t at);  // in use, that holds this address; NULL: none
void sim_segments_freed(const sim_op *op);  // this FREE has run
// The bytes are of one allocation of d, or of a peer's.
bool sim_reachable(sim_device *d, uintptr_t at, size_t bytes);
// Memory to memory, either side a device's or the host's. Bytes that were never written arrive as
// 0xff.
sim_error sim_copy_bytes(uintptr_t to, uintptr_t from, size_t bytes);
sim_error sim_set_bytes(uintptr_t to, uint32_t value, int width, size_t bytes);

// Pinned host memory.
sim_error sim_pin(void *p, size_t bytes, bool owned);
sim_error sim_unpin(void *p, bool owned);
bool sim_pinned(uintptr_t p, size_t bytes);
// Pinned memory of the simulator's own. Giving it back waits for the current device.
sim_error sim_host_alloc(size_t bytes, void **out);
sim_error sim_host_free(void *p);

// ---- faults ----

// A mistake found: printed, counted, and kept for sim_fault_text. One line for each place (key),
// the rest only counted. kernel text may be "".
SIM_EXPORT void sim_fault(uint64_t key, const char *format, ...) __attribute__((format(printf, 2, 3)));
// For tests, exported: how many mistakes were found, what they were, a line each, and forgetting
// them, so that they do not fail the process.
SIM_EXPORT int sim_faults(void);
SIM_EXPORT const char *sim_fault_text(void);
SIM_EXPORT void sim_forget(void);
// "NAME:N=CODE", more after commas: the Nth call of NAME from now on (or the Nth kernel run, as
// `kernel`) gives CODE; N `*`: every one; CODE with `!`: sticky. NULL: none. False: not understood.
SIM_EXPORT bool sim_fail(const char *spec);
// What TC_SIM_FAIL or sim_fail says about this call; with *sticky.
sim_error sim_injected(const char *name, bool *sticky);
// Counts calls by name, for tests: how often it was called.
SIM_EXPORT uint64_t sim_calls(const char *name);
// What a kernel that begins to run was launched with, or, kernel being NULL, what a library's work
// was given: a product is a sim_product (product.h).
typedef struct sim_begun {
  const char *kernel;
  unsigned blocks, threads, shared_bytes;
  const void *parameter;
} sim_begun;
// For tests that look from outside: see(arg, launch) is called whenever a kernel or a library's
// work begins, under the simulator's lock: it calls nothing of it. Memory of the device can be read
// at its address. NULL: no more.
SIM_EXPORT void sim_watch(void (*see)(void *arg, const sim_begun *launch), void *arg);
// The simulated time of device d: when the host came back from what it waited for last; when all
// work is done; what all copies, and all else, took together. Each stream has a clock of its own,
// as if nothing else ran, and waits for events' times; in which order the simulator runs things
// does not matter.
typedef struct sim_times {
  double host_ms, end_ms, copies_ms, others_ms;
} sim_times;
SIM_EXPORT sim_times sim_time(int d);
// How much is alive of device d: bytes, and objects of all kinds.
SIM_EXPORT size_t sim_live_bytes(int d);
SIM_EXPORT int sim_live_objects(void);

// Halves, f16 and bf16; nearest, ties to even.
SIM_EXPORT float sim_half_value(uint16_t h);
SIM_EXPORT float sim_bfloat_value(uint16_t h);
SIM_EXPORT uint16_t sim_half_of(double v);
SIM_EXPORT uint16_t sim_bfloat_of(double v);

// ---- entering ----

enum { SIM_NEEDS_INIT = 1, SIM_NEEDS_CONTEXT = 2, SIM_NOT_IN_CAPTURE = 4, SIM_AFTER_FAULT = 8 };
typedef struct sim_guard {
  sim_error error;
  bool locked;
} sim_guard;
// Takes the lock, and says whether the call may go on. In a child of the process that called the
// face's init it may not, ever.
SIM_EXPORT sim_guard sim_enter(const char *name, int needs);
SIM_EXPORT void sim_leave(sim_guard *g);
// Gives the lock up for a while, for calls into the program.
void sim_unlock(void);
void sim_lock(void);
#define SIM_ENTER(needs) \
  sim_guard guard __attribute__((cleanup(sim_leave))) = sim_enter(__func__, (needs)); \
  if (guard.error != SIM_OK) return guard.error

void sim_start(void);  // by the face's init call
// This thread's contexts, innermost last.
sim_object *sim_current(void);
bool sim_push(sim_object *context);
sim_object *sim_pop(void);
void sim_set_current(sim_object *context);
SIM_EXPORT sim_device *sim_here(void);  // the current context's
