// Tile instructions (AMX) on a processor without them: a library to preload. It emulates them where
// they raise SIGILL, with tile registers of each thread, and lets the system grant the permission.
//
// With TC_TEST_PLANT=tiles the library then takes the processor for one that has them, so that the
// code it makes runs here, instruction by instruction. All other instructions are the processor's.
// As strict as hardware: without the permission, without a configuration, by shapes that do not fit
// and by registers that are not three, the process dies by SIGILL; by a bad configuration, too.
// TC_TEST_TILES=refuse: the system refuses the permission.
// Threads: as the process. The handler calls nothing that is unsafe in one.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/amx/model.h"

#define EXPORT __attribute__((visibility("default")))
#define REQUEST_PERMISSION 0x1023L
#define TILE_DATA 18L

typedef struct tiles {
  uint8_t config[64];  // as LDTILECFG loads it; zeros: none
  uint32_t word[8][16][16];
} tiles;

static __thread tiles self __attribute__((tls_model("initial-exec")));
static atomic_bool permitted;
static atomic_long n_products;

// Products of tiles that were emulated in this process.
EXPORT long tc_test_tile_products(void);
long tc_test_tile_products(void) {
  return atomic_load(&n_products);
}

EXPORT long syscall(long number, ...);
long syscall(long number, ...) {
  long arg[6];
  va_list args;
  va_start(args, number);
  for (int i = 0; i < 6; i++) arg[i] = va_arg(args, long);
  va_end(args);
  if (number == SYS_arch_prctl && arg[0] == REQUEST_PERMISSION && arg[1] == TILE_DATA) {
    if (getenv("TC_TEST_TILES") != NULL) return errno = EOPNOTSUPP, -1;
    atomic_store(&permitted, true);
    return 0;
  }
  long (*real)(long, ...) = NULL;
  *(void **)&real = dlsym(RTLD_NEXT, "syscall");
  return real(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

static int rows_of(unsigned t) {
  return self.config[48 + t];
}
static int bytes_of(unsigned t) {
  return self.config[16 + 2 * t] | self.config[17 + 2 * t] << 8;
}

static bool load_config(const uint8_t *from) {
  bool bad = from[0] > 1;
  for (int i = 2; i < 16; i++) bad |= from[i] != 0;
  for (int t = 0; t < 16; t++) {
    const int rows = from[48 + t], bytes = from[16 + 2 * t] | from[17 + 2 * t] << 8;
    bad |= rows > 16 || bytes > 64 || (rows == 0) != (bytes == 0) || (t >= 8 && rows > 0);
  }
  if (bad) return false;
  memset(&self, 0, sizeof self);
  if (from[0] == 1) memcpy(self.config, from, sizeof self.config);
  return true;
}

// What an instruction says beside its opcode.
typedef struct operands {
  unsigned pp, reg, rm, vvvv;
  bool memory;
  char *base;
  int64_t index;
  size_t length;  // of the instruction
} operands;

// The numbers that encode registers, as the context of a signal has them.
static int64_t general(const ucontext_t *c, unsigned k) {
  static const int at[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                             REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return c->uc_mcontext.gregs[at[k]];
}

// VEX of three bytes, the opcode, ModRM, and SIB with a displacement.
static operands decode(const uint8_t *p, const ucontext_t *c) {
  operands o = {.pp = p[2] & 3, .vvvv = ~p[2] >> 3 & 15, .reg = p[4] >> 3 & 7, .rm = p[4] & 7, .length = 5};
  const unsigned mod = p[4] >> 6, x = p[1] & 0x40 ? 0 : 8, b = p[1] & 0x20 ? 0 : 8;
  o.memory = mod != 3;
  if (!o.memory) return o;
  unsigned base = o.rm;
  int64_t at = 0;
  bool plain = true;  // there is a base register
  if (o.rm == 4) {
    const uint8_t sib = p[o.length++];
    const unsigned index = (sib >> 3 & 7) | x;
    base = sib & 7;
    if (index != 4) o.index = general(c, index) << (sib >> 6);
    plain = base != 5 || mod != 0;
  } else {
    plain = o.rm != 5 || mod != 0;
  }
  int32_t far = 0;
  if (mod == 1) far = (int8_t)p[o.length], o.length++;
  if (mod == 2 || !plain) memcpy(&far, p + o.length, 4), o.length += 4;
  if (plain)
    at = general(c, base | b);
  else if (o.rm == 5)
    at = c->uc_mcontext.gregs[REG_RIP] + (int64_t)o.length;
  o.base = (char *)(uintptr_t)(at + far);
  return o;
}

// 49: configuration and zeros.
static bool configure(const operands *o) {
  if (o->memory && o->pp == 0) return load_config((const uint8_t *)o->base + o->index);
  if (o->memory && o->pp == 1) return memcpy(o->base + o->index, self.config, sizeof self.config), true;
  if (o->memory) return false;
  if (o->pp == 0) return memset(&self, 0, sizeof self), true;
  if (o->pp != 3 || rows_of(o->reg) == 0 || !permitted) return false;
  return memset(self.word[o->reg], 0, sizeof self.word[0]), true;
}

// 4b: loads and stores.
static bool move(const operands *o) {
  const int rows = rows_of(o->reg), bytes = bytes_of(o->reg);
  if (!o->memory || o->pp == 0 || rows == 0 || !permitted) return false;
  if (o->pp != 2) memset(self.word[o->reg], 0, sizeof self.word[0]);
  for (int m = 0; m < rows; m++) {
    char *at = o->base + m * o->index;
    if (o->pp == 2)
      memcpy(at, self.word[o->reg][m], (size_t)bytes);
    else
      memcpy(self.word[o->reg][m], at, (size_t)bytes);
  }
  return true;
}

// 5c, 5e: products.
static bool multiply(const operands *o, bool bytes) {
  const unsigned c = o->reg, a = o->rm, b = o->vvvv;
  if (o->memory || c == a || c == b || a == b || b > 7 || !permitted || (!bytes && o->pp != 2)) return false;
  const int rows = rows_of(c), words = bytes_of(a) / 4, columns = bytes_of(c) / 4;
  if (rows == 0 || rows_of(a) != rows || rows_of(b) != words || bytes_of(b) != bytes_of(c)) return false;
  atomic_fetch_add(&n_products, 1);
  if (bytes)  // 0: unsigned both, 1: unsigned and signed, 2: signed and unsigned, 3: signed both
    model_dot_bytes(self.word[c][0], self.word[a][0], self.word[b][0], rows, columns, words, o->pp >= 2, o->pp % 2);
  else
    model_dot(self.word[c][0], self.word[a][0], self.word[b][0], rows, columns, words);
  return true;
}

static void on_illegal(int number, siginfo_t *info, void *context) {
  ucontext_t *c = context;
  const uint8_t *p = (const uint8_t *)(uintptr_t)c->uc_mcontext.gregs[REG_RIP];
  const int error = errno;
  bool done = false;
  (void)number, (void)info;
  if (p[0] == 0xc4 && (p[1] & 31) == 2 && (p[2] & 0x84) == 0) {  // 0f38, not W, 128 bits
    const operands o = decode(p, c);
    switch (p[3]) {
      case 0x49: done = configure(&o); break;
      case 0x4b: done = move(&o); break;
      case 0x5c: done = multiply(&o, false); break;
      case 0x5e: done = multiply(&o, true); break;
      default: break;
    }
    if (done) c->uc_mcontext.gregs[REG_RIP] += (greg_t)o.length;
  }
  errno = error;
  if (!done) signal(SIGILL, SIG_DFL);  // and the instruction is met again
}

__attribute__((constructor)) static void install(void) {
  struct sigaction a = {.sa_sigaction = on_illegal, .sa_flags = SA_SIGINFO};
  sigemptyset(&a.sa_mask);
  (void)sigaction(SIGILL, &a, NULL);
}
