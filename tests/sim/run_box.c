// Gates, boxes that come by themselves, and the products of four warps that read them: what sm_90a
// has for TMA, mbarrier and wgmma.
//
// As late and as strict as the manuals allow. A box lands when a thread awaits its gate, and is
// poison before. A product is made when its warp waits for it: until then its accumulator is
// poison, which nobody may touch, and the boxes that it reads stay as they are. Only boxes whose
// gate a thread awaited itself are there for it.
#include <string.h>

#include "tests/sim/map.h"
#include "tests/sim/run.h"

#define B (&sim_run_block)
#define SITE (B->now->at ? (const void *)B->now->at : __builtin_return_address(0))

enum {
  MAX_GATES = 16,
  MAX_BOXES = 64,
  MAX_MAPS = 4,
  MAX_PRODUCTS = 16,
  MAX_SUMS = 2,
  MOST_VALUES = 128,
  ROW_BYTES = 128,
  GROUP_WARPS = 4
};
static const uint32_t poison = 0x7fc0dead;

typedef struct gate {
  uintptr_t at;
  int arrivals, missing;  // of its present turn
  uint32_t turn;  // how many are over
} gate;

typedef struct box {
  uintptr_t to;
  sim_map map;
  int x, y, z, gate;
  uint32_t turn;  // of its gate
  bool under_way;
} box;

typedef struct product {
  const uint8_t *a, *b;
  bool transposed_a, transposed_b, is_half;
  int n;  // boxes of b
  float *d[32];
} product;

// What a thread has in an accumulator that products are made for.
typedef struct sums {
  float *at;
  int n_products;  // that are not made yet; 0: not in use
  float v[MOST_VALUES];
} sums;

typedef struct own {
  uint32_t awaited[MAX_GATES];  // turns of each gate that are over for this thread
  uintptr_t map[MAX_MAPS];  // that it may use
  int n_maps;
  sums sums[MAX_SUMS];
} own;

// Of the block that runs.
static struct {
  uint32_t stamp;
  gate gate[MAX_GATES];
  box box[MAX_BOXES];
  own own[SIM_MAX_THREADS];
  product product[SIM_MAX_THREADS / 32][MAX_PRODUCTS];
  const uint8_t *begun[SIM_MAX_THREADS / 32][MAX_PRODUCTS][2];  // factors of the latest ones, by their number
  int n_products[SIM_MAX_THREADS / 32], n_begun[SIM_MAX_THREADS / 32];
  int n_gates, n_boxes;
} here;

// Of the thread that runs. Blocks of clusters have none of all this.
static own *enter(const void *site) {
  if (B->n_ranks > 1) {
    sim_kernel_fault("boxes", site, "in a cluster, which is not simulated");
    sim_kill(SIM_LAUNCH_FAILED);
  }
  if (here.stamp != B->stamp) {
    here.stamp = B->stamp;
    here.n_gates = here.n_boxes = 0;
    memset(here.n_products, 0, sizeof here.n_products);
    memset(here.n_begun, 0, sizeof here.n_begun);
    for (int i = 0; i < B->block_threads; i++) {
      own *o = &here.own[i];
      memset(o->awaited, 0, sizeof o->awaited);
      o->n_maps = 0;
      for (int k = 0; k < MAX_SUMS; k++) o->sums[k].n_products = 0;
    }
  }
  return &here.own[B->now->id];
}

// ---- gates ----

static gate *find_gate(const void *at, const void *site) {
  for (int i = 0; i < here.n_gates; i++) {
    if (here.gate[i].at == (uintptr_t)at) return &here.gate[i];
  }
  sim_kernel_fault("no gate", site, "at %p, which nobody made one", at);
  sim_kill(SIM_LAUNCH_FAILED);
}

void sim_gate_init(uint64_t *at, int arrivals) {
  const void *site = SITE;
  enter(site);
  if (!sim_is_shared((uintptr_t)at, 8) || arrivals < 1 || here.n_gates == MAX_GATES) {
    sim_kernel_fault("no gate", site, "%p for %d arrivals", (void *)at, arrivals);
    sim_kill(SIM_ILLEGAL_ADDRESS);
  }
  sim_touch((uintptr_t)at, 8, SIM_WRITE, site);
  *at = 0;
  here.gate[here.n_gates++] = (gate){.at = (uintptr_t)at, .arrivals = arrivals, .missing = arrivals};
}

static size_t swizzled(int row, int element) {
  return (size_t)(row * ROW_BYTES + (element / 8 ^ row % 8) * 16 + element % 8 * 2);
}

// The bytes of a row of the box that the matrix has, at *from.
static int row_bytes(const box *x, int row, uintptr_t *from) {
  const sim_map *m = &x->map;
  int64_t first = x->x < 0 ? 0 : x->x,
          end = x->x + SIM_BOX < (int64_t)m->extent[0] ? x->x + SIM_BOX : (int64_t)m->extent[0], y = x->y + row;
  if (y < 0 || y >= (int64_t)m->extent[1] || x->z < 0 || x->z >= (int64_t)m->extent[2] || first >= end) return 0;
  *from = (uintptr_t)(m->address + (uint64_t)x->z * m->stride[1] + (uint64_t)y * m->stride[0] + (uint64_t)first * 2);
  return (int)(end - first) * 2;
}

static void land(box *x) {
  size_t o = x->to - (uintptr_t)B->shared;
  for (int row = 0; row < SIM_BOX; row++) {
    uintptr_t from;
    uint16_t line[SIM_BOX] = {0};
    int bytes = row_bytes(x, row, &from);
    if (bytes) memcpy((uint8_t *)line + (x->x < 0 ? -x->x * 2 : 0), (const void *)from, (size_t)bytes);
    for (int i = 0; i < SIM_BOX; i++) memcpy((uint8_t *)x->to + swizzled(row, i), &line[i], 2);
  }
  memset(B->shared_state + o, SIM_WRITTEN, SIM_BOX_BYTES);
  memset(B->shared_cell + o / 4, 0, SIM_BOX_BYTES / 4 * sizeof *B->shared_cell);  // the gate puts it before what comes
  x->under_way = false;
}

static void open_gate(gate *g) {
  for (int i = 0; i < here.n_boxes; i++) {
    box *x = &here.box[i];
    if (x->under_way && x->gate == (int)(g - here.gate)) land(x);
  }
  g->turn++;
  g->missing = g->arrivals;
}

void sim_gate_await(uint64_t *at, int turn, int line) {
  const void *site = SITE;
  own *o = enter(site);
  gate *g = find_gate(at, site);
  B->now->line = line;
  B->now->site = site;
  sim_touch((uintptr_t)at, 8, SIM_ATOMIC, site);
  while ((g->turn & 1) == ((unsigned)turn & 1)) {
    if (g->missing == 0) {
      open_gate(g);
    } else {
      B->now->arg = (int)(g - here.gate);
      B->now->width = turn & 1;
      sim_yield(SIM_AT_GATE);
    }
  }
  o->awaited[g - here.gate] = g->turn;
}

bool sim_open_gates(void) {
  bool any = false;
  for (int i = 0; i < B->n_threads; i++) {
    sim_thread *t = &B->thread[i];
    if (t->state != SIM_AT_GATE) continue;
    const gate *g = &here.gate[t->arg];
    if (g->missing > 0 && (int)(g->turn & 1) == t->width) continue;
    t->state = SIM_RUNNING;
    any = true;
  }
  return any;
}

// ---- boxes ----

void sim_map_ready(const void *map) {
  own *o = enter(SITE);
  if (o->n_maps < MAX_MAPS) o->map[o->n_maps++] = (uintptr_t)map;
}

static void read_map(const own *o, const void *at, const void *site, sim_map *out) {
  bool ready = false;
  for (int i = 0; i < o->n_maps; i++) ready |= o->map[i] == (uintptr_t)at;
  if ((uintptr_t)at % SIM_MAP_ALIGNED) {
    sim_kernel_fault("misaligned", site, "a map at %p", at);
    sim_kill(SIM_MISALIGNED);
  }
  sim_touch((uintptr_t)at, sizeof *out, SIM_READ | SIM_ANY_ALIGNMENT, site);
  memcpy(out, at, sizeof *out);
  if (!ready) sim_kernel_fault("stale map", site, "at %p, without tc_map_ready by this thread", at);
  if (out->magic == SIM_MAP_MAGIC) return;
  sim_kernel_fault("no map", site, "at %p", at);
  sim_kill(SIM_ILLEGAL_ADDRESS);
}

static bool reads(const product *p, uintptr_t to) {
  return to == (uintptr_t)p->a || (to - (uintptr_t)p->b < (size_t)p->n * SIM_BOX_BYTES);
}

// Room for a box at `to`, where none is on its way and nobody reads.
static box *box_at(uintptr_t to, const void *site) {
  box *x = NULL;
  for (int i = 0; i < here.n_boxes; i++) {
    if (here.box[i].to + SIM_BOX_BYTES <= to || here.box[i].to >= to + SIM_BOX_BYTES) continue;
    x = &here.box[i];
    if (x->under_way || x->to != to)
      sim_kernel_fault("overlapping boxes", site, "a box at %p, where another one is on its way", (void *)to);
  }
  for (int w = 0; w < B->n_warps; w++) {
    for (int i = 0; i < here.n_products[w]; i++) {
      if (reads(&here.product[w][i], to))
        sim_kernel_fault("overwritten", site, "a box at %p is fetched while warp %d reads what is there", (void *)to,
                         w);
    }
  }
  if (x) return x;
  const uint8_t *state = B->shared_state + (to - (uintptr_t)B->shared);
  for (int i = 0; i < SIM_BOX_BYTES; i++) {
    if (state[i] != SIM_WRITTEN) continue;
    sim_kernel_fault("proxies", site, "a box is fetched over what threads wrote themselves");
    break;
  }
  if (here.n_boxes < MAX_BOXES) return &here.box[here.n_boxes++];
  sim_kernel_fault("boxes", site, "more than %d", MAX_BOXES);
  sim_kill(SIM_LAUNCH_FAILED);
}

void sim_fetch_box(void *shared, const void *map, int x, int y, int z, uint64_t *at) {
  const void *site = SITE;
  const own *o = enter(site);
  uintptr_t to = (uintptr_t)shared, from;
  gate *g = find_gate(at, site);
  box now = {.to = to, .x = x, .y = y, .z = z, .gate = (int)(g - here.gate), .turn = g->turn, .under_way = true};
  read_map(o, map, site, &now.map);
  sim_touch((uintptr_t)at, 8, SIM_ATOMIC, site);
  if (to % SIM_BOX_ALIGNED || !sim_is_shared(to, SIM_BOX_BYTES)) {
    sim_kernel_fault("misaligned", site, "a box at %p", shared);
    sim_kill(SIM_MISALIGNED);
  }
  if (g->missing == 0) {
    sim_kernel_fault("no gate", site, "more than %d arrivals in one turn", g->arrivals);
    sim_kill(SIM_LAUNCH_FAILED);
  }
  for (int row = 0; row < SIM_BOX; row++) {
    int bytes = row_bytes(&now, row, &from);
    if (bytes) sim_touch(from, (unsigned)bytes, SIM_READ | SIM_ANY_ALIGNMENT, site);
  }
  *box_at(to, site) = now;
  sim_touch(to, SIM_BOX_BYTES, SIM_WRITE | SIM_ISSUE | SIM_ANY_ALIGNMENT, site);
  memset(B->shared_state + (to - (uintptr_t)B->shared), SIM_COPYING, SIM_BOX_BYTES);
  memset(shared, 0xff, SIM_BOX_BYTES);
  g->missing--;
}

// ---- products ----

// Whether the box at `at` is there for all threads of the warp.
static bool is_there(sim_thread *const *who, const uint8_t *at) {
  const void *site = who[0]->site;
  for (int i = 0; i < here.n_boxes; i++) {
    const box *x = &here.box[i];
    if (x->to != (uintptr_t)at) continue;
    for (int t = 0; t < 32 && !x->under_way; t++) {
      if (here.own[who[t]->id].awaited[x->gate] > x->turn) continue;
      sim_turn_to(who[t]);
      sim_kernel_fault("not awaited", site, "a product of the box at %p, whose gate this thread did not await",
                       (const void *)at);
      return true;
    }
    if (x->under_way)
      sim_kernel_fault("unfinished copy", site, "a product of the box at %p, which is not there yet", (const void *)at);
    return !x->under_way;
  }
  sim_kernel_fault("no box", site, "a product of what is at %p", (const void *)at);
  return false;
}

// The thread's accumulator, whose values are put aside, and poison in their place.
static void put_aside(sim_thread *t, int n) {
  sums *free = NULL;
  for (int k = 0; k < MAX_SUMS; k++) {
    sums *s = &here.own[t->id].sums[k];
    if (s->n_products > 0 && s->at == t->sums) {
      s->n_products++;
      return;
    }
    if (s->n_products == 0) free = s;
  }
  if (!free) {
    sim_kernel_fault("accumulators", t->site, "more than %d of them at a time", MAX_SUMS);
    sim_kill(SIM_LAUNCH_FAILED);
  }
  free->at = t->sums;
  free->n_products = 1;
  memcpy(free->v, t->sums, (size_t)n * sizeof *free->v);
  for (int i = 0; i < n; i++) memcpy(&t->sums[i], &poison, sizeof poison);
}

bool sim_wgmma_begin(sim_thread *const *who) {
  sim_thread *first = who[0];
  int w = first->warp, n = first->width >> 3, group = w - w % GROUP_WARPS;
  product p = {first->row, first->second, first->width & 1, first->width & 2, first->width & 4, n, {NULL}};
  sim_turn_to(first);
  if (B->block_threads % (32 * GROUP_WARPS) || here.n_products[w] == MAX_PRODUCTS) {
    sim_kernel_fault("products", first->site, "of warps that are no groups of four, or too many");
    return B->error = SIM_LAUNCH_FAILED, false;
  }
  for (int t = 1; t < 32; t++) {
    if (who[t]->row != first->row || who[t]->second != first->second)
      sim_kernel_fault("divergent warp", first->site, "threads name other boxes");
  }
  const uint8_t **mine = here.begun[w][here.n_begun[w] % MAX_PRODUCTS];
  mine[0] = p.a, mine[1] = p.b;
  for (int k = group; k < group + GROUP_WARPS; k++) {  // those of its group that have come so far
    const uint8_t **other = here.begun[k][here.n_begun[w] % MAX_PRODUCTS];
    bool known = here.n_begun[k] > here.n_begun[w] && here.n_begun[k] - here.n_begun[w] <= MAX_PRODUCTS;
    if (known && (other[0] != p.a || other[1] != p.b))
      sim_kernel_fault("divergent warps", first->site, "warps %d and %d name other boxes", k, w);
  }
  bool all = is_there(who, p.a);
  for (int i = 0; i < n; i++) all &= is_there(who, p.b + i * SIM_BOX_BYTES);
  sim_turn_to(first);
  if (!all) return B->error = SIM_LAUNCH_FAILED, false;
  sim_touch((uintptr_t)p.a, SIM_BOX_BYTES, SIM_READ | SIM_ANY_ALIGNMENT, first->site);
  sim_touch((uintptr_t)p.b, (unsigned)(n * SIM_BOX_BYTES), SIM_READ | SIM_ANY_ALIGNMENT, first->site);
  for (int t = 0; t < 32; t++) {
    p.d[t] = who[t]->sums;
    put_aside(who[t], n * 32);
  }
  here.product[w][here.n_products[w]++] = p;
  here.n_begun[w]++;
  return true;
}

static float element(const uint8_t *boxes, bool transposed, int line, int step, bool is_half) {
  uint16_t h;
  memcpy(&h,
         boxes + line / SIM_BOX * SIM_BOX_BYTES +
             (transposed ? swizzled(step, line % SIM_BOX) : swizzled(line % SIM_BOX, step)),
         2);
  return is_half ? sim_half_value(h) : sim_bfloat_value(h);
}

static sums *sums_of(const sim_thread *t, const float *d) {
  for (int k = 0; k < MAX_SUMS; k++) {
    sums *s = &here.own[t->id].sums[k];
    if (s->n_products > 0 && s->at == d) return s;
  }
  return NULL;
}

// The warp's 16 rows: thread t has in element 4 j + e row t / 4 + 8 (e / 2), column 8 j + 2 (t % 4)
// + e % 2.
static void make(const product *p, sim_thread *const *who) {
  sim_matrices x;
  int rows = who[0]->warp % GROUP_WARPS * 16;
  for (int column = 0; column < p->n * SIM_BOX; column += 16) {
    for (int e = 0; e < 32 * 8; e++) {
      int t = e / 8, r = e % 8;
      x.d[t / 4 + 8 * (r % 4 / 2)][2 * (t % 4) + r % 2 + r / 4 * 8] = sums_of(who[t], p->d[t])->v[column / 2 + r];
    }
    for (int step = 0; step < SIM_BOX; step += 16) {
      for (int i = 0; i < 16; i++) {
        for (int k = 0; k < 16; k++) {
          x.a[i][k] = element(p->a, p->transposed_a, rows + i, step + k, p->is_half);
          x.b[k][i] = element(p->b, p->transposed_b, column + i, step + k, p->is_half);
        }
      }
      sim_multiply(&x, 16);
    }
    for (int e = 0; e < 32 * 8; e++) {
      int t = e / 8, r = e % 8;
      sums_of(who[t], p->d[t])->v[column / 2 + r] = x.d[t / 4 + 8 * (r % 4 / 2)][2 * (t % 4) + r % 2 + r / 4 * 8];
    }
  }
}

// The accumulator is the thread's again, unless more is to come.
static void give_back(const product *p, sim_thread *t, float *d) {
  sums *s = sums_of(t, d);
  if (--s->n_products > 0) return;
  for (int i = 0; i < p->n * 32; i++) {
    uint32_t bits;
    memcpy(&bits, &d[i], sizeof bits);
    if (bits != poison) {
      sim_turn_to(t);
      sim_kernel_fault("accumulators", t->site, "element %d was written while a product was under way", i);
      break;
    }
  }
  memcpy(d, s->v, (size_t)(p->n * 32) * sizeof *d);
}

bool sim_wgmma_end(sim_thread *const *who) {
  int w = who[0]->warp, made = here.n_products[w] - who[0]->width;
  for (int i = 0; i < made; i++) {
    const product *p = &here.product[w][i];
    make(p, who);
    for (int t = 0; t < 32; t++) give_back(p, who[t], p->d[t]);
  }
  if (made > 0) {
    here.n_products[w] -= made;
    memmove(here.product[w], here.product[w] + made, (size_t)here.n_products[w] * sizeof here.product[w][0]);
  }
  return true;
}

void sim_boxes_end(void) {
  if (here.stamp != B->stamp) return;
  const sim_thread *t = B->now;
  if (here.n_products[t->warp] > 0 && t->lane == 0)
    sim_kernel_fault("products", NULL, "%d of warp %d are not waited for", here.n_products[t->warp], t->warp);
  if (B->n_done[t->rank] + 1 < B->block_threads) return;
  for (int i = 0; i < here.n_boxes; i++) {
    if (here.box[i].under_way) sim_kernel_fault("boxes", NULL, "one is under way when its block ends");
  }
}

void sim_wgmma(float *d, const void *a, const void *b, int transposed_a, int transposed_b, int is_half, int n,
               int line) {
  const void *site = SITE;
  sim_thread *t = B->now;
  enter(site);
  t->sums = d;
  t->row = a;
  t->second = b;
  sim_meet_warp(SIM_WGMMA, (transposed_a ? 1 : 0) | (transposed_b ? 2 : 0) | is_half << 2 | n << 3, line, site);
}

void sim_wgmma_wait(float *d, int most, int n, int line) {
  const void *site = SITE;
  (void)d, (void)n;
  enter(site);
  sim_meet_warp(SIM_WGMMA_WAIT, most, line, site);
}
