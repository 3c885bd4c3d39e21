// Memory of others as a tensor: of a mapped file, of another library.
#pragma once

#include <stddef.h>
#include <tc/tc.h>

// Borrows dense memory, read-only, or constant (tc_borrow). Copies it if it is not aligned for its
// type, or a bool in it is neither 0 nor 1. strides (in elements) as tc_from_host_strided's, or
// NULL; strided memory is copied. release(arg) is called when the memory is no longer needed, on
// failure too.
tc_tensor tc_foreign_tensor(void *data, const tc_dims *shape, const int64_t *strides, tc_type type,
                            tc_borrow_flags flags, void (*release)(void *arg), void *arg, tc_site site);

// A copy of memory that need not be aligned, dense or with strides as above. A byte of a bool that
// is neither 0 nor 1 is true.
tc_tensor tc_foreign_copy(const void *data, const tc_dims *shape, const int64_t *strides, tc_type type, tc_site site);

// The signed type for unsigned integers of so many bytes, which tc lacks. It is i32 for 2, i64 for
// 4 and 8, where numbers beyond i64 are refused. TC_N_TYPES: there is none.
tc_type tc_foreign_unsigned(size_t bytes);
// count of them, little-endian, as that type, from malloc; NULL with the status and why, of
// why_bytes.
void *tc_foreign_widen(const void *data, size_t count, size_t bytes, tc_status *st, char *why, size_t why_bytes);
// A copy of them as that type, of a shape whose elements fit in memory, dense or with strides as
// above. Poison with why; "": it was reported.
tc_tensor tc_foreign_copy_unsigned(const void *data, const tc_dims *shape, const int64_t *strides, size_t bytes,
                                   char *why, size_t why_bytes, tc_site site);

// Elements of a shape without negative extents. SIZE_MAX: their bytes are more than fit in memory;
// of an empty shape the bytes of its other extents count.
size_t tc_foreign_count(const tc_dims *shape, tc_type type);
