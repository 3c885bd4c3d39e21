// The words of the dialect go through the real hiprtc, where one is installed. Compiled only: no
// GPU is used.
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <elf.h>
#include <string.h>

#include "device/hip/hiprtc.h"
#include "runtime/arena.h"
#include "tests/device/words.h"

static void find_hiprtc(void) {
  void *driver = NULL;
  char name[32], why[320];
  int version = 0;
  for (int major = 7; major >= 5 && !driver; major--) {
    snprintf(name, sizeof name, "libamdhip64.so.%d", major);
    driver = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (!driver) cr_skip_test("libamdhip64 is not installed");
  int (*get_version)(int *) = (int (*)(int *))dlsym(driver, "hipRuntimeGetVersion");
  cr_assert(get_version);
  // Without a GPU it may refuse, and then the library is taken to be as old as it can be.
  if (get_version(&version) != 0 || version == 0) version = 50200000;
  cr_assert(tc_hiprtc_open(driver, version, why, sizeof why), "%s", why);
}

static bool known(const char *arch) {
  char why[320];
  tc_gpu_facts facts = {.name = "a device"};
  snprintf(facts.arch, sizeof facts.arch, "%s", arch);
  return tc_hiprtc_choose_arch(&facts, why, sizeof why);
}

Test(hiprtc, every_word_compiles_for_every_architecture) {
  static const char *const arch[] = {"gfx906", "gfx908",  "gfx90a", "gfx90a:sramecc+:xnack-",
                                     "gfx942", "gfx1030", "gfx1100"};
  int n = 0;
  find_hiprtc();
  for (size_t i = 0; i < sizeof arch / sizeof *arch; i++) {
    tc_gpu_image image;
    if (!known(arch[i])) continue;
    cr_assert_eq(tc_hiprtc_compile(arch[i], "all", every_word, &image), TC_OK, "%s", tc_last_error()->message);
    // A code object, or a bundle of one.
    cr_expect(image.bytes > 1000 &&
                  (memcmp(image.data, ELFMAG, SELFMAG) == 0 || memcmp(image.data, "__CLANG_OFFLOAD_BUNDLE__", 24) == 0),
              "%s", arch[i]);
    tc_free(image.data);
    n++;
  }
  cr_expect(n >= 4);
}

Test(hiprtc, an_architecture_that_it_may_not_know_is_never_asked_for) {
  char why[320];
  tc_gpu_facts facts = {.name = "a later device", .arch = "gfx9999:xnack-"};
  find_hiprtc();
  cr_expect(!tc_hiprtc_choose_arch(&facts, why, sizeof why));
  cr_expect(strstr(why, "is not known to compile for a later device, a gfx9999"), "%s", why);
  cr_expect(!known("gfx90") && !known("gfx90aa") && !known(""));
}

Test(hiprtc, a_mistake_in_the_source_is_an_error_with_the_compilers_words) {
  tc_gpu_image image;
  find_hiprtc();
  cr_expect_eq(tc_hiprtc_compile("gfx906", "broken",
                                 "#include \"tc_words.h\"\nTC_KERNEL(broken, 64) { missing = 1; }\n", &image),
               TC_ERR_COMPILE);
  cr_expect(strstr(tc_last_error()->message, "broken") && strstr(tc_last_error()->message, "missing"), "%s",
            tc_last_error()->message);
  cr_expect_null(image.data);
}
