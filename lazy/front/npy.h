// The .npy format, for files of their own and members of .npz archives.
#ifndef TC_LAZY_FRONT_NPY_H
#define TC_LAZY_FRONT_NPY_H

#include <stdio.h>
#include <tc/tc.h>

#define TC_NPY_HEADER_BYTES 512

// What stands before the dense data of a tensor; its length, a multiple of 64.
size_t tc_npy_header(char out[TC_NPY_HEADER_BYTES], const tc_dims *shape, tc_type type);
// A copy of the tensor in a stream of file_bytes. On failure poison, and why says what is wrong; nothing is reported.
tc_tensor tc_npy_read(FILE *f, uint64_t file_bytes, char *why, size_t why_bytes);

#endif
