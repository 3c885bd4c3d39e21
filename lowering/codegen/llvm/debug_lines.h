// Debug lines: which instruction of the kernel a piece of code is of, as DWARF line tables.
// Invariants: the code is the same with and without them.
// Threads: those of the build.
#pragma once

#include "lowering/codegen/llvm/build.h"

// Makes the function that is being built one of the file NAME.kir.
void tc_llvm_make_lines(tc_llvm_build *b, const char *name);
// What is printed from now on is of instruction `at`. Does nothing in a build without lines.
void tc_llvm_set_line(tc_llvm_build *b, uint32_t at);
