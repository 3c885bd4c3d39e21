// Drops the registration of static destructors in LLVM's C++ code.
//
// LLVM registers them at first use, often in the middle of a compile, and exit() runs the latest
// first. That is under a thread that still compiles (lowering/jit/tier_up.c).
// So where LLVM is part of the plug-in, its link redirects __cxa_atexit here (meson.build). The
// system frees their resources with the process.
int __wrap___cxa_atexit(void (*destroy)(void *), void *object, void *library);

int __wrap___cxa_atexit(void (*destroy)(void *), void *object, void *library) {
  (void)destroy, (void)object, (void)library;
  return 0;
}
