// tc-run --minify and --bisect: make a failing trace small, and name what breaks it.
#pragma once

#include <stdbool.h>

// Whether the command line asks for one of the two, before `--` and the first word.
bool tc_minify_is_asked(int argc, char **argv);

// Returns the exit status.
int tc_minify(int argc, char **argv);
