// Holds the state of one fusion's emission, and declares the parts that emitters are made of.
// Private to emit/; README.md has a figure.
//
// In: a fusion, its graph and target. Out: instructions appended to the kernel IR, buffers, scalars
// and tiles.
// Invariants: failures stick. tc_emit_fail keeps the first one; instructions emitted after it are
// discarded.
// Threads: one emission at a time for each fusion plan, since it writes the plan's notes. Owner:
// the emitter's caller; lists live in the arena.
#pragma once

#include "lowering/kir/builder.h"
#include "lowering/kir/math.h"
#include "lowering/kir/scalar_ops.h"
#include "lowering/emit/emitter.h"
#include "lowering/fusion/access.h"
#include "lowering/tiling/summation.h"

#define MAX_PATH 24
#define MAX_TRANSPOSED 4
#define MAX_HELD 2
#define MAX_DIVISORS 32
#define EXPENSIVE_COST 8  // of an op that costs more than a store and a load
// Elements from a load to its prefetch: a page of floats, where the hardware prefetcher stops.
#define PREFETCH_DISTANCE 1024

// Says how loads and stores of the current loop use the caches. Set by an emitter around its loop;
// read by load.c and store.c.
typedef struct tc_cache_hints {
  bool stream;  // true: blocks are whole and aligned, so stores of large results may bypass the caches
  bool prefetch_far;  // true: prefetches go to the second-level cache only
  int n_prefetch;  // tensors that the loop may still prefetch
  int64_t prefetch_distance;  // elements from a load to its prefetch; 0: no prefetch
} tc_cache_hints;

// Says where each thread of a GPU's tile works. Set by gpu/; read by address.c, load.c and store.c.
// In each range a thread is at at + off. Along the range `vector` it has `run` consecutive elements
// from there. at is a multiple of `within`, and off is less than `within`. Along the vector range
// both are multiples of run.
typedef struct tc_thread_places {
  int run;  // elements of a thread along the vector range; 0: no runs, lanes are consecutive
  tc_val off[TC_N_RANGES];  // one lane for each thread; TC_NONE: all threads are at `at`
  int64_t within[TC_N_RANGES];  // exclusive bound of off, and divisor of at
} tc_thread_places;

// A strided load whose elements are contiguous along K0. Blocks of it are transposed in registers
// and stored in a tile.
typedef struct tc_transposed_load {
  uint32_t node;
  tc_index flat;  // index of the element in memory
  int tile;
} tc_transposed_load;

// The loads that transpose.c transposes. load.c records them in the emission before.
typedef struct tc_transposed_loads {
  tc_transposed_load load[MAX_TRANSPOSED];
  int n;
  int rows;  // rows of K0 in a block; 0: this emission only records loads
  tc_val row;  // the current row within the block
} tc_transposed_loads;

// An operand's row that a cluster of blocks holds in registers, from the first pass that loads it
// on.
typedef struct tc_held_row {
  uint32_t node;
  int tile;
  bool filled, there;  // filled: the current pass stores it; there: an earlier pass stored it
} tc_held_row;

// The rows held in registers. reduction.c chooses them; value.c stores and reads them.
typedef struct tc_held_rows {
  tc_held_row row[MAX_HELD];
  int n;
} tc_held_rows;

// A node with one element whose value is already known (tc_emit_made_from).
typedef struct tc_given_value {
  uint32_t node;  // the node; TC_NONE: there is none
  const tc_index *at;  // position of the element
  tc_val value;
} tc_given_value;

// The extents by which indices divide K, recorded in the first emission.
typedef struct tc_k_divisors {
  int64_t at[MAX_DIVISORS];
  int n;
} tc_k_divisors;

// The nodes with a remembered value, in the loops that are open. node: lives in the arena.
typedef struct tc_memos {
  int depth;
  uint32_t *node, n, cap;
} tc_memos;

// The nodes computed inline on the way to the value being read, outermost first.
typedef struct tc_value_path {
  uint32_t node[MAX_PATH];
  int n;
  // positions by depth: of the node, and of its operand. They are in the arena, since on the stack
  // they would take 8 KiB a step.
  tc_index *position[MAX_PATH + 1][2];
} tc_value_path;

// The state that all emitters share.
typedef struct tc_emit_ctx {
  tc_kir_builder e;
  tc_emit_result *x;
  const tc_fusion_plan *gr;
  const tc_graph *g;
  const tc_fusion *gp;
  uint32_t contraction;  // the node that the fusion is made for; TC_NONE: it has none
  const tc_gemm_tiling *tiling;  // tile sizes to use; NULL: the cost model's
  const tc_units *units;  // units of a matmul with any number of rows; NULL: the number is known
  const tc_target *target;
  tc_arena *arena;
  // The current iteration.
  tc_extents ext;  // extents of A, F, K (its lower part if split) and K0
  int64_t split;  // extent of the lower part of K; 0: K is one range
  tc_val at[TC_N_RANGES];  // current values of the ranges; of the vector range, the value of lane 0
  bool bound[TC_N_RANGES];  // true: a loop over the range is open, so `at` is valid
  int vector;  // the range that varies over lanes; -1: none does
  int lanes;
  int strips;  // of a block of strips * lanes elements of a row, one after another; 1: it is lanes
  tc_val mask;  // lanes that exist; TC_NONE: all do. With runs it has one lane for each thread
  tc_val cond;  // inside padding: where the operand exists; TC_NONE: everywhere
  // Set by the emitter for the parts that it calls.
  tc_cache_hints hints;
  tc_thread_places threads;
  tc_given_value given;
  tc_transposed_loads *transposed;  // NULL: no load is transposed or recorded
  tc_held_rows *held;  // NULL: no row is held in registers
  // Private to the parts.
  struct tc_emit_notes *notes;  // owned by the fusion plan
  tc_memos memos;
  tc_value_path path;
  tc_k_divisors divisors;
  tc_status st;
  const char *what;  // reason of the failure, if st is not TC_OK
} tc_emit_ctx;

// What one emission knows of a node.
typedef struct tc_emit_note {
  uint32_t stamp;  // emission that the note belongs to
  tc_val memo;  // value at the current iteration; TC_NONE: not computed
  int stash;  // tile that keeps its row for later passes; -1: none
  uint64_t passes;  // bit set of the passes over F that need it
  double cost;  // of recomputing it
  uint8_t memo_depth, fold_depth;  // loop depth of the memo; folds of this fusion below the node
  uint8_t stash_pass;  // the pass that stores the tile
  bool has_depth;  // true: fold_depth is set for a node computed inline
  bool stashed;  // true: its row is in the tile
  bool asked;  // true: a pass over F prefetches its next row
} tc_emit_note;

// The notes of all nodes of a graph. An emission touches few of them: a note with an older stamp
// counts as empty.
typedef struct tc_emit_notes {
  uint32_t stamp, n_touched;
  uint32_t *touched;  // the first n_touched entries: nodes that have a note
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

// Sets *n to member *i of the fusion, and *i to the next one; returns false after the last.
static inline bool tc_emit_next_member(const tc_emit_ctx *s, uint32_t *i, uint32_t *n) {
  return *i < s->gp->n_member && (*n = s->gp->member[(*i)++], true);
}

// ---- context.c ----

// Initializes the context. Lists live in the arena.
tc_status tc_emit_init(tc_emit_ctx *s, tc_emit_result *out, const tc_fusion_plan *gr, const tc_fusion *group,
                       tc_arena *arena);
// Discards what was emitted and begins the kernel, for the first or another attempt.
void tc_emit_reset(tc_emit_ctx *s);
// Records the first failure; returns 0.
tc_val tc_emit_fail(tc_emit_ctx *s, tc_status st, const char *what);
// Fails, and names the node that is stored before the next attempt; returns false.
bool tc_emit_store_first(tc_emit_ctx *s, uint32_t n, const char *what);
// Fails because an index is not affine. Names the node to store before the next attempt: n if it is
// computed inline, else the innermost inline node above it.
tc_val tc_emit_not_affine(tc_emit_ctx *s, uint32_t n, const char *what);
// Returns the type in which values of `type` are computed: f32 for f16 and bf16.
tc_type tc_emit_compute_type(tc_type type);
// Rounds a result to its type and returns it in the compute type.
tc_val tc_emit_rounded(tc_emit_ctx *s, tc_val v, tc_type type);
// Returns the buffer of node n, which is added if it is new.
int tc_emit_buffer(tc_emit_ctx *s, uint32_t n);
// Loads a run-time argument of the plan.
tc_val tc_emit_argument(tc_emit_ctx *s, uint32_t arg, tc_type type);
// Loads a number that the plan knows and the kernel does not, so that plans with other numbers
// share the kernel.
tc_val tc_emit_plan_number(tc_emit_ctx *s, uint64_t value);
// Loads an argument after all scalars. Each call adds one, at most TC_MAX_EXTRA_ARGS.
tc_val tc_emit_extra_arg(tc_emit_ctx *s, int64_t value);
// Loads the kernel's constants before its loops.
void tc_emit_preload(tc_emit_ctx *s);
// Adds a tile of n elements. Its number is TC_MAX_BUFS + k until the buffers are counted. of_lanes:
// see tc_kir_tile.
int tc_emit_tile(tc_emit_ctx *s, tc_type type, int64_t n);
int tc_emit_tile_of_lanes(tc_emit_ctx *s, tc_type type, int64_t n);
// Begins a loop and returns its counter; ends a loop or an IF by op, ENDLOOP or ENDIF.
tc_val tc_emit_loop(tc_emit_ctx *s, tc_val from, tc_val to, int64_t step);
void tc_emit_end_block(tc_emit_ctx *s, tc_kir_op op);
// Begins the loop over the units [begin, end) of the call; returns the current unit.
tc_val tc_emit_begin_units(tc_emit_ctx *s);
// Open and close a scope: values remembered inside are forgotten when it is left. Loops do both.
void tc_emit_enter(tc_emit_ctx *s);
void tc_emit_leave(tc_emit_ctx *s);
// Remembers the value of node n at the current iteration, until the loop is left.
void tc_emit_remember(tc_emit_ctx *s, uint32_t n, tc_val v);
// Emit a op b, and a * b.
tc_val tc_emit_bin_i64(tc_emit_ctx *s, tc_kir_op op, tc_val a, int64_t b);
tc_val tc_emit_times(tc_emit_ctx *s, tc_val a, int64_t b);

// ---- lanes.c ----

// Return the vector 0, 1, .. with `lanes` lanes, or with the current number of lanes.
tc_val tc_emit_numbers(tc_emit_ctx *s, tc_type type, int lanes);
tc_val tc_emit_lane_numbers(tc_emit_ctx *s);
// Returns the number of each element within its thread's run.
tc_val tc_emit_run_numbers(tc_emit_ctx *s);
// Returns a and b combined; TC_NONE stands for all lanes.
tc_val tc_emit_both(tc_emit_ctx *s, tc_val a, tc_val b);
// Masks the lanes that are at or past `end`, where lane 0 is at `start`.
void tc_emit_set_mask(tc_emit_ctx *s, tc_val start, tc_val end);
// Returns the least power of two that is at least n, limited by `most`.
int tc_emit_power_for(int64_t n, int most);
// Sets the threads and groups of a GPU kernel whose vectors have `lanes` lanes; does nothing for a
// CPU.
void tc_emit_set_threads(tc_emit_ctx *s, int lanes);
// Returns the lanes of a block of elementwise work.
int tc_emit_lanes_of_work(const tc_emit_ctx *s);
// Begins the loop over the units: rows of A and K0 by `blocks` blocks of lanes of K. Sets the
// current row and block. inner: extent of K within a row; 0: lanes are not along K.
void tc_emit_begin_rows(tc_emit_ctx *s, int64_t inner, int64_t blocks, int64_t k0);

// ---- address.c ----

// Returns the extent of K's lower part: the smallest recorded divisor, if it divides the others and
// K; 0: no split.
int64_t tc_emit_choose_split(const tc_emit_ctx *s);
// Rewrites terms of K as terms of K0 * split + K; false if there are too many.
bool tc_emit_split_terms(const tc_emit_ctx *s, tc_index *x);
// Returns the scalar part of an index. For the vector range it sets a stride for each lane (*vec is
// TC_NONE) or a vector of offsets (*vec). With runs, *vec has one lane for each thread and *stride
// is along the run, or *vec has all lanes.
tc_val tc_emit_index_value(tc_emit_ctx *s, tc_index x, int64_t *stride, tc_val *vec);
// Returns the value of an index that does not vary over lanes.
tc_val tc_emit_base(tc_emit_ctx *s, const tc_index *x);
// Returns the index as one value: a vector where it varies over lanes.
tc_val tc_emit_whole_index(tc_emit_ctx *s, const tc_index *x);
// Returns the longest aligned run along the range: a power of two of contiguous elements, at most
// `most`. Runs begin at multiples of their length, in the range and in memory. 1: elements are not
// contiguous.
int tc_emit_run_of(const tc_index *x, uint8_t range, int most);
// Returns the address of each thread's run of element `flat` if it is contiguous and aligned, else
// of each element. *lanes: number of different elements.
tc_val tc_emit_run_at(tc_emit_ctx *s, const tc_index *flat, tc_val mask, int *lanes);
// Follows views from element idx of node *n to the node that is in memory. flat: the element's
// index there. False if that is not affine.
bool tc_emit_follow(const tc_emit_ctx *s, uint32_t *n, const tc_index *idx, const tc_extents *e, tc_index *flat);

// ---- load.c ----

// Returns whether the node is too large for a core's cache.
bool tc_emit_is_strided(const tc_gnode *x);
// Returns the rows of node n in a transposed block: one register of elements.
int tc_emit_transposed_rows(const tc_emit_ctx *s, uint32_t n);
// Loads element `flat` of stored node n. A strided load along K0 is recorded, so that the next
// emission transposes it; there the element comes from the tile.
tc_val tc_emit_load(tc_emit_ctx *s, uint32_t n, tc_index flat);

// ---- value.c ----

// Returns the value of a node of the fusion at the current iteration.
tc_val tc_emit_member(tc_emit_ctx *s, uint32_t n);
// Returns element idx of node n at the current iteration, loaded or computed.
tc_val tc_emit_value(tc_emit_ctx *s, uint32_t n, const tc_index *idx);
// Returns that element. Values remembered on the way stay valid until the loop is left.
tc_val tc_emit_value_in_scope(tc_emit_ctx *s, uint32_t n, const tc_index *idx);
// Returns element idx of node n, where `given` is the value of the element of node `from` at
// position *at.
tc_val tc_emit_made_from(tc_emit_ctx *s, uint32_t n, const tc_index *idx, uint32_t from, const tc_index *at,
                         tc_val given);

// ---- store.c ----

// Returns whether the fusion stores node n itself, not only an alias of it.
bool tc_emit_must_store(const tc_emit_ctx *s, uint32_t n);
// Returns whether stores of n may bypass the caches: a result of at least `least` bytes that no
// other kernel of the plan reads. An assigned result does not qualify, since it may be written over
// unaligned memory of the caller.
bool tc_emit_streams(const tc_emit_ctx *s, uint32_t n, uint64_t least);
// Stores the value of a node of the fusion.
void tc_emit_store(tc_emit_ctx *s, uint32_t n);
// Computes all values, then stores them, since an output may overwrite an operand.
void tc_emit_stores(tc_emit_ctx *s);
// Computes and stores so where v is the value of node n at the current iteration.
void tc_emit_stores_of(tc_emit_ctx *s, uint32_t n, tc_val v);
