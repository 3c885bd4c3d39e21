// The last errors of this thread, so that a poisoned handle can name its own after others failed too: keep the serial in the handle.
// Threads: thread-local, no locks. Defined in status.c.
#ifndef TC_RUNTIME_ERROR_RING_H
#define TC_RUNTIME_ERROR_RING_H

#include <stdint.h>
#include <tc/tc.h>

#define TC_N_KEPT_ERRORS 256

// Serial of the newest error of this thread; 0: none yet. tc_clear_error does not change it.
uint32_t tc_error_newest(void);
// Error number serial, borrowed until the next error or call; NULL when it was never made or TC_N_KEPT_ERRORS later ones were.
// Texts share 8 KiB: of an error that lost its text to later ones, only the op and the status remain.
const tc_error *tc_error_at(uint32_t serial);

#endif
