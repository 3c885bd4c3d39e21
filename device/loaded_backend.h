// Back ends that shared objects bring (tc/backend.h): their names, and their devices' functions.
//
// In: paths, names, ops. Out: devices, which are numbered behind the rows of backends.def.
// Invariants: a back end stays loaded to the end of the process. A device is opened at its first
// use, closed by tc_loaded_shutdown, and opened again afterwards. Results of functions that are not
// what tc/backend.h says are errors, which name the file and the function.
// Threads: thread-safe. The functions of one back end are called one at a time, under its lock.
#pragma once

#include <tc/backend.h>

#include "device/backends.h"
#include "runtime/status.h"

typedef struct tc_loaded tc_loaded;  // a device; static

// ---- names ----

// Loads a file. *out_row becomes the back end's row. TC_ERR_IO, TC_ERR_DEVICE.
tc_status tc_loaded_load(const char *path, const char *op, tc_site site, tc_device *out_row);
// Loads what TC_BACKEND_PATH names, at its first call. What is no back end is logged.
void tc_loaded_search(void);
// Sentences about the files of TC_BACKEND_PATH that were not loaded; "" if there are none.
const char *tc_loaded_misses(void);
// The row of the loaded back end that the text names, alone or with ":n". -1: none of them.
int tc_loaded_find(const char *text);
// How many back ends are loaded; their rows begin at TC_N_DEVICES.
int tc_loaded_count(void);
// The file and the back end's own description, a sentence for tc-info.
const char *tc_loaded_sentence(tc_device d);

// ---- devices ----

// Opens the device if it is not open. TC_ERR_DEVICE.
tc_status tc_loaded_get(tc_device d, tc_loaded **out);
// NULL if the device opens, else a sentence. Records no error.
const char *tc_loaded_absent(tc_device d);
// True: the host may use its addresses, after tc_loaded_wait.
bool tc_loaded_is_host(const tc_loaded *l);
// How often the device was opened. What was prepared before is gone.
uint32_t tc_loaded_opened(const tc_loaded *l);
// Closes all devices. pre: nothing of their memory is in use or pooled.
void tc_loaded_shutdown(void);

// ---- memory ----

// TC_ERR_MEMORY records no error: the caller frees what it has pooled and tries again.
tc_status tc_loaded_take(tc_loaded *l, size_t bytes, void **out);
tc_status tc_loaded_refuse(tc_loaded *l, size_t bytes);  // records that error
void tc_loaded_free(tc_loaded *l, void *memory, size_t bytes);  // waits before
tc_status tc_loaded_write(tc_loaded *l, void *to, const void *from, size_t bytes);
tc_status tc_loaded_read(tc_loaded *l, void *to, const void *from, size_t bytes);
tc_status tc_loaded_copy(tc_loaded *l, void *to, const void *from, size_t bytes);
tc_status tc_loaded_wait(tc_loaded *l);
tc_status tc_loaded_wait_all(void);  // of every device that is open

// ---- ops ----

bool tc_loaded_supports(tc_loaded *l, const tc_backend_op *op);
// These two record no error: the caller knows the program's call. why gets the text.
#define TC_LOADED_WHY 512
tc_status tc_loaded_prepare(tc_loaded *l, const tc_backend_op *op, void **out_kernel, char why[TC_LOADED_WHY]);
// Does nothing if the device was closed since `opened`.
void tc_loaded_release(tc_loaded *l, uint32_t opened, void *kernel);
tc_status tc_loaded_run(tc_loaded *l, void *kernel, const tc_backend_op *op, const void *const *in, void *out,
                        const tc_backend_number *arg, char why[TC_LOADED_WHY]);
