// Matrix products of a warp: m16n8k16, fragments as the PTX manual lays them out for mma.sync, and
// 16 x 16 x 16 of a wave of 64, as AMD's manuals do for mfma. Two kinds of arithmetic, for a matrix
// unit's own is not known: products added one after the other, k increasing, each sum rounded to
// f32; or, as measured on such units, products aligned to the largest exponent and added with
// truncation (TC_SIM_MMA=truncating).
#include <math.h>
#include <string.h>

#include "tests/sim/run.h"

enum { M = 16, MOST_N = 16, K = 16, GUARD_BITS = 3 };

static float value(uint32_t pair, int high, bool is_half) {
  uint16_t h = (uint16_t)(high ? pair >> 16 : pair);
  return is_half ? sim_half_value(h) : sim_bfloat_value(h);
}

// Products of two halves fit f32 whole, so multiplying and adding rounds as one fma does.
static void chain(sim_matrices *x, int n) {
  for (int k = 0; k < K; k++) {
    for (int i = 0; i < M; i++) {
      for (int j = 0; j < n; j++) x->d[i][j] += x->a[i][k] * x->b[k][j];
    }
  }
}

static float truncated(float c, const float *a, float b[K][MOST_N], int j) {
  double term[K + 1], plain = 0, sum = 0;
  int most = -1000;
  for (int k = 0; k <= K; k++) {
    term[k] = k < K ? (double)a[k] * (double)b[k][j] : (double)c;
    plain += term[k];
    if (term[k] != 0 && ilogb(term[k]) > most) most = ilogb(term[k]);
  }
  if (!isfinite(plain)) return (float)plain;
  if (most == -1000) return c;
  double unit = scalbn(1, most - 23 - GUARD_BITS);
  for (int k = 0; k <= K; k++) sum += trunc(term[k] / unit);
  if (sum == 0) return 0;
  int shift = ilogb(sum) - 23;
  if (shift > 0) sum = scalbn(trunc(scalbn(sum, -shift)), shift);
  return (float)(sum * unit);
}

void sim_multiply(sim_matrices *x, int n) {
  if (!sim_option.truncating) {
    chain(x, n);
    return;
  }
  for (int i = 0; i < M; i++) {
    for (int j = 0; j < n; j++) x->d[i][j] = truncated(x->d[i][j], x->a[i], x->b, j);
  }
}

void sim_mma(sim_thread *const *who, bool is_half) {
  sim_matrices x;
  for (int t = 0; t < 32; t++) {
    int row = t / 4, pair = 2 * (t % 4);
    for (int high = 0; high < 2; high++) {
      for (int r = 0; r < 4; r++)
        x.a[row + 8 * (r & 1)][pair + 8 * (r >> 1) + high] = value(who[t]->a[r], high, is_half);
      for (int r = 0; r < 2; r++) x.b[pair + 8 * r + high][row] = value(who[t]->b[r], high, is_half);
      for (int r = 0; r < 2; r++) x.d[row + 8 * r][pair + high] = who[t]->d[2 * r + high];
    }
  }
  sim_multiply(&x, 8);
  for (int t = 0; t < 32; t++) {
    for (int r = 0; r < 4; r++) who[t]->d[r] = x.d[t / 4 + 8 * (r >> 1)][2 * (t % 4) + (r & 1)];
  }
}

void sim_mfma(sim_thread *const *who, bool is_half) {
  sim_matrices x;
  for (int t = 0; t < 64; t++) {
    int line = t % 16, first = t / 16 * 4;
    for (int r = 0; r < 4; r++) {
      x.a[line][first + r] = value(who[t]->a[r / 2], r % 2, is_half);
      x.b[first + r][line] = value(who[t]->b[r / 2], r % 2, is_half);
      x.d[first + r][line] = who[t]->d[r];
    }
  }
  sim_multiply(&x, 16);
  for (int t = 0; t < 64; t++) {
    for (int r = 0; r < 4; r++) who[t]->d[r] = x.d[t / 16 * 4 + r][t % 16];
  }
}
