// tc_math_polygamma in the kernels' dialect, after the words of a backend. The steps are those of
// kernels/math.c, which explains them. No GPU library has it.
// TC_OUTLINED: as TC_DEVICE, but called: inlined in each other these take half a second to compile.
// clang-format off
#define TC_PI 3.14159265358979323846
#define TC_INFINITY tc_f64_bits(0x7FF0000000000000ull)
#define TC_NAN tc_f64_bits(0x7FF8000000000000ull)

// x > 0.
TC_OUTLINED f64 tc_psi_above_zero(f64 x) {
  const f64 c[7] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12};
  f64 y = 0, series = 0;
  for (; x < 10; x += 1) y -= 1 / x;
  for (i32 i = 6; i >= 0; i--) series = (series + c[i]) / (x * x);
  return y + tc_math_log(x) - 0.5 / x - series;
}

TC_DEVICE f64 tc_psi(f64 x) {
  if (x > 0) return x == TC_INFINITY ? x : tc_psi_above_zero(x);
  if (x == 0) return 1 / x < 0 ? TC_INFINITY : -TC_INFINITY;
  if (x == -TC_INFINITY) return TC_NAN;
  f64 rest = x - tc_rint_f64(x);
  return rest == 0 ? TC_NAN : tc_psi_above_zero(1 - x) - TC_PI / tc_math_tan(TC_PI * rest);
}

// x > 0, s >= 2.
TC_OUTLINED f64 tc_zeta_above_zero(f64 s, f64 x) {
  const f64 c[8] = {1.0 / 12, -1.0 / 720, 1.0 / 30240, -1.0 / 1209600, 1.0 / 47900160, -691.0 / 1307674368000.0, 1.0 / 74724249600.0,
                    -3617.0 / 10670622842880000.0};
  f64 sum = 0;
  for (; x < 12 + s; x += 1) {
    f64 term = tc_math_pow(x, -s);
    sum += term;
    if (term <= 1e-17 * sum) return sum;
  }
  f64 power = tc_math_pow(x, -s), factor = s / x;
  sum += power * (x / (s - 1) + 0.5);
  for (i32 k = 0; k < 8; k++) {
    sum += power * factor * c[k];
    factor *= (s + 2 * k + 1) / x * ((s + 2 * k + 2) / x);
  }
  return sum;
}

TC_DEVICE f64 tc_zeta(f64 s, f64 x) {
  if (x > 0) return x == TC_INFINITY ? 0.0 : tc_zeta_above_zero(s, x);
  if (x == -TC_INFINITY) return TC_NAN;
  f64 rest = -x - tc_floor_f64(-x);
  if (rest == 0) return TC_INFINITY;
  f64 down = tc_zeta_above_zero(s, rest) - tc_zeta_above_zero(s, 1 - x);
  return tc_zeta_above_zero(s, 1 - rest) + (tc_math_fmod(s, 2) == 0 ? down : -down);
}

TC_OUTLINED f64 tc_math_polygamma(f64 n, f64 x) {
  if (x != x) return x;
  if (n == 0) return tc_psi(x);
  f64 y = tc_math_tgamma(n + 1) * tc_zeta(n + 1, x);
  return tc_math_fmod(n, 2) == 0 ? -y : y;
}
