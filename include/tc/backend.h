// Back ends outside the tree: devices that a shared object brings, and the call that loads one.
//
// A shared object exports one function, tc_backend_query, which returns a table of functions. Its
// device is called "tc:" and the table's name. Programs name it like any other: TC_DEVICE=tc:toy,
// tc_to(x, "tc:toy"). The object links no library of tc's: these headers are enough.
//
//   static bool supports(void *device, const tc_backend_op *op) {
//     return strcmp(op->name, "relu") == 0;
//   }
//   static const tc_backend table = {.struct_size = sizeof table, .version = TC_BACKEND_VERSION,
//       .name = "toy", .flags = TC_BACKEND_HOST_MEMORY, .supports = supports, .run = run};
//   const tc_backend *tc_backend_query(uint32_t version) { return &table; }
//
// tc asks once a plan which ops the back end takes. The others run on the CPU, fused; what they
// read and make is copied. tc_sync_point counts both.
// Versions: a table's fields are only added, at its end, and struct_size tells how many there are.
// Names, attributes and arguments of ops keep their meaning within a version.
// docs/add-a-back-end.md has an example; tc-conform checks a back end.
// Threads: tc calls the functions of one table one at a time, from any thread.
#ifndef TC_BACKEND_H
#define TC_BACKEND_H

#include <tc/tc.h>

#ifdef __cplusplus
extern "C" {
#endif

// The version of the table below, which a back end gives back in its field.
#define TC_BACKEND_VERSION 1

// How a function of a back end ended. Any other number counts as TC_BACKEND_FAILED.
typedef enum tc_backend_result {
  TC_BACKEND_OK = 0,  // it did what it was asked for
  TC_BACKEND_FAILED = 1,  // last_error says why; the program's call returns TC_ERR_RUN
  TC_BACKEND_NO_MEMORY = 2,  // tc frees what it has pooled and asks once more; else TC_ERR_MEMORY
} tc_backend_result;

// Bits of the field flags.
typedef enum tc_backend_flag {
  // The host may read and write the device's memory at its addresses, once wait has returned.
  TC_BACKEND_HOST_MEMORY = 1,
  // A child of fork() may go on using what its parent opened. Without it the child gets an error.
  TC_BACKEND_FORK_SAFE = 2,
} tc_backend_flag;

// Where the elements of an operand or result are, in elements from its address. They are dense and
// row-major. Operands of an elementwise op that broadcasts are not: they have the result's extents,
// and stride 0 along an axis that repeats.
typedef struct tc_backend_tensor {
  tc_type type;  // of an element
  int32_t rank;  // how many of dim and stride count
  int64_t dim[TC_MAX_RANK];  // extents; one may be 0
  int64_t stride[TC_MAX_RANK];  // elements from one index of an axis to the next
} tc_backend_tensor;

// A number that may change from run to run, such as a scalar operand, a start or a seed.
typedef union tc_backend_number {
  double f;  // of an op whose result is floating
  int64_t i;  // of any other; starts, seeds and counters always
  uint64_t bits;  // its bits
} tc_backend_number;

// An op, as a back end is asked about it and runs it. The head of tc/ops.def says what attributes
// and arguments it has. Operands of a binary op have one type, but for where's condition.
typedef struct tc_backend_op {
  size_t struct_size;  // of this struct in the tc that calls
  const char *name;  // the row's of tc/ops.def: "add", "matmul"
  int32_t n_in;  // operands
  int32_t n_attr;  // attributes
  int32_t n_arg;  // numbers that run gets
  const tc_backend_tensor *in;  // n_in operands
  tc_backend_tensor out;  // the result
  const uint64_t *attr;  // n_attr attributes, which are the same in every run
} tc_backend_op;

// The table. A function that is said to be optional may be NULL. `device` is what open gave.
// A device does what it is asked for in order. It may do it later: run, write and copy may return
// before the work is done. tc waits before it frees.
typedef struct tc_backend {
  size_t struct_size;  // sizeof(tc_backend)
  uint32_t version;  // TC_BACKEND_VERSION
  uint32_t flags;  // bits of tc_backend_flag
  const char *name;  // letters a to z, digits and _, at most 23: "toy" is device "tc:toy"
  const char *description;  // a sentence for tc-info; optional
  // How many devices there are now, at most 16; the second is "tc:toy:1". Optional: there is one.
  int32_t (*device_count)(void);
  // Opens a device, at its first use and after tc_shutdown. Optional: device is NULL in all calls.
  tc_backend_result (*open)(int32_t ordinal, void **out_device);
  // Closes it, in tc_shutdown; all its memory and kernels were freed. Optional.
  void (*close)(void *device);
  // Why the function that was called last failed, for the error's text; valid until the next call.
  // Optional.
  const char *(*last_error)(void *device);

  // Takes memory, with TC_BACKEND_HOST_MEMORY at a multiple of 64 bytes. bytes is not 0. Optional
  // with that flag: the memory is the host's.
  tc_backend_result (*alloc)(void *device, size_t bytes, void **out);
  // Gives back what alloc gave. Optional where alloc is NULL.
  void (*free)(void *device, void *memory, size_t bytes);
  // Copies from the host; `from` may be written again when it returns. Optional with
  // TC_BACKEND_HOST_MEMORY.
  tc_backend_result (*write)(void *device, void *to, const void *from, size_t bytes);
  // Copies to the host, after all that was asked for before; it waits. Optional with
  // TC_BACKEND_HOST_MEMORY.
  tc_backend_result (*read)(void *device, void *to, const void *from, size_t bytes);
  // Copies within the device. Optional: by read and write.
  tc_backend_result (*copy)(void *device, void *to, const void *from, size_t bytes);
  // Returns when all that was asked for is done. TC_BACKEND_FAILED also for work that failed
  // meanwhile. Optional: every call is done when it returns.
  tc_backend_result (*wait)(void *device);

  // Whether the device runs the op, at these types and shapes. tc asks when it makes a plan. The
  // answer depends on the op alone.
  bool (*supports)(void *device, const tc_backend_op *op);
  // Prepares the op for many runs, as by compiling it. Optional: kernel is NULL.
  tc_backend_result (*prepare)(void *device, const tc_backend_op *op, void **out_kernel);
  // Ends what prepare made. Optional.
  void (*release)(void *device, void *kernel);
  // Runs the op on n_in operands, writing the whole result, which overlaps no operand. The arrays
  // are valid during the call, the memory in them until the work is done. An operand of no elements
  // may be NULL.
  tc_backend_result (*run)(void *device, void *kernel, const tc_backend_op *op, const void *const *in, void *out,
                           const tc_backend_number *arg);
} tc_backend;

// What a shared object exports: its table for a tc of that version, which stays valid for the
// process. NULL: it has none for this version.
#define TC_BACKEND_EXPORT __attribute__((visibility("default")))
TC_BACKEND_EXPORT const tc_backend *tc_backend_query(uint32_t version);

// Loads a shared object for the rest of the process. *out_device becomes the name of its device,
// static text; out_device may be NULL. Loading it again is fine. tc loads by itself what
// TC_BACKEND_PATH names, files and directories with ':' between, when a device is named that is not
// known. At most 11 back ends.
// TC_ERR_IO: there is no such file, or it cannot be opened. TC_ERR_DEVICE: it is no back end, of
// another version, lacks a function, or its name is taken; the text names the file and the field.
// Thread-safe. Source: the Vulkan loader, PJRT's plug-ins.
TC_API tc_status tc_backend_load(const char *path, const char **out_device) TC_MUST_USE;
// The device of the i-th back end that is loaded, "tc:toy", after looking through TC_BACKEND_PATH;
// NULL past the end. Thread-safe.
TC_API const char *tc_backend_device(int i);

#ifdef __cplusplus
}
#endif

#include <tc/backend_sites.h>

#endif
