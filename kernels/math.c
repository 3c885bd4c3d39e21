// Mathematical functions that libm lacks. See math.h.
#include "kernels/math.h"

#include <math.h>

// Winitzki's approximation has a relative error of about 2e-3. Near 0 it loses its digits, so the
// first term of the series is used there.
static double erfinv_guess(double x) {
  if (x < 1e-3) return x * 0.88622692545275801365;  // sqrt(pi) / 2
  const double a = 0.147;
  double log_term = log1p(-x * x);
  if (x > 0.5) log_term = log1p(-x) + log1p(x);  // x * x would round away the distance to 1
  double t = 2 / (M_PI * a) + log_term / 2, c = -log_term / a;
  return sqrt(c / (sqrt(t * t + c) + t));
}

double tc_math_erfinv(double x) {
  if (x == 0 || isnan(x)) return x;
  double m = fabs(x);
  if (m > 1) return NAN;
  if (m == 1) return copysign(INFINITY, x);
  double y = erfinv_guess(m);
  // Halley's method on erf(y) - m cubes the error. Two steps are enough, except for the last few
  // values below 1, where the guess is worse. Above 0.5 the residual is taken from erfc, where 1 -
  // m is exact and nothing cancels.
  for (int i = 0; i < 3; i++) {
    double residual = m > 0.5 ? (1 - m) - erfc(y) : erf(y) - m;
    double newton = residual / (M_2_SQRTPI * exp(-y * y));
    y -= newton / (1 + y * newton);
  }
  return copysign(y, x);
}

// pre: x > 0. Shifts x to where the asymptotic series has all digits.
static double digamma_above_zero(double x) {
  // B_2k / 2k
  static const double c[] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12};
  double y = 0, series = 0;
  for (; x < 10; x++) y -= 1 / x;
  for (int i = 6; i >= 0; i--) series = (series + c[i]) / (x * x);
  return y + log(x) - 0.5 / x - series;
}

static double digamma(double x) {
  if (x > 0) return isinf(x) ? x : digamma_above_zero(x);
  if (x == 0) return copysign(INFINITY, -x);
  double rest = x - rint(x);  // exact, and NaN for -inf
  return rest == 0 ? NAN : digamma_above_zero(1 - x) - M_PI / tan(M_PI * rest);
}

// Returns the sum over k >= 0 of (x + k)^-s for x > 0 and s >= 2: some terms, then the
// Euler-Maclaurin formula.
static double zeta_above_zero(double s, double x) {
  // B_2k / (2k)!
  static const double c[] = {1.0 / 12,
                             -1.0 / 720,
                             1.0 / 30240,
                             -1.0 / 1209600,
                             1.0 / 47900160,
                             -691.0 / 1307674368000.0,
                             1.0 / 74724249600.0,
                             -3617.0 / 10670622842880000.0};
  double sum = 0;
  for (; x < 12 + s; x++) {
    double term = pow(x, -s);
    sum += term;
    if (term <= 1e-17 * sum) return sum;
  }
  double power = pow(x, -s), factor = s / x;
  sum += power * (x / (s - 1) + 0.5);
  for (int k = 0; k < 8; k++) {
    sum += power * factor * c[k];
    factor *= (s + 2 * k + 1) / x * ((s + 2 * k + 2) / x);
  }
  return sum;
}

// Below zero the sum has two parts: one upwards from 1 - rest, and one down from rest, which ends
// at -x.
static double zeta(double s, double x) {
  if (x > 0) return isinf(x) ? 0 : zeta_above_zero(s, x);
  if (isinf(x)) return NAN;
  double rest = -x - floor(-x);  // exact
  if (rest == 0) return INFINITY;
  double down = zeta_above_zero(s, rest) - zeta_above_zero(s, 1 - x);
  return zeta_above_zero(s, 1 - rest) + (fmod(s, 2) == 0 ? down : -down);
}

double tc_math_polygamma(double n, double x) {
  if (isnan(x)) return x;
  if (n == 0) return digamma(x);
  double y = tgamma(n + 1) * zeta(n + 1, x);
  return fmod(n, 2) == 0 ? -y : y;
}
