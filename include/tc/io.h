// Tensors in files and in other libraries: safetensors, NumPy's .npz, checkpoints, DLPack. For .npy see tc.h.
//
//   tc_archive *a = tc_safetensors_open("model.safetensors");
//   tc_tensor w = tc_archive_get(a, "encoder.layer.0.attention.self.query.weight");  // borrows the mapped file
//   tc_archive_close(a);                                                             // w stays
//
// Errors are tc.h's: NULL or poison, the first one kept with the caller's file and line. A library built without libjansson (safetensors,
// checkpoints) or libzip (.npz) says so in an error (TC_ERR_STATE).
// Threads: thread-compatible; an archive is used by one thread at a time.
#ifndef TC_IO_H
#define TC_IO_H

#include <tc/tc.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tc_archive tc_archive;
struct DLManagedTensorVersioned;
struct DLManagedTensor;

#define TC_CALL(type, name, params, args) \
  TC_API type(name)(TC_P params); \
  TC_API type name##_at(TC_P params, tc_site site);
#include <tc/io.def>
#undef TC_CALL

// Tensors in an archive, and the name of the i-th (borrowed; NULL past the end). A NULL archive is empty.
TC_API int tc_archive_count(const tc_archive *a);
TC_API const char *tc_archive_name(const tc_archive *a, int i);
// Text that came with the tensors of a safetensors file; NULL if there is none under key. Borrowed.
TC_API const char *tc_archive_metadata(const tc_archive *a, const char *key);
// Frees the archive; tensors taken from it stay. NULL is fine.
TC_API void tc_archive_close(tc_archive *a);

#ifdef __cplusplus
}
#endif

#endif
