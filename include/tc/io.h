// Tensors in files and in other libraries: safetensors, NumPy's .npz, checkpoints, DLPack. For .npy
// see tc.h.
//
//   tc_archive *a = tc_safetensors_open("model.safetensors");
//   tc_tensor w = tc_archive_get(a, "encoder.layer.0.attention.self.query.weight");  // borrows the mapped file
//   tc_archive_close(a);                                                             // w stays
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

// Opens a file by mapping it; NULL on error. Nothing is copied: a tensor borrows the mapping,
// read-only, which goes with the last of its archive and its tensors (a tensor not aligned for its
// type is copied). The file must not be written in place meanwhile; to replace it, as every save
// here does, is fine. TC_ERR_IO with what is wrong: every offset, extent and name is checked first,
// but not the numbers themselves. U16 becomes i32, U32 and U64 i64, which are copies.
// Source: github.com/huggingface/safetensors, README.md and safetensors/src/tensor.rs.
TC_API tc_archive *tc_safetensors_open(const char *path);
// Opens what numpy.savez or savez_compressed wrote; NULL on error. The names are the members'
// without ".npy", other members are passed over; a tensor is read, copied, and held against its
// checksum when it is asked for. TC_ERR_IO with what is wrong.
TC_API tc_archive *tc_npz_open(const char *path);
// The tensor called name, on the default device, of the current scope. It outlives the archive.
// Poison with TC_ERR_ARG if there is none (and the nearest name), TC_ERR_DTYPE or TC_ERR_SHAPE if
// tc has no such type or rank, TC_ERR_IO if it is damaged.
TC_API tc_tensor tc_archive_get(const tc_archive *a, const char *name);
// Assigns to each of n tensors the archive's of its name after prefix (NULL: none): all, or none
// where one is missing (TC_ERR_ARG, with the nearest name), of another shape (TC_ERR_SHAPE), or
// floating where it should be whole, or the reverse (TC_ERR_DTYPE). Other floating types, and other
// whole ones, are cast. What else the archive holds is passed over. Records; nothing runs.
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

// One safetensors file: the parameters by name, the optimizer's state as "optimizer.<state>" and
// its learning rate, this thread's random state, step, and a checksum over all of it. opt may be
// NULL. It takes the place of the former one when it is on the disk. What is not among the n
// tensors is not saved: of a model that has buffers, such as batch norm's statistics, these are to
// be named, too.
// A sync point. TC_ERR_IO with the reason; TC_ERR_ARG for names that are empty or twice there.
TC_API tc_status tc_checkpoint_save(const char *path, int n, const char *const *names, const tc_tensor *params,
                                    const tc_optimizer *opt, int64_t step) TC_MUST_USE;
// Sets all of that again, and *out_step (NULL: not wanted). The same names, shapes and types, and
// an optimizer of the same kind over the same parameters in the same order; its options other than
// the learning rate are the program's. Whatever does not fit, and any damage to the file, is an
// error before anything is changed (TC_ERR_ARG, TC_ERR_SHAPE, TC_ERR_DTYPE; damage: TC_ERR_IO).
// Runs what is pending, and holds nothing of the file afterwards.
TC_API tc_status tc_checkpoint_load(const char *path, int n, const char *const *names, const tc_tensor *params,
                                    tc_optimizer *opt, int64_t *out_step) TC_MUST_USE;
// The same, errors too (TC_ERR_IO, TC_ERR_ARG, ..), with any number of optimizers, which are given
// again in the same order; a second one's state is "optimizer1.<state>". Of each the learning rates
// of all groups are saved. A model of named parameters is saved whole, with its buffers, by
// tc_nn_checkpoint_save (nn.h).
TC_API tc_status tc_checkpoint_save_with(const char *path, int n, const char *const *names, const tc_tensor *params,
                                         int n_opts, tc_optimizer *const *opts, int64_t step) TC_MUST_USE;
TC_API tc_status tc_checkpoint_load_with(const char *path, int n, const char *const *names, const tc_tensor *params,
                                         int n_opts, tc_optimizer *const *opts, int64_t *out_step) TC_MUST_USE;

// ---- DLPack 1.x ----
// Tensors of other libraries in the same process, without a copy (structs: dlpack.h of tc, or
// DLPack's own).

// Lends the value of t, dense row-major, to a consumer that calls the deleter when it is done: on
// any thread, and after t is gone. It is marked read-only, for which the older struct has no mark:
// a tensor is a value, and a consumer must not write to it. A sync point. NULL on error:
// TC_ERR_MEMORY, or what the sync fails with.
TC_API struct DLManagedTensorVersioned *tc_to_dlpack(tc_tensor t);
TC_API struct DLManagedTensor *tc_to_dlpack_legacy(tc_tensor t);
// A tensor of m's shape and type. Takes m over: its memory is borrowed, read-only, and its deleter
// called after the last run that reads it, or at once where the tensor is copied (strided, not
// aligned, or unsigned integers, which become wider ones as in files) or refused: memory that is
// not the host's (TC_ERR_DEVICE), a type tc lacks (TC_ERR_DTYPE), more than TC_MAX_RANK extents
// (TC_ERR_SHAPE), another major version (TC_ERR_ARG).
TC_API tc_tensor tc_from_dlpack(struct DLManagedTensorVersioned *m);
TC_API tc_tensor tc_from_dlpack_legacy(struct DLManagedTensor *m);

#ifdef __cplusplus
}
#endif

#include <tc/io_sites.h>

#endif
