// Options: defaults, values, values that are not allowed, and the topics of TC_LOG.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tc/tc.h>

#include "runtime/log.h"
#include "runtime/options.h"

static char lines[4096];

static void keep_line(const char *line, void *arg) {
  (void)arg;
  strncat(lines, line, sizeof lines - strlen(lines) - 2);
  strcat(lines, "\n");
}

Test(options, unset_and_empty_variables_have_defaults) {
  unsetenv("TC_PLAN_CACHE");
  setenv("TC_COMPILER", "", 1);
  unsetenv("TC_DEVICE");
  tc_options_reload();
  cr_assert_eq(tc_options_get()->plan_cache, 1024);
  cr_assert_str_eq(tc_options_get()->compiler, "llvm");
  cr_assert_null(tc_options_get()->device);
}

Test(options, values_are_copied_from_the_environment) {
  setenv("TC_DEVICE", "tc:ref", 1);
  setenv("TC_MAX_NODES", "77", 1);
  tc_options_reload();
  setenv("TC_DEVICE", "tc:cpu", 1);
  cr_assert_str_eq(tc_options_get()->device, "tc:ref");
  cr_assert_eq(tc_options_get()->max_nodes, 77);
}

Test(options, malformed_number_is_logged_and_its_default_kept) {
  static const char *const bad[] = {"12x", "x", "1.5", "99999999999999999999"};
  tc_set_log(keep_line, NULL);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    lines[0] = 0;
    setenv("TC_MAX_NODES", bad[i], 1);
    tc_options_reload();
    cr_assert_eq(tc_options_get()->max_nodes, 16384);
    cr_assert_not_null(strstr(lines, bad[i]));
    cr_assert_not_null(strstr(lines, "TC_MAX_NODES"));
  }
}

static void read_logged(const char *variable, const char *value) {
  lines[0] = 0;
  setenv(variable, value, 1);
  tc_options_reload();
}

// The one line that a value which is not allowed is worth.
static void expect_told(const char *variable, const char *value, const char *why) {
  char want[192];
  read_logged(variable, value);
  snprintf(want, sizeof want, "tc[warn] %s is \"%s\", %s\n", variable, value, why);
  cr_expect_str_eq(lines, want);
}

Test(options, negative_number_is_logged_and_its_default_kept) {
  static const char *const variables[] = {"TC_NUM_THREADS", "TC_MAX_NODES",    "TC_MAX_BYTES",
                                          "TC_PLAN_CACHE",  "TC_KERNEL_CACHE", "TC_MEMORY_CAP"};
  const tc_options *o = tc_options_get();
  tc_set_log(keep_line, NULL);
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    char want[128];
    read_logged(variables[i], "-1");
    snprintf(want, sizeof want, "tc[warn] %s is \"-1\", not a whole number", variables[i]);
    cr_expect(strncmp(lines, want, strlen(want)) == 0 && strchr(lines, '\n') == strrchr(lines, '\n'), "%s: %s",
              variables[i], lines);
    unsetenv(variables[i]);
  }
  cr_assert(o->num_threads == 0 && o->max_nodes == 16384 && o->max_bytes == 1 << 30);
  cr_assert(o->plan_cache == 1024 && o->kernel_cache == 4096 && o->memory_cap == 0);
  read_logged("TC_MEMORY_CAP", "0");
  cr_assert_str_empty(lines);
}

Test(options, unknown_word_is_logged_and_the_default_kept) {
  static const char *const bad[][2] = {
      {"TC_COMPILER", "gcc"}, {"TC_COMPILER", "llvm,interp"}, {"TC_COMPILER", "interpreter"}, {"TC_ISA", "avx"},
      {"TC_ISA", "sse2"},     {"TC_TEST_PLANT", "x"}};
  static const char *const good[][2] = {{"TC_COMPILER", "interp"}, {"TC_ISA", "avx512"},   {"TC_ISA", "avx2"},
                                        {"TC_ISA", "aarch64"},     {"TC_ISA", "baseline"}, {"TC_TEST_PLANT", "vjp"}};
  const tc_options *o = tc_options_get();
  tc_set_log(keep_line, NULL);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char want[128];
    read_logged(bad[i][0], bad[i][1]);
    snprintf(want, sizeof want, "tc[warn] %s is \"%s\", not one of ", bad[i][0], bad[i][1]);
    cr_expect(strncmp(lines, want, strlen(want)) == 0 && strchr(lines, '\n') == strrchr(lines, '\n'), "%s=%s: %s",
              bad[i][0], bad[i][1], lines);
    cr_expect(strcmp(o->compiler, "llvm") == 0 && o->isa == NULL && o->test_plant == NULL);
    unsetenv(bad[i][0]);
  }
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    read_logged(good[i][0], good[i][1]);
    cr_expect_str_empty(lines);
  }
  cr_assert_str_eq(o->compiler, "interp");
  cr_assert_str_eq(o->isa, "baseline");
  cr_assert_str_eq(o->test_plant, "vjp");
}

Test(options, number_that_is_none_of_those_allowed_is_logged_and_its_default_kept) {
  static const struct {
    const char *variable, *bad, *words;
    int initial, good;
  } row[] = {{"TC_GENERIC_KERNELS", "7", "0,1,2", 1, 2},
             {"TC_WINOGRAD", "2", "0,1", 1, 0},
             {"TC_EAGER", "9", "0,1", 0, 1},
             {"TC_PREPARE", "5", "0,1", 1, 0},
             {"TC_AUTOTUNE", "3", "0,1", 0, 1},
             {"TC_PROFILE_KERNELS", "3", "0,1", 0, 1}};
  const tc_options *o = tc_options_get();
  const int64_t *value[] = {&o->generic_kernels, &o->winograd, &o->eager,
                            &o->prepare,         &o->autotune, &o->profile_kernels};
  tc_set_log(keep_line, NULL);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char text[128];
    snprintf(text, sizeof text, "not one of %s; using %d", row[i].words, row[i].initial);
    expect_told(row[i].variable, row[i].bad, text);
    cr_expect_eq(*value[i], row[i].initial);
    snprintf(text, sizeof text, "%d", row[i].good);
    read_logged(row[i].variable, text);
    cr_expect_str_empty(lines);
    cr_expect_eq(*value[i], row[i].good);
    unsetenv(row[i].variable);
  }
}

Test(options, number_outside_of_its_range_is_logged_and_its_default_kept) {
  static const char *const bad[] = {"0", "1", "-3", "1048577", "2..9", "x"}, *const good[] = {"2", "1048576"};
  tc_set_log(keep_line, NULL);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    expect_told("TC_GPU_AHEAD", bad[i], "not a whole number from 2 to 1048576; using 16");
    cr_expect_eq(tc_options_get()->gpu_ahead, 16);
  }
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    read_logged("TC_GPU_AHEAD", good[i]);
    cr_expect_str_empty(lines);
    cr_expect_eq(tc_options_get()->gpu_ahead, atoll(good[i]));
  }
}

Test(options, text_that_is_not_two_numbers_is_logged_and_ignored) {
  static const char *const bad[] = {"axb", "0x0", "64", "64x", "64x128x4", "-64x128", "64x99999999999"};
  tc_set_log(keep_line, NULL);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    expect_told("TC_GPU_TILE", bad[i], "not two whole numbers from 1 on, as 64x128; it was ignored");
    cr_expect_null(tc_options_get()->gpu_tile);
  }
  read_logged("TC_GPU_TILE", "64x128");
  cr_expect_str_empty(lines);
  cr_expect_str_eq(tc_options_get()->gpu_tile, "64x128");
}

Test(options, overlong_string_is_logged_and_ignored) {
  static char text[5000];
  memset(text, 'a', sizeof text - 1);
  tc_set_log(keep_line, NULL);
  setenv("TC_LLVM_PATH", text, 1);
  tc_options_reload();
  cr_assert_null(tc_options_get()->llvm_path);
  cr_assert_not_null(strstr(lines, "TC_LLVM_PATH"));
}

Test(options, log_topics_follow_TC_LOG) {
  tc_set_log(keep_line, NULL);
  setenv("TC_LOG", "plan,nonsense,memory", 1);
  tc_options_reload();
  cr_assert(tc_log_on(TC_LOG_PLAN));
  cr_assert(tc_log_on(TC_LOG_MEMORY));
  cr_assert(tc_log_on(TC_LOG_WARN));
  cr_assert_not(tc_log_on(TC_LOG_KERNEL));
  cr_assert_not_null(strstr(lines, "\"nonsense\""));
  lines[0] = 0;
  tc_log_line(TC_LOG_PLAN, "%d kernels", 3);
  tc_log_line(TC_LOG_KERNEL, "silent");
  tc_log_line(TC_LOG_PLAN, "%02000d", 7);
  cr_assert_eq(strncmp(lines, "tc[plan] 3 kernels\ntc[plan] 000", 31), 0);
  cr_assert_eq(strlen(lines), 19 + 9 + 2000 + 1);
}

Test(options, table_lists_every_variable) {
  static char text[16384];
  FILE *f = fmemopen(text, sizeof text, "w");
  tc_options_print(f);
  fclose(f);
#define TC_OPTION(field, variable, type, by, initial, words, meaning) cr_assert_not_null(strstr(text, #variable));
#include "runtime/options.def"
#undef TC_OPTION
}

Test(options, misspelt_variable_is_told_once_with_the_nearest_name) {
  static const char *const unlike[] = {
      "TC_FOO", "TC_TEST_PLANTS", "TC_SIM_ISA", "TC_VERSION", "TC_PROFILE_OF_MINE", "XTC_LOG", "TC_"};
  unsetenv("TC_PROFILE");
  for (size_t i = 0; i < sizeof unlike / sizeof *unlike; i++) setenv(unlike[i], "1", 1);
  tc_set_log(keep_line, NULL);
  lines[0] = 0;
  tc_options_reload();
  cr_expect_str_empty(lines, "%s", lines);
  setenv("TC_PROFIL", "1", 1);
  setenv("TC_NUM_TRHEADS", "2", 1);
  setenv("TC_LGO", "plan", 1);
  tc_options_reload();
  cr_expect_not_null(
      strstr(lines, "tc[warn] TC_PROFIL is no variable of tc and has no effect; the nearest is TC_PROFILE ("), "%s",
      lines);
  cr_expect_not_null(
      strstr(lines, "TC_NUM_TRHEADS is no variable of tc and has no effect; the nearest is TC_NUM_THREADS ("), "%s",
      lines);
  cr_expect_not_null(strstr(lines, "TC_LGO is no variable of tc and has no effect; the nearest is TC_LOG ("), "%s",
                     lines);
  cr_expect_eq(tc_options_get()->profile, NULL);
  lines[0] = 0;
  tc_options_reload();
  cr_expect_str_empty(lines, "%s", lines);
}
