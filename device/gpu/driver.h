// What device/cuda and device/hip fill: a driver and its compiler, as a table of functions in the
// words of neither.
//
// Results are the driver's own numbers, 0 for success, which `judge` tells apart and names; gpu.c
// makes a status of them. All functions of one device but enter, leave, wait and event_wait are
// called under its lock; all between enter and leave but those of the libraries, facts, open and
// close.
#ifndef TC_DEVICE_GPU_DRIVER_H
#define TC_DEVICE_GPU_DRIVER_H

#include "device/gpu.h"
#include "device/gpu/ranges.h"

// Streams of a device, each with an order of its own.
typedef enum tc_gpu_line {
  TC_GPU_WORK,  // kernels, and all else that writes tensors' memory
  TC_GPU_UP,  // copies from the host, into memory of their own (upload.c)
  TC_GPU_DOWN,  // copies to the host
  TC_GPU_CAPTURE,  // never runs anything: what libraries do is captured here, while other threads may wait for WORK
} tc_gpu_line;
#define TC_GPU_N_LINES 4

// A device as its driver names it. Its streams and its pool are tc's own: the default ones are the
// caller's.
typedef struct tc_gpu_port {
  int ordinal;
  void *context, *stream[TC_GPU_N_LINES], *pool;
  void *library[TC_GPU_N_LIBRARIES];  // handles, once they are open
  tc_gpu_line library_line[TC_GPU_N_LIBRARIES];  // where what they are asked for goes
} tc_gpu_port;

typedef enum tc_gpu_verdict {
  TC_GPU_FINE,
  TC_GPU_REFUSED,  // this call, and no more
  TC_GPU_SHORT,  // of memory
  TC_GPU_GONE,  // the device is of no use from now on: no device, a sticky fault
} tc_gpu_verdict;

// Code as the compiler made it, to be freed with tc_free.
typedef struct tc_gpu_image {
  void *data;  // with a zero behind it
  size_t bytes;
} tc_gpu_image;

typedef struct tc_gpu_loaded {
  void *module, *function;
} tc_gpu_loaded;

// A library's work as it is asked for.
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
  void *parameter;  // where its one parameter lies; read before the call that is given it returns
  const tc_gpu_request *request;  // in the place of all these; NULL: a kernel
} tc_gpu_node;

typedef struct tc_gpu_replay tc_gpu_replay;  // a graph that can be launched: nodes one after the other

// A library, as its driver's port names it. What it answers is judged with the driver's results.
typedef struct tc_gpu_library_driver {
  bool measured_alone;  // no rule takes it: what it says of itself is not enough
  // Opens it once, a thread at a time; false with why not, in one sentence.
  bool (*ready)(const tc_gpu_port *p, const tc_gpu_facts *facts, char *why, size_t bytes);
  const char *(*name)(const tc_gpu_port *p);  // and its version: "cuBLASLt 13.1.0"
  int (*open)(tc_gpu_port *p);  // for this device; closed by the driver's close
  int (*make)(tc_gpu_port *p, const tc_gpu_work *w, void **out);  // what the library is told of it
  void (*drop)(void *made);
  int (*find)(tc_gpu_port *p, void *made, tc_gpu_algorithm *out, int most, int *n);
  int (*check)(tc_gpu_port *p, void *made, tc_gpu_algorithm *a);  // refused, or its workspace
  int (*turn)(tc_gpu_port *p, void *stream);  // what is asked for next goes there; NULL: `run` says it each time
  int (*run)(tc_gpu_port *p, const tc_gpu_request *request);  // in the stream of its line
} tc_gpu_library_driver;

typedef struct tc_gpu_driver {
  const char *name;  // "CUDA"
  const char *words;  // the text of the header tc_words.h

  // ---- the libraries ----
  // Called once. False with why not, in one sentence, if the driver is absent or refuses.
  bool (*open_library)(char *why, size_t bytes);
  int (*count)(int *n);
  tc_gpu_verdict (*judge)(int result, const char **name);  // its name; never NULL
  const char *(*version)(void);  // "CUDA 13.0"
  uint32_t (*most_value_bytes)(void);  // of a kernel's parameter

  // ---- the compiler ---- Opens it once. facts->arch, the device's own, becomes what it is
  // compiled for. False with why not, if there is no compiler or it knows nothing that such a
  // device runs.
  bool (*choose_arch)(tc_gpu_facts *facts, char *why, size_t bytes);
  // Its name and version, and the options beside the architecture: of the key of what it makes.
  const char *(*compiler)(void);
  const char *(*options)(void);
  // Called without locks, by many threads. TC_ERR_COMPILE with the log.
  tc_status (*compile)(const char *arch, const char *name, const char *source, tc_gpu_image *out);

  // ---- a device ----
  // On failure nothing is left behind. what: static text of what was asked for when it failed.
  int (*facts)(int ordinal, tc_gpu_facts *out, const char **what);
  int (*open)(tc_gpu_port *p, const char **what);
  void (*close)(tc_gpu_port *p, bool lost);  // lost: what was made on it is not touched any more
  int (*enter)(tc_gpu_port *p);  // this thread works on it, until
  void (*leave)(tc_gpu_port *p);  // what the caller works on is as it was
  int (*wait)(tc_gpu_port *p);  // for all that was asked for, in every line

  // ---- memory ----
  int (*take)(tc_gpu_port *p, tc_gpu_line line, size_t bytes, void **out);  // there for what the line is asked for next
  int (*give)(tc_gpu_port *p, void *at);  // when WORK has come there
  int (*trim)(tc_gpu_port *p);  // gives what the pool keeps back to the driver
  int (*room)(tc_gpu_port *p, size_t *free_bytes);
  int (*staging_take)(tc_gpu_port *p, size_t bytes, void **out);  // memory of the host that copies need not wait for
  int (*staging_give)(tc_gpu_port *p, void *at);
  // All read their source when the copy runs.
  int (*write)(tc_gpu_port *p, tc_gpu_line line, void *to, const void *staging, size_t bytes);
  int (*read)(tc_gpu_port *p, tc_gpu_line line, void *staging, const void *from, size_t bytes);
  int (*copy)(tc_gpu_port *p, void *to, const void *from, size_t bytes);  // in WORK
  int (*event_create)(tc_gpu_port *p, void **out);
  // an event that keeps the time at which it was reached; else as others
  int (*timer_create)(tc_gpu_port *p, void **out);
  int (*timer_between)(tc_gpu_port *p, void *from, void *to, float *ms);  // of two that were reached
  int (*event_destroy)(tc_gpu_port *p, void *event);
  int (*event_record)(tc_gpu_port *p, tc_gpu_line line, void *event);
  int (*event_follow)(tc_gpu_port *p, tc_gpu_line line,
                      // what the line is asked for next waits for what was recorded last, if
                      // anything was
                      void *event);
  int (*event_wait)(tc_gpu_port *p, void *event);  // the thread waits; at once for one that was never recorded

  // ---- code ----
  int (*load)(tc_gpu_port *p, const tc_gpu_image *image, const char *name, tc_gpu_loaded *out);
  int (*unload)(tc_gpu_port *p, tc_gpu_loaded *loaded);
  int (*allow_shared)(tc_gpu_port *p, void *function, uint32_t bytes);  // more of a block's memory than usual
  int (*launch)(tc_gpu_port *p, const tc_gpu_node *node);

  int (*map)(tc_gpu_port *p, const tc_gpu_map *m, const void *at, uint64_t *words);  // called where facts say `wgmma`

  // ---- libraries; NULL: there is none of this kind ----
  const tc_gpu_library_driver *library[TC_GPU_N_LIBRARIES];

  // ---- ranges for profilers ----
  bool (*ranges_open)(tc_gpu_ranges *out, char *why, size_t bytes);  // called once; false with why not, in one sentence
  bool (*profiler_attached)(void);

  // ---- replay ----
  const char *(*no_replay)(void);  // static text why this driver cannot; NULL: it can
  // no node of its graphs can be set: what changes from run to run is launched before them
  bool (*replay_is_fixed)(void);
  int (*replay_create)(tc_gpu_port *p, const tc_gpu_node *node, uint32_t n, tc_gpu_replay **out);
  // From the next launch on; those under way keep their parameter.
  int (*replay_set)(tc_gpu_port *p, tc_gpu_replay *r, uint32_t i, const tc_gpu_node *node);
  int (*replay_launch)(tc_gpu_port *p, tc_gpu_replay *r);
  void (*replay_destroy)(tc_gpu_port *p, tc_gpu_replay *r, bool lost);  // as close
} tc_gpu_driver;

// What the library is asked for next goes to this line.
int tc_gpu_library_turn(tc_gpu_port *p, const tc_gpu_library_driver *library, tc_gpu_library which, tc_gpu_line line);

extern const tc_gpu_driver tc_cuda_driver, tc_hip_driver;
const tc_gpu_driver *tc_gpu_driver_of(tc_device d);  // drivers.c; NULL: d is no GPU

#endif
