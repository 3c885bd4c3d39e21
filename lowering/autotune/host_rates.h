// What this machine can do at most, measured.
// In: the team's threads. Out: rates.
// Invariants: measured once a process and number of threads, in some 30 ms.
// Threads: thread-safe. Owner: nobody.
#pragma once

// f32 operations and bytes of memory, a second, by all threads of a run. 0: not known, since the
// processor has neither AVX2 nor AVX-512, or memory for the measurement is missing.
void tc_host_peak_rates(double *flops, double *bytes);
