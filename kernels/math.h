// Mathematical functions libm lacks. Threads: thread-safe, pure.
#ifndef TC_KERNELS_MATH_H
#define TC_KERNELS_MATH_H

// The inverse of erf on [-1, 1]: infinite at the ends, NaN outside. Relative error below 1e-15
// (measured: 2e-16).
// Its plain name belongs to the public op.
double tc_math_erfinv(double x);

// The n-th derivative of digamma, which is that of lgamma; n is whole and not negative. Relative
// error below 1e-13 for 0 < x < 100 but near digamma's zero (measured: 4e-15). Poles as in PyTorch:
// at 0 and n = 0 the infinity of the other sign than the zero's; at negative integers NaN for n =
// 0; other poles of odd n are inf and of even n -inf. At inf the limit, at -inf NaN.
// Source: the series as in Cephes, psi and zeta.
double tc_math_polygamma(double n, double x);

#endif
