// What is C++ in LLVM registers its statics' destructors as they are first used, in the middle of a
// compile as often as not, and exit() runs those before anything that was registered earlier: under
// the hands of a thread that compiles (lowering/jit/tier_up.c). So none is registered where LLVM is
// part of the plug-in: its link has calls of __cxa_atexit come here (meson.build), and what they
// would give back the system takes with the process.
int __wrap___cxa_atexit(void (*destroy)(void *), void *object, void *library);

int __wrap___cxa_atexit(void (*destroy)(void *), void *object, void *library) {
  (void)destroy, (void)object, (void)library;
  return 0;
}
