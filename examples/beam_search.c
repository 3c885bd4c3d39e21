// Beam search: the likeliest names by a model of letter pairs. The loop is in the graph: it is
// recorded once, and stops when every name of the beam has ended.
#include <math.h>
#include <stdio.h>
#include <tc/control.h>
#include <tc/tc.h>

enum { BEAM = 5, LENGTH = 12, LETTERS = 27 };  // letter 0 begins and ends a name

static const char *const names[] = {"anna",  "hanna", "johanna", "susanna", "marianne", "maria", "mia",    "mara",
                                    "clara", "carla", "karla",   "karin",   "katrin",   "kathi", "nathan", "jonathan",
                                    "johan", "jonas", "thomas",  "tom",     "tim",      "tina",  "martin", "martina"};

// Logarithms of how often one letter follows another. What has ended stays so.
static tc_tensor read_names(void) {
  static float log_p[LETTERS][LETTERS];
  double n[LETTERS][LETTERS];
  for (int a = 0; a < LETTERS; a++)
    for (int b = 0; b < LETTERS; b++) n[a][b] = 0.01;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    int from = 0;
    for (const char *c = names[i]; *c; c++) n[from][*c - 'a' + 1]++, from = *c - 'a' + 1;
    n[from][0]++;
  }
  for (int a = 0; a < LETTERS; a++) {
    double sum = 0;
    for (int b = 0; b < LETTERS; b++) sum += n[a][b];
    for (int b = 0; b < LETTERS; b++) log_p[a][b] = (float)log(n[a][b] / sum);
  }
  return tc_from_host(log_p, TC_SHAPE(LETTERS, LETTERS), TC_F32);
}

enum { STEP, WORDS, SCORE, LAST, N_CARRIES };  // i64 [], i64 [BEAM, LENGTH], f32 [BEAM], i64 [BEAM]

static tc_status goes_on(void *user, const tc_tensor *in, tc_tensor *out) {
  (void)user;
  tc_tensor open = tc_logical_or(tc_eq(in[STEP], 0), tc_any(tc_ne(in[LAST], 0), TC_ALL, false));
  out[0] = tc_logical_and(open, tc_lt(in[STEP], LENGTH));
  return TC_OK;
}

static tc_status add_letter(void *user, const tc_tensor *in, tc_tensor *out) {
  tc_tensor log_p = *(const tc_tensor *)user;
  tc_tensor ended = tc_logical_and(tc_eq(in[LAST], 0), tc_ne(in[STEP], 0));
  tc_tensor ends = tc_eq(tc_arange(0, LETTERS, 1, TC_I64), 0);
  tc_tensor stays = tc_where(ends, tc_scalar(0), tc_scalar(-1e30));  // of a name that has ended
  tc_tensor next = tc_where(tc_unsqueeze(ended, 1), stays, tc_index_select(log_p, 0, in[LAST]));
  tc_tensor score = tc_reshape(tc_add(tc_unsqueeze(in[SCORE], 1), next), TC_SHAPE(BEAM * LETTERS));
  tc_tensor best = tc_argtopk(score, BEAM, 0, true);
  tc_tensor name = tc_floor_divide(best, LETTERS), letter = tc_remainder(best, LETTERS);
  tc_tensor here = tc_eq(tc_arange(0, LENGTH, 1, TC_I64), in[STEP]);
  out[STEP] = tc_add(in[STEP], 1);
  out[WORDS] = tc_where(here, tc_unsqueeze(letter, 1), tc_index_select(in[WORDS], 0, name));
  out[SCORE] = tc_index_select(score, 0, best);
  out[LAST] = letter;
  return TC_OK;
}

int main(void) {
  int64_t words[BEAM][LENGTH], step;
  float score[BEAM] = {0, -1e30f, -1e30f, -1e30f, -1e30f};  // at first there is one name, the empty one
  tc_tensor log_p = read_names(), out[N_CARRIES];
  const tc_tensor carry[N_CARRIES] = {tc_zeros(TC_SHAPE(), TC_I64), tc_zeros(TC_SHAPE(BEAM, LENGTH), TC_I64),
                                      tc_from_host(score, TC_SHAPE(BEAM), TC_F32), tc_zeros(TC_SHAPE(BEAM), TC_I64)};
  if (tc_while(goes_on, add_letter, &log_p, carry, N_CARRIES, out) != TC_OK || tc_eval(N_CARRIES, out) != TC_OK ||
      tc_to_host(out[WORDS], words, sizeof words) != TC_OK || tc_to_host(out[SCORE], score, sizeof score) != TC_OK ||
      tc_item_i64(out[STEP], &step) != TC_OK) {
    fprintf(stderr, "%s\n", tc_last_error()->message);
    return 1;
  }
  printf("%lld steps\n", (long long)step);
  for (int k = 0; k < BEAM; k++) {
    printf("%6.3f ", (double)score[k]);
    for (int i = 0; i < LENGTH && words[k][i]; i++) putchar((int)('a' + words[k][i] - 1));
    putchar('\n');
  }
  return 0;
}
