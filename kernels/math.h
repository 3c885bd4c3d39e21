// Mathematical functions libm lacks. Threads: thread-safe, pure.
#ifndef TC_KERNELS_MATH_H
#define TC_KERNELS_MATH_H

// (tc_erfinv without more is the public op.) The inverse of erf on [-1, 1]: erfinv(+-1) is +-infinity, NaN outside. Relative error about 1e-15.
double tc_math_erfinv(double x);

#endif
