// Asks Linux for the permission to use tile registers. See host_tiles.h.
#include "lowering/target/host_tiles.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lowering/target/host_cpu.h"
#include "runtime/options.h"

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>

// Of arch_prctl: asks for a state that is saved only on demand; 18 are the contents of tiles.
// Source: Linux, Documentation/arch/x86/xstate.rst.
#define REQUEST_PERMISSION 0x1023L
#define TILE_DATA 18L

static int ask_permission(void) {
  return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0 ? 0 : errno;
}
#else
static int ask_permission(void) {
  return ENOSYS;
}
#endif

static struct {
  pthread_once_t asked;
  bool permitted;
  char sentence[160];  // why not
} self = {.asked = PTHREAD_ONCE_INIT};

static void ask_once(void) {
  char features[TC_HOST_FEATURES_BYTES];
  tc_host_features(features);
  if (strstr(features, "+amx-tile") == NULL) {
    snprintf(self.sentence, sizeof self.sentence, "no matrix tiles (AMX): this processor has none");
    return;
  }
  const int error = ask_permission();
  self.permitted = error == 0;
  if (error != 0)
    snprintf(self.sentence, sizeof self.sentence, "no matrix tiles (AMX): the kernel refuses them to this process: %s",
             error == ENOSPC ? "a thread's signal stack is too small" : strerror(error));
}

bool tc_host_tiles(void) {
  pthread_once(&self.asked, ask_once);
  return self.permitted;
}

const char *tc_host_tiles_sentence(bool tiles) {
  if (tiles && tc_options_get()->strict)
    return "products of bytes by matrix tiles (AMX), of bf16 without: TC_STRICT is 1";
  if (tiles) return "products of bf16 and bytes by matrix tiles (AMX)";
  return tc_host_tiles() ? "no matrix tiles (AMX): TC_ISA asks for less" : self.sentence;
}
