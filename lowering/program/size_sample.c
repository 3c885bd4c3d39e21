// Samples, whether they are alike, and the box they span. See size_sample.h.
#include "lowering/program/size_sample.h"

#include <math.h>
#include <string.h>

#include "lowering/program/program.h"
#include "lowering/tiling/summation.h"
#include "runtime/arena.h"

#define LEAST_SAMPLES 5  // of one size; two more a further size
#define LEAST_SPAN 2  // a box whose greatest size is less than that many times the least is not worth its samples
#define MOST_SIZE (INT64_C(1) << 24)
#define FAR 64  // how many times the wanted size the first greatest size is; and the least that it is
#define LEAST_FAR 1024
#define INNER 6  // samples within the box

// ---- primes ----

static bool is_prime(int64_t n) {
  for (int64_t d = 2; d * d <= n; d++)
    if (n % d == 0) return false;
  return n > 1;
}

static int64_t prime_from(int64_t n) {
  while (!is_prime(n)) n++;
  return n;
}

static int64_t prime_until(int64_t n) {
  while (n > 2 && !is_prime(n)) n--;
  return n;
}

// The least prime from n on that is none of the others: equal sizes would be alike by chance.
static int64_t apart_from(int64_t n, const int64_t *other, uint32_t n_other) {
  n = prime_from(n);
  for (uint32_t k = 0; k < n_other; k++)
    if (n == other[k]) n = prime_from(n + 1), k = UINT32_MAX;
  return n;
}

// ---- whether two programs are alike ----

bool tc_size_may_vary(const tc_kir_inst *i) {
  return i->op == TC_IR_CONST && (i->dtype == TC_I64 || i->dtype == TC_I32);
}

static bool is_like_inst(const tc_kir_inst *a, const tc_kir_inst *b) {
  bool hint = a->op == TC_IR_STORE;  // whether a store bypasses the caches
  return a->op == b->op && a->dtype == b->dtype && a->lanes == b->lanes && (hint || a->flags == b->flags) &&
         memcmp(a->src, b->src, sizeof a->src) == 0 && (a->imm == b->imm || tc_size_may_vary(a));
}

static bool is_like_kir(const tc_kir *a, const tc_kir *b) {
  bool like = a->n_inst == b->n_inst && a->n_tile == b->n_tile && a->n_buf == b->n_buf && a->n_num == b->n_num &&
              memcmp(a->buf_type, b->buf_type, a->n_buf) == 0;
  for (uint32_t i = 0; i < a->n_inst && like; i++) like = is_like_inst(&a->inst[i], &b->inst[i]);
  for (uint32_t i = 0; i < a->n_tile && like; i++)
    like = a->tile[i].dtype == b->tile[i].dtype && a->tile[i].of_lanes == b->tile[i].of_lanes;
  return like;
}

static bool is_like_step(const tc_step *a, const tc_step *b) {
  bool like = a->kind == b->kind && a->op == b->op && a->n_binding == b->n_binding && a->n_num == b->n_num &&
              a->first_binding == b->first_binding && a->first_num == b->first_num && a->stage == b->stage &&
              a->node == b->node && a->is_matmul == b->is_matmul && a->writes == b->writes && a->same == b->same &&
              !a->pending == !b->pending && !a->shares_pending && !b->shares_pending && !a->call && !b->call;
  if (!like || !a->pending) return like;
  return a->pending->generic.n_value == b->pending->generic.n_value && is_like_kir(tc_size_kir(a), tc_size_kir(b));
}

static bool is_like_nodes(const tc_graph *a, const tc_graph *b) {
  bool like = a->n == b->n && a->n_order == b->n_order && a->packs_few == b->packs_few && a->n_guard == b->n_guard;
  for (uint32_t i = 0; i < a->n_guard && like; i++)
    like = !a->guard[i].part == !b->guard[i].part && (a->guard[i].inner == 1) == (b->guard[i].inner == 1);
  for (uint32_t n = 0; n < a->n && like; n++) {
    const tc_gnode *x = &a->node[n], *y = &b->node[n];
    like = x->op == y->op && x->type == y->type && x->n_in == y->n_in && x->n_attr == y->n_attr &&
           x->shape->d.rank == y->shape->d.rank && x->out == y->out && x->leaf == y->leaf &&
           (x->n_in == 0 || memcmp(x->in, y->in, (size_t)x->n_in * sizeof *x->in) == 0);
  }
  return like;
}

// Whether the steps that compute cached constants are the same in all.
static bool is_same_prepare(const tc_program *a, const tc_program *b) {
  bool same = a->n_step == b->n_step && a->n_num == b->n_num && a->n_binding == b->n_binding;
  for (uint32_t i = 0; i < a->n_step && same; i++) {
    const tc_step *s = &a->step[i], *t = &b->step[i];
    same = is_like_step(s, t) && s->extent == t->extent && s->kind == TC_STEP_KERNEL;
    for (uint32_t k = 0; same && k < s->pending->kir.n_inst; k++)
      same = s->pending->kir.inst[k].imm == t->pending->kir.inst[k].imm;
  }
  for (uint32_t i = 0; i < a->n_num && same; i++)
    same = a->num[i].is_arg == b->num[i].is_arg && a->num[i].value == b->num[i].value;
  return same && (!a->n_binding || memcmp(a->binding, b->binding, a->n_binding * sizeof a->binding[0]) == 0);
}

static const char *difference(const tc_size_sample *x, const tc_size_sample *y) {
  const tc_program *a = x->p, *b = y->p;
  bool like = a->n_step == b->n_step && a->n_binding == b->n_binding && a->n_num == b->n_num &&
              a->n_allocation == b->n_allocation && a->n_stage == b->n_stage && a->n_cached == b->n_cached;
  if (!like || !is_like_nodes(&a->graph, &b->graph)) return "another size has other nodes or steps";
  for (uint32_t i = 0; i < a->n_step; i++)
    if (!is_like_step(&a->step[i], &b->step[i])) return "another size has a kernel with other instructions";
  like = !a->n_binding || memcmp(a->binding, b->binding, a->n_binding * sizeof a->binding[0]) == 0;
  for (uint32_t i = 0; i < a->n_num && like; i++)
    like = a->num[i].is_arg == b->num[i].is_arg && (!a->num[i].is_arg || a->num[i].value == b->num[i].value);
  for (uint32_t o = 0; o < x->plan.n_out && like; o++) like = x->plan.out[o].donor == y->plan.out[o].donor;
  for (uint32_t i = 0; i < a->n_cached && like; i++) like = a->cached_bytes[i] == b->cached_bytes[i];
  if (!like) return "another size has other storages";
  return is_same_prepare(a->prepare, b->prepare) ? NULL : "what is kept of parameters depends on the size";
}

// ---- samples ----

static void drop_sample(tc_size_sample *s) {
  if (s->p) tc_program_destroy(s->p);
  tc_free(s->plan.word);
  tc_free(s->plan.out);
}

bool tc_size_split_of(const tc_size_split *s, const int64_t *size, int64_t *out) {
  memcpy(out, size, TC_MAX_SIZES * sizeof *out);
  if (!s->is_split) return true;
  int64_t part = tc_fold_part(size[s->size], s->inner);
  if (!part) return false;
  out[s->size] = part, out[s->n_size] = size[s->size] / part;
  return true;
}

// The graph's sizes for sizes of samples. False: its folds would be cut otherwise.
static bool join_sizes(const tc_size_split *s, const int64_t *size, int64_t *out) {
  memcpy(out, size, TC_MAX_SIZES * sizeof *out);
  if (!s->is_split) return true;
  out[s->size] = size[s->size] * size[s->n_size], out[s->n_size] = 0;
  return tc_fold_part(out[s->size], s->inner) == size[s->size];
}

// Adds the sample at these sizes, unless the list has it. False: it is not like the first one.
static bool add_sample(tc_size_list *x, const int64_t *size) {
  uint32_t n = x->at.n;
  int64_t joined[TC_MAX_SIZES];
  for (uint32_t i = 0; i < n; i++)
    if (memcmp(x->at.at[i], size, x->at.n_size * sizeof *size) == 0) return true;
  if (n == TC_MAX_SAMPLES) return x->why = "too many samples", false;
  tc_size_sample *s = &x->of[n];
  *s = (tc_size_sample){.p = NULL};
  tc_error_mark before = tc_error_now();
  if (!join_sizes(&x->split, size, joined)) return x->why = "a fold is cut otherwise at another size", false;
  if (!x->from->plan_at(x->from, joined, &s->plan)) return x->why = "the records have no such sizes", false;
  tc_status st = x->by->sample(&s->plan, x->probe.p, &s->p);
  if (st != TC_OK) (void)tc_error_tell(before);
  x->why = st != TC_OK ? "the graph is not lowered at another size" : n ? difference(&x->of[0], s) : NULL;
  if (x->why) return drop_sample(s), false;
  for (uint32_t i = 0; i < TC_MAX_SIZES; i++) x->at.at[n][i] = i < x->at.n_size ? size[i] : 0;
  x->at.n++;
  return true;
}

// Lowers the graph at its own sizes, without a sample to compare with.
static bool lower_at(tc_size_list *x, const int64_t *size, tc_size_sample *out) {
  *out = (tc_size_sample){.p = NULL};
  if (!x->from->plan_at(x->from, size, &out->plan)) return x->why = "the records have no such sizes", false;
  tc_error_mark before = tc_error_now();
  if (x->by->sample(&out->plan, NULL, &out->p) == TC_OK) return true;
  (void)tc_error_tell(before);
  return x->why = "the graph is not lowered at another size", false;
}

// Lowers the graph where all sizes are others.
static bool make_probe(tc_size_list *x) {
  int64_t other[TC_MAX_SIZES] = {0};
  for (uint32_t i = 0; i < x->from->n_size; i++) other[i] = prime_from(2 * x->from->at[i] + 10 * (i + 1));
  return lower_at(x, other, &x->probe);
}

// Splits the size along which a fold is cut in parts of one length, if there is one.
static bool choose_split(tc_size_list *x) {
  const tc_size_source *f = x->from;
  tc_size_sample s;
  bool may = false;
  x->split = (tc_size_split){.n_size = f->n_size};
  for (uint32_t i = 0; i < f->n_size; i++) may |= tc_fold_part(f->at[i], 1) || tc_fold_part(f->at[i], 2);
  if (may && f->n_size < TC_MAX_SIZES) {
    bool ok = lower_at(x, f->at, &s);
    for (uint32_t k = 0; ok && k < s.p->graph.n_guard; k++)
      for (uint32_t i = 0; i < f->n_size && !x->split.is_split; i++) {
        const tc_fold_guard *g = &s.p->graph.guard[k];
        if (g->part && g->run == f->at[i]) x->split = (tc_size_split){true, i, f->n_size, g->inner};
      }
    drop_sample(&s);
    if (!ok) return false;
  }
  x->at.n_size = f->n_size + x->split.is_split;
  return tc_size_split_of(&x->split, f->at, x->want);
}

// Adds samples with this value of size i, at all corners of the box of the sizes before it. False:
// one is not like the first sample.
static bool add_corners(tc_size_list *x, uint32_t i, int64_t value, const tc_size_box *box) {
  int64_t size[TC_MAX_SIZES];
  memcpy(size, x->at.at[0], sizeof size);
  size[i] = value;
  for (uint32_t corner = 0; corner < 1u << i; corner++) {
    for (uint32_t k = 0; k < i; k++) size[k] = corner >> k & 1 ? box->high[k] : box->low[k];
    if (!add_sample(x, size)) return false;
  }
  return true;
}

// The least prime down to which samples are alike.
static int64_t find_low(tc_size_list *x, uint32_t i, const tc_size_box *box) {
  static const int64_t least[TC_MAX_SIZES] = {2, 3, 5};
  int64_t good = prime_until(x->want[i]), bad = least[i];
  if (add_corners(x, i, bad, box)) return bad;
  if (!add_corners(x, i, good, box)) {
    good = x->want[i];  // no prime, but as good where it is alike
    return add_corners(x, i, good, box) ? good : good + 1;
  }
  while (prime_from(bad + 1) < good) {
    int64_t mid = prime_from(bad + (good - bad) / 2);
    if (mid >= good) mid = prime_until(good - 1);
    *(add_corners(x, i, mid, box) ? &good : &bad) = mid;
  }
  return good;
}

// A prime so far up that samples are alike, else the greatest one.
static int64_t find_high(tc_size_list *x, uint32_t i, const tc_size_box *box) {
  int64_t good = x->at.at[0][i], bad = TC_MIN(TC_MAX_OF(good * FAR, LEAST_FAR), MOST_SIZE);
  bad = apart_from(bad, box->high, i);
  if (add_corners(x, i, bad, box)) return bad;
  if (!add_corners(x, i, good, box)) return 0;
  while (prime_from(good + 1) < bad) {
    int64_t mid = bad > 4 * good ? good * (int64_t)sqrt((double)bad / (double)good) : good + (bad - good) / 2;
    mid = apart_from(TC_MAX_OF(mid, good + 1), box->high, i);
    if (mid >= bad) mid = prime_until(bad - 1);
    *(add_corners(x, i, mid, box) ? &good : &bad) = mid;
  }
  return good;
}

// A prime between low and high. Those of neighbouring parts differ in whether a half and a whole
// block of 64 is left over, if there are such.
static int64_t prime_within(int64_t low, int64_t high, uint32_t part) {
  static const uint8_t place[] = {5, 11, 3, 8, 14, 6, 2, 12, 9, 1, 13, 4, 10, 7};
  int64_t from = low + (high - low) * place[part % sizeof place] / 16 / (part % 3 == 2 ? 4 : 1), p = prime_from(from);
  for (int64_t q = p; q <= high && q < p + 1024; q = prime_from(q + 1))
    if ((q >> 5 & 3) == (part & 3)) return q;
  return TC_MIN(p, high);
}

// Adds samples within the box.
static bool fill_box(tc_size_list *x, const tc_size_box *box) {
  uint32_t n = x->at.n_size;
  int64_t size[TC_MAX_SIZES];
  for (uint32_t part = 0, tries = 0; part < INNER || x->at.n < LEAST_SAMPLES + 2 * n; part++) {
    for (uint32_t i = 0; i < n; i++) size[i] = prime_within(box->low[i], box->high[i], part + i);
    if (tries++ > 40) return x->why = "there are too few primes", false;
    int64_t joined[TC_MAX_SIZES];
    if (join_sizes(&x->split, size, joined) && !add_sample(x, size)) return false;
  }
  // The wanted sizes, and even ones, where they are alike: rounded numbers look otherwise there.
  (void)add_sample(x, x->want);
  for (int64_t times = 2; times <= 4; times *= 2)
    for (uint32_t i = 0; i < n; i++) {
      memcpy(size, x->at.at[0], sizeof size);
      size[i] = times * prime_within(box->low[i], box->high[i] / times, (uint32_t)times);
      if (size[i] >= box->low[i] && size[i] <= box->high[i]) (void)add_sample(x, size);
    }
  return true;
}

// Primes from the wanted sizes on, at which folds are cut as at those.
static bool first_sizes(const tc_size_list *x, int64_t *size) {
  int64_t joined[TC_MAX_SIZES];
  memset(size, 0, TC_MAX_SIZES * sizeof *size);
  for (uint32_t i = 0; i < x->at.n_size; i++) size[i] = apart_from(x->want[i], size, i);
  for (int tries = 0; tries < 8; tries++) {
    if (join_sizes(&x->split, size, joined)) return true;
    uint32_t i = tries % 2 ? x->split.n_size : x->split.size;
    size[i] = i == x->split.size && size[i] > TC_FOLD_COLUMN ? prime_until(x->want[i]) : prime_from(size[i] + 1);
  }
  return false;
}

bool tc_size_list_fill(tc_size_list *x, tc_size_box *box) {
  int64_t size[TC_MAX_SIZES];
  for (uint32_t i = 0; i < TC_MAX_SIZES; i++) box->low[i] = box->high[i] = x->from->at[i];
  if (!choose_split(x)) return false;
  uint32_t n = x->at.n_size;
  if (!first_sizes(x, size)) return x->why = "a fold is cut otherwise at another size", false;
  if (!make_probe(x) || !add_sample(x, size)) return false;
  bool spans = true;
  tc_size_box found = {0};
  for (uint32_t i = 0; i < n; i++) {
    found.low[i] = find_low(x, i, &found);
    if (found.low[i] > x->want[i]) return x->why = "a size just below has another program", false;
    found.high[i] = TC_MAX_OF(find_high(x, i, &found), x->want[i]);
    spans = spans && (found.high[i] >= found.low[i] * LEAST_SPAN || x->split.is_split);
  }
  if (!spans) return *box = found, x->why = "few sizes have this program", false;
  if (!fill_box(x, &found)) return false;
  return *box = found, true;
}

void tc_size_list_fini(tc_size_list *x) {
  for (uint32_t i = 0; i < x->at.n; i++) drop_sample(&x->of[i]);
  drop_sample(&x->probe);
}
