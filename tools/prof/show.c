// See show.h.
#include "tools/prof/show.h"

#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { N_BUFFERS = 32, BUFFER = 1024 };

static char *next_buffer(void) {
  static char buffer[N_BUFFERS][BUFFER];
  static unsigned at;
  return buffer[at++ % N_BUFFERS];
}

const tc_terminal *tc_terminal_get(void) {
  static tc_terminal t;
  struct winsize size;
  const char *set = getenv("COLUMNS"), *kind = getenv("TERM"), *none = getenv("NO_COLOR");
  if (t.columns) return &t;
  bool is_terminal = isatty(STDOUT_FILENO);
  if (is_terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) t.columns = size.ws_col;
  if (set && atoi(set) > 0) t.columns = atoi(set);
  t.columns = t.columns < 80 ? 80 : t.columns > 400 ? 400 : t.columns;
  t.colour = is_terminal && !(none && *none) && !(kind && strcmp(kind, "dumb") == 0);
  setlocale(LC_CTYPE, "");
  t.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  return &t;
}

const char *tc_show_colour(tc_colour colour, const char *text) {
  static const char *const code[] = {
      [TC_PLAIN] = "0", [TC_BOLD] = "1", [TC_DIM] = "2", [TC_GREEN] = "32", [TC_YELLOW] = "33", [TC_RED] = "31"};
  if (!tc_terminal_get()->colour || colour == TC_PLAIN) return text;
  char *out = next_buffer();
  snprintf(out, BUFFER, "\033[%sm%.900s\033[0m", code[colour], text);
  return out;
}

// Three digits of a number of which thousands were taken off.
static const char *show_unit(double x, double base, const char *const *unit, int n_units) {
  char *out = next_buffer();
  int n = 0;
  for (; n + 1 < n_units && x >= base * 0.9995; n++) x /= base;
  int digits = x >= 99.95 || n == 0 ? 0 : x >= 9.995 ? 1 : 2;
  snprintf(out, BUFFER, "%.*f%s", digits, x, unit[n]);
  return out;
}

const char *tc_show_ns(double ns) {
  static const char *const unit[] = {" ns", " us", " ms", " s"};
  return show_unit(ns, 1000, unit, 4);
}

const char *tc_show_bytes(double bytes) {
  static const char *const unit[] = {" B", " kB", " MB", " GB", " TB", " PB"};
  return show_unit(bytes, 1000, unit, 6);
}

const char *tc_show_number(double x) {
  static const char *const unit[] = {"k", "M", "G", "T", "P"};
  char *out = next_buffer();
  if (x >= 99999.5) return show_unit(x / 1000, 1000, unit, 5);
  snprintf(out, BUFFER, x >= 999.5 || x - (double)(long)x < 0.05 ? "%.0f" : "%.1f", x);
  return out;
}

const char *tc_show_count(double n, const char *one) {
  char *out = next_buffer();
  snprintf(out, BUFFER, "%s %s%s", tc_show_number(n), one, n == 1 ? "" : "s");
  return out;
}

const char *tc_show_share(double part, double whole) {
  char *out = next_buffer();
  double percent = whole > 0 ? 100 * part / whole : 0;
  // "100 %" and "0 %" are said of all and of nothing alone.
  if (part < whole && percent > 99.9) percent = 99.9;
  if (part > 0 && whole > 0 && percent < 0.1) percent = 0.1;
  bool near = (percent > 0 && percent < 0.95) || (percent > 99.05 && percent < 100);
  snprintf(out, BUFFER, near ? "%.1f %%" : "%.0f %%", percent);
  return out;
}

// Columns of a text, a character each; wide characters are rare in names of files.
static int columns_of(const char *text) {
  int n = 0;
  for (; *text; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
  return n;
}

static const char *skip_columns(const char *text, int n) {
  for (; *text && (n > 0 || ((unsigned char)*text & 0xc0) == 0x80); text++)
    n -= ((unsigned char)text[1] & 0xc0) != 0x80;
  return text;
}

const char *tc_show_end(const char *text, int columns) {
  int n = columns_of(text);
  if (n <= columns) return text;
  char *out = next_buffer();
  snprintf(out, BUFFER, "..%s", skip_columns(text, n - columns + 2));
  return out;
}

const char *tc_show_begin(const char *text, int columns) {
  if (columns_of(text) <= columns) return text;
  char *out = next_buffer();
  int bytes = (int)(skip_columns(text, columns - 2) - text);
  snprintf(out, BUFFER, "%.*s..", bytes < BUFFER - 3 ? bytes : BUFFER - 3, text);
  return out;
}

const char *tc_show_heights(const double *value, int n) {
  static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static const char *const plain[] = {" ", ".", ".", ":", ":", "+", "+", "#", "#"};
  const char *const *use = tc_terminal_get()->utf8 ? blocks : plain;
  char *out = next_buffer();
  size_t at = 0;
  double most = 0;
  for (int i = 0; i < n; i++) most = value[i] > most ? value[i] : most;
  out[0] = 0;
  for (int i = 0; i < n && at + 4 < BUFFER; i++) {
    int height = most > 0 ? (int)(8 * value[i] / most + 0.5) : 0;
    if (height == 0 && value[i] > 0) height = 1;
    at += (size_t)snprintf(out + at, BUFFER - at, "%s", use[height]);
  }
  return out;
}

const char *tc_show_bar(double part, double whole, int columns) {
  static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  bool utf8 = tc_terminal_get()->utf8;
  double length = whole > 0 && part > 0 ? (part < whole ? part / whole : 1) * columns : 0;
  int full = (int)length, rest = utf8 ? (int)((length - full) * 8) : 0;
  char *out = next_buffer();
  size_t at = 0;
  if (full == 0 && rest == 0 && part > 0) utf8 ? (void)(rest = 1) : (void)(full = 1);
  out[0] = 0;
  for (int i = 0; i < full && at + 8 < BUFFER; i++)
    at += (size_t)snprintf(out + at, BUFFER - at, "%s", utf8 ? "█" : "#");
  snprintf(out + at, BUFFER - at, "%s", eighths[rest]);
  return out;
}

// Whether a number's unit follows, which is of one or two letters.
static bool has_unit(const char *text, int bytes) {
  const char *unit = text + bytes + 1;
  return text[bytes] == ' ' && bytes > 0 && text[bytes - 1] >= '0' && text[bytes - 1] <= '9' &&
         strcspn(unit, " ,.;:)") <= 2;
}

void tc_show_words(int indent, const char *text) {
  int at = indent;
  while (*text) {
    int bytes = (int)strcspn(text, " "), columns = 0;
    if (has_unit(text, bytes)) bytes += 1 + (int)strcspn(text + bytes + 1, " ");
    for (int i = 0; i < bytes; i++) columns += ((unsigned char)text[i] & 0xc0) != 0x80;
    if (at > indent && at + 1 + columns > tc_terminal_get()->columns) {
      printf("\n%*s", indent, "");
      at = indent;
    } else if (at > indent) {
      putchar(' ');
      at++;
    }
    printf("%.*s", bytes, text);
    at += columns;
    text += bytes;
    text += *text == ' ';
  }
  putchar('\n');
}

void tc_show_heading(const char *text) {
  printf("\n%s\n", tc_show_colour(TC_BOLD, text));
}
