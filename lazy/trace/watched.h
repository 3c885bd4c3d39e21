// Numbers of the library's own objects that choose what functions record, such as a model's
// training mode. A graph that was traced while one had another value does not serve.
//
// In: an object makes one, sets and reads it. Out: its value, which a capture notes.
// Invariants: who has noted one keeps it beyond the end of its object.
// Threads: thread-safe. Owner: counted; the object has one reference.
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct tc_watched tc_watched;

// name: static, "the training mode of a model". NULL out of memory.
tc_watched *tc_watched_create(const char *name, uint64_t value);
tc_watched *tc_watched_retain(tc_watched *w);
// NULL: does nothing.
void tc_watched_release(tc_watched *w);
void tc_watched_set(tc_watched *w, uint64_t value);
// Its value. What goes by it records through tc_capture_read (capture_break.h).
uint64_t tc_watched_value(const tc_watched *w);
const char *tc_watched_name(const tc_watched *w);
