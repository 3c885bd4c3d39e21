// Runs kernels with threads on the host, all threads of a group in step, one instruction after the
// other: what they mean, without the printer, a compiler or a driver. Looks at what tiles hold:
// reading what was not written, or what is still being copied, is an error, as are places outside
// buffers and tiles, and wide accesses that are not aligned to their length, or in tiles to 8
// bytes. A box arrives, and a product is made, when it is waited for. Tests only; allocation
// failures are not handled.
#pragma once

#include "lowering/kir/kir.h"

// Runs units [begin, end) by one group. n: elements of each buffer. Returns NULL, or what went
// wrong, in text.
const char *threads_run(const tc_kir *kir, void *const *buf, const int64_t *n, const uint64_t *num, int64_t begin,
                        int64_t end, char text[200]);
