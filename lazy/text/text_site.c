// Sites of what is recorded from text: strings that are kept once each. See text.h.
//
// Invariants: what is in the table stays there, so that calls and errors may name it at any time.
// Threads: without locks; two threads that add one text at once may keep it twice, which harms
// nobody. Owner: the process.
#include <stdatomic.h>
#include <string.h>

#include "lazy/text/text.h"
#include "lazy/trace/trace.h"
#include "runtime/hash.h"

enum { N_LISTS = 256 };

typedef struct kept_site {
  struct kept_site *next;
  char text[];
} kept_site;

static _Atomic(kept_site *) lists[N_LISTS];

tc_site tc_text_site(const char *text) {
  size_t bytes = strlen(text) + 1;
  _Atomic(kept_site *) *list = &lists[tc_hash_bytes(text, bytes).lo % N_LISTS];
  // acquire: the text of what another thread added is whole
  kept_site *first = atomic_load_explicit(list, memory_order_acquire);
  for (kept_site *k = first; k; k = k->next)
    if (strcmp(k->text, text) == 0) return (tc_site)(uintptr_t)k->text;
  kept_site *added = tc_malloc(sizeof *added + bytes);
  if (!added) return 0;
  memcpy(added->text, text, bytes);
  do added->next = first;
  while (!atomic_compare_exchange_weak_explicit(list, &first, added, memory_order_release, memory_order_relaxed));
  return (tc_site)(uintptr_t)added->text;
}

void tc_text_name_call(tc_trace *t, const tc_text_node *x, uint32_t n) {
  char number[16];
  snprintf(number, sizeof number, "%%%u", n);
  t->op = tc_op_names[x->op], t->op_site = tc_text_site(x->site && *x->site ? x->site : number);
}
