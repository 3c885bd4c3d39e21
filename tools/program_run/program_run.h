// tc-run's part for compiled programs in files (tc/program.h): runs one on .npy files, tells what is
// in it, or writes a C file that carries it.
// Threads: of the process's one thread.
#pragma once

#include <stdbool.h>

// Whether the command line names a file of tc_export, by its ending .tcx, or asks for --embed.
bool tc_program_run_is_asked(int argc, char **argv);
// Returns the exit status.
int tc_program_run_main(int argc, char **argv);
