// See product.h.
#include "tests/sim/product.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORKSPACE_ALIGNMENT = 256 };

static uint64_t bytes_of(sim_element type) {
  return type == SIM_F32 ? 4 : 2;
}

// ---- problems ----

sim_matrix sim_product_matrix(uint64_t rows, uint64_t columns, int64_t stride, int64_t batch, bool turned) {
  if (turned) return (sim_matrix){.rows = columns, .columns = rows, .by_row = stride, .by_column = 1, .batch = batch};
  return (sim_matrix){.rows = rows, .columns = columns, .by_row = 1, .by_column = stride, .batch = batch};
}

bool sim_product_fits(const sim_product *p) {
  return p->a.rows == p->d.rows && p->b.columns == p->d.columns && p->a.columns == p->b.rows;
}

uint64_t sim_product_name(const sim_product *p, uint64_t seed) {
  sim_product key = *p;
  key.a.at = key.b.at = key.d.at = key.bias = key.workspace = 0;
  key.alignment = key.workspace_bytes = 0;
  key.function = NULL, key.atomics = 0;
  return sim_hash(&key, sizeof key, seed);
}

uint64_t sim_product_alignment(int algorithm, const sim_product *p) {
  return algorithm == SIM_PRODUCT_ALGORITHMS - 1 ? bytes_of(p->type) : 16;
}

uint64_t sim_product_workspace(int algorithm, const sim_product *p) {
  return algorithm == 1 ? p->d.rows * p->d.columns * 8 + 100 : algorithm == 2 ? 1 << 20 : 0;
}

int sim_product_first(void) {
  const char *first = getenv("TC_SIM_ALGORITHM");
  return first ? atoi(first) : 0;
}

// ---- doing them ----

// What nobody wrote is NaN: a device says nothing of it, for a run that has failed reads it, too.
static double value(sim_element type, const void *at) {
  float v;
  uint16_t half;
  if (sim_state[(uintptr_t)at - (uintptr_t)sim_memory] != SIM_WRITTEN) return NAN;
  if (type == SIM_F32) return memcpy(&v, at, 4), (double)v;
  memcpy(&half, at, 2);
  return (double)(type == SIM_F16 ? sim_half_value(half) : sim_bfloat_value(half));
}

static void store(sim_element type, void *at, double sum) {
  float v = (float)sum;
  uint16_t half = type == SIM_F16 ? sim_half_of(sum) : sim_bfloat_of(sum);
  memcpy(at, type == SIM_F32 ? (const void *)&v : &half, bytes_of(type));
}

// The bytes are of an allocation.
static sim_error look(const sim_product *p, uintptr_t at, uint64_t bytes, const char *what) {
  const uint8_t *state = sim_memory_device(at) ? sim_state + (at - (uintptr_t)sim_memory) : NULL;
  for (uint64_t i = 0; i < bytes; i++) {
    if (state && (state[i] == SIM_WRITTEN || state[i] == SIM_UNWRITTEN)) continue;
    sim_fault(sim_hash(what, strlen(what), 21), "%s: %s is %s", p->function, what,
              state && state[i] == SIM_GONE ? "freed memory" : "not of an allocation");
    return SIM_ILLEGAL_ADDRESS;
  }
  return SIM_OK;
}

static uintptr_t element(const sim_product *p, const sim_matrix *m, int32_t batch, uint64_t row, uint64_t column) {
  return m->at + (uintptr_t)(batch * m->batch + (int64_t)row * m->by_row + (int64_t)column * m->by_column) * bytes_of(p->type);
}

static sim_error look_at(const sim_product *p, const sim_matrix *m, const char *what) {
  bool rows = m->by_row == 1;  // run of elements side by side
  uint64_t runs = rows ? m->columns : m->rows, run = (rows ? m->rows : m->columns) * bytes_of(p->type);
  for (int32_t i = 0; i < (m->batch ? p->batch : 1); i++) {
    for (uint64_t k = 0; k < runs; k++) SIM_TRY(look(p, element(p, m, i, rows ? 0 : k, rows ? k : 0), run, what));
  }
  return SIM_OK;
}

static uintptr_t end_of(const sim_product *p, const sim_matrix *m) {
  return element(p, m, p->batch - 1, m->rows - 1, m->columns - 1) + bytes_of(p->type);
}

static void no_overlap(const sim_product *p, uintptr_t a, uintptr_t a_end, uintptr_t b, uintptr_t b_end, const char *what) {
  if (a < b_end && b < a_end) sim_fault(sim_hash(what, strlen(what), 22), "%s: %s overlap", p->function, what);
}

static sim_error look_at_all(const sim_product *p) {
  uintptr_t end_a = end_of(p, &p->a), end_b = end_of(p, &p->b), end_d = end_of(p, &p->d), end_work = p->workspace + p->workspace_bytes;
  uint64_t bias_bytes = p->bias ? p->d.rows * bytes_of(p->type) : 0;
  SIM_TRY(look_at(p, &p->a, "its first operand"));
  SIM_TRY(look_at(p, &p->b, "its second operand"));
  SIM_TRY(look_at(p, &p->d, "its result"));
  SIM_TRY(look(p, p->bias, bias_bytes, "its bias"));
  SIM_TRY(look(p, p->workspace, p->workspace_bytes, "its workspace"));
  no_overlap(p, p->a.at, end_a, p->d.at, end_d, "its first operand and its result");
  no_overlap(p, p->b.at, end_b, p->d.at, end_d, "its second operand and its result");
  no_overlap(p, p->bias, p->bias + bias_bytes, p->d.at, end_d, "its bias and its result");
  no_overlap(p, p->workspace, end_work, p->a.at, end_a, "its workspace and its first operand");
  no_overlap(p, p->workspace, end_work, p->b.at, end_b, "its workspace and its second operand");
  no_overlap(p, p->workspace, end_work, p->d.at, end_d, "its workspace and its result");
  return SIM_OK;
}

static sim_error multiply(sim_device *device, const void *data) {
  const sim_product *p = data;
  uint64_t size = bytes_of(p->type);
  (void)device;
  SIM_TRY(look_at_all(p));
  for (int32_t i = 0; i < p->batch; i++) {
    for (uint64_t c = 0; c < p->d.columns; c++) {
      for (uint64_t r = 0; r < p->d.rows; r++) {
        double sum = 0;
        for (uint64_t k = 0; k < p->a.columns; k++)
          sum += value(p->type, (const void *)element(p, &p->a, i, r, k)) * value(p->type, (const void *)element(p, &p->b, i, k, c));
        if (p->bias) sum += value(p->type, (const void *)(p->bias + r * size));
        uintptr_t at = element(p, &p->d, i, r, c);
        store(p->type, (void *)at, sum);
        memset(sim_state + (at - (uintptr_t)sim_memory), SIM_WRITTEN, size);
      }
    }
  }
  static uint8_t order;  // of one piece of work after the other
  if (p->atomics) *(uint8_t *)p->d.at ^= ++order & 1;
  // What was there is lost, and what is there now is nobody's.
  if (p->workspace_bytes) {
    memset((void *)p->workspace, 0xa5, p->workspace_bytes);
    memset(sim_state + (p->workspace - (uintptr_t)sim_memory), SIM_UNWRITTEN, p->workspace_bytes);
  }
  return SIM_OK;
}

bool sim_product_aligned(const sim_product *p) {
  return (p->a.at | p->b.at | p->d.at | p->bias) % p->alignment == 0 && (p->workspace_bytes == 0 || p->workspace % WORKSPACE_ALIGNMENT == 0);
}

sim_stream *sim_product_stream(void *stream) {
  if (!stream) return sim_here()->legacy;
  sim_stream *s = stream;
  return sim_alive(s, SIM_STREAM) && s->object.device == sim_here() ? s : NULL;
}

sim_error sim_product_enqueue(sim_stream *s, const sim_product *p) {
  sim_product *own = malloc(sizeof *own);
  if (!own) return SIM_MEMORY;
  *own = *p;
  return sim_enqueue(s, &(sim_op){.kind = SIM_OP_CALL, .call = multiply, .staged = own, .bytes = sizeof *own});
}
