// Topics and the lines of a topic. See log.h.
//
// The mask of topics starts as all ones with UNREAD set. A topic that is off costs one load and a
// test, and the first question reads TC_LOG. Warnings need no mask, because reading the options may
// itself warn.
#include "runtime/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/options.h"

#define UNREAD (1u << 31)

// example: the beginning of a line of the topic.
static const struct {
  const char *name, *says, *example;
} topics[TC_N_LOG_TOPICS] = {
    [TC_LOG_WARN] = {"warn", "what was ignored or went wrong; always on",
                     "TC_LGO is no variable of tc and has no effect; the nearest is TC_LOG"},
    [TC_LOG_SYNC] = {"sync",
                     "a line per sync point: where, why, which graph, what it cost; why a place needs new plans",
                     "item at train.c:31: ok, graph d056c79a6dac1c6e of 7 nodes, 18 left, 5 kernels (llvm), hit, .."},
    [TC_LOG_TRACE] = {"trace", "the pending trace at each sync point; tc-run replays it",
                      "%3 = matmul f32[32,64] tc:cpu in %2 %1 live tape @ train.c:30"},
    [TC_LOG_PLAN] = {"plan", "each new plan: the graph before and after simplification, and its steps",
                     "stage 1 tc_f32_mul_6_62e0f09e l0 a0 >o0"},
    [TC_LOG_PASS] = {"pass", "the graph of each new plan after each pass that changed it",
                     "%5 = sum f32[64,1] %4 axes 1 keepdim"},
    [TC_LOG_KERNEL] = {"kernel", "the name of each kernel compiled",
                       "compiled tc_f32_mul_6_62e0f09e: 143 instructions"},
    [TC_LOG_TUNE] =
        {"tune",
         "each matmul that was timed: the tiling that won, and the model's; what was read from and written to TC_CACHE_DIR",
         "f32 1x512x512x512, 2 threads: 120x4 of 24 rows won by 1.08"},
    [TC_LOG_FUSION] = {"fusion", "which nodes each kernel has, and why what it reads is made by another one",
                       "k1 MATMUL [1, 32, 64]: %3 matmul .. %2 is made by k0: operands of a matmul have memory"},
    [TC_LOG_KIR] = {"kir", "the instructions of each kernel compiled", "%83 = f32x64 load t0 %82"},
    [TC_LOG_ASM] = {"asm", "the assembly of each kernel compiled", "vmulps  32(%rsi,%r9,4), %ymm0, %ymm1"},
    [TC_LOG_CACHE] = {"cache", "hits, misses and evictions of plans and kernels", "plan d056c79a6dac1c6e: miss"},
    [TC_LOG_MEMORY] = {"memory", "tensor memory: taken from the system, reused, given back, refused by the cap",
                       "create 16384 bytes: 32768 in use, 0 pooled, cap 0"},
    [TC_LOG_BACKEND] = {"backend", "back ends that were loaded, and of each plan on one what it does not take",
                        "plan d056c79a6dac1c6e: tc:toy takes 12 of 14 ops, the CPU runs conv 2"},
    [TC_LOG_GUARDS] = {"guards",
                       "of compiled functions: what was traced, which guard failed, and why calls are recorded",
                       "step: traced for graph 1: argument 0 is f32[16,4], was f32[8,4]"},
};

static unsigned topic_bit(const char *name, size_t length) {
  for (unsigned i = 0; i < TC_N_LOG_TOPICS; i++)
    if (strlen(topics[i].name) == length && memcmp(topics[i].name, name, length) == 0) return 1u << i;
  return 0;
}

void tc_log_print_topics(FILE *out) {
  for (int i = 0; i < TC_N_LOG_TOPICS; i++)
    fprintf(out, "%-16s %s\n%-16s   %s\n", topics[i].name, topics[i].says, "", topics[i].example);
}

static void print_help(void) {
  fprintf(stderr, "TC_LOG takes topics, with commas between:\n");
  tc_log_print_topics(stderr);
  fprintf(stderr, "\nenvironment variables, their values now and what they mean:\n");
  tc_options_print(stderr);
}

static unsigned topics_parse(const char *text) {
  unsigned mask = 1u << TC_LOG_WARN;
  for (const char *at = text ? text : ""; *at;) {
    size_t length = strcspn(at, ",");
    unsigned bit = topic_bit(at, length);
    if (length == 4 && memcmp(at, "help", 4) == 0)
      print_help();
    else if (length != 0 && bit == 0)
      tc_log_line(TC_LOG_WARN, "TC_LOG names no topic \"%.*s\"; TC_LOG=help lists them", (int)length, at);
    mask |= bit;
    at += length + (at[length] == ',');
  }
  return mask;
}

// Two threads may both read TC_LOG: they store the same mask, but the help may be printed twice.
static unsigned topics_read(void) {
  unsigned mask = topics_parse(tc_options_get()->log);
  atomic_store_explicit(&tc_log_topics, mask, memory_order_relaxed);
  return mask;
}

bool tc_log_wanted(tc_log_topic topic) {
  unsigned mask = atomic_load_explicit(&tc_log_topics, memory_order_relaxed);
  if (topic == TC_LOG_WARN) return true;
  if (mask & UNREAD) mask = topics_read();
  return mask >> topic & 1;
}

void tc_log_line(tc_log_topic topic, const char *fmt, ...) {
  if (!tc_log_on(topic)) return;
  va_list args;
  va_start(args, fmt);
  tc_log_write(topics[topic].name, fmt, args);
  va_end(args);
}

FILE *tc_log_begin(tc_log_message *m) {
  *m = (tc_log_message){0};
  return m->to = open_memstream(&m->text, &m->bytes);
}

void tc_log_end(tc_log_message *m, tc_log_topic topic) {
  if (m->to && fclose(m->to) == 0) {
    if (m->bytes && m->text[m->bytes - 1] == '\n') m->text[m->bytes - 1] = 0;  // tc_log_line adds its own
    tc_log_line(topic, "%s", m->text);
  }
  free(m->text);
}

void tc_log_drop(tc_log_message *m) {
  if (m->to) fclose(m->to);
  free(m->text);
}
