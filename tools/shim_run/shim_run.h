// tc-run --shim: starts a program with the shim preloaded.
#pragma once

#include <stdbool.h>

// Whether the command line asks for it, before `--` and the first word.
bool tc_shim_run_is_asked(int argc, char **argv);

// Takes the place of this process; returns only on failure, an exit status.
int tc_shim_run(int argc, char **argv);
