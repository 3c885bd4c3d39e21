// What the models ask a file of weights about their sizes.
#ifndef EXAMPLES_MODELS_WEIGHTS_H
#define EXAMPLES_MODELS_WEIGHTS_H

#include <tc/nn.h>

// prefix if the file has prefix + name and lacks name: some checkpoints hold the model as a part of a larger one. Else "".
const char *weights_prefix(const tc_archive *a, const char *prefix, const char *name);
// Whether the file has prefix + the name that the format gives.
bool weights_have(const tc_archive *a, const char *prefix, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
// The shape of that tensor, which should have this rank; else false after reporting.
bool weights_shape(const tc_archive *a, const char *prefix, int rank, int64_t *out, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#endif
