// Whether lists of parameters may be used. See params_check.h.
#define TC_NO_SITES
#include "lazy/autograd/params_check.h"

#include <stdlib.h>

#include "runtime/arena.h"

tc_status tc_params_check(const char *name, const tc_tensor *params, int n, tc_site site) {
  if (n < 0 || (n > 0 && params == NULL))
    return tc_fail(TC_ERR_ARG, name, site, "%d parameters at %p", n, (const void *)params);
  for (int i = 0; i < n; i++)
    if (!tc_is_valid(params[i]))
      return tc_invalid(params[i], name, site, "parameter %d: %s", i, tc_handle_fault(params[i]));
  return TC_OK;
}

typedef struct numbered {
  uint32_t slot;
  int number;
} numbered;

static int by_slot(const void *a, const void *b) {
  const numbered *x = a, *y = b;
  return x->slot != y->slot ? (x->slot < y->slot ? -1 : 1) : (x->number > y->number) - (x->number < y->number);
}

tc_status tc_params_check_distinct(const char *name, const tc_tensor *params, int n, tc_site site) {
  numbered *all = tc_malloc((size_t)n * sizeof *all), *same = NULL;
  if (!all) return tc_fail(TC_ERR_MEMORY, name, site, "%d parameters", n);
  for (int i = 0; i < n; i++) all[i] = (numbered){params[i].slot, i};
  qsort(all, (size_t)n, sizeof *all, by_slot);
  for (int i = 1; i < n; i++)
    if (all[i].slot == all[i - 1].slot && (!same || all[i].number < same->number)) same = &all[i];
  tc_status st =
      same ? tc_fail(TC_ERR_ARG, name, site, "parameters %d and %d are the same", same[-1].number, same->number)
           : TC_OK;
  tc_free(all);
  return st;
}
