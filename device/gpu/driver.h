// The table of functions that device/cuda and device/hip fill: a driver and its compiler, in the
// words of neither.
//
// Out: results are the driver's own numbers, 0 for success. `judge` classifies and names them;
// state.c makes a status of them.
// Threads: functions of one device are called under its lock, except enter, leave, wait and
// event_wait. They are called between enter and leave, except those of the libraries, facts, open
// and close.
#pragma once

#include "device/gpu.h"
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
typedef struct tc_gpu_port {
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
  int (*run)(tc_gpu_port *p, const tc_gpu_request *request);  // in the stream of its line
} tc_gpu_library_driver;

typedef struct tc_gpu_driver {
  const char *name;  // "CUDA"
  const char *words;  // text of the header tc_words.h

  // ---- the libraries ----
  // Called once. False with one sentence in why: the driver is absent or refuses.
  bool (*open_library)(char *why, size_t bytes);
  int (*count)(int *n);
  tc_gpu_verdict (*judge)(int result, const char **name);  // *name is never NULL
  const char *(*version)(void);  // "CUDA 13.0"
  uint32_t (*most_value_bytes)(void);  // of a kernel's parameter, at most

  // ---- the compiler ----
  // Opens it once, and replaces the device's architecture in facts->arch by the compiler's target.
  // False with one sentence in why: there is no compiler, or it has no target for such a device.
  bool (*choose_arch)(tc_gpu_facts *facts, char *why, size_t bytes);
  // Return its name and version, and its options besides the architecture: parts of the key of an
  // image.
  const char *(*compiler)(void);
  const char *(*options)(void);
  // Called without locks, by many threads. TC_ERR_COMPILE with the log.
  tc_status (*compile)(const char *arch, const char *name, const char *source, tc_gpu_image *out);

  // ---- a device ----
  // On failure nothing is left behind. what: static text that says which step failed.
  int (*facts)(int ordinal, tc_gpu_facts *out, const char **what);
  int (*open)(tc_gpu_port *p, const char **what);
  void (*close)(tc_gpu_port *p, bool lost);  // lost: objects made on it are not touched any more
  int (*enter)(tc_gpu_port *p);  // this thread works on the device until leave
  void (*leave)(tc_gpu_port *p);  // restores what the caller works on
  int (*wait)(tc_gpu_port *p);  // for all that was asked for, in every line

  // ---- memory ----
  int (*take)(tc_gpu_port *p, tc_gpu_line line, size_t bytes, void **out);  // valid for later work of the line
  int (*give)(tc_gpu_port *p, void *at);  // once WORK gets there
  int (*trim)(tc_gpu_port *p);  // frees what the pool keeps
  int (*free_memory)(tc_gpu_port *p, size_t *free_bytes);
  int (*staging_take)(tc_gpu_port *p, size_t bytes, void **out);  // pinned memory of the host
  int (*staging_give)(tc_gpu_port *p, void *at);
  // All three read their source when the copy runs.
  int (*write)(tc_gpu_port *p, tc_gpu_line line, void *to, const void *staging, size_t bytes);
  int (*read)(tc_gpu_port *p, tc_gpu_line line, void *staging, const void *from, size_t bytes);
  int (*copy)(tc_gpu_port *p, void *to, const void *from, size_t bytes);  // in WORK
  int (*event_create)(tc_gpu_port *p, void **out);
  // An event that also records when it was reached.
  int (*timer_create)(tc_gpu_port *p, void **out);
  int (*timer_between)(tc_gpu_port *p, void *from, void *to, float *ms);  // both were reached
  int (*event_destroy)(tc_gpu_port *p, void *event);
  int (*event_record)(tc_gpu_port *p, tc_gpu_line line, void *event);
  // Later work of the line waits for the last recording of the event, if there was one.
  int (*event_follow)(tc_gpu_port *p, tc_gpu_line line, void *event);
  int (*event_wait)(tc_gpu_port *p, void *event);

  // ---- code ----
  int (*load)(tc_gpu_port *p, const tc_gpu_image *image, const char *name, tc_gpu_loaded *out);
  int (*unload)(tc_gpu_port *p, tc_gpu_loaded *loaded);
  int (*allow_shared)(tc_gpu_port *p, void *function, uint32_t bytes);  // more shared memory of a block than usual
  int (*launch)(tc_gpu_port *p, const tc_gpu_node *node);

  // called where facts say `wgmma`
  int (*map)(tc_gpu_port *p, const tc_gpu_tensor_map *m, const void *at, uint64_t *words);

  // ---- libraries; NULL: there is none of this kind ----
  const tc_gpu_library_driver *library[TC_GPU_N_LIBRARIES];

  // ---- ranges for profilers ----
  bool (*ranges_open)(tc_gpu_ranges *out, char *why, size_t bytes);  // called once; false with one sentence in why
  bool (*profiler_attached)(void);

  // ---- replay ----
  const char *(*no_replay)(void);  // static text why this driver cannot replay; NULL: it can
  // True: no node of its graphs can be changed, so what changes from run to run is launched before
  // them.
  bool (*replay_is_fixed)(void);
  int (*replay_create)(tc_gpu_port *p, const tc_gpu_node *node, uint32_t n, tc_gpu_replay **out);
  // Takes effect at the next launch; launches under way keep their parameter.
  int (*replay_set)(tc_gpu_port *p, tc_gpu_replay *r, uint32_t i, const tc_gpu_node *node);
  int (*replay_launch)(tc_gpu_port *p, tc_gpu_replay *r);
  void (*replay_destroy)(tc_gpu_port *p, tc_gpu_replay *r, bool lost);  // lost: as in close
} tc_gpu_driver;

// Moves the library's later work to this line.
int tc_gpu_library_set_line(tc_gpu_port *p, const tc_gpu_library_driver *library, tc_gpu_library which,
                            tc_gpu_line line);

extern const tc_gpu_driver tc_cuda_driver, tc_hip_driver;
const tc_gpu_driver *tc_gpu_driver_of(tc_device d);  // drivers.c; NULL: d is no GPU
