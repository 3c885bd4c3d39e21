// What the models ask a file of weights about their sizes.
#pragma once

#include <tc/nn.h>

// prefix if names in the file begin with prefix + stem, and none with stem: some checkpoints hold
// the model as a part of a larger one. Else "".
const char *weights_prefix(const tc_archive *a, const char *prefix, const char *stem);
// How many layers there are whose names begin with prefix + stem + number + ".": one more than the
// greatest number.
int64_t weights_count(const tc_archive *a, const char *prefix, const char *stem);
// The same of layers that each have a part of one shape, [rank] as that of the first; else false
// after saying on standard error which has not. So a file makes no more layers than it has weights
// for, whatever numbers are in its names. part: what follows the number.
bool weights_layers(const tc_archive *a, const char *prefix, const char *stem, const char *part, int rank,
                    const char *form, int64_t *out);
// The shape of that tensor, which should have this rank and, in words, this form; else false after
// saying so on standard error.
bool weights_shape(const tc_archive *a, const char *prefix, const char *name, int rank, const char *form, int64_t *out);
