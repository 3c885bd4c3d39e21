// tc-prof live: the report of a program that runs, once a second, until it ends or Ctrl-C.
// In: a profile that grows. Out: the report, over what was printed before where the output is a
// terminal. Threads: one.
#include <stdio.h>
#include <unistd.h>

#include "tools/prof/prof.h"

int tc_command_live(tc_profile *p, const tc_prof_options *o) {
  for (;;) {
    if (isatty(STDOUT_FILENO)) fputs("\033[H\033[2J", stdout);
    int status = tc_command_report(p, o);
    fflush(stdout);
    if (status != 0 || p->damaged || p->end.head.bytes || ferror(stdout)) return status;
    sleep(1);
    if (!tc_profile_read(p)) return fprintf(stderr, "tc-prof: no memory\n"), 1;
  }
}
