// Texts of a page, of which most repeat each other, as one short string.
// In: texts of ASCII. Out: where each lies in their bytes, one behind the other, and a string that
// page.html makes those bytes of again. Threads: one. Owner: tc_pack_free.
//
// The string's characters are the bytes, but for copies of what came before:
//   ~DDDDL  a copy from D bytes back, of L + TC_PACK_LEAST bytes; digits of base 64, A first
//   `L      a copy from as far back as the last one was
//   ~~ ~`   the bytes ~ and ` themselves
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TC_PACK_LEAST = 4 };

typedef struct tc_pack {
  char *text;
  size_t n, room;
} tc_pack;

// Appends a text. False: it is not ASCII, or there is no memory.
bool tc_pack_add(tc_pack *p, const char *text, size_t n);
// The string, to be freed. NULL: no memory.
char *tc_pack_string(const tc_pack *p);
void tc_pack_free(tc_pack *p);
