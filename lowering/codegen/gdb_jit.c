// Tells gdb of generated code. See gdb_jit.h.
#include "lowering/codegen/gdb_jit.h"

#include <stddef.h>

// The interface fixes the two names, which must be global: gdb looks for them in each library. A
// program may have another JIT that defines them; linked statically there is then one of each.
// Protected, and with a version of their own (gdb_jit.map): other libraries' never become ours.
#define OF_GDB __attribute__((weak, used, visibility("protected")))

typedef enum action { NO_ACTION, REGISTER, UNREGISTER } action;

typedef struct descriptor {
  uint32_t version, action;
  tc_gdb_entry *relevant, *first;
} descriptor;

OF_GDB descriptor __jit_debug_descriptor = {.version = 1};

// gdb stops here and reads the descriptor.
OF_GDB __attribute__((noinline)) void __jit_debug_register_code(void);
void __jit_debug_register_code(void) {
  __asm__ volatile("" ::: "memory");
}

static void tell_debugger(action what, tc_gdb_entry *e) {
  __jit_debug_descriptor.action = what;
  __jit_debug_descriptor.relevant = e;
  __jit_debug_register_code();
  __jit_debug_descriptor.action = NO_ACTION;
  __jit_debug_descriptor.relevant = NULL;
}

void tc_gdb_add(tc_gdb_entry *e) {
  e->prev = NULL;
  e->next = __jit_debug_descriptor.first;
  if (e->next != NULL) e->next->prev = e;
  __jit_debug_descriptor.first = e;
  tell_debugger(REGISTER, e);
}

void tc_gdb_remove(tc_gdb_entry *e) {
  if (e->prev != NULL)
    e->prev->next = e->next;
  else
    __jit_debug_descriptor.first = e->next;
  if (e->next != NULL) e->next->prev = e->prev;
  tell_debugger(UNREGISTER, e);
}
