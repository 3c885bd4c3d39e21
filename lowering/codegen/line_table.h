// Reads a DWARF line table: of which line of its source is each piece of a function's code?
// In: the .debug_line section of an object of one function, versions 2 to 5. Out: rows by rising
// offset.
// Invariants: the section is not trusted; nothing outside it is read.
// Threads: thread-safe, pure.
// Source: DWARF 5, section 6.2.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct tc_line_row {
  uint64_t offset;  // from the function's first byte; the row holds until the next one's
  uint32_t line;
} tc_line_row;

// Returns how many rows there are, and writes the first `room` of them. Code of no line belongs to
// the line before it.
size_t tc_line_table_read(const uint8_t *section, size_t bytes, tc_line_row *out, size_t room);
