// The table of code generators. See codegen.h.
#include "lowering/codegen/codegen.h"

#include <string.h>

static const tc_codegen *const row[] = {
#define TC_CODEGEN(name) &tc_codegen_##name,
#include "lowering/codegen/backends.def"
#undef TC_CODEGEN
};

const tc_codegen *tc_codegen_named(const char *name) {
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    if (strcmp(row[i]->name, name) == 0) return row[i];
  return NULL;
}
