// Tensors in files and in other libraries: safetensors, NumPy's .npz, checkpoints, DLPack. tc.h has
// .npy.
//
//   tc_archive *a = tc_safetensors_open("model.safetensors");
//   const char *name = "encoder.layer.0.attention.self.query.weight";
//   tc_tensor w = tc_archive_get(a, name);  // borrows the mapped file
//   tc_archive_close(a);                    // w stays
//
// Errors are tc.h's: NULL or poison, and tc_last_error has the text, with the caller's file and
// line. A library built without libjansson (safetensors, checkpoints) or libzip (.npz) says so in
// an error (TC_ERR_STATE).
// Threads: thread-compatible; an archive is used by one thread at a time.
#ifndef TC_IO_H
#define TC_IO_H

#include <tc/tc.h>

#ifdef __cplusplus
extern "C" {
#endif

// An open file of named tensors.
typedef struct tc_archive tc_archive;
struct DLManagedTensorVersioned;
struct DLManagedTensor;

// ---- Archives: files of named tensors ----

// Opens a file by mapping it; NULL on error. Tensors borrow the mapping, read-only, and copy
// nothing. A tensor not aligned for its type is copied. The mapping lives as long as the archive
// and its tensors.
// The file must not be written in place meanwhile; replacing it, as every save here does, is fine.
// U16 becomes i32, U32 and U64 i64, which are copies.
// TC_ERR_IO with what is wrong: every offset, extent and name is checked first, but not the numbers
// themselves.
// Source: github.com/huggingface/safetensors, README.md and safetensors/src/tensor.rs.
TC_API tc_archive *tc_safetensors_open(const char *path);
// Opens a file of numpy.savez or savez_compressed; NULL on error. The names are the members'
// without ".npy"; other members are skipped.
// tc_archive_get reads and copies a tensor and checks its checksum. TC_ERR_IO with what is wrong.
TC_API tc_archive *tc_npz_open(const char *path);
// The tensor called name, on the default device, of the current scope. It outlives the archive.
// Poison with TC_ERR_ARG if there is none (and the nearest name), with TC_ERR_IO if it is damaged.
// Poison with TC_ERR_DTYPE or TC_ERR_SHAPE if tc has no such type or rank.
TC_API tc_tensor tc_archive_get(const tc_archive *a, const char *name);
// Assigns to each of n tensors the archive's tensor of its name after prefix (NULL: none). All are
// assigned, or none.
// TC_ERR_ARG where one is missing, with the nearest name. TC_ERR_SHAPE for another shape.
// TC_ERR_DTYPE for a floating one instead of an integer one, or the reverse.
// Other floating types, and other integer ones, are cast. Other tensors of the archive are ignored.
// Records; nothing runs.
TC_API tc_status tc_archive_load(const tc_archive *a, const char *prefix, int n, const char *const *names,
                                 const tc_tensor *tensors) TC_MUST_USE;
// Whether the archive has a tensor of that name.
TC_API bool tc_archive_has(const tc_archive *a, const char *name);
// Tensors in an archive, and the name of the i-th (borrowed; NULL past the end). A NULL archive is
// empty.
TC_API int tc_archive_count(const tc_archive *a);
TC_API const char *tc_archive_name(const tc_archive *a, int i);
// Text that came with the tensors of a safetensors file; NULL if there is none under key. Borrowed.
TC_API const char *tc_archive_metadata(const tc_archive *a, const char *key);
// Frees the archive; tensors taken from it stay. NULL is fine.
TC_API void tc_archive_close(tc_archive *a);

// Saving runs what is pending, and replaces the file whole or not at all. TC_ERR_IO with the
// reason; TC_ERR_ARG for a name that is empty, twice there, or not UTF-8. n_meta pairs of strings,
// key before value, go into the file's metadata (some readers ask for "format", "pt").
TC_API tc_status tc_safetensors_save(const char *path, int n, const char *const *names,
                                     const tc_tensor *tensors) TC_MUST_USE;
TC_API tc_status tc_safetensors_save_with(const char *path, int n, const char *const *names, const tc_tensor *tensors,
                                          int n_meta, const char *const *meta) TC_MUST_USE;
// As numpy.savez: not compressed. No pipe or device takes one (TC_ERR_IO). Of control characters a
// name may have tabs and line ends alone (TC_ERR_ARG).
TC_API tc_status tc_npz_save(const char *path, int n, const char *const *names, const tc_tensor *tensors) TC_MUST_USE;

// ---- Checkpoints: training that goes on where it stopped, to the bit ----

// Saves one safetensors file. It holds the parameters by name, the optimizer's state as
// "optimizer.<state>", its learning rate, this thread's random state, step, and a checksum. opt may
// be NULL.
// The file replaces the previous one once it is on the disk. Only the n tensors are saved: name a
// model's buffers, such as batch norm's statistics, too.
// A sync point. TC_ERR_IO with the reason; TC_ERR_ARG for names that are empty or occur twice.
TC_API tc_status tc_checkpoint_save(const char *path, int n, const char *const *names, const tc_tensor *params,
                                    const tc_optimizer *opt, int64_t step) TC_MUST_USE;
// Restores all of that, and *out_step (NULL: not wanted). Names, shapes and types must be the same,
// and the optimizer of the same kind over the same parameters in the same order.
// The optimizer's options other than the learning rate are the program's.
// A mismatch or damage is an error before anything is changed (TC_ERR_ARG, TC_ERR_SHAPE,
// TC_ERR_DTYPE; damage: TC_ERR_IO). Runs what is pending, and holds nothing of the file afterwards.
TC_API tc_status tc_checkpoint_load(const char *path, int n, const char *const *names, const tc_tensor *params,
                                    tc_optimizer *opt, int64_t *out_step) TC_MUST_USE;
// The same, errors too (TC_ERR_IO, TC_ERR_ARG, ..), with any number of optimizers, given in the
// same order for both. A second one's state is "optimizer1.<state>". The learning rates of all
// groups of each are saved.
// tc_nn_checkpoint_save (nn.h) saves a whole model of named parameters, with its buffers.
TC_API tc_status tc_checkpoint_save_with(const char *path, int n, const char *const *names, const tc_tensor *params,
                                         int n_opts, tc_optimizer *const *opts, int64_t step) TC_MUST_USE;
TC_API tc_status tc_checkpoint_load_with(const char *path, int n, const char *const *names, const tc_tensor *params,
                                         int n_opts, tc_optimizer *const *opts, int64_t *out_step) TC_MUST_USE;

// ---- DLPack 1.x ----
// Tensors of other libraries in the same process, without a copy (structs: dlpack.h of tc, or
// DLPack's own).

// Lends the value of t, dense row-major, to a consumer that calls the deleter when it is done. Any
// thread may call it, even after t is gone.
// A tensor is a value, so a consumer must not write to it. The newer struct is marked read-only;
// the older one has no such mark.
// A sync point. NULL on error: TC_ERR_MEMORY, or the sync's own error.
TC_API struct DLManagedTensorVersioned *tc_to_dlpack(tc_tensor t);
TC_API struct DLManagedTensor *tc_to_dlpack_legacy(tc_tensor t);
// A tensor of m's shape and type. Takes over m: its memory is borrowed, read-only, and its deleter
// called after the last run that reads it.
// The tensor is a copy where m is strided, not aligned, or of unsigned integers, which become wider
// ones as in files. Its deleter is then called at once, and also where m is refused.
// TC_ERR_DEVICE for memory that is not the host's, TC_ERR_DTYPE for a type tc lacks. TC_ERR_SHAPE
// for more than TC_MAX_RANK extents, TC_ERR_ARG for another major version.
TC_API tc_tensor tc_from_dlpack(struct DLManagedTensorVersioned *m);
TC_API tc_tensor tc_from_dlpack_legacy(struct DLManagedTensor *m);

#ifdef __cplusplus
}
#endif

#include <tc/io_sites.h>

#endif
