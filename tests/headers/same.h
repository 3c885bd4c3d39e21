// Comparing own declarations with a vendor's headers: all of it when this is compiled.
#pragma once

#include <stddef.h>

#define SAME(a, b) _Static_assert((a) == (b), #a " is not " #b)
#define SAME_FIELD(ours, theirs, field) \
  SAME(offsetof(ours, field), offsetof(theirs, field)); \
  SAME(sizeof(((ours *)0)->field), sizeof(((theirs *)0)->field))
#define SAME_FUNCTION(symbol, result, parameters) \
  _Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), result(*) parameters), \
                 #symbol " is declared otherwise");
