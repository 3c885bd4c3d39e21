// Files of programs that were damaged or forged: each loads or is an error, and nothing reads
// outside the file. Mutations of a valid file, with and without a checksum that fits; what a
// sanitizer sees fails the test. Loaded programs are not run: their code may be what was changed.
// With a number: so many mutations, in the place of a few thousand.
#include <stdlib.h>
#include <tc/control.h>
#include <tc/program.h>

#include "lowering/export/format.h"
#include "runtime/hash.h"
#include "tests/expect.h"
#include "tests/files/files.h"

static uint64_t state = 1;

static uint64_t draw(uint64_t below) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return below ? state % below : 0;
}

static tc_tensor w, table;

static tc_status body(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  out[0] = out[1] = tc_tanh(tc_add(in[0], tc_mul(in[1], tc_rand(TC_SHAPE(4), TC_F32))));
  return TC_OK;
}

static tc_status fn(void *user, const tc_tensor *in, int n_in, tc_tensor *out, int n_out) {
  (void)user, (void)n_in, (void)n_out;
  tc_tensor rows = tc_embedding(table, in[1]);
  out[0] = tc_matmul(tc_relu(tc_add(in[0], rows)), w);
  out[1] = tc_cumsum(tc_add(out[0], tc_rand(tc_shape(out[0]), TC_F32)), 1);
  tc_tensor carry = tc_zeros(TC_SHAPE(4), TC_F32);
  return tc_scan(body, NULL, &carry, 1, out, 1, out + 2, 1, NULL);
}

static void seal(char *at, size_t bytes) {
  tc_tcx_head head;
  memcpy(&head, at, sizeof head);
  memset(head.sum, 0, sizeof head.sum);
  if (head.weights_at > bytes) return;
  memcpy(at, &head, sizeof head);
  tc_hash sum = tc_hash_bytes(at, head.weights_at);
  head.sum[0] = sum.lo, head.sum[1] = sum.hi;
  memcpy(at, &head, sizeof head);
}

// A word as an attacker would choose it.
static uint64_t nasty(void) {
  static const uint64_t words[] = {0,           1,
                                   7,           0x7f,
                                   0xff,        0x7fff,
                                   0xffff,      0x7fffffff,
                                   0x80000000,  0xffffffff,
                                   0x100000000, UINT64_C(1) << 46,
                                   INT64_MAX,   UINT64_C(1) << 63,
                                   UINT64_MAX};
  return words[draw(sizeof words / sizeof *words)];
}

// Changes some bytes before the weights; half the time in the tables' records, where numbers are.
static void mutate(char *at, const tc_tcx_head *whole) {
  for (uint64_t k = 1 + draw(3); k > 0; k--) {
    uint64_t to = draw(whole->weights_at), word = nasty();
    const tc_tcx_span *table_of = &whole->table[draw(TC_TCX_TABLE_code)];
    if (draw(2) && table_of->n) to = table_of->offset + draw(table_of->n * 48);
    if (draw(8) == 0) to = draw(sizeof *whole);
    size_t bytes = (size_t[]){1, 4, 4, 8}[draw(4)];
    to = to / bytes * bytes;
    if (to + bytes > whole->weights_at) continue;
    if (draw(4) == 0) {
      at[to] ^= (char)(1 << draw(8));
    } else if (draw(3) == 0) {  // a number near what it was
      uint32_t was = 0;
      memcpy(&was, at + to, bytes < 4 ? bytes : 4);
      was += (uint32_t)draw(5) - 2;
      memcpy(at + to, &was, bytes < 4 ? bytes : 4);
    } else {
      memcpy(at + to, &word, bytes);
    }
  }
}

int main(int argc, char **argv) {
  long n = argc > 1 ? atol(argv[1]) : 4000, n_loaded = 0;
  const int64_t sizes[] = {3, 5};
  const tc_export_size size = {"rows", 2, sizes};
  w = tc_param(tc_randn(TC_SHAPE(8, 4), TC_F32)), table = tc_param(tc_randn(TC_SHAPE(9, 8), TC_F32));
  if (argc > 2) state = (uint64_t)atol(argv[2]);
  const char *path = files_path("m.tcx");
  const tc_export_input in[] = {{"x", tc_zeros(TC_SHAPE(3, 8), TC_F32), {"rows"}},
                                {"i", tc_zeros(TC_SHAPE(3), TC_I64), {"rows"}}};
  tc_status st = tc_export(
      fn, NULL, 2, in,
      &(tc_export_options){.n_outputs = 4, .n_sizes = 1, .sizes = &size, .targets = "native", .keep_ir = true}, path);
  if (st == TC_ERR_STATE) return printf("%s\n", tc_last_error()->message), 77;  // no compiler
  EXPECT_OK(st);
  file_bytes f = file_read(path);
  tc_tcx_head whole;
  memcpy(&whole, f.at, sizeof whole);
  char *copy = NULL;
  for (long k = 0; k < n; k++) {
    // As large as the file, or cut: a sanitizer sees what is read behind it.
    size_t bytes = draw(20) ? f.n : draw(f.n);
    if (posix_memalign((void **)&copy, 64, bytes + 1) != 0) return 1;
    memcpy(copy, f.at, bytes);
    if (bytes == f.n) mutate(copy, &whole);
    if (bytes == f.n && draw(20)) seal(copy, bytes);
    tc_clear_error();
    tc_program_file *p = tc_program_load_memory(copy, bytes);
    EXPECT(p || tc_last_error()->status != TC_OK, "mutation %ld: refused without an error", k);
    n_loaded += p != NULL;
    int n_values;
    for (int v = 0; p && v < 3; v++) {
      const tc_program_value *value = v == 0   ? tc_program_inputs(p, &n_values)
                                      : v == 1 ? tc_program_outputs(p, &n_values)
                                               : tc_program_weights(p, &n_values);
      for (int i = 0; i < n_values; i++)
        EXPECT(strlen(value[i].name) < f.n && value[i].shape.rank <= TC_MAX_RANK, "mutation %ld", k);
    }
    if (p) (void)!tc_program_verify(p);
    tc_program_close(p);
    free(copy);
  }
  // Some change nothing that is looked at, such as code; most are seen.
  printf("%ld of %ld mutations load\n", n_loaded, n);
  EXPECT(n_loaded > 0 && n_loaded < n * 9 / 10, "%ld of %ld load", n_loaded, n);
  free(f.at);
  tc_release(w), tc_release(table);
  files_fini();
  return expect_done("program_mutations");
}
