// GPT-2's vocab.json: a JSON object from tokens to ids. A token is text in which every byte is a character: printable ones themselves, the others
// U+0100 and on, in order. Source: github.com/openai/gpt-2, src/encoder.py, bytes_to_unicode.
#ifndef EXAMPLES_MODELS_VOCAB_H
#define EXAMPLES_MODELS_VOCAB_H

#include <stdbool.h>
#include <stdint.h>

typedef struct vocab {
  char **text;  // by id, as UTF-8 would have it: one token may be a part of a character; NULL: no such id
  int64_t n;
} vocab;

// False if the file is not there or no such object; *out is empty then.
bool vocab_read(vocab *out, const char *path);
void vocab_fini(vocab *v);

#endif
