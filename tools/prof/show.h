// What is common to texts on the terminal: its width, characters and colours, and short numbers.
// In: the environment, once. Out: standard output. Threads: one.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tc_terminal {
  int columns;  // at least 80
  bool utf8, colour;
} tc_terminal;

const tc_terminal *tc_terminal_get(void);

typedef enum tc_colour { TC_PLAIN, TC_BOLD, TC_DIM, TC_GREEN, TC_YELLOW, TC_RED } tc_colour;
// The text in a colour, where the terminal has any. For these and all below: in one of 32 static
// buffers, which are used in turn.
const char *tc_show_colour(tc_colour colour, const char *text);

// Six columns or less: "212 us", "1.04 s".
const char *tc_show_ns(double ns);
// "18.9 MB", of 1000 bytes and so on.
const char *tc_show_bytes(double bytes);
// "1204", "38.1", "1.2M".
const char *tc_show_number(double x);
// A share in percent: "7 %", "0.3 %".
const char *tc_show_share(double part, double whole);
// "1 sync", "1.2M syncs".
const char *tc_show_count(double n, const char *one);
// At most so many columns of a text; of a longer one the end, which tells more of a place.
const char *tc_show_end(const char *text, int columns);
// At most so many columns of a text; of a longer one the begin.
const char *tc_show_begin(const char *text, int columns);

// One character a value, its height by the greatest.
const char *tc_show_heights(const double *value, int n);
// A bar of at most so many columns for a part of a whole.
const char *tc_show_bar(double part, double whole, int columns);

// Prints words with line breaks at the terminal's width, behind indent columns that stand on the
// line already. Later lines begin with as many blanks.
void tc_show_words(int indent, const char *text);
// A heading, with a line of blanks before it.
void tc_show_heading(const char *text);
