// The LLVM plug-in.
// In: a kernel. Out: a relocatable object, or assembly.
//
// The schedule left nothing to optimise in IR, so the module goes to instruction selection as
// printed, without strength reduction (address.h).
// The target machine is expensive and does not depend on the kernel. A small pool holds machines by
// cpu and features.
// Errors: LLVM reports what it cannot select to a fatal error handler that must not return. Ours
// jumps back to the compile on this thread, which fails with TC_ERR_COMPILE.
// The context, module and machine of that compile are leaked, since LLVM may be half-way through
// them.
// A fatal error on another thread gets LLVM's default handling. The handler is process-wide for
// this libLLVM.
// Threads: thread-safe. A machine belongs to one compile at a time; each compile has its own
// context.
#include "lowering/codegen/llvm/codegen.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm/Config/llvm-config.h>
#include <pthread.h>
#include <setjmp.h>
#include <string.h>

#include "lowering/codegen/llvm/build.h"
#include "runtime/arena.h"
#include "runtime/status.h"

#define MAX_IDLE 8

typedef struct machine {
  struct machine *next;
  LLVMTargetMachineRef tm;
  char key[];  // cpu, a newline, features
} machine;

static pthread_once_t ready = PTHREAD_ONCE_INIT;
// No fork cuts a compile: see lowering/jit/kernel_cache.c.
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static machine *idle;      // under idle_lock
static int n_idle;

// The compile this thread is in, for the fatal error handler.
typedef struct rescue {
  jmp_buf jump;
  char *text;
  size_t text_bytes;
} rescue;
static _Thread_local rescue *rescuer;
// That IR took in the latest compile of this thread.
static _Thread_local uint64_t emit_took_ns;

static void on_fatal_error(const char *reason) {
  rescue *r = rescuer;
  if (r == NULL) return;
  snprintf(r->text, r->text_bytes, "LLVM: %s", reason);
  longjmp(r->jump, 1);
}

// By default LLVM exits the process on an error diagnostic.
static void on_diagnostic(LLVMDiagnosticInfoRef info, void *arg) {
  rescue *r = arg;
  if (LLVMGetDiagInfoSeverity(info) != LLVMDSError || r->text[0] != 0) return;
  char *text = LLVMGetDiagInfoDescription(info);
  snprintf(r->text, r->text_bytes, "LLVM: %s", text);
  LLVMDisposeMessage(text);
}

#ifdef TC_LLVM_AARCH64
static void init_target(void) {
  LLVMInitializeAArch64TargetInfo();
  LLVMInitializeAArch64Target();
  LLVMInitializeAArch64TargetMC();
  LLVMInitializeAArch64AsmPrinter();
}
static char *target_triple(void) {
  return LLVMCreateMessage("aarch64-unknown-linux-gnu");
}
#else
static void init_target(void) {
  LLVMInitializeNativeTarget();
  LLVMInitializeNativeAsmPrinter();
}
static char *target_triple(void) {
  return LLVMGetDefaultTargetTriple();
}
#endif

// Measured: compiling a ResNet18 step: second scheduling 7 % of the time, domains of masks 1.4 %.
// bench/history.md has the cost of code without them.
#ifdef TC_LLVM_NO_ATEXIT  // else the process may have other uses for this LLVM
static const char *const options[] = {
    "tc-llvm",
    "-disable-lsr",
    "-post-RA-scheduler=0",
    "-disable-x86-domain-reassignment",
};
#endif

static void init_once(void) {
  init_target();
#ifdef TC_LLVM_NO_ATEXIT
  LLVMParseCommandLineOptions(sizeof options / sizeof options[0], options, NULL);
#endif
  LLVMInstallFatalErrorHandler(on_fatal_error);
}

// ---- target machines ----

static tc_status create_machine(const char *cpu, const char *features, machine **out, char *text, size_t text_bytes) {
  size_t bytes = strlen(cpu) + strlen(features) + 2;
  LLVMTargetRef target;
  char *error = NULL, *triple = target_triple();
  machine *m = tc_calloc(1, sizeof *m + bytes);
  tc_status st = TC_OK;
  if (m == NULL) {
    snprintf(text, text_bytes, "out of memory");
    st = TC_ERR_MEMORY;
  } else if (LLVMGetTargetFromTriple(triple, &target, &error)) {
    snprintf(text, text_bytes, "LLVM: %s", error);
    tc_free(m);
    m = NULL;
    st = TC_ERR_COMPILE;
  } else {
    snprintf(m->key, bytes, "%s\n%s", cpu, features);
    // Small and not JITDefault, which on x86-64 is the large model with relocations our loader does
    // not know.
    m->tm = LLVMCreateTargetMachine(target, triple, cpu, features, LLVMCodeGenLevelDefault, LLVMRelocPIC,
                                    LLVMCodeModelSmall);
  }
  LLVMDisposeMessage(error);
  LLVMDisposeMessage(triple);
  *out = m;
  return st;
}

static bool has_key(const machine *m, const char *cpu, const char *features) {
  size_t n = strlen(cpu);
  return strncmp(m->key, cpu, n) == 0 && m->key[n] == '\n' && strcmp(m->key + n + 1, features) == 0;
}

static tc_status take_machine(const char *cpu, const char *features, machine **out, char *text, size_t text_bytes) {
  machine *m = NULL;
  pthread_mutex_lock(&idle_lock);
  for (machine **at = &idle; *at != NULL; at = &(*at)->next) {
    if (!has_key(*at, cpu, features)) continue;
    m = *at;
    *at = m->next;
    n_idle--;
    break;
  }
  pthread_mutex_unlock(&idle_lock);
  *out = m;
  return m != NULL ? TC_OK : create_machine(cpu, features, out, text, text_bytes);
}

static void return_machine(machine *m) {
  if (m == NULL) return;
  pthread_mutex_lock(&idle_lock);
  bool keep = n_idle < MAX_IDLE;
  if (keep) {
    m->next = idle;
    idle = m;
    n_idle++;
  }
  pthread_mutex_unlock(&idle_lock);
  if (keep) return;
  LLVMDisposeTargetMachine(m->tm);
  tc_free(m);
}

// ---- compiling ----

typedef struct request {
  const tc_kir *kir;
  const char *name, *cpu, *features;
  int vector_bits;
  LLVMCodeGenFileType kind;
  tc_debug_lines lines;
  rescue *rescue;
} request;

static uint64_t emit_ns(void) {
  return emit_took_ns;
}

static tc_status emit_module(const request *q, LLVMContextRef ctx, machine *m, LLVMMemoryBufferRef *out) {
  char *text = q->rescue->text, *error = NULL;
  size_t text_bytes = q->rescue->text_bytes;
  uint64_t start = tc_now_ns();
  LLVMModuleRef mod = LLVMModuleCreateWithNameInContext(q->name, ctx);
  tc_llvm_build b = {.kir = q->kir, .ctx = ctx, .mod = mod, .text = text, .text_bytes = text_bytes};
  char *triple = LLVMGetTargetMachineTriple(m->tm);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(m->tm);
  LLVMSetTarget(mod, triple);
  LLVMSetModuleDataLayout(mod, layout);
  tc_status st = tc_llvm_build_function(&b, q->name, q->cpu, q->features, q->vector_bits, q->lines);
  // The verifier turns our mistakes into messages; without it LLVM would crash.
  // Measured: Xeon with AVX-512, 10-op chain, 64 lanes: at most 0.15 of 2.6 ms.
  if (st == TC_OK && LLVMVerifyModule(mod, LLVMReturnStatusAction, &error)) {
    snprintf(text, text_bytes, "LLVM rejects our IR: %s", error);
    st = TC_ERR_COMPILE;
  }
  emit_took_ns = tc_now_ns() - start;
  LLVMDisposeMessage(error);
  error = NULL;
  if (st == TC_OK && LLVMTargetMachineEmitToMemoryBuffer(m->tm, mod, q->kind, &error, out)) {
    snprintf(text, text_bytes, "LLVM: %s", error);
    LLVMDisposeMessage(error);
    st = TC_ERR_COMPILE;
  }
  LLVMDisposeTargetData(layout);
  LLVMDisposeMessage(triple);
  LLVMDisposeModule(mod);
  return st;
}

// Fills *out with a zero-terminated copy of what LLVM printed.
static tc_status run_request(const request *q, void **out, size_t *out_bytes) {
  LLVMMemoryBufferRef buffer = NULL;
  machine *m;
  TC_TRY(take_machine(q->cpu, q->features, &m, q->rescue->text, q->rescue->text_bytes));
  LLVMContextRef ctx = LLVMContextCreate();
  LLVMContextSetDiagnosticHandler(ctx, on_diagnostic, q->rescue);
  tc_status st = emit_module(q, ctx, m, &buffer);
  if (st == TC_OK && q->rescue->text[0] != 0) st = TC_ERR_COMPILE;  // a diagnostic
  if (st == TC_OK) {
    *out_bytes = LLVMGetBufferSize(buffer);
    *out = tc_malloc(*out_bytes + 1);
    if (*out == NULL) {
      snprintf(q->rescue->text, q->rescue->text_bytes, "out of memory");
      st = TC_ERR_MEMORY;
    } else {
      memcpy(*out, LLVMGetBufferStart(buffer), *out_bytes);
      ((char *)*out)[*out_bytes] = 0;
    }
  }
  if (buffer != NULL) LLVMDisposeMemoryBuffer(buffer);
  LLVMContextDispose(ctx);
  return_machine(m);
  return st;
}

static tc_status run_rescued(request *q, void **out, size_t *out_bytes, char *text, size_t text_bytes) {
  char spare[1];
  rescue here = {.text = text_bytes > 0 ? text : spare, .text_bytes = text_bytes > 0 ? text_bytes : sizeof spare};
  tc_status st;
  here.text[0] = 0;
  *out = NULL;
  *out_bytes = 0;
  pthread_once(&ready, init_once);
  q->rescue = &here;
  rescuer = &here;
  if (setjmp(here.jump) == 0) {
    st = run_request(q, out, out_bytes);
  } else {
    st = TC_ERR_COMPILE;
  }
  rescuer = NULL;
  if (st == TC_OK) return st;
  tc_free(*out);
  *out = NULL;
  return st;
}

static tc_status compile_kernel(const tc_kir *kir, const char *name, const char *cpu, const char *features,
                                int vector_bits, tc_debug_lines lines, void **out_object, size_t *out_bytes, char *text,
                                size_t text_bytes) {
  request q = {kir, name, cpu, features, vector_bits, LLVMObjectFile, lines, NULL};
  return run_rescued(&q, out_object, out_bytes, text, text_bytes);
}

static tc_status assembly(const tc_kir *kir, const char *name, const char *cpu, const char *features, int vector_bits,
                          char **out_text, char *text, size_t text_bytes) {
  request q = {kir, name, cpu, features, vector_bits, LLVMAssemblyFile, TC_NO_DEBUG_LINES, NULL};
  void *out = NULL;
  size_t bytes = 0;
  tc_status st = run_rescued(&q, &out, &bytes, text, text_bytes);
  *out_text = out;
  return st;
}

// Before version 19 LLVM names many recent processors "generic", but lists their features
// correctly.
static void host(char *cpu, size_t cpu_bytes, char *features, size_t features_bytes) {
  char *name = LLVMGetHostCPUName(), *list = LLVMGetHostCPUFeatures();
  snprintf(cpu, cpu_bytes, "%s", name);
  snprintf(features, features_bytes, "%s", list);
  LLVMDisposeMessage(name);
  LLVMDisposeMessage(list);
}

TC_API const tc_llvm_plugin *tc_llvm_plugin_get(void) {
  static const tc_llvm_plugin plugin = {
      .abi = TC_LLVM_ABI,
      .version = "LLVM " LLVM_VERSION_STRING,
#ifdef TC_LLVM_NO_ATEXIT
      .no_atexit = true,
#endif
      .compile = compile_kernel,
      .assembly = assembly,
      .host = host,
      .emit_ns = emit_ns,
      .fail_at = tc_alloc_fail_at,
  };
  return &plugin;
}
