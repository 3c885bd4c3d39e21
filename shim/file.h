// Writing of files in somebody else's process.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// All bytes, or false with errno. A file above the process's size limit is an error, and does not
// end the process.
bool tc_shim_write(int file, const char *text, size_t bytes);
