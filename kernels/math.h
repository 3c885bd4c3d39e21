// Mathematical functions that libm lacks.
// Threads: thread-safe, pure.
#pragma once

// The inverse of erf on [-1, 1]: infinite at the ends, NaN outside. The relative error is below
// 1e-15 (measured: 2e-16). The prefix math is there because tc_erfinv is the public op.
double tc_math_erfinv(double x);

// The n-th derivative of digamma, which is the derivative of lgamma; n is whole and not negative.
// The relative error is below 1e-13 for 0 < x < 100, except near digamma's zero (measured: 4e-15).
// Poles are as in PyTorch. At 0 with n = 0 the result is the infinity of the opposite sign of the
// zero. At negative integers with n = 0 it is NaN. Other poles are inf for odd n and -inf for even
// n. At inf the result is the limit, at -inf NaN.
// Source: the series of Cephes, psi and zeta.
double tc_math_polygamma(double n, double x);
