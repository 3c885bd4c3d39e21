// What this machine's cores can do, to compare a profile with.
#pragma once

// GFLOP/s in f64 of multiply-adds on all cores that the process may use, measured on one for some
// milliseconds.
double tc_shim_measure_peak(void);
