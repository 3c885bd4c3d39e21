// The state of one fusion's emission, and the parts that emitters are made of. For emit/ alone;
// README.md has a picture.
//
// In: a fusion, its graph and target. Out: instructions at the end of the kernel IR, buffers,
// scalars and tiles.
// Always: failures stick. The first one is told (tc_emit_fail), and what is emitted after it is
// thrown away.
// Threads: one emission at a time for each fusion plan, whose notes it writes. Owns nothing: lists
// live in the arena.
#ifndef TC_LOWERING_EMIT_CONTEXT_H
#define TC_LOWERING_EMIT_CONTEXT_H

#include "lowering/kir/builder.h"
#include "lowering/kir/math.h"
#include "lowering/kir/scalar_ops.h"
#include "lowering/emit/emitter.h"
#include "lowering/fusion/access.h"
#include "lowering/tiling/summation.h"

#define MAX_PATH 24
#define MAX_TRANSPOSED 4
#define MAX_HELD 2
#define MAX_POINTS 32
#define EXPENSIVE_COST 8  // work that costs more than a store and a load
#define PREFETCH_DISTANCE \
  1024  // elements from a load to the line asked for: a page of floats, where the processor's own prefetching ends

// What an emitter is asked for beside the fusion itself.
typedef struct tc_build_request {
  uint32_t node;  // the contraction that the fusion is made for, or TC_NONE
  const tc_gemm_tiling *tiling;  // tile sizes to take; NULL: those of the model
  const tc_units *units;  // units of a matmul for any number of rows; NULL: the number is known
} tc_build_request;

// How loads and stores of the present loop use the caches. Set by an emitter around its loop; read
// by load.c and store.c.
typedef struct tc_cache_hints {
  bool stream;  // true: blocks are whole and aligned, so large results may pass the caches by
  bool prefetch_far;  // true: what is prefetched goes to the second-level cache alone
  int n_prefetch;  // tensors that the loop may yet prefetch
  int64_t prefetch_distance;  // elements from a load to what it prefetches; 0: nothing
} tc_cache_hints;

// Where the threads of a GPU's tile are. Set by gpu/; read by address.c, load.c and store.c.
// Each thread has a place of its own in every range, at + off, and `run` elements side by side from
// there along the range `vector`. at is a multiple of `within`, and off is less. Along the vector
// range both are multiples of run.
typedef struct tc_thread_places {
  int run;  // 0: lanes are as elsewhere
  tc_val off[TC_N_RANGES];  // a lane a thread, or TC_NONE: all are at `at`
  int64_t within[TC_N_RANGES];
} tc_thread_places;

// A load whose lanes lie apart, while rows of K0 lie side by side. Blocks of it are transposed in
// registers and wait in a tile.
typedef struct tc_transposed_load {
  uint32_t node;
  tc_index flat;
  int tile;
} tc_transposed_load;

// The loads that transpose.c transposes, which load.c notes in the pass before.
typedef struct tc_transposed_loads {
  tc_transposed_load load[MAX_TRANSPOSED];
  int n;
  int rows;  // of K0 in a block; 0: loads are noted, not transposed yet
  tc_val row;  // of the block, the present one
} tc_transposed_loads;

// An operand of which a cluster keeps its rows in registers from the first pass that loads it on.
typedef struct tc_held_row {
  uint32_t node;
  int tile;
  bool filled, there;  // filled: by the present pass; there: by one before it
} tc_held_row;

// The rows that reduction.c holds so, which value.c fills and reads.
typedef struct tc_held_rows {
  tc_held_row row[MAX_HELD];
  int n;
} tc_held_rows;

// A node whose value at the present position is there already (tc_emit_made_from).
typedef struct tc_given_value {
  uint32_t node;  // of which one element is there; TC_NONE: there is none
  const tc_index *at;  // that element's place
  tc_val value;
} tc_given_value;

// Where indices cut K, seen in a dry run.
typedef struct tc_k_cuts {
  int64_t at[MAX_POINTS];
  int n;
} tc_k_cuts;

// Nodes that have a memo, of the loops that are open. node: in the arena.
typedef struct tc_memos {
  int depth;
  uint32_t *node, n, cap;
} tc_memos;

// Nodes made in place on the way to the value being read, outermost first.
typedef struct tc_value_path {
  uint32_t node[MAX_PATH];
  int n;
  // by depth: a member's, an operand's; not on the stack, where they would take 8 KiB a step
  tc_index *position[MAX_PATH + 1][2];
} tc_value_path;

// What all emitters share.
typedef struct tc_emit_ctx {
  tc_kir_builder e;
  tc_emit_result *x;
  const tc_fusion_plan *gr;
  const tc_graph *g;
  const tc_fusion *gp;
  const tc_target *target;
  tc_arena *arena;
  // The present iteration.
  tc_extents ext;  // of A, F, K (the lower part where split), K0
  int64_t split;  // extent of the lower part of K; 0: K is one range
  tc_val at[TC_N_RANGES];  // present values of the ranges; the vector range's is that of lane 0
  bool bound[TC_N_RANGES];
  int vector;  // range that varies over lanes, or -1
  int lanes;
  tc_val mask;  // lanes that exist, or TC_NONE; with runs a lane a thread
  tc_val cond;  // inside padding: where the operand exists, or TC_NONE
  // What an emitter tells the parts that it calls.
  tc_cache_hints hints;
  tc_thread_places threads;
  tc_given_value given;
  tc_transposed_loads *transposed;  // NULL: no load is transposed or noted
  tc_held_rows *held;  // NULL: no row is held
  // What the parts keep.
  struct tc_emit_notes *notes;  // the grouping's
  tc_memos memos;
  tc_value_path path;
  tc_k_cuts tilings;
  tc_status st;
  const char *what;  // why, if not TC_OK
} tc_emit_ctx;

// What is known of a node while its kernel is emitted.
typedef struct tc_emit_note {
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
} tc_emit_note;

// The notes of all nodes of a graph. An emission touches few: a note that is older than its stamp
// counts as empty.
typedef struct tc_emit_notes {
  uint32_t stamp, n_touched;
  uint32_t *touched;  // nodes that have a note, the first n_touched
  tc_emit_note note[];
} tc_emit_notes;

static inline tc_emit_note *tc_emit_note_of(const tc_emit_ctx *s, uint32_t n) {
  tc_emit_note *x = &s->notes->note[n];
  if (x->stamp == s->notes->stamp) return x;
  *x = (tc_emit_note){.stamp = s->notes->stamp, .memo = TC_NONE, .stash = -1};
  s->notes->touched[s->notes->n_touched++] = n;
  return x;
}

static inline bool tc_emit_in_fusion(const tc_emit_ctx *s, uint32_t n) {
  return s->gr->of[n] != TC_FUSION_NONE && &s->gr->fusion[s->gr->of[n]] == s->gp;
}

// ---- context.c ----

// Lists live in the arena.
tc_status tc_emit_init(tc_emit_ctx *s, tc_emit_result *out, const tc_fusion_plan *gr, const tc_fusion *group,
                       tc_arena *arena);
// Forgets what was emitted, to begin the kernel: the first time, or once more knowing the split and
// what is transposed.
void tc_emit_reset(tc_emit_ctx *s);
// Notes the first failure; returns 0.
tc_val tc_emit_fail(tc_emit_ctx *s, tc_status st, const char *what);
// The same where an index cannot be said: names the node to store before trying again, n if it is
// made in place, else the last one on the way to it.
tc_val tc_emit_not_affine(tc_emit_ctx *s, uint32_t n, const char *what);
tc_type tc_emit_compute_type(tc_type type);
// A result rounded to its type, in the compute type.
tc_val tc_emit_rounded(tc_emit_ctx *s, tc_val v, tc_type type);
int tc_emit_buffer(tc_emit_ctx *s, uint32_t n);
// A run-time argument of the plan.
tc_val tc_emit_argument(tc_emit_ctx *s, uint32_t arg, tc_type type);
// A number that the plan knows and the kernel does not, so that plans of several such numbers share
// it.
tc_val tc_emit_plan_number(tc_emit_ctx *s, uint64_t value);
// An argument behind all scalars: another one each time, at most TC_MAX_EXTRA_ARGS.
tc_val tc_emit_extra_arg(tc_emit_ctx *s, int64_t value);
// Constants of the whole kernel are loaded before its loops.
void tc_emit_preload(tc_emit_ctx *s);
// A new tile of n elements; its number stands for n_buf + k until the buffers are counted.
// of_lanes: see tc_ntile.
int tc_emit_tile(tc_emit_ctx *s, tc_type type, int64_t n);
int tc_emit_tile_of_lanes(tc_emit_ctx *s, tc_type type, int64_t n);
// A loop, of which the counter is returned, and its end.
tc_val tc_emit_loop(tc_emit_ctx *s, tc_val from, tc_val to, int64_t step);
void tc_emit_end_loop(tc_emit_ctx *s);
// The loop over the units of the call, [begin, end): the present unit.
tc_val tc_emit_begin_units(tc_emit_ctx *s);
// What is remembered from here on, until it is left, is forgotten then. Loops do both.
void tc_emit_enter(tc_emit_ctx *s);
void tc_emit_leave(tc_emit_ctx *s);
// The value of node n at the present iteration, until the loop is left.
void tc_emit_remember(tc_emit_ctx *s, uint32_t n, tc_val v);
tc_val tc_emit_i64(tc_emit_ctx *s, int64_t v);
tc_val tc_emit_zero(tc_emit_ctx *s, tc_type type);
tc_val tc_emit_scaled(tc_emit_ctx *s, tc_val v, int64_t coef);

// ---- lanes.c ----

// 0, 1, .. of so many lanes; of the present lanes.
tc_val tc_emit_numbers(tc_emit_ctx *s, tc_type type, int lanes);
tc_val tc_emit_lane_numbers(tc_emit_ctx *s);
// Numbers of a thread's elements in its run.
tc_val tc_emit_run_numbers(tc_emit_ctx *s);
// Both masks, of which TC_NONE is all lanes.
tc_val tc_emit_both(tc_emit_ctx *s, tc_val a, tc_val b);
void tc_emit_set_mask(tc_emit_ctx *s, tc_val start, tc_val end);
// The least power of two of lanes that holds n, `most` at most.
int tc_emit_power_for(int64_t n, int most);
int tc_emit_lanes_for(int64_t n);
// On a GPU: threads and groups of the kernel, whose vectors have so many lanes.
void tc_emit_set_threads(tc_emit_ctx *s, int lanes);
// Lanes of a block of elements that are each by themselves.
int tc_emit_lanes_of_work(const tc_emit_ctx *s);
// The loop over the units of the call: rows of A and K0 by `blocks` blocks of lanes of K. Enters
// the present row and block. inner: extent of K within a row; 0: lanes are not along K.
void tc_emit_begin_rows(tc_emit_ctx *s, int64_t inner, int64_t blocks, int64_t k0);

// ---- address.c ----

// The extent of K's lower part: the smallest cut of those noted, if every other cut and K are
// multiples of it; 0: none.
int64_t tc_emit_choose_split(const tc_emit_ctx *s);
// The K range after a split is K0 * split + K: rewrites terms so; false if they become too many.
bool tc_emit_split_terms(const tc_emit_ctx *s, tc_index *x);
// The value of the index: base plus, for the vector range, either a stride per lane (*stride, *vec
// TC_NONE) or a vector of offsets (*vec). With runs a vector of threads' places, and a stride along
// the runs; or a vector of all lanes.
tc_val tc_emit_index_value(tc_emit_ctx *s, tc_index x, int64_t *stride, tc_val *vec);
// The same of an index that does not vary over lanes.
tc_val tc_emit_base(tc_emit_ctx *s, const tc_index *x);
// The same as one value, a vector where it varies over lanes.
tc_val tc_emit_whole_index(tc_emit_ctx *s, const tc_index *x);
// The longest run, of a power of two of elements up to `most`, that lie side by side along the
// range wherever one begins at a multiple of its length, its first element's place in memory being
// a multiple of that too. 1: elements lie apart.
int tc_emit_run_of(const tc_index *x, uint8_t range, int most);
// Where every thread's run of element `flat` lies: an address a thread where its elements are side
// by side and aligned, else one an element. *lanes: elements that differ.
tc_val tc_emit_run_at(tc_emit_ctx *s, const tc_index *flat, tc_val mask, int *lanes);
// Follows views from element idx of node *n to the node that is in memory, and the element's place
// there; false if terms cannot say it.
bool tc_emit_follow(const tc_emit_ctx *s, uint32_t *n, const tc_index *idx, const tc_extents *e, tc_index *flat);

// ---- load.c ----

// Whether the node is too large for a core's cache.
bool tc_emit_is_strided(const tc_gnode *x);
// Rows of node n in a block that is transposed: one register of elements.
int tc_emit_transposed_rows(const tc_emit_ctx *s, uint32_t n);
// Element `flat` of stored node n. One that lies across is noted, for the kernel to be made again
// as one that transposes; there it comes from the tile.
tc_val tc_emit_load(tc_emit_ctx *s, uint32_t n, tc_index flat);

// ---- value.c ----

// The value of a member at the present iteration.
tc_val tc_emit_member(tc_emit_ctx *s, uint32_t n);
// Element idx of node n at the present iteration, loaded or made.
tc_val tc_emit_value(tc_emit_ctx *s, uint32_t n, const tc_index *idx);
// The same; what is remembered on the way stays so until the loop is left.
tc_val tc_emit_value_kept(tc_emit_ctx *s, uint32_t n, const tc_index *idx);
// Element idx of node n at the present iteration, where `given` is the element of node `from` whose
// place is *at.
tc_val tc_emit_made_from(tc_emit_ctx *s, uint32_t n, const tc_index *idx, uint32_t from, const tc_index *at,
                         tc_val given);

// ---- store.c ----

bool tc_emit_must_store(const tc_emit_ctx *s, uint32_t n);
// Whether n is a result of at least so many bytes, too large to stay in a cache, that no other
// kernel of the plan reads: it may pass the caches by. Not what is assigned, which may be written
// over memory of the caller's that is aligned to nothing.
bool tc_emit_streams(const tc_emit_ctx *s, uint32_t n, uint64_t least);
// A member's value to its place.
void tc_emit_store(tc_emit_ctx *s, uint32_t n);
// Every value first, then the stores: an output may be the memory of an operand.
void tc_emit_stores(tc_emit_ctx *s);

#endif
