// See graph_copies.h.
#include "device/gpu/graph_copies.h"

#include "runtime/arena.h"
#include "runtime/log.h"

#define ALIGNED 256  // as the device's memory is
#define COPY_THREADS 256
#define COPY_BLOCKS 8  // of a multiprocessor, at most
// The most that all calls of a sequence copy in a run. By an H100's data sheet that takes 160 us,
// in which a host launches some 40 kernels.
#define MOST_COPIED ((size_t)1 << 28)

enum { RESULT = 2, WORKSPACE = 4 };

// ---- the kernel ----

// Like every kernel, it does nothing in a run that has failed: its source may not be computed.
// Elements have two or four bytes.
static const char copier[] =
    "#include \"tc_words.h\"\n"
    "typedef struct { const u64 *words; u64 which; u8 *place; u64 bytes; u64 leaves; } tc_copy;\n"
    "TC_KERNEL_OF(tc_copy_operand, 256, tc_copy) {\n"
    "  const u64 *const fault = (const u64 *)tc_global(tc_value->words[5]);\n"
    "  if (fault != 0 && *fault != ~(u64)0) return;\n"
    "  u8 *const there = (u8 *)tc_global(tc_value->words[tc_value->which]);\n"
    "  u8 *const place = (u8 *)tc_global((u64)tc_value->place);\n"
    "  u8 *const to = tc_value->leaves ? there : place;\n"
    "  const u8 *const from = tc_value->leaves ? place : there;\n"
    "  const i64 first = (i64)TC_BLOCK * 256 + TC_THREAD, step = (i64)TC_BLOCKS * 256;\n"
    "  const i64 wide = (u64)there % 16 ? 0 : (i64)(tc_value->bytes / 16);\n"
    "  for (i64 i = first; i < wide; i += step) tc_store_16(to + i * 16, tc_load_nc_16(from + i * 16));\n"
    "  for (i64 i = wide * 8 + first; i < (i64)(tc_value->bytes / 2); i += step) ((u16 *)to)[i] = ((const u16 *)from)[i];\n"
    "}\n";

tc_status tc_gpu_copier_make(tc_gpu *g) {
  return tc_gpu_code_keep(g, "tc_copy_operand", copier, &g->copier);
}

// ---- operands that move ----

bool tc_gpu_graph_copies_init(tc_gpu_graph_copies *m, const tc_gpu_launch *launch, uint32_t n, uint32_t n_calls) {
  m->n = n_calls * TC_GPU_ADDRESSES;
  m->address = tc_calloc(TC_MAX_OF(m->n, 1u), sizeof *m->address);
  if (!m->address) return false;
  tc_gpu_address *a = m->address;
  for (uint32_t i = 0; i < n; i++) {
    const tc_gpu_call *c = launch[i].call;
    for (uint32_t k = 0; c && k < TC_GPU_ADDRESSES; k++)
      *a++ = (tc_gpu_address){.word = launch[i].first_word + k,
                              .bytes = k == WORKSPACE ? tc_gpu_call_workspace(c) : tc_gpu_work_bytes(&c->work, k)};
  }
  return true;
}

void tc_gpu_graph_copies_give(tc_gpu *g, tc_gpu_graph_copies *m, bool reach) {
  tc_holder_remove(&m->holder);
  if (m->place && reach) tc_gpu_note(g, tc_gpu_port_give(&g->port, m->place), "giving back memory");
  m->place = NULL;
}

void tc_gpu_graph_copies_fini(tc_gpu *g, tc_gpu_graph_copies *m, bool reach) {
  tc_gpu_graph_copies_give(g, m, reach);
  tc_free(m->address);
}

bool tc_gpu_graph_copies_fits(const tc_gpu_graph_copies *m, const uint64_t *guard, const uint64_t *words,
                              bool may_move) {
  for (uint32_t i = 0; i < m->n; i++)
    if (guard[i] != words[m->address[i].word] && !(may_move && m->address[i].moves)) return false;
  return true;
}

bool tc_gpu_graph_copies_add(tc_gpu_graph_copies *m, const uint64_t *guard, const uint64_t *words) {
  bool more = false;
  for (uint32_t i = 0; i < m->n; i++) {
    tc_gpu_address *a = &m->address[i];
    if (a->moves || guard[i] == words[a->word]) continue;
    a->moves = more = true;
  }
  return more;
}

// Assigns offsets in the memory that all calls share, one after the other; returns its bytes.
static size_t lay_out_operands(tc_gpu_graph_copies *m) {
  size_t most = 0, at = 0;
  m->n_copies = 0, m->copied_bytes = 0;
  for (uint32_t i = 0; i < m->n; i++) {
    tc_gpu_address *a = &m->address[i];
    if (i % TC_GPU_ADDRESSES == 0) at = 0;
    if (!a->moves) continue;
    a->offset = at;
    at += (a->bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
    most = TC_MAX_OF(most, at);
    if (i % TC_GPU_ADDRESSES != WORKSPACE) m->n_copies++, m->copied_bytes += a->bytes;
  }
  return TC_MAX_OF(most, (size_t)ALIGNED);
}

static void log_moving(const tc_gpu_graph_copies *m, const tc_gpu_launch *launch) {
  static const char *const names[TC_GPU_ADDRESSES] = {"first operand", "second operand", "result", "bias", "workspace"};
  uint32_t at = 0;
  for (uint32_t i = 0; i < m->n; i++, at += i % TC_GPU_ADDRESSES == 0) {
    while (!launch[at].call) at++;
    if (!m->address[i].moves) continue;
    tc_log_line(TC_LOG_MEMORY,
                "%s: its %s is at ever other addresses, so that its graph has a place for it, %zu bytes%s",
                launch[at].call->name, names[i % TC_GPU_ADDRESSES], m->address[i].bytes,
                i % TC_GPU_ADDRESSES == WORKSPACE ? "" : ", which are copied in each run");
  }
}

const char *tc_gpu_graph_copies_place(tc_gpu *g, tc_gpu_graph_copies *m, const tc_gpu_launch *launch) {
  void *at = NULL;
  tc_gpu_graph_copies_give(g, m, true);
  size_t bytes = lay_out_operands(m);
  if (m->copied_bytes > MOST_COPIED)
    return "its libraries' operands are at ever other addresses, and too large to be copied";
  int result = tc_gpu_port_take(&g->port, TC_GPU_WORK, bytes, &at);
  if (result != 0) {
    tc_gpu_note(g, result, "taking memory for operands");
    return "its libraries' operands are at ever other addresses, and memory was short to copy them to";
  }
  m->place = at;
  tc_holder_add(&m->holder, g->device, TC_HOLDS_OPERANDS, bytes);
  if (tc_log_on(TC_LOG_MEMORY)) log_moving(m, launch);
  return NULL;
}

// ---- copies ----

uint32_t tc_gpu_graph_copies_nodes(tc_gpu *g, const tc_gpu_graph_copies *m, uint32_t call, bool behind,
                                   const uint64_t *table, tc_gpu_async_copy *copy, tc_gpu_node *node) {
  const tc_gpu_address *a = &m->address[call * TC_GPU_ADDRESSES];
  uint32_t n = 0;
  for (uint32_t k = 0; k < WORKSPACE; k++) {
    if (!a[k].moves || (k == RESULT) != behind) continue;
    copy[n] = (tc_gpu_async_copy){table + a[0].word, k, m->place + a[k].offset, a[k].bytes, behind};
    size_t blocks = TC_MIN(a[k].bytes / (COPY_THREADS * 16) + 1, (size_t)(g->facts.processors * COPY_BLOCKS));
    node[n] = (tc_gpu_node){.function = g->copier->loaded.function,
                            .blocks = (uint32_t)blocks,
                            .threads = COPY_THREADS,
                            .parameter = &copy[n]};
    n++;
  }
  return n;
}
