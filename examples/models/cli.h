// What the model programs share: options, files, batches, training loops and a line that tells how
// far they are. Mistakes end the program with a sentence on standard error and exit status 1.
#pragma once

#include <tc/amp.h>

typedef struct cli {
  const char *weights, *input, *output, *save, *labels, *mask, *types, *vocab, *device;
  tc_type dtype;
  bool int8;  // true: linear layers are of bytes, and dtype is f32
  tc_type amp;  // what autocast casts to; TC_N_TYPES: no autocast
  int64_t batch, threads, train, generate, heads, top_k, seed;  // 0: not given
  double lr, momentum;
} cli;

// Options from the command line. which: the names of those that the program has, each with a space
// after it; with "int8 " --dtype int8 is one more type. --help prints them after `about`. Sets device, threads and
// seed.
cli cli_parse(int argc, char **argv, const char *about, const char *which);

void cli_check(tc_status st);  // ends the program with the library's message unless it is TC_OK
void cli_flush(void);  // writes out what was printed; ends the program, too, where it cannot be
_Noreturn void cli_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

// The array in a file for --option, of this rank (or either of two), floating or whole, as the type
// that the model computes in, or i64.
tc_tensor cli_load(const char *option, const char *path, int rank, bool floating, tc_type type);
// Numbers of rows of a table, [b, t], i64; none is negative, which would count from the table's
// end.
tc_tensor cli_load_ids(const char *option, const char *path);
// Writes a result, f16 and bf16 as f32.
void cli_save(const char *path, tc_tensor t);
// The file of --weights; NULL, and a remark on standard error, where it is not given and the model
// starts from random values.
tc_archive *cli_weights(const cli *c);
// Says on standard error how many layers the file has, which nothing else in it tells: a part of a
// model is a model, too.
void cli_remark_layers(const cli *c, int64_t n_layers);
// Says so where tensors of the file are not among the model's, whose names are behind the prefix
// there.
void cli_remark_unused(const cli *c, const tc_archive *a, const tc_nn_params *p, const char *prefix);
// --heads, or one for each 64 of dim, and says so.
int cli_heads(const cli *c, int64_t dim);

// Between the two, --amp holds: autocast to its type.
void cli_amp_begin(const cli *c);
void cli_amp_end(const cli *c);

// What a program does with rows first to first + n - 1 of its input: a result, or a loss.
typedef tc_tensor (*cli_rows_fn)(void *arg, int64_t first, int64_t n);
// fn over all n_rows, --batch at a time, joined.
tc_tensor cli_in_batches(const cli *c, int64_t n_rows, cli_rows_fn fn, void *arg);
// --train steps, each on the next --batch rows; prints the losses, one a line. With --amp=f16 a
// gradient scaler leaves out steps whose gradients are not finite.
void cli_train(const cli *c, int64_t n_rows, tc_optimizer *opt, cli_rows_fn loss, void *arg);
// One line on standard error, if that is a terminal, from a second after the first call on, which
// is made before the work: "what: done of n".
void cli_progress(const char *what, int64_t done, int64_t n);
