// Compiled programs in files: a function of tensors is compiled once, for several instruction sets,
// and run later without a compiler.
//
//   static tc_status classify(void *model, const tc_tensor *in, int n, tc_tensor *out, int n_out) {
//     out[0] = tc_softmax(forward(model, in[0]), -1);
//     return TC_OK;
//   }
//   tc_export(classify, model, 1, (tc_export_input[]){{"image", example}}, NULL, "model.tcx");
//
//   tc_program_file *p = tc_program_load("model.tcx");  // maps the file; weights are not copied
//   tc_program_run(p, 1, (tc_program_input[]){{"image", x}}, &y);
//   tc_program_close(p);
//
// A file holds machine code, which runs as the program's own: load it where you would load a shared
// library from it, and nowhere else. docs/export.md has the format, and what is checked.
// Errors are tc.h's: NULL or a status, and tc_last_error has the text, with the caller's file and
// line.
// Threads: export is of one thread; a loaded program may be run by several threads at a time.
#ifndef TC_PROGRAM_H
#define TC_PROGRAM_H

#include <tc/compile.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- Export ----

// An input of what is exported.
typedef struct tc_export_input {
  const char *name;  // by which runs name it
  tc_tensor example;  // its type and extents count, not its values
  // Names of dynamic extents; tc_export_options lists their sizes. NULL: the example's extent
  const char *dims[TC_MAX_RANK];
} tc_export_input;

// The sizes of a dynamic extent.
typedef struct tc_export_size {
  const char *name;  // of a dynamic extent: "batch"
  int n;  // how many
  const int64_t *values;  // the sizes that the program takes
} tc_export_size;

// How to export; all zeros: one output, fixed extents, every instruction set.
typedef struct tc_export_options {
  int n_outputs;  // 0: 1
  const char *const *output_names;  // NULL: "output", or "output0", "output1" and so on
  // Instruction sets, as TC_ISA names them, with commas between. "native": exactly this processor.
  // NULL: all of this machine's architecture.
  const char *targets;
  int n_sizes;  // dynamic extents
  const tc_export_size *sizes;  // each combination of them is compiled, at most 64
  int n_weights;  // tensors of fn that have names; others are weight0, weight1 and so on
  const char *const *weight_names;  // n_weights of them
  const tc_tensor *weights;  // those tensors; borrowed
  // True: the kernel IR is kept, too. A processor of no target interprets it: slow, with the bits
  // of the first target.
  bool keep_ir;
  // True: weights are stored in the layout that kernels read, for each target, as well as in their
  // own. The first run is faster, and processes share them; the file is larger.
  bool store_constants;
} tc_export_options;

// Records fn, which may be one that tc_compile takes, on inputs like the examples. Compiles what it
// recorded, and writes the program to path, whole or not at all. options NULL: all zeros.
// in[] and out[] of fn are in the order of the declared inputs and outputs. It may use tensors of
// its own, such as parameters: their values are copied into the file.
// fn runs once for each combination of sizes, and nothing of it is computed: values of in[] are
// zeros. A status other than TC_OK ends the export with it. Runs what is pending first.
// Draws (tc_rand ..) are made by each run from the seed of the thread that runs it, as fn would.
// Gradients that fn returns (tc_grads_of) are ops like others.
// TC_ERR_STATE if fn needs a value (a sync point), or where there is no compiler. Likewise if it
// leaves a value behind: an assign to a tensor of its own, a gradient (tc_backward), a handle that
// outlives it.
// TC_ERR_ARG for a name that is empty, missing or twice there, or an unknown target (and the
// nearest name). TC_ERR_DEVICE for tensors that are not on tc:cpu. TC_ERR_IO with the reason.
TC_API tc_status tc_export(tc_compile_fn fn, void *user, int n_inputs, const tc_export_input *inputs,
                           const tc_export_options *options, const char *path) TC_MUST_USE;

// ---- Loading ----

// A file that is loaded.
typedef struct tc_program_file tc_program_file;

// Maps a file of tc_export, and chooses the widest instruction set in it that this processor has
// (at most TC_ISA). NULL on error. Reads no weights: they come with the first run that reads them,
// and processes share them.
// The file must not be written meanwhile; replacing it is fine.
// TC_ERR_IO with what is wrong with the file, or why it cannot be read. TC_ERR_DEVICE where this
// processor, or this version of the library, cannot run it, and what it would need.
TC_API tc_program_file *tc_program_load(const char *path);
// The same of a file's bytes in memory, at a multiple of 64. They must stay as they are until the
// program is closed and tensors made by it are gone. The errors are the same, and TC_ERR_ARG for
// data that is NULL or not aligned.
TC_API tc_program_file *tc_program_load_memory(const void *data, size_t bytes);
// Frees the program, once no run uses it; tensors that it made stay. NULL is fine.
TC_API void tc_program_close(tc_program_file *p);

// An input, output or weight.
typedef struct tc_program_value {
  const char *name;  // of the export
  tc_type type;  // of its elements
  tc_dims shape;  // dynamic extents: the first of their sizes
  const char *dims[TC_MAX_RANK];  // names of dynamic extents; NULL: fixed. Of an output all NULL
} tc_program_value;

// The values in the order of the export, *n of them; borrowed from the program.
TC_API const tc_program_value *tc_program_inputs(const tc_program_file *p, int *n);
TC_API const tc_program_value *tc_program_outputs(const tc_program_file *p, int *n);
// What fn used: for who wants to know; runs do not take it.
TC_API const tc_program_value *tc_program_weights(const tc_program_file *p, int *n);
// The sizes that a dynamic extent may have, *n of them; NULL if there is no such name.
TC_API const int64_t *tc_program_sizes(const tc_program_file *p, const char *name, int *n);
// The instruction set that was chosen: "avx2". "interpreted avx2": its kernel IR is interpreted.
TC_API const char *tc_program_target(const tc_program_file *p);
// Compares the weights with the file's checksum, which loading does not read them for. TC_ERR_IO if
// they differ.
TC_API tc_status tc_program_verify(const tc_program_file *p) TC_MUST_USE;

// ---- Running ----

// A tensor for an input.
typedef struct tc_program_input {
  const char *name;  // of the program's input
  tc_tensor value;  // borrowed
} tc_program_input;

// Runs the program on n inputs, in any order, each of the program's inputs once. outputs: as many
// new handles of the current scope as the program has outputs, in their order; on failure all are
// poison.
// A sync point for the inputs that are pending. Nothing else of the thread runs.
// TC_ERR_ARG for an unknown name (and the nearest), one that is twice there or missing.
// TC_ERR_DTYPE, TC_ERR_SHAPE with what the program takes. TC_ERR_DEVICE for an input that is not on
// tc:cpu. TC_ERR_INDEX for an index in an input that is out of range.
TC_API tc_status tc_program_run(const tc_program_file *p, int n, const tc_program_input *inputs,
                                tc_tensor *outputs) TC_MUST_USE;

// Memory of the caller, dense row-major.
typedef struct tc_program_array {
  const char *name;  // of the program's input or output
  void *data;  // of an input: only read
  tc_type type;  // of its elements
  tc_dims shape;  // its extents
} tc_program_array;

// The same from and to memory of the caller, without tensors: outputs that are not named are
// dropped. The errors are the same, and TC_ERR_ARG where an output overlaps another array.
TC_API tc_status tc_program_run_arrays(const tc_program_file *p, int n_inputs, const tc_program_array *inputs,
                                       int n_outputs, const tc_program_array *outputs) TC_MUST_USE;

#ifdef __cplusplus
}
#endif

#include <tc/program_sites.h>

#endif
