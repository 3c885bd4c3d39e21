// Files written whole or not at all. What is written goes to a temporary beside the target, which
// takes the target's place once it is on the disk.
// Invariants: links are followed; until the rename the target is what it was; a file that failed is
// removed. What is no file (a pipe, a device) is written in place.
// A file that grows past the process's limit between begin and end is an error to this thread. It
// does not raise the signal that ends the process.
// Threads: thread-compatible; begin and end are called by one thread.
#pragma once

#include <signal.h>
#include <stdlib.h>

#include "runtime/status.h"

typedef struct tc_new_file {
  const char *op, *path;  // borrowed
  tc_site site;
  int fd;
  int why;                // errno of the first failure
  char *name, *target;    // the temporary and what it will replace; NULL: written in place
  sigset_t mask;          // the thread's signals before
} tc_new_file;

// Failures are kept: only tc_new_file_end, which must follow, reports them.
void tc_new_file_begin(tc_new_file *f, const char *op, const char *path, tc_site site);
void tc_new_file_write(tc_new_file *f, const void *data, size_t bytes);
// Puts the file in its place, or removes it if anything failed or st says so. TC_ERR_IO with the
// reason; TC_ERR_MEMORY without memory.
tc_status tc_new_file_end(tc_new_file *f, tc_status st);
