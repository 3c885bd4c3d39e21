// The code generator's plug-in: where it is, which build it is, and opening it.
//
// Idea: opening takes milliseconds and megabytes, so a process opens it for the first kernel that nobody compiled before. Which build it is stands in its
// file, as the linker's build id, which tells apart any two that may generate different code; what is kept on disk is kept under it.
// Threads: thread-safe, without state. A plug-in that was opened stays.
#ifndef TC_LOWERING_TARGET_CODEGEN_PLUGIN_H
#define TC_LOWERING_TARGET_CODEGEN_PLUGIN_H

#include "lowering/target/isa.h"
#include "lowering/codegen/llvm/codegen.h"

#define TC_BUILD_BYTES 80
#define TC_WHY_BYTES 192

// The build id, in hexadecimal digits, of the file that would be opened; "" if only opening tells which it is, there is none, or it has no build id.
// foreign: the plug-in for another machine's instruction set; NULL: for this one.
void tc_plugin_find(const tc_isa *foreign, char build[TC_BUILD_BYTES]);
// The plug-in, and which build that is as far as its file says; NULL: there is none, and why.
const tc_llvm_plugin *tc_plugin_open(const tc_isa *foreign, char build[TC_BUILD_BYTES], char why[TC_WHY_BYTES]);

#endif
