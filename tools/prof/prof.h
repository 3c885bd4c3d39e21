// The subcommands of tc-prof: one row each in main.c.
// A subcommand reads the profile of its last word, which is open and read, and prints to standard
// output. It returns the exit status: 0; 1 where the file has not what is asked for.
#pragma once

#include "tools/prof/json.h"
#include "tools/prof/profile.h"
#include "tools/prof/show.h"

typedef struct tc_prof_options {
  bool json, dot, all;
  uint32_t top;  // rows of a table. 0: as the subcommand likes
  const char *output;  // -o; NULL: none was named
  const char *word[4];  // what follows the subcommand, the file last
  int n_words;
} tc_prof_options;

typedef struct tc_prof_command {
  const char *name, *words;  // words: as --help shows what follows
  int n_words;
  int (*run)(tc_profile *p, const tc_prof_options *o);
  const char *says;  // a line
  const char *help;  // its own: what the output means, and examples
} tc_prof_command;

// Prints the program, the file and what is wrong with it: the first lines of each text.
void tc_prof_print_head(tc_profile *p);
// The same as members of the object that is open.
void tc_prof_json_head(tc_profile *p, const char *command);
// The rows of a table: what --top and --all say, else usual, at most n.
size_t tc_prof_rows(const tc_prof_options *o, size_t usual, size_t n);

int tc_command_report(tc_profile *p, const tc_prof_options *o);
int tc_command_steps(tc_profile *p, const tc_prof_options *o);
int tc_command_sync(tc_profile *p, const tc_prof_options *o);
int tc_command_misses(tc_profile *p, const tc_prof_options *o);
int tc_command_fusion(tc_profile *p, const tc_prof_options *o);
int tc_command_memory(tc_profile *p, const tc_prof_options *o);
int tc_command_compile(tc_profile *p, const tc_prof_options *o);
int tc_command_html(tc_profile *p, const tc_prof_options *o);
int tc_command_trace(tc_profile *p, const tc_prof_options *o);
int tc_command_diff(tc_profile *p, const tc_prof_options *o);
int tc_command_live(tc_profile *p, const tc_prof_options *o);
