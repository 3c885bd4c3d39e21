// Scans: chunks of an axis, and the launches over them. The kernels are in kernels/gpu/scan.k.
#include "lazy/record/record.h"
#include "lazy/trace/trace.h"
#include "lowering/program/gpu/row_build.h"

#define TILE 2048         // elements that a block scans at a time (scan_along)
#define SHORT_LANE 64  // one thread scans a lane of at most this length
#define MOST_CHUNKS 1024  // most chunks of a lane in scan_along: one tile of totals
#define MOST_CHUNKS_ACROSS 256
// Estimates, not measured: blocks and threads that keep a large device busy.
#define BUSY_BLOCKS 1056
#define BUSY_THREADS 65536

typedef struct tiling {
  bool along;
  uint64_t chunk, chunks;  // elements of a chunk; chunks of a lane
} tiling;

static tiling cut_lanes(const tc_row_lanes *l) {
  uint64_t lanes = l->outer * l->inner;
  bool along = l->inner == 1 && l->n > SHORT_LANE;
  uint64_t unit = along ? TILE : SHORT_LANE, wanted = (along ? BUSY_BLOCKS : BUSY_THREADS) / lanes;
  uint64_t chunks = TC_MIN(TC_MAX_OF(wanted, (uint64_t)1), (uint64_t)(along ? MOST_CHUNKS : MOST_CHUNKS_ACROSS));
  uint64_t chunk = tc_row_ceil_div(tc_row_ceil_div(l->n, chunks), unit) * unit;
  return (tiling){along, chunk, tc_row_ceil_div(l->n, chunk)};
}

// One pass over [outer, n, inner] in chunks. mode: a #define for what the pass returns.
static void launch_pass(tc_row_builder *b, const char *part, const char *type, const char *mode, const tc_row_lanes *l,
                        const tiling *c, tc_gpu_word in, tc_gpu_word out, tc_gpu_word carry) {
  char define[64];
  const char *op = tc_op_names[b->call->op];
  snprintf(define, sizeof define, "#define OP_%s 1\n%s", op, mode);
  tc_row_text text = {
      .type = type, .define = define, .piece = {tc_gpu_text_element, tc_gpu_text_index, tc_gpu_text_scan_op}};
  snprintf(text.name, sizeof text.name, "tc_%s_%s_%s", type, op, part);
  text.piece[3] = c->along ? tc_gpu_text_scan_along : tc_gpu_text_scan_across;
  if (c->along) text.shared_bytes = 22528;
  uint64_t items = l->outer * c->chunks * l->inner;
  tc_row_words words = TC_ROW_WORDS(in, out, carry, TC_ROW_CONST(l->n), TC_ROW_CONST(c->chunk), TC_ROW_CONST(c->chunks),
                                    TC_ROW_CONST(l->inner), TC_ROW_CONST(items));
  tc_row_launch(b, &text, c->along ? items : tc_row_ceil_div(items, TC_ROW_THREADS), words);
}

void tc_row_scan(tc_row_builder *b) {
  const tc_gpu_row_call *call = b->call;
  tc_row_lanes l = tc_row_lanes_of(&call->out.d, call->attr[0]);
  tiling c = cut_lanes(&l);
  const char *type = tc_type_name(call->out.type), *wide = tc_type_is_float(call->out.type) ? "f64" : "i64";
  const tc_gpu_word in = TC_ROW_OPERAND(0), out = TC_ROW_RESULT, none = TC_ROW_CONST(0);
  if (c.chunks == 1) {
    launch_pass(b, c.along ? "along" : "across", type, "", &l, &c, in, out, none);
    return;
  }
  tc_row_lanes of_totals = {l.outer, c.chunks, l.inner};
  tiling whole = {c.along, c.along ? TILE : c.chunks, 1};
  const tc_gpu_word totals = TC_ROW_SCRATCH(tc_row_scratch(b, l.outer * c.chunks * l.inner * 8));
  launch_pass(b, c.along ? "totals_along" : "totals_across", type, "#define SCAN_TOTALS 1\n", &l, &c, in, totals, none);
  launch_pass(b, c.along ? "before_along" : "before_across", wide, "#define SCAN_BEFORE 1\n", &of_totals, &whole,
              totals, totals, none);
  launch_pass(b, c.along ? "along" : "across", type, "", &l, &c, in, out, totals);
}
