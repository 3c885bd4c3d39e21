// Records of sync points for a profile's file. See sync_record.h.
#include "lazy/sync/sync_record.h"

#include <execinfo.h>
#include <stdlib.h>
#include <string.h>

#include "device/live_buffers.h"
#include "lazy/trace/trace_text.h"
#include "runtime/options.h"
#include "runtime/hash.h"
#include "runtime/profile_region.h"
#include "runtime/reentry.h"
#include "runtime/team.h"

#define MOST_FRAMES 64
#define LEAST_NODES 16  // of a trace that says what recording a node costs
#define MOST_NODE_NS 100.0  // before one said so

// The machine's peak rates only where kernels are timed, since measuring it takes some 30 ms.
static tc_profile_machine machine_now(void) {
  tc_device device = tc_device_default();
  tc_profile_machine m = {
      .isa = tc_lowering.isa(), .device = tc_device_name(device), .threads = (uint32_t)tc_team_threads()};
  if (tc_options_get()->profile_kernels && !tc_device_memory(device))
    tc_lowering.host_peak_rates(&m.peak_flops, &m.peak_bytes);
  return m;
}

bool tc_sync_record_wakes(void) {
  if (TC_LIKELY(tc_profile_is_on())) return true;
  if (!tc_profile_is_due()) return false;
  const tc_profile_machine machine = machine_now();
  if (!tc_profile_wake(&machine)) return false;
  tc_live_high_begin();
  return true;
}

// ---- plans ----

// Hashes of the records without extents and scalars, and of extents.
static void hash_plan(const tc_plan *p, uint64_t *structure, uint64_t *shapes) {
  uint64_t *word = tc_malloc((p->n_word + 1) * sizeof *word), *dims = tc_malloc((p->n_node + 1) * sizeof *dims);
  *structure = *shapes = p->hash.lo;
  if (word && dims) {
    memcpy(word, p->word, p->n_word * sizeof *word);
    for (uint32_t n = 0; n < p->n_node; n++) {
      tc_rec *r = (tc_rec *)(void *)(word + p->at[n]);
      const tc_dims *d = &tc_dims_at(r->shape)->d;
      dims[n] = tc_hash_bytes(d->dim, (size_t)d->rank * sizeof d->dim[0]).lo;
      r->shape = (uint32_t)d->rank;
    }
    *structure = tc_hash_bytes(word, p->n_word * sizeof *word).lo;
    *shapes = tc_hash_bytes(dims, p->n_node * sizeof *dims).lo;
  }
  tc_free(word);
  tc_free(dims);
}

// Assigns whose target is a leaf that something else holds: they copy.
static void count_held(const tc_plan *p, tc_prof_plan *r) {
  for (uint32_t n = 0; n < p->n_node; n++) {
    const tc_rec *x = tc_plan_rec(p, n);
    if (p->flag[n] & TC_NODE_REMATERIALIZE && !tc_plan_is_leaf(p, n)) r->n_again++;
    if (tc_rec_op(x) != TC_OP_ASSIGN || p->out_of[n] == TC_LEAF_NONE) continue;
    uint32_t target = x->in[1];
    const tc_out *o = &p->out[p->out_of[n]];
    if (o->donor != TC_LEAF_NONE || !tc_plan_is_leaf(p, target) || p->flag[target] & TC_NODE_SOLE) continue;
    r->n_held++, r->held_bytes += o->bytes;
  }
}

// A node's call; an empty one if it is not known.
static tc_call call_of(const tc_trace *t, uint32_t node) {
  return node < t->n_node ? t->call[node] : (tc_call){NULL, 0};
}

// pre: the profile is locked.
static uint32_t text_of(const char *text) {
  return text ? tc_profile_text(text, strlen(text)) : 0;
}

static uint32_t trace_text(const tc_trace *t, const tc_sync_point *rec) {
  char *text = NULL, place[160], title[200];
  size_t bytes = 0;
  uint32_t id = 0;
  FILE *to = open_memstream(&text, &bytes);
  if (!to) return 0;
  tc_site_text(rec->site, place, sizeof place);
  snprintf(title, sizeof title, "%s at %s", rec->cause, place[0] ? place : "an unknown place");
  tc_text_write_trace(to, t, (const uint8_t *)(t->word + t->n_word), 0, title);
  if (fclose(to) == 0) id = tc_profile_text(text, bytes);
  free(text);
  return id;
}

typedef struct rows {
  tc_prof_kernel *kernel;
  tc_prof_boundary *boundary;
  tc_prof_block *block;
} rows;

// pre: the profile is locked. False: no memory.
static bool fill_rows(const tc_trace *t, const tc_plan_facts *f, rows *x) {
  x->kernel = tc_calloc(f->n_kernel + 1, sizeof *x->kernel);
  x->boundary = tc_calloc(f->n_boundary + 1, sizeof *x->boundary);
  x->block = tc_calloc(f->n_block + 1, sizeof *x->block);
  if (!x->kernel || !x->boundary || !x->block) return false;
  for (uint32_t i = 0; i < f->n_kernel; i++) {
    const tc_kernel_facts *k = &f->kernel[i];
    x->kernel[i] = (tc_prof_kernel){.stage = k->stage, .n_nodes = k->n_nodes, .bytes = k->bytes, .flops = k->flops};
    x->kernel[i].name = text_of(k->name), x->kernel[i].kind = tc_profile_word(k->kind);
    x->kernel[i].site = tc_profile_site(call_of(t, k->node).site), x->kernel[i].op = tc_profile_word(k->op);
  }
  for (uint32_t i = 0; i < f->n_boundary; i++) {
    const tc_boundary_facts *b = &f->boundary[i];
    x->boundary[i] = (tc_prof_boundary){b->from, b->to, b->node, tc_profile_word(b->reason), b->bytes};
  }
  for (uint32_t i = 0; i < f->n_block; i++) {
    const tc_block_facts *b = &f->block[i];
    x->block[i] =
        (tc_prof_block){.bytes = b->bytes, .first_stage = b->first_stage, .last_stage = b->last_stage, .is = b->is};
    x->block[i].site = tc_profile_site(call_of(t, b->node).site), x->block[i].op = tc_profile_word(b->op);
  }
  return true;
}

static const tc_plan_facts no_facts;

// pre: the profile is locked.
static uint32_t write_plan(const tc_trace *t, const tc_plan *p, const tc_plan_facts *f, const tc_sync_point *rec) {
  rows x = {NULL};
  tc_prof_plan r = {.n_nodes = p->n_node, .n_left = p->n_left, .n_outputs = p->n_out};
  bool room = fill_rows(t, f, &x);
  if (!room) f = &no_facts;
  r.n_kernels = f->n_kernel, r.n_boundaries = f->n_boundary, r.n_blocks = f->n_block, r.n_inputs = f->n_inputs;
  for (uint32_t o = 0; o < p->n_out; o++) r.n_in_place += p->out[o].donor != TC_LEAF_NONE;
  count_held(p, &r);
  hash_plan(p, &r.hash, &r.shape_hash);
  r.bytes = f->bytes, r.least_bytes = f->least_bytes, r.flops = f->flops;
  r.arena_bytes = f->arena_bytes, r.output_bytes = f->output_bytes, r.input_bytes = f->input_bytes;
  r.graph = trace_text(t, rec), r.simplified = text_of(f->simplified), r.fusion = text_of(f->fusion);
  r.program = text_of(f->program);
  r.device = p->n_node ? tc_profile_word(tc_device_name((tc_device)p->dev[0])) : 0;
  r.id = tc_profile_new_plan();
  const tc_profile_part part[] = {{&r, sizeof r},
                                  {x.kernel, r.n_kernels * sizeof *x.kernel},
                                  {x.boundary, r.n_boundaries * sizeof *x.boundary},
                                  {x.block, r.n_blocks * sizeof *x.block}};
  bool written = tc_profile_write(TC_PROF_PLAN, 0, 4, part);
  tc_free(x.kernel);
  tc_free(x.boundary);
  tc_free(x.block);
  return written ? r.id : 0;
}

void tc_sync_record_plan(const tc_trace *t, tc_plan *p, const tc_sync_point *rec) {
  for (uint32_t i = 0; i < p->n_leaf; i++) tc_buffer_set_read(t->leaf[i].buf);
  uint64_t known = atomic_load_explicit(&p->profiled, memory_order_relaxed);
  if (TC_LIKELY(known >> 32 == tc_profile_generation())) return;
  const tc_plan_facts *f = p->program ? tc_lowering.describe(p) : NULL;
  if (!tc_profile_begin()) return;
  uint64_t generation = tc_profile_generation(), again = atomic_load_explicit(&p->profiled, memory_order_relaxed);
  uint32_t id = again >> 32 == generation ? (uint32_t)again : write_plan(t, p, f ? f : &no_facts, rec);
  if (id) atomic_store_explicit(&p->profiled, generation << 32 | id, memory_order_relaxed);
  tc_profile_end();
}

// ---- syncs ----

// Returns the nanoseconds of ticks between two readings. Signed numbers convert in one instruction.
static uint64_t in_ns(double tick_ns, uint64_t ticks) {
  return (uint64_t)(int64_t)((double)(int64_t)ticks * tick_ns);
}

// Recording is estimated: nodes times the least that a node of a trace has cost so far, at most
// the time since the first op.
static uint64_t estimate_recording(uint32_t n_nodes, uint64_t window_ns) {
  static _Atomic double least_ns = MOST_NODE_NS;
  double least = atomic_load_explicit(&least_ns, memory_order_relaxed);
  double own = (double)window_ns / (double)TC_MAX_OF(n_nodes, 1u);
  if (n_nodes >= LEAST_NODES && window_ns && own < least) {
    least = own;
    atomic_store_explicit(&least_ns, least, memory_order_relaxed);
  }
  return TC_MIN(window_ns, (uint64_t)(least * n_nodes));
}

// What this thread had waited when its latest record was written.
static _Thread_local uint64_t waited_until;

static void fill_times(tc_prof_sync *r, const tc_sync_times *x, const tc_work_done *done) {
  const double ns = tc_tick_ns();
  uint64_t start = done->started ? done->started : x->launched;
  uint64_t at_start = done->started ? done->allocated : x->allocated_first;
  uint64_t before = tc_ticks_between(x->began, x->launched), launch = tc_ticks_between(x->launched, start),
           run = tc_ticks_between(start, x->ran);
  uint64_t taken_launch = at_start - TC_MIN(at_start, x->allocated_first),
           taken_run = x->allocated - TC_MIN(x->allocated, at_start);
  r->lookup_ns = in_ns(ns, before - TC_MIN(before, x->making + x->allocated_first));
  r->allocate_ns = in_ns(ns, x->allocated);
  r->launch_ns = in_ns(ns, launch - TC_MIN(launch, taken_launch)), r->run_ns = in_ns(ns, run - TC_MIN(run, taken_run));
  uint64_t waited = done->started ? done->waited : x->waited_first;
  r->wait_ns = TC_MIN(r->run_ns, in_ns(ns, x->waited - TC_MIN(x->waited, waited)));
  r->publish_ns = in_ns(ns, tc_ticks_between(x->ran, x->published) - x->noting);
  r->total_ns = in_ns(ns, tc_ticks_between(x->began, x->published) - x->noting);
  uint64_t end = tc_now_ns();
  r->begin_ns = end - in_ns(ns, tc_ticks_between(x->began, tc_ticks()));
  uint64_t idle = x->synced ? in_ns(ns, tc_ticks_between(x->synced, x->began)) : 0;
  uint64_t window = x->first > x->synced ? in_ns(ns, tc_ticks_between(x->first, x->began)) : 0;
  r->outside_ns = idle ? idle : window;
  r->awaited_ns = TC_MIN(r->outside_ns, in_ns(ns, x->waited_first - TC_MIN(x->waited_first, waited_until)));
  waited_until = tc_profile_waited;
}

// pre: the profile is locked.
static void write_times(const tc_work_done *done, uint32_t sequence, uint32_t plan) {
  uint32_t n = 0;
  const double ns = tc_tick_ns();
  uint64_t now = tc_ticks(), now_ns = tc_now_ns();
  tc_prof_kernel_time *row = tc_malloc((done->n_times + 1) * sizeof *row);
  for (uint32_t i = 0; i < done->n_times && row; i++) {
    tc_step_time *t = &done->times[i];
    if (!t->end) continue;
    row[n++] = (tc_prof_kernel_time){i, (uint32_t)__builtin_popcountll(t->workers),
                                     now_ns - in_ns(ns, tc_ticks_between(t->begin, now)),
                                     in_ns(ns, tc_ticks_between(t->begin, t->end))};
  }
  tc_prof_kernel_times r = {.sequence = sequence, .plan = plan};
  for (uint32_t at = 0; at < n; at += UINT16_MAX) {
    uint32_t part = TC_MIN(n - at, (uint32_t)UINT16_MAX);
    (void)tc_profile_write(TC_PROF_KERNEL_TIMES, part, 2,
                           (tc_profile_part[]){{&r, sizeof r}, {row + at, part * sizeof *row}});
  }
  tc_free(row);
}

// pre: the profile is locked.
static void write_memory(const tc_high *h, uint32_t sequence) {
  tc_prof_live row[TC_HIGH_ROWS];
  for (uint32_t i = 0; i < h->n_row; i++) {
    row[i] = (tc_prof_live){.bytes = h->row[i].bytes};
    row[i].site = tc_profile_site(h->row[i].maker.site), row[i].op = tc_profile_word(h->row[i].maker.op);
  }
  tc_prof_memory r = {.sequence = sequence, .n_live = h->n_live, .at_ns = h->at_ns, .bytes = h->bytes};
  (void)tc_profile_write(TC_PROF_MEMORY, h->n_row, 2,
                         (tc_profile_part[]){{&r, sizeof r}, {row, h->n_row * sizeof row[0]}});
}

void tc_sync_record(const tc_sync_point *rec, const tc_plan *p, const tc_work_done *done, const tc_sync_times *x,
                    uint32_t miss) {
  void *frame[MOST_FRAMES];
  tc_high high;
  const double ns = tc_tick_ns();
  int n_frame = TC_UNLIKELY(tc_options_get()->profile_stacks) ? backtrace(frame, MOST_FRAMES) : 0;
  bool is_high = tc_live_high_take(&high);
  tc_prof_sync r = {.sequence = tc_profile_sequence, .thread = tc_profile_thread(), .miss = (uint16_t)miss};
  r.flags = (uint16_t)((rec->hit ? TC_PROF_HIT : 0) | (rec->replayed ? TC_PROF_REPLAYED : 0) |
                       (done->interpreted ? TC_PROF_INTERPRETED : 0) | (rec->status != TC_OK ? TC_PROF_FAILED : 0) |
                       (rec->n_wrong ? TC_PROF_WRONG : 0));
  r.n_launches = rec->n_kernels, r.n_compiled = rec->n_compiled;
  fill_times(&r, x, done);
  if (p && miss != TC_PROF_MISS_NONE) {
    uint64_t described = in_ns(ns, p->describe_ticks), made = in_ns(ns, x->making);
    r.compile_ns = in_ns(ns, p->compile_ticks);
    r.lower_ns = made - TC_MIN(made, r.compile_ns + described), r.total_ns -= TC_MIN(r.total_ns, described);
  }
  uint64_t window = x->first > x->synced ? in_ns(ns, tc_ticks_between(x->first, x->began)) : 0;
  r.record_ns = estimate_recording(rec->n_nodes, window);
  r.outside_ns -= TC_MIN(r.outside_ns, r.record_ns), r.awaited_ns = TC_MIN(r.awaited_ns, r.outside_ns);
  r.planned_bytes = rec->planned_bytes, r.peak_bytes = rec->peak_bytes, r.copied_bytes = rec->copied_bytes;
  r.cached_bytes = done->bytes;
  tc_buffer_bus_take(&r.to_device_bytes, &r.from_device_bytes);
  if (tc_profile_begin()) {
    const char *region = tc_region_path();
    r.site = tc_profile_site(rec->site), r.cause = tc_profile_word(rec->cause), r.tier = tc_profile_word(rec->tier);
    r.region = *region ? tc_profile_text(region, strlen(region)) : 0, r.note = tc_profile_word(rec->gpu_note);
    if (x->note && !r.note) r.note = tc_profile_text(x->note, strlen(x->note));
    r.stack = tc_profile_stack(frame, n_frame);
    // A sync that was begun for another file has no plan in this one.
    uint64_t known = p ? atomic_load_explicit(&p->profiled, memory_order_relaxed) : 0;
    bool here = !p || known >> 32 == tc_profile_generation();
    r.plan = (uint32_t)known;
    tc_profile_count(here && tc_profile_write(TC_PROF_SYNC, 0, 1, &(tc_profile_part){&r, sizeof r}));
    if (done->times && here) write_times(done, r.sequence, r.plan);
    if (is_high) write_memory(&high, r.sequence);
    tc_profile_end();
  }
}

// ---- the program's own ----

tc_status tc_profile_start_at(const char *file, tc_site site) {
  if (!tc_enter("profile_start", site)) return TC_ERR_STATE;
  const tc_profile_machine machine = machine_now();
  tc_status st = tc_profile_start_with(file, &machine);
  if (st == TC_OK) tc_live_high_begin();
  tc_leave();
  return st;
}

tc_status tc_profile_stop_at(tc_site site) {
  if (!tc_enter("profile_stop", site)) return TC_ERR_STATE;
  tc_status st = tc_profile_stop_now();
  tc_leave();
  return st;
}
