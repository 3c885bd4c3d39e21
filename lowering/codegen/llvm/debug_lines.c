// Debug lines of generated code. See debug_lines.h.
// In: a function, and the instruction that is being printed. Out: DWARF 4, line tables alone.
#include "lowering/codegen/llvm/debug_lines.h"

#include <llvm-c/DebugInfo.h>
#include <stdio.h>
#include <string.h>

#include "lowering/kir/print.h"

static void add_flag(tc_llvm_build *b, const char *key, unsigned value) {
  LLVMAddModuleFlag(b->mod, LLVMModuleFlagBehaviorWarning, key, strlen(key),
                    LLVMValueAsMetadata(LLVMConstInt(b->i32, value, 0)));
}

void tc_llvm_make_lines(tc_llvm_build *b, const char *name) {
  char file_name[128];
  size_t name_bytes = strlen(name);
  size_t file_bytes = (size_t)snprintf(file_name, sizeof file_name, "%.100s.kir", name);
  LLVMDIBuilderRef d = LLVMCreateDIBuilder(b->mod);
  LLVMMetadataRef file = LLVMDIBuilderCreateFile(d, file_name, file_bytes, ".", 1);
  add_flag(b, "Dwarf Version", 4);
  add_flag(b, "Debug Info Version", LLVMDebugMetadataVersion());
  // The language is the nearest to an IR that the list has; flags, versions and split files: none.
  (void)LLVMDIBuilderCreateCompileUnit(d, LLVMDWARFSourceLanguageC99, file, "tc", 2, 1, "", 0, 0, "", 0,
                                       LLVMDWARFEmissionLineTablesOnly, 0, 0, 0, "", 0, "", 0);
  LLVMMetadataRef type = LLVMDIBuilderCreateSubroutineType(d, file, NULL, 0, LLVMDIFlagZero);
  unsigned line = tc_kir_line(b->kir, 0);
  b->scope =
      LLVMDIBuilderCreateFunction(d, file, name, name_bytes, "", 0, file, line, type, 0, 1, line, LLVMDIFlagZero, 1);
  LLVMSetSubprogram(b->fn, b->scope);
  LLVMDIBuilderFinalize(d);
  LLVMDisposeDIBuilder(d);
}

void tc_llvm_set_line(tc_llvm_build *b, uint32_t at) {
  if (b->scope == NULL) return;
  LLVMSetCurrentDebugLocation2(b->b,
                               LLVMDIBuilderCreateDebugLocation(b->ctx, tc_kir_line(b->kir, at), 0, b->scope, NULL));
}
