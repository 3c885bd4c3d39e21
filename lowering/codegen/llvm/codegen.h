// The LLVM code generator: a pure function from bytes to bytes. It is a plug-in (libtc-llvm.so),
// opened with dlopen so that the library itself does not load LLVM.
// The object is relocatable ELF for the plug-in's target: the host, loaded by
// lowering/codegen/elf_loader.h, or AArch64 with TC_LLVM_AARCH64 (libtc-llvm-aarch64.so).
// Threads: thread-safe; each call has its own context.
#pragma once

#include "lowering/kir/kir.h"
#include "lowering/target/codegen_plugin.h"

// The plug-in's only exported symbol.
const tc_llvm_plugin *tc_llvm_plugin_get(void);
