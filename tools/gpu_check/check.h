// gpu-check: what a device does and how fast, as rows of a file that the next call continues.
//
// A part is a list of rows. Rows run in a process of their own: what one of them breaks (a lost device, a crash, a kernel that never ends) is that row's
// fault, and the next process goes on behind it. A row that is in the file for the same device, driver and size is not run again, unless it was wrong.
// Of a simulated device nothing is timed.
// Threads: the main thread only.
#ifndef TC_TOOLS_GPU_CHECK_CHECK_H
#define TC_TOOLS_GPU_CHECK_CHECK_H

#include <stdbool.h>
#include <stdio.h>
#include <tc/tc.h>

#include "device/gpu.h"

typedef struct check_settings {
  const char *device, *json;
  char part;
  bool small;  // sizes for a simulated device or a first look
  double until;  // of check_now: no row begins behind it
  char began[32];  // when this call did: rows that were wrong since are not tried again
  tc_gpu *gpu;  // NULL: the device is a processor
  bool timed;  // false: simulated
  char hardware[240], driver[240];
} check_settings;
extern check_settings check;

typedef struct check_row {
  double value;  // NAN: none
  const char *unit;
  double roof;  // in the same unit; 0: none
  bool wrong, skipped;
  char note[400];
} check_row;

// ---- rows.c ----

typedef void check_fn(check_row *row, const void *arg);
// Runs the row, unless it is there or the time is over, and writes it. Ends the process, to be followed by another, where the device is lost.
void check_do(const char *name, check_fn *fn, const void *arg);
// The exit status of a process that ran rows: all, or as many as there was time for; go on in another, since the device is lost.
enum { CHECK_DONE = 0, CHECK_LEFT = 3, CHECK_LOST = 4 };
int check_rows_status(void);
// A row that its process did not live to write.
void check_write_dead(const char *name, const char *why);
// Prints this part's rows of this device; false if one is wrong, or there is none.
bool check_table(void);

// Marks the row as wrong; false.
bool check_wrong(check_row *row, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// Not asked of this device or machine: the row is not written, so the next call asks again.
void check_skip(check_row *row, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// False, and the row is wrong, unless st is TC_OK.
bool check_ok(check_row *row, tc_status st);
// The value of a pending or stored row in units a second, or in units of time ("us", "ms"); nothing where the device is simulated.
void check_rate(check_row *row, double work, const char *unit, double seconds, double roof);
void check_time(check_row *row, const char *unit, double seconds);
// What this part measured under that name on this device; 0 if it did not.
double check_value_of(const char *name);

// ---- measure.c ----

double check_now(void);
// Waits for all that the device was asked for.
bool check_drain(void);
typedef bool check_work(void *arg);
// Seconds of a call, the median over slices that end with everything done; negative if it failed. A simulated device calls once.
double check_seconds(check_work *work, void *arg);
// Numbers from -1 to 1 on the device, drawn there; of the current scope.
tc_tensor check_random(tc_dims shape, tc_type type, uint64_t seed);
// n elements of t from index first on of its flat order, as doubles.
bool check_fetch(tc_tensor t, int64_t first, int64_t n, double *out);

// ---- the parts ----

void check_roofs(void);
void check_copies(void);
double check_best_copy(void);  // GB/s, of those that this part measured
void check_plans(void);  // what the host pays for plans of trivial kernels
void check_ops(void);
void check_graphs(void);
void check_bits(void);
void check_faults(const char *program);
void check_kernels(void);
void check_convs(void);
// Who makes a product or a convolution, beside the rule's choice, and the settings that say so. Where there is no library, only generated ones can be.
typedef struct check_maker {
  const char *name, *libraries, *autotune;
} check_maker;
enum { CHECK_N_MAKERS = 3 };
extern const check_maker check_makers[CHECK_N_MAKERS];
void check_set_maker(const char *name);  // "": the rule
void check_models(char part);
// The row's work, already right, beside PyTorch in these modes (NULL ends them): a row each, if check_has_peers says that a PyTorch sees a GPU.
struct bench_row;
bool check_has_peers(void);
void check_beside(const char *name, const struct bench_row *row, const char *const *modes);
// What a process of its own does with a hidden argument: one fault, or a sample for compute-sanitizer. The exit status.
int check_fault_main(const char *what);

#endif
