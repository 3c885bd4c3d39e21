// safetensors files as checkpoints need them: written without being put in their place yet, and as the bytes that were mapped.
#ifndef TC_LAZY_FRONT_SAFETENSORS_H
#define TC_LAZY_FRONT_SAFETENSORS_H

#include "lazy/front/archive.h"
#include "lazy/front/file.h"

// Writes the file, metadata first and in the order given. What is wrong with names or text is reported; failed writes are f's to tell.
tc_status tc_safetensors_write(tc_new_file *f, int n, const char *const *names, const tc_tensor *tensors, int n_meta, const char *const *meta);
// The whole mapped file of an archive that tc_safetensors_open made. Borrowed.
const unsigned char *tc_safetensors_bytes(const tc_archive *a, size_t *out_bytes);

#endif
