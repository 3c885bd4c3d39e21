// The words of the dialect go through the real NVRTC, where one is installed, and become the
// instructions that they stand for. Compiled only: no GPU is used.
#include <criterion/criterion.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/nvrtc.h"
#include "runtime/arena.h"
#include "tests/device/simulated.h"
#include "tests/device/words.h"

#define NO_DRIVER 99  // a driver's major version that no NVRTC is above

static void find_nvrtc(tc_gpu_facts *facts) {
  char why[320];
  if (!tc_nvrtc_choose_arch(NO_DRIVER, facts, why, sizeof why)) cr_skip_test("%s", why);
}

static char *compile(const char *arch, const char *source) {
  tc_gpu_image image;
  cr_assert_eq(tc_nvrtc_compile(arch, "all", source, &image), TC_OK, "%s", tc_last_error()->message);
  cr_assert(image.bytes > 0);
  return image.data;
}

Test(nvrtc, every_word_compiles_for_every_architecture) {
  tc_gpu_facts facts = {.name = "a device", .arch = "sm_90"};
  find_nvrtc(&facts);
  cr_expect_str_eq(facts.arch, "sm_90a");
  static const char *const arch[] = {"sm_80", "sm_90", "sm_90a", "sm_100", "sm_120"};
  for (size_t i = 0; i < sizeof arch / sizeof *arch; i++) {
    char *image = compile(arch[i], every_word);
    cr_expect(memcmp(image, "\177ELF", 4) == 0, "%s: not a cubin", arch[i]);
    tc_free(image);
  }
}

// Words of the table in the dialect's description that the kernel above does not use would not be
// tested.
Test(nvrtc, the_kernel_uses_every_word_of_the_description) {
  static char text[1 << 16];
  FILE *f = fopen("docs/gpu-device.md", "r");
  cr_assert(f);
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  int n_words = 0;
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
    if (strncmp(line, "| `", 3) != 0) continue;
    for (char *at = line; *at && !(at[0] == ' ' && at[1] == '|' && at > line + 3);) {  // the first column
      size_t n = 0;
      while (isalnum((unsigned char)at[n]) || at[n] == '_') n++;
      if (n > 3 && (strncmp(at, "tc_", 3) == 0 || strncmp(at, "TC_", 3) == 0) && strncmp(at, "tc_math_NAME", n) != 0) {
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)n, at);
        cr_expect(strstr(every_word, word), "%s is not in the kernel", word);
        n_words++;
      }
      at += n ? n : 1;
    }
  }
  cr_expect(n_words > 40, "only %d words were found", n_words);
#define TC_KIR_MATH(NAME, function, operands) \
  { \
    char word[64] = "tc_math_" #NAME "("; \
    for (char *c = word; *c; c++) *c = (char)tolower((unsigned char)*c); \
    cr_expect(strstr(every_word, word), "%s is not in the kernel", word); \
  }
#include "lowering/kir/libm.def"
#undef TC_KIR_MATH
}

Test(nvrtc, words_become_the_instructions_that_they_stand_for) {
  tc_gpu_facts facts = {.name = "a device", .arch = "sm_80"};
  find_nvrtc(&facts);
  static const char *const instruction[] = {"ld.global.nc.v4.u32",
                                            "st.global.v4.u32",
                                            "ld.global.nc.v2.u32",
                                            "st.global.v4.u32",
                                            "st.global.v2.u32",
                                            "cp.async.cg.shared.global",
                                            "cp.async.wait_group",
                                            "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
                                            "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16",
                                            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
                                            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
                                            "cvt.rn.f16.f64",
                                            "shfl.sync.down",
                                            "div.rn.f32",
                                            "ex2.approx.ftz.f32",
                                            "sqrt.rn.f32"};
  char *ptx = compile("compute_80", every_word);
  for (size_t i = 0; i < sizeof instruction / sizeof *instruction; i++)
    cr_expect(strstr(ptx, instruction[i]), "no %s", instruction[i]);
  tc_free(ptx);
}

Test(nvrtc, blocks_that_run_together_are_the_kernels_own) {
  tc_gpu_facts facts = {.name = "a device", .arch = "sm_90"};
  find_nvrtc(&facts);
  static const char *const instruction[] = {".reqnctapercluster 2", "%cluster_ctarank",
                                            "barrier.cluster.arrive.aligned", "barrier.cluster.wait.aligned",
                                            "mapa.u64"};
  char *ptx = compile("compute_90", every_word);
  for (size_t i = 0; i < sizeof instruction / sizeof *instruction; i++)
    cr_expect(strstr(ptx, instruction[i]), "no %s", instruction[i]);
  tc_free(ptx);
}

Test(nvrtc, a_product_and_a_sum_are_rounded_twice) {
  tc_gpu_facts facts = {.name = "a device", .arch = "sm_80"};
  find_nvrtc(&facts);
  char *ptx = compile("compute_80",
                      "#include \"tc_words.h\"\n"
                      "TC_KERNEL(all, 32) {\n"
                      "  f32 *p = (f32 *)tc_table[0];\n"
                      "  f64 *q = (f64 *)tc_table[1];\n"
                      "  p[0] = p[1] * p[2] + p[3];\n"
                      "  q[0] = q[1] * q[2] + q[3];\n"
                      "}\n");
  cr_expect(strstr(ptx, "mul.rn.f32") || strstr(ptx, "mul.f32"), "no product");
  cr_expect(!strstr(ptx, "fma."), "contracted");
  tc_free(ptx);
}

// PTX of the newest target that is not newer than the device.
Test(nvrtc, a_device_that_it_does_not_know_gets_ptx) {
  tc_gpu_facts facts = {.name = "a later device", .arch = "sm_999"};
  find_nvrtc(&facts);
  cr_assert(strncmp(facts.arch, "compute_", 8) == 0, "%s", facts.arch);
  char *ptx = compile(facts.arch, every_word);
  cr_expect(strstr(ptx, ".target sm_"));
  tc_free(ptx);
}

Test(nvrtc, a_device_that_it_no_longer_compiles_for_is_refused_with_a_sentence) {
  tc_gpu_facts facts = {.name = "a device", .arch = "sm_80"};
  char why[320];
  find_nvrtc(&facts);
  facts = (tc_gpu_facts){.name = "an early device", .arch = "sm_10"};
  cr_expect(!tc_nvrtc_choose_arch(NO_DRIVER, &facts, why, sizeof why));
  cr_expect(strstr(why, "does not compile for an early device, of sm_10"), "%s", why);
}

Test(nvrtc, a_mistake_in_the_source_is_an_error_with_the_compilers_words) {
  tc_gpu_facts facts = {.name = "a device", .arch = "sm_80"};
  tc_gpu_image image;
  find_nvrtc(&facts);
  cr_expect_eq(
      tc_nvrtc_compile("sm_80", "broken", "#include \"tc_words.h\"\nTC_KERNEL(broken, 32) { missing = 1; }\n", &image),
      TC_ERR_COMPILE);
  cr_expect(strstr(tc_last_error()->message, "broken") && strstr(tc_last_error()->message, "missing"), "%s",
            tc_last_error()->message);
  cr_expect_null(image.data);
}

// Where pip puts it, in an environment of Python's: the simulated one stands there, and makes code
// that no other does.
Test(nvrtc, one_that_pip_installed_is_found) {
  char dir[] = "/tmp/tc-venv-XXXXXX", path[128], command[320], why[320];
  tc_gpu_facts facts = {.name = "a device", .arch = "sm_90"};
  tc_gpu_image image;
  simulate(NULL);
  unsetenv("TC_NVRTC_LIBRARY");
  cr_assert(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/lib/python3.11/site-packages/nvidia/cu98/lib", dir);
  snprintf(command, sizeof command, "mkdir -p %s && ln -s \"$LIB\" %s/libnvrtc.so.98", path, path);
  setenv("LIB", built("libsim-nvrtc.so"), 1);
  cr_assert_eq(system(command), 0);
  setenv("VIRTUAL_ENV", dir, 1);
  tc_options_reload();
  bool found = tc_nvrtc_choose_arch(98, &facts, why, sizeof why);
  snprintf(command, sizeof command, "rm -r %s", dir);
  cr_expect_eq(system(command), 0);
  cr_assert(found, "%s", why);
  OK(tc_nvrtc_compile("sm_90a", "k", "#include \"tc_words.h\"\nTC_KERNEL(k, 32) { *(u64 *)tc_table[0] = 1; }\n",
                      &image));
  cr_expect(memcmp(image.data, "SIMCODE", 7) == 0);
  tc_free(image.data);
}
