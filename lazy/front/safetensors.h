// safetensors files as checkpoints need them: written without being put in their place yet, and as
// the very bytes that a checksum was made of.
#pragma once

#include "lazy/front/archive.h"
#include "lazy/front/file.h"

// Writes the file, metadata first and in the order given. What is wrong with names or text is
// reported; failed writes are f's to report.
tc_status tc_safetensors_write(tc_new_file *f, int n, const char *const *names, const tc_tensor *tensors, int n_meta,
                               const char *const *meta);
// As tc_safetensors_open, but the file is read once, into memory of the archive's own. Its tensors
// are copies: no later write to the file shows, and the file is not held. Take all tensors in one
// scope.
tc_status tc_safetensors_read(const char *path, tc_archive **out, tc_site site);
// The whole file, borrowed. In an archive that tc_safetensors_read made, it is valid only until the
// first tensor is taken.
const unsigned char *tc_safetensors_bytes(const tc_archive *a, size_t *out_bytes);
