// Kernels that no cache has: from an object file's bytes, or from kernel IR, which is interpreted.
//
// In: bytes. Out: a kernel with one reference (jit/kernel.h).
// Invariants: an object is checked by elf_loader.c, kernel IR by kir/verify.h, whoever wrote them.
// Threads: thread-safe. Owner: the caller has the reference.
#pragma once

#include "lowering/jit/kernel.h"

tc_status tc_kernel_of_object(const char *name, const void *object, size_t bytes, size_t scratch_bytes,
                              tc_kernel **out);
tc_status tc_kernel_of_ir(const char *name, const tc_kir *kir, tc_kernel **out);
// The kernel of a kernel IR's key (kir/serialize.h), which is checked.
tc_status tc_kernel_of_key(const char *name, const void *key, size_t bytes, uint32_t n_num, uint32_t n_buf,
                           tc_kernel **out);
