// The records of a profile file (TC_PROFILE=FILE), which the library writes and tc-prof reads.
// docs/profile-format.md explains each field.
//
// A file is the magic, then records. Each record begins with a tc_prof_head and is a multiple of 8
// bytes long. A head of 0 bytes ends the file: what follows was never written. Numbers are
// little-endian. Times are nanoseconds of CLOCK_MONOTONIC. A text is named by the number that its
// TC_PROF_TEXT record gave it, before its first use; 0 is no text.
// Invariants: a record is whole once its head says its bytes. Readers skip kinds that they do not
// know, and read fields beyond a record's end as 0, so later versions may append fields and kinds.
#pragma once

#include <stdint.h>

#define TC_PROF_MAGIC "tc-profile 1\n\0\0"  // 16 bytes with its last 0
#define TC_PROF_MAX_RECORD (64u << 20)  // a longer record is damage

typedef enum tc_prof_kind {
  TC_PROF_PROCESS = 1,  // the first record
  TC_PROF_TEXT,
  TC_PROF_MODULE,
  TC_PROF_STACK,
  TC_PROF_PLAN,
  TC_PROF_SYNC,
  TC_PROF_KERNEL_TIMES,
  TC_PROF_COMPILE,
  TC_PROF_UNUSED,
  TC_PROF_MEMORY,
  TC_PROF_END,  // the process ended, or the profile was stopped
} tc_prof_kind;

typedef struct tc_prof_head {
  uint32_t bytes;  // of the record with its head
  uint16_t kind, n;  // n: rows behind the fixed part, where a record has rows; a longer count is in the record
} tc_prof_head;

typedef struct tc_prof_process {
  tc_prof_head head;
  uint32_t pid, parent;
  uint64_t start_ns, start_utc_ns;  // one moment by CLOCK_MONOTONIC and by CLOCK_REALTIME
  double peak_flops, peak_bytes;  // of the machine, a second, f32, all threads. 0: not known
  uint32_t threads;  // that a run may use
  uint32_t program, command, cpu, isa, library;  // texts; library: tc's version
  uint32_t options, device;  // texts; options: "NAME=VALUE NAME=VALUE" of those that are set
  uint32_t parent_file;  // text: the profile of the process that this one was forked from
} tc_prof_process;

typedef struct tc_prof_text {
  tc_prof_head head;
  uint32_t id, length;  // length: bytes of text that follow, without a final 0
} tc_prof_text;

// A mapped file of code, for the addresses of stacks.
typedef struct tc_prof_module {
  tc_prof_head head;
  uint64_t begin, end, bias;  // bias: what is subtracted from an address for the file's own
  uint32_t path, build_id;  // texts; build_id in hex
} tc_prof_module;

typedef struct tc_prof_stack {
  tc_prof_head head;  // n: addresses of 8 bytes that follow, innermost first
  uint32_t id, unused;
} tc_prof_stack;

// Why a sync's plan was not in the cache.
typedef enum tc_prof_miss {
  TC_PROF_MISS_NONE,  // it was
  TC_PROF_MISS_NEW,  // no plan of this hash was seen
  TC_PROF_MISS_EVICTED,  // it was, and left the cache
  TC_PROF_MISS_CLEARED,  // tc_cache_clear emptied the cache
  TC_PROF_MISS_BOUND,  // no miss: its sizes are new, and were bound to a plan for many sizes, without lowering
} tc_prof_miss;

// A graph and its plan, written before the first sync that uses it in this file. Rows follow:
// n_kernels tc_prof_kernel, n_boundaries tc_prof_boundary, n_blocks tc_prof_block.
typedef struct tc_prof_plan {
  tc_prof_head head;
  uint32_t id;  // 1, 2, ...
  uint32_t n_nodes, n_left;  // recorded; left after simplification
  uint32_t n_kernels, n_boundaries, n_blocks;
  uint32_t n_inputs, n_outputs, n_in_place;  // leaves that are read; stored values; those written over a leaf
  uint32_t n_again;  // values computed anew that an earlier sync had, each with its recipe counting once
  uint32_t n_held, unused;  // assigns that could not write over their target, since something else holds it
  uint64_t held_bytes;  // that those copied
  uint64_t hash, shape_hash;  // of the graph without its extents and scalars; of its extents
  uint64_t bytes, least_bytes;  // moved by kernels; inputs read once and outputs written once
  uint64_t arena_bytes, output_bytes, input_bytes;
  double flops;
  // Texts in the words of TC_LOG=trace (a node a line, with its source line), of TC_LOG=pass's last
  // graph, of TC_LOG=fusion and of TC_LOG=plan. A long one is cut behind a line, and ends in "...".
  uint32_t graph, simplified, fusion, program;
  uint32_t device, unused2;  // text
} tc_prof_plan;

typedef struct tc_prof_kernel {
  uint32_t name, kind;  // texts; kind: "generated", "library", "reference", "zero", "check"
  uint32_t stage, n_nodes;
  uint64_t bytes;
  double flops;
  uint32_t site, op;  // texts, of the first node it stores
} tc_prof_kernel;

// A value that one kernel stores and another loads, in the same run.
typedef struct tc_prof_boundary {
  uint32_t from, to;  // kernels, as rows of the plan
  uint32_t node, reason;  // node of the simplified graph; text: why the two are not one kernel
  uint64_t bytes;  // written and read again
} tc_prof_boundary;

// A value that lies in memory while the plan runs, for the memory at the peak.
typedef struct tc_prof_block {
  uint32_t site, op;  // texts
  uint64_t bytes;
  uint32_t first_stage, last_stage;
  uint32_t is;  // 0: temporary, 1: output, 2: input
  uint32_t unused;
} tc_prof_block;

enum {
  TC_PROF_HIT = 1,  // the plan was cached, or bound
  TC_PROF_REPLAYED = 2,  // a GPU's graph
  TC_PROF_INTERPRETED = 4,  // some kernels were interpreted
  TC_PROF_FAILED = 8,
  TC_PROF_WRONG = 16,  // TC_VERIFY=1 found wrong results
};

typedef struct tc_prof_sync {
  tc_prof_head head;
  uint32_t sequence;  // 1, 2, ... in this process
  uint32_t thread;  // the operating system's thread id
  uint64_t begin_ns;
  uint32_t plan;  // id. 0: it failed before there was one
  uint32_t site, cause, tier, region, note;  // texts; region: "outer/inner"; note: of a GPU,
  // or of a compiled function that was traced for this sync, with the guard that failed
  uint32_t stack;  // id. 0: none
  uint16_t flags, miss;  // TC_PROF_HIT.., tc_prof_miss
  uint32_t n_launches, n_compiled;
  // lookup, lower, compile, allocate, launch, run and publish are parts of total_ns; what they
  // leave of it is unaccounted. run holds wait: for the team's workers and for a device.
  // record: recording since this thread's last sync, estimated; outside: the rest of that time.
  uint64_t outside_ns, record_ns, lookup_ns, lower_ns, compile_ns, allocate_ns, launch_ns, run_ns, wait_ns, publish_ns,
      total_ns;
  uint64_t planned_bytes, peak_bytes;  // as in tc_sync_point
  uint64_t to_device_bytes, from_device_bytes, copied_bytes;  // over the bus; by GPU graphs
  uint64_t cached_bytes;  // moved for the constant cache, beyond the plan's bytes
  uint64_t awaited_ns;  // since this thread's last sync: waiting for a device, as part of outside_ns
} tc_prof_sync;

// TC_PROFILE_KERNELS=1: n rows follow the sync that they are of.
typedef struct tc_prof_kernel_times {
  tc_prof_head head;
  uint32_t sequence, plan;
} tc_prof_kernel_times;
typedef struct tc_prof_kernel_time {
  uint32_t kernel, n_threads;  // row of the plan
  uint64_t begin_ns, ns;  // ns: from the first thread's begin to the last one's end
} tc_prof_kernel_time;

typedef struct tc_prof_compile {
  tc_prof_head head;
  uint32_t name, tier;  // texts; tier: "memory", "disk", "compiled", "interpreted"
  uint32_t thread;
  uint32_t sequence;  // of the sync that waited for it. 0: made beside the program
  uint64_t begin_ns;
  // emit: its kernel IR becomes LLVM's IR, or a GPU's source. generate: that becomes an object, by
  // LLVM's passes too. optimize: 0, since no optimizer runs on its own.
  uint64_t emit_ns, optimize_ns, generate_ns, load_ns;
  uint64_t code_bytes;
} tc_prof_compile;

// Values that a sync stored and that were released before anything read them.
typedef struct tc_prof_unused {
  tc_prof_head head;
  uint32_t sequence, n_values;
  uint64_t bytes, largest_bytes;
  uint32_t site, op;  // texts, of the largest; 0: not known
} tc_prof_unused;

// Memory in use at a new highest point. head.n rows of tc_prof_live, the largest first, follow.
typedef struct tc_prof_memory {
  tc_prof_head head;
  uint32_t sequence, n_live;  // tensors alive in all
  uint64_t at_ns, bytes;
} tc_prof_memory;
typedef struct tc_prof_live {
  uint32_t site, op;  // texts
  uint64_t bytes;
} tc_prof_live;

typedef struct tc_prof_end {
  tc_prof_head head;
  uint32_t n_syncs, n_lost;  // lost: syncs of which no record could be written
  uint64_t end_ns;
} tc_prof_end;
