// GPT-2's vocab.json: a JSON object from tokens to ids. A token is text in which every byte is a
// character: printable ones themselves, the others U+0100 and on, in order. Source:
// github.com/openai/gpt-2, src/encoder.py, bytes_to_unicode.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct vocab_token {
  char *text;  // as UTF-8 would have it: one token may be a part of a character; NULL: no such id
  size_t n_bytes;
} vocab_token;

typedef struct vocab {
  vocab_token *token;  // by id
  int64_t n;
} vocab;

// False after saying on standard error what is wrong, and where in the file; *out is empty then.
bool vocab_read(vocab *out, const char *path);
void vocab_fini(vocab *v);
