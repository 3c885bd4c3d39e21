// Mathematical functions libm lacks.
// Threads: thread-safe, pure.
#include "kernels/math.h"

#include <math.h>

// Winitzki's approximation, relative error about 2e-3; near 0 it loses its digits and the first term of the series serves.
static double erfinv_guess(double x) {
  if (x < 1e-3) return x * 0.88622692545275801365;  // sqrt(pi) / 2
  const double a = 0.147;
  double log_term = log1p(-x * x);
  if (x > 0.5) log_term = log1p(-x) + log1p(x);     // x * x would round away the distance to 1
  double t = 2 / (M_PI * a) + log_term / 2, c = -log_term / a;
  return sqrt(c / (sqrt(t * t + c) + t));
}

double tc_math_erfinv(double x) {
  if (x == 0 || isnan(x)) return x;
  double m = fabs(x);
  if (m > 1) return NAN;
  if (m == 1) return copysign(INFINITY, x);
  double y = erfinv_guess(m);
  // Halley's method on erf(y) - m cubes the error; two steps do, but for the last few values below 1, where the guess is worse. Above 0.5
  // the residual is taken from erfc, where 1 - m is exact and nothing cancels.
  for (int i = 0; i < 3; i++) {
    double residual = m > 0.5 ? (1 - m) - erfc(y) : erf(y) - m;
    double newton = residual / (M_2_SQRTPI * exp(-y * y));
    y -= newton / (1 + y * newton);
  }
  return copysign(y, x);
}
