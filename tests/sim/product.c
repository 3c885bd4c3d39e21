// See product.h.
#include "tests/sim/product.h"

#include <stdlib.h>

// ---- problems ----

sim_matrix sim_product_matrix(uint64_t rows, uint64_t columns, int64_t stride, int64_t batch, bool transposed) {
  if (transposed)
    return (sim_matrix){.rows = columns, .columns = rows, .by_row = stride, .by_column = 1, .batch = batch};
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
  return algorithm == SIM_PRODUCT_ALGORITHMS - 1 ? sim_element_bytes(p->type) : 16;
}

uint64_t sim_product_workspace(int algorithm, const sim_product *p) {
  return algorithm == 1 ? p->d.rows * p->d.columns * 8 + 100 : algorithm == 2 ? 1 << 20 : 0;
}

int sim_product_first(void) {
  const char *first = getenv("TC_SIM_ALGORITHM");
  return first ? atoi(first) : 0;
}

// ---- doing them ----

static uintptr_t element(const sim_product *p, const sim_matrix *m, int32_t batch, uint64_t row, uint64_t column) {
  return m->at + (uintptr_t)(batch * m->batch + (int64_t)row * m->by_row + (int64_t)column * m->by_column) *
                     sim_element_bytes(p->type);
}

static sim_error look_at(const sim_product *p, const sim_matrix *m, const char *what) {
  bool rows = m->by_row == 1;  // run of elements side by side
  uint64_t runs = rows ? m->columns : m->rows, run = (rows ? m->rows : m->columns) * sim_element_bytes(p->type);
  for (int32_t i = 0; i < (m->batch ? p->batch : 1); i++) {
    for (uint64_t k = 0; k < runs; k++)
      SIM_TRY(sim_look(p->function, element(p, m, i, rows ? 0 : k, rows ? k : 0), run, what));
  }
  return SIM_OK;
}

static uintptr_t end_of(const sim_product *p, const sim_matrix *m) {
  return element(p, m, p->batch - 1, m->rows - 1, m->columns - 1) + sim_element_bytes(p->type);
}

static sim_error look_at_all(const sim_product *p) {
  uintptr_t end_a = end_of(p, &p->a), end_b = end_of(p, &p->b), end_d = end_of(p, &p->d),
            end_work = p->workspace + p->workspace_bytes;
  uint64_t bias_bytes = p->bias ? p->d.rows * sim_element_bytes(p->type) : 0;
  SIM_TRY(look_at(p, &p->a, "its first operand"));
  SIM_TRY(look_at(p, &p->b, "its second operand"));
  SIM_TRY(look_at(p, &p->d, "its result"));
  SIM_TRY(sim_look(p->function, p->bias, bias_bytes, "its bias"));
  SIM_TRY(sim_look(p->function, p->workspace, p->workspace_bytes, "its workspace"));
  sim_look_apart(p->function, p->a.at, end_a, p->d.at, end_d, "its first operand and its result");
  sim_look_apart(p->function, p->b.at, end_b, p->d.at, end_d, "its second operand and its result");
  sim_look_apart(p->function, p->bias, p->bias + bias_bytes, p->d.at, end_d, "its bias and its result");
  sim_look_apart(p->function, p->workspace, end_work, p->a.at, end_a, "its workspace and its first operand");
  sim_look_apart(p->function, p->workspace, end_work, p->b.at, end_b, "its workspace and its second operand");
  sim_look_apart(p->function, p->workspace, end_work, p->d.at, end_d, "its workspace and its result");
  return SIM_OK;
}

static sim_error multiply(sim_device *device, const void *data) {
  const sim_product *p = data;
  uint64_t size = sim_element_bytes(p->type);
  (void)device;
  SIM_TRY(look_at_all(p));
  for (int32_t i = 0; i < p->batch; i++) {
    for (uint64_t c = 0; c < p->d.columns; c++) {
      for (uint64_t r = 0; r < p->d.rows; r++) {
        double sum = 0;
        for (uint64_t k = 0; k < p->a.columns; k++)
          sum += sim_element_read(p->type, element(p, &p->a, i, r, k)) *
                 sim_element_read(p->type, element(p, &p->b, i, k, c));
        if (p->bias) sum += sim_element_read(p->type, p->bias + r * size);
        sim_element_write(p->type, element(p, &p->d, i, r, c), sum);
      }
    }
  }
  static uint8_t order;  // of one piece of work after the other
  if (p->atomics) *(uint8_t *)p->d.at ^= ++order & 1;
  sim_workspace_spoil(p->workspace, p->workspace_bytes);
  return SIM_OK;
}

bool sim_product_aligned(const sim_product *p) {
  return (p->a.at | p->b.at | p->d.at | p->bias) % p->alignment == 0 &&
         (p->workspace_bytes == 0 || p->workspace % SIM_WORKSPACE_ALIGNMENT == 0);
}

sim_error sim_product_enqueue(sim_stream *s, const sim_product *p) {
  sim_product *own = malloc(sizeof *own);
  if (!own) return SIM_MEMORY;
  *own = *p;
  return sim_enqueue(s, &(sim_op){.kind = SIM_OP_CALL, .call = multiply, .staged = own, .bytes = sizeof *own});
}
