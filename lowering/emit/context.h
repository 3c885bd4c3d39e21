// Inside expansion: the state of one group's expansion, and what the files share that make it a kernel. Not for others.
//
//   emitter.c          which kind of kernel, and what its program must know of it
//     flat, turn, expand_rows (by expand_fold), product, direct, winograd, attention: a kind of kernel each, its loops
//       expand_value  where the value of a node comes from   <->   expand_op: how an op makes it of its operands'
//       expand_memory loads and stores
//       expand_index  where they are
//       expand_state  buffers, arguments, tiles, loops, lanes
//
// Always: failures stick. The first one is told (tc_ex_fail), and what is emitted after it is thrown away.
#ifndef TC_LOWERING_EMIT_CONTEXT_H
#define TC_LOWERING_EMIT_CONTEXT_H

#include "lowering/kir/builder.h"
#include "lowering/emit/emitter.h"
#include "lowering/fusion/access.h"

#define MAX_PATH 24
#define MAX_TURNED 4
#define MAX_HELD 2
#define MAX_POINTS 32
#define DEAR_COST 8  // work that costs more than a store and a load
#define AHEAD 1024  // elements from a load to the line asked for: a page of floats, where the processor's own prefetching ends
#define LANES 64  // virtual lanes of a fold along the last axis, and of elementwise blocks

// A load whose lanes lie apart while rows of K0 lie side by side: blocks of it are turned in registers and wait in a tile.
typedef struct tc_turned {
  uint32_t node;
  tc_index flat;
  int tile;
} tc_turned;

// An operand of which a cluster keeps its rows in registers from the first pass that loads it on.
typedef struct tc_held {
  uint32_t node;
  int tile;
  bool filled, there;  // by the present pass; by one before it
} tc_held;

typedef struct tc_ex {
  tc_emit e;
  tc_expansion *x;
  const tc_grouping *gr;
  const tc_graph *g;
  const tc_group *gp;
  const tc_cut *cut;  // of a matrix product, or NULL
  const tc_units *units;  // of one for any number of rows, or NULL
  const tc_target *target;
  tc_extents ext;  // of A, F, K (the lower part where split), K0
  int64_t split;  // extent of the lower part of K; 0: K is one range
  tc_val at[TC_N_RANGES];  // present values of the ranges; the vector range's is that of lane 0
  bool bound[TC_N_RANGES];
  int vector;  // range that varies over lanes, or -1
  int lanes;
  // Of kernels with threads that work on tiles: each thread has a place of its own in every range, at + off, and `run` elements side by side from there along
  // the range `vector`. at is a multiple of `within` and off is less; along the vector range both are multiples of run.
  int run;  // 0: lanes are as elsewhere
  tc_val off[TC_N_RANGES];  // a lane a thread, or TC_NONE: all are at `at`
  int64_t within[TC_N_RANGES];
  tc_val mask;  // lanes that exist, or TC_NONE; with runs a lane a thread
  bool stream;  // blocks are whole and aligned: large results may pass the caches by
  int64_t ahead;  // elements from a load to what it asks memory for, 0: nothing
  bool far;  // to the second-level cache alone
  int asks;  // tensors that the present pass may yet ask memory for
  uint32_t given_node;  // a node of which one element is there already, or TC_NONE
  const tc_index *given_at;  // that element's place
  tc_val given;
  tc_val cond;  // inside padding: where the operand exists, or TC_NONE
  struct tc_ex_notes *notes;  // the grouping's
  int depth;
  tc_held held[MAX_HELD];
  int n_held;
  uint32_t *listed;  // nodes that have a memo, in the arena
  uint32_t n_listed, cap_listed;
  tc_turned turned[MAX_TURNED];  // seen in a dry run
  int n_turned;
  int turning;  // rows of K0 in a block, 0: loads are not turned
  tc_val turned_row;  // of the block, the present one
  int64_t points[MAX_POINTS];  // where indices cut K, seen in a dry run
  int n_points;
  uint32_t path[MAX_PATH];  // nodes made in place on the way to the value being read, outermost first
  int n_path;
  tc_index *position[MAX_PATH + 1][2];  // by depth of the path: a member's, an operand's; not on the stack, where they would take 8 KiB a step
  tc_arena *arena;
  tc_status st;
  const char *what;  // why, if not TC_OK
} tc_ex;

// What is known of a node while its kernel is emitted.
typedef struct tc_ex_note {
  uint32_t stamp;  // of the emission that this is about
  tc_val memo;  // its value at the present iteration, or TC_NONE
  int stash;  // tile in which its row waits for later passes, or -1
  uint64_t passes;  // over F that need it, as bits
  double cost;  // of making it again
  uint8_t memo_depth, fold_depth;  // fold_depth: folds of this group below it
  uint8_t stash_pass;  // the pass that fills the tile
  bool has_depth;  // fold_depth is known of a node made in place
  bool stashed;  // its row is there
  bool asked;  // a pass over F asks memory for its next row
} tc_ex_note;

// The notes of all nodes of a graph, of which an emission touches few: what is older than its stamp is as if it were not there.
typedef struct tc_ex_notes {
  uint32_t stamp, n_touched;
  uint32_t *touched;  // nodes that have a note, the first n_touched
  tc_ex_note note[];
} tc_ex_notes;

static inline tc_ex_note *tc_ex_note_of(const tc_ex *s, uint32_t n) {
  tc_ex_note *x = &s->notes->note[n];
  if (x->stamp == s->notes->stamp) return x;
  *x = (tc_ex_note){.stamp = s->notes->stamp, .memo = TC_NONE, .stash = -1};
  s->notes->touched[s->notes->n_touched++] = n;
  return x;
}

static inline bool tc_ex_in_group(const tc_ex *s, uint32_t n) {
  return s->gr->of[n] != TC_GROUP_NONE && &s->gr->group[s->gr->of[n]] == s->gp;
}

// ---- context.c ----

// Lists live in the arena.
tc_status tc_ex_init(tc_ex *s, tc_expansion *out, const tc_grouping *gr, const tc_group *group, const tc_cut *cut, tc_arena *arena);
// Forgets what was emitted, to begin the kernel: the first time, or once more knowing the split and what is turned.
void tc_ex_reset(tc_ex *s);
// Notes the first failure; returns 0.
tc_val tc_ex_fail(tc_ex *s, tc_status st, const char *what);
// The same where an index cannot be said: names the node to store before trying again, n if it is made in place, else the last one on the way to it.
tc_val tc_ex_unsaid(tc_ex *s, uint32_t n, const char *what);
tc_type tc_ex_compute_type(tc_type type);
// A result rounded to its type, in the compute type.
tc_val tc_ex_rounded(tc_ex *s, tc_val v, tc_type type);
int tc_ex_buffer(tc_ex *s, uint32_t n);
// A run-time argument of the plan.
tc_val tc_ex_argument(tc_ex *s, uint32_t arg, tc_type type);
// A number that the plan knows and the kernel does not, so that plans of several such numbers share it.
tc_val tc_ex_plan_number(tc_ex *s, uint64_t value);
// An argument behind all scalars: another one each time, at most TC_MAX_MORE.
tc_val tc_ex_more(tc_ex *s, int64_t value);
// Constants of the whole kernel are loaded before its loops.
void tc_ex_preload(tc_ex *s);
// A new tile of n elements; its number stands for n_buf + k until the buffers are counted. of_lanes: see tc_ntile.
int tc_ex_tile(tc_ex *s, tc_type type, int64_t n);
int tc_ex_tile_of_lanes(tc_ex *s, tc_type type, int64_t n);
// A loop, of which the counter is returned, and its end.
tc_val tc_ex_loop(tc_ex *s, tc_val from, tc_val to, int64_t step);
void tc_ex_end_loop(tc_ex *s);
// What is remembered from here on, until it is left, is forgotten then. Loops do both.
void tc_ex_enter(tc_ex *s);
void tc_ex_leave(tc_ex *s);
// The value of node n at the present iteration, until the loop is left.
void tc_ex_remember(tc_ex *s, uint32_t n, tc_val v);
tc_val tc_ex_i64(tc_ex *s, int64_t v);
tc_val tc_ex_scaled(tc_ex *s, tc_val v, int64_t coef);
tc_val tc_ex_lane_numbers(tc_ex *s);
// Numbers of a thread's elements in its run.
tc_val tc_ex_run_numbers(tc_ex *s);
void tc_ex_set_mask(tc_ex *s, tc_val start, tc_val end);
// The least power of two of lanes that holds n, `most` at most.
int tc_ex_power_for(int64_t n, int most);
int tc_ex_lanes_for(int64_t n);
// On a GPU: threads and groups of the nest, whose vectors have so many lanes.
void tc_ex_set_threads(tc_ex *s, int lanes);

// ---- address.c ----

// The extent of K's lower part: the smallest cut of those noted, if every other cut and K are multiples of it; 0: none.
int64_t tc_ex_choose_split(const tc_ex *s);
// The K range after a split is K0 * split + K: rewrites terms so; false if they become too many.
bool tc_ex_split_terms(const tc_ex *s, tc_index *x);
// The value of the index: base plus, for the vector range, either a stride per lane (*stride, *vec TC_NONE) or a vector of offsets (*vec). With runs a vector
// of threads' places, and a stride along the runs; or a vector of all lanes.
tc_val tc_ex_index_value(tc_ex *s, tc_index x, int64_t *stride, tc_val *vec);
// The same as one value, a vector where it varies over lanes.
tc_val tc_ex_whole_index(tc_ex *s, const tc_index *x);
// The longest run, of a power of two of elements up to `most`, that lie side by side along the range wherever one begins at a multiple of its length, its
// first element's place in memory being a multiple of that too. 1: elements lie apart.
int tc_ex_run_of(const tc_index *x, uint8_t range, int most);
// Follows views from element idx of node *n to the node that is in memory, and the element's place there; false if terms cannot say it.
bool tc_ex_follow(const tc_ex *s, uint32_t *n, const tc_index *idx, const tc_extents *e, tc_index *flat);

// ---- load_store.c ----

// Whether the node is too large for a core's cache.
bool tc_ex_is_far(const tc_gnode *x);
// Element `flat` of stored node n.
tc_val tc_ex_load(tc_ex *s, uint32_t n, tc_index flat);
bool tc_ex_must_store(const tc_ex *s, uint32_t n);
// Whether n is a result of at least so many bytes, too large to stay in a cache, that no other kernel of the plan reads: it may pass the caches by. Not
// what is assigned, which may be written over memory of the caller's that is aligned to nothing.
bool tc_ex_streams(const tc_ex *s, uint32_t n, uint64_t least);
// A member's value to its place.
void tc_ex_store(tc_ex *s, uint32_t n);
// Every value first, then the stores: an output may be the memory of an operand.
void tc_ex_stores(tc_ex *s);

// ---- value.c, scalar_op.c ----

// Room for a position of the present level of the recursion: of the member being made, or of an operand.
tc_index *tc_ex_position(tc_ex *s, bool of_operand);
// The value of a member at the present iteration.
tc_val tc_ex_member(tc_ex *s, uint32_t n);
// Element idx of node n at the present iteration, loaded or made.
tc_val tc_ex_value(tc_ex *s, uint32_t n, const tc_index *idx);
// The same; what is remembered on the way stays so until the loop is left.
tc_val tc_ex_value_kept(tc_ex *s, uint32_t n, const tc_index *idx);
// Element idx of node n at the present iteration, where `given` is the element of node `from` whose place is *at.
tc_val tc_ex_made_from(tc_ex *s, uint32_t n, const tc_index *idx, uint32_t from, const tc_index *at, tc_val given);
// Element idx of node n, made of its operands' elements. The way here is noted, and bounded: what is too deep is stored half-way.
tc_val tc_ex_make(tc_ex *s, uint32_t n, const tc_index *idx);

// ---- kinds of kernels ----

// Lanes of a block of elements that are each by themselves.
int tc_ex_lanes_of_work(const tc_ex *s);
// FLAT with K in one range: [begin, end) counts blocks.
void tc_ex_flat_kernel(tc_ex *s);
// Rows of lanes along K's lower part (FLAT with a split K, COL) or rows of F (ROW): [begin, end) counts A * K0 * blocks.
void tc_ex_row_kernel(tc_ex *s);
// ROW with sums of columns: [begin, end) counts parts of rows.
void tc_ex_part_kernel(tc_ex *s);
// The tile in which the load's turned block waits, or -1. Outside a turning kernel the load is noted, for the kernel to be made again as one.
int tc_ex_turned_tile(tc_ex *s, uint32_t n, const tc_index *flat);
// FLAT with a split K whose loads lie along K0: [begin, end) counts blocks of rows of K0 by blocks of lanes.
void tc_ex_turning_kernel(tc_ex *s);

// Attention or its gradients, as many of its rows as the group has.
void tc_ex_attention(tc_ex *s);
// The same on a GPU.
void tc_ex_gpu_attention(tc_ex *s);
// A product and what follows it elementwise.
void tc_ex_product(tc_ex *s);
// The same on a GPU.
void tc_ex_gpu_product(tc_ex *s);
// The same of a convolution, node, of few channels.
void tc_ex_direct(tc_ex *s, uint32_t node);
// The same of a convolution, node, by Winograd's algorithm.
void tc_ex_winograd(tc_ex *s, uint32_t node);
void tc_ex_winograd_weight(tc_ex *s, uint32_t node);
void tc_ex_winograd_gradient(tc_ex *s, uint32_t node);

#endif
