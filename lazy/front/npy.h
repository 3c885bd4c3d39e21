// The .npy format, for files of their own and members of .npz archives.
#pragma once

#include <stdio.h>
#include <tc/tc.h>

#define TC_NPY_HEADER_BYTES 512

// What stands before the dense data of a tensor; its length, a multiple of 64.
size_t tc_npy_header(char out[TC_NPY_HEADER_BYTES], const tc_dims *shape, tc_type type);
#define TC_NPY_ENDLESS UINT64_MAX
// A copy of the tensor in a stream of file_bytes (TC_NPY_ENDLESS: a pipe), of which no more than
// the array is read. On failure poison, and why says what is wrong, for the caller to report; empty
// where that is done.
tc_tensor tc_npy_read(FILE *f, uint64_t file_bytes, tc_site site, char *why, size_t why_bytes);
