// Whether a shared object is whole, before the loader maps it. Of one that is cut off, reading a
// page behind its end is SIGBUS.
// Threads: thread-safe. Owner: nobody.
#pragma once

#include "runtime/status.h"

// TC_ERR_IO if the file ends before its program headers or a segment. What is no ELF file of this
// machine is the loader's to refuse.
tc_status tc_object_file_check(const char *path, const char *op, tc_site site);
