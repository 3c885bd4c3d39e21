// The table of functions that device/cuda and device/hip fill: a driver and its compiler, in the
// words of neither. Functions of a port are the same for both (port.c, replay.c).
//
// Out: results are the driver's own numbers, 0 for success. `judge` classifies and names them;
// state.c makes a status of them.
// Threads: functions of one device are called under its lock, except enter, leave, wait and
// event_wait. They are called between enter and leave, except those of the libraries, facts, open
// and close.
#pragma once

#include "device/gpu.h"
#include "device/gpu/driver_types.h"
#include "device/gpu/ranges.h"

// Streams of a device, each with an order of its own.
typedef enum tc_gpu_line {
  TC_GPU_WORK,  // kernels, and all else that writes tensors' memory
  TC_GPU_UP,  // copies from the host, into memory of their own (upload.c)
  TC_GPU_DOWN,  // copies to the host
  TC_GPU_CAPTURE,  // never runs: libraries' calls are captured here, while other threads may wait for WORK
} tc_gpu_line;
#define TC_GPU_N_LINES 4

// A device as its driver names it. Its streams and its pool are tc's own: the default ones are the
// caller's.
typedef struct tc_gpu_driver tc_gpu_driver;
typedef struct tc_gpu_port {
  const tc_gpu_driver *driver;
  int ordinal;
  void *context, *stream[TC_GPU_N_LINES], *pool;
  void *library[TC_GPU_N_LIBRARIES];  // handles; NULL: not open yet
  tc_gpu_line library_line[TC_GPU_N_LIBRARIES];  // the line that the library's work goes to
} tc_gpu_port;

typedef enum tc_gpu_verdict {
  TC_GPU_FINE,
  TC_GPU_REFUSED,  // this call alone failed
  TC_GPU_OUT_OF_MEMORY,  // memory is short
  TC_GPU_GONE,  // the device is of no use from now on: no device, or a sticky fault
} tc_gpu_verdict;

// The parameters of a kernel's node in the vendor's layout.
typedef struct tc_gpu_node_params {
  _Alignas(8) char bytes[80];
} tc_gpu_node_params;

// Functions that both vendors have under names of their own, and what is known once they are
// there. Objects are the vendor's; the vendors' driver.def have the symbols.
typedef struct tc_gpu_entry_points {
  int (*device_count)(int *n);
  int (*memory_info)(size_t *free_bytes, size_t *all_bytes);
  int (*pool_create)(void **pool, const void *properties);
  int (*pool_destroy)(void *pool);
  int (*pool_set)(void *pool, unsigned attribute, void *value);
  int (*pool_trim)(void *pool, size_t bytes_kept);
  int (*pool_alloc)(void **at, size_t bytes, void *pool, void *stream);
  int (*pool_free)(void *at, void *stream);
  int (*host_alloc)(void **at, size_t bytes, unsigned flags);  // pinned memory of the host
  int (*host_free)(void *at);
  int (*stream_create)(void **stream, unsigned flags);
  int (*stream_destroy)(void *stream);
  int (*stream_wait)(void *stream);
  int (*stream_follow)(void *stream, void *event, unsigned flags);
  int (*event_create)(void **event, unsigned flags);
  int (*event_elapsed)(float *ms, void *from, void *to);  // both were reached
  int (*event_destroy)(void *event);
  int (*event_record)(void *event, void *stream);
  int (*event_wait)(void *event);
  int (*module_load)(void **module, const void *image);
  int (*module_unload)(void *module);
  int (*module_function)(void **function, void *module, const char *name);
  int (*launch)(void *function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, unsigned threads_x,
                unsigned threads_y, unsigned threads_z, unsigned shared_bytes, void *stream, void **parameters,
                void **extra);
  int (*graph_create)(void **graph, unsigned flags);
  int (*graph_destroy)(void *graph);
  int (*graph_add_kernel)(void **node, void *graph, void *const *before, size_t n_before, const void *parameters);
  int (*graph_add_child)(void **node, void *graph, void *const *before, size_t n_before, void *child);
  int (*graph_instantiate)(void **exec, void *graph, unsigned long long flags);
  int (*exec_set_kernel)(void *exec, void *node, const void *parameters);
  int (*exec_launch)(void *exec, void *stream);
  int (*exec_destroy)(void *exec);
  int (*capture_begin)(void *stream, unsigned mode);
  int (*capture_end)(void *stream, void **graph);
  char version[32];  // "CUDA 13.0"
  uint32_t most_value_bytes;  // of a kernel's parameter, at most
  // True: no node of its graphs can be changed, so what changes from run to run is launched before
  // them.
  bool replay_is_fixed;
} tc_gpu_entry_points;

// Code as the compiler made it, to be freed with tc_free.
typedef struct tc_gpu_image {
  void *data;  // with a zero byte behind it
  size_t bytes;
} tc_gpu_image;

typedef struct tc_gpu_loaded {
  void *module, *function;
} tc_gpu_loaded;

// One run of a library's work.
typedef struct tc_gpu_request {
  tc_gpu_library library;
  void *made;
  const tc_gpu_algorithm *algorithm;
  const void *left, *right, *bias;
  void *result, *workspace;
} tc_gpu_request;

typedef struct tc_gpu_node {
  void *function;
  uint32_t blocks, threads, shared_bytes;
  void *parameter;  // address of the kernel's one parameter, read before the call returns
  const tc_gpu_request *request;  // NULL: a kernel; else the other fields do not count
} tc_gpu_node;

typedef struct tc_gpu_replay tc_gpu_replay;  // a graph that can be launched: nodes one after the other

// A library, through its driver's port. The driver judges its results.
typedef struct tc_gpu_library_driver {
  bool measured_alone;  // true: no rule selects it, because what it says of itself is not enough
  // Opens it once, a thread at a time; false with one sentence in why.
  bool (*ready)(const tc_gpu_port *p, const tc_gpu_facts *facts, char *why, size_t bytes);
  const char *(*name)(const tc_gpu_port *p);  // and its version: "cuBLASLt 13.1.0"
  int (*open)(tc_gpu_port *p);  // for this device; the driver's close closes it
  int (*make)(tc_gpu_port *p, const tc_gpu_work *w, void **out);  // describes the work to the library
  void (*drop)(void *made);
  int (*find)(tc_gpu_port *p, void *made, tc_gpu_algorithm *out, int most, int *n);
  int (*check)(tc_gpu_port *p, void *made, tc_gpu_algorithm *a);  // refuses it, or writes its workspace
  int (*set_stream)(tc_gpu_port *p, void *stream);  // later work goes there; NULL: `run` says it each time
  int (*run)(tc_gpu_port *p, const tc_gpu_request *request);  // enqueues the work in request's stream
} tc_gpu_library_driver;

struct tc_gpu_driver {
  const char *name;  // "CUDA"
  const char *words;  // text of the header tc_words.h
  const char *options;  // the compiler's, besides the architecture: a part of the key of an image
  const tc_gpu_entry_points *entry;  // filled by open_library

  // ---- the libraries ----
  // Called once. False with one sentence in why: the driver is absent or refuses.
  bool (*open_library)(char *why, size_t bytes);
  tc_gpu_verdict (*judge)(int result, const char **name);  // *name is never NULL

  // ---- the compiler ----
  // Opens it once, and replaces the device's architecture in facts->arch by the compiler's target.
  // False with one sentence in why: there is no compiler, or it has no target for such a device.
  bool (*choose_arch)(tc_gpu_facts *facts, char *why, size_t bytes);
  const char *(*compiler)(void);  // its name and version: a part of the key of an image
  // Called without locks, by many threads. TC_ERR_COMPILE with the log.
  tc_status (*compile)(const char *arch, const char *name, const char *source, tc_gpu_image *out);

  // ---- a device ----
  // On failure nothing is left behind. what: static text that says which step failed.
  int (*facts)(int ordinal, tc_gpu_facts *out, const char **what);
  int (*open)(tc_gpu_port *p, const char **what);
  void (*close)(tc_gpu_port *p, bool lost);  // lost: objects made on it are not touched any more
  int (*enter)(tc_gpu_port *p);  // this thread works on the device until leave
  void (*leave)(tc_gpu_port *p);  // restores what the caller works on

  // ---- memory; all three read their source when the copy runs ----
  int (*write)(tc_gpu_port *p, tc_gpu_line line, void *to, const void *staging, size_t bytes);
  int (*read)(tc_gpu_port *p, tc_gpu_line line, void *staging, const void *from, size_t bytes);
  int (*copy)(tc_gpu_port *p, void *to, const void *from, size_t bytes);  // in WORK

  // ---- code ----
  // More shared memory of a block than usual; NULL: a block may use all without a call.
  int (*allow_shared)(void *function, uint32_t bytes);
  // Called where facts say `wgmma`.
  int (*map)(const tc_gpu_tensor_map *m, const void *at, uint64_t *words);

  // ---- libraries; NULL: there is none of this kind ----
  const tc_gpu_library_driver *library[TC_GPU_N_LIBRARIES];

  // ---- ranges for profilers ----
  bool (*ranges_open)(tc_gpu_ranges *out, char *why, size_t bytes);  // called once; false with one sentence in why
  bool (*profiler_attached)(void);

  // ---- replay ----
  const char *(*no_replay)(void);  // static text why this driver cannot replay; NULL: it can
  void (*node_params)(const tc_gpu_node *node, void **parameters, tc_gpu_node_params *out);
};

// ---- a port (port.c) ----

// Enters the device and makes the port's streams and pool. On failure the port is closed.
int tc_gpu_port_open(tc_gpu_port *p, const char **what);
void tc_gpu_port_fini(tc_gpu_port *p);  // destroys them. pre: entered
int tc_gpu_port_wait(tc_gpu_port *p);  // for all that was launched before, in every line
int tc_gpu_port_take(tc_gpu_port *p, tc_gpu_line line, size_t bytes, void **out);  // valid for later work of the line
int tc_gpu_port_give(tc_gpu_port *p, void *at);  // once WORK gets there
int tc_gpu_port_free_bytes(const tc_gpu_port *p, size_t *out);
int tc_gpu_port_record(tc_gpu_port *p, tc_gpu_line line, void *event);
// Later work of the line waits for the last recording of the event, if there was one.
int tc_gpu_port_follow(tc_gpu_port *p, tc_gpu_line line, void *event);
int tc_gpu_port_load(tc_gpu_port *p, const tc_gpu_image *image, const char *name, tc_gpu_loaded *out);
int tc_gpu_port_launch(tc_gpu_port *p, tc_gpu_line line, const tc_gpu_node *node);
// Moves the work of node's library to this line. Does nothing for a kernel.
int tc_gpu_port_set_line(tc_gpu_port *p, tc_gpu_line line, const tc_gpu_node *node);

// ---- graphs (replay.c) ----

int tc_gpu_replay_create(tc_gpu_port *p, const tc_gpu_node *node, uint32_t n, tc_gpu_replay **out);
// Takes effect at the next launch; launches under way keep their parameter.
int tc_gpu_replay_set(tc_gpu_port *p, tc_gpu_replay *r, uint32_t i, const tc_gpu_node *node);
int tc_gpu_replay_launch(tc_gpu_port *p, tc_gpu_replay *r);
void tc_gpu_replay_destroy(tc_gpu_port *p, tc_gpu_replay *r, bool lost);  // lost: as in close

extern const tc_gpu_driver tc_cuda_driver, tc_hip_driver;
const tc_gpu_driver *tc_gpu_driver_of(tc_device d);  // NULL: d is no GPU
