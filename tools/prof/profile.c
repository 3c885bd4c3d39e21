// See profile.h. The file is read in windows. Of a longer record only the fixed part is looked at.
// Its rows or text are read again when they are asked for.
#include "tools/prof/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  WINDOW = 1 << 18,  // bytes of the file that are looked at together
  SHORT_TEXT = 256,  // longer ones stay in the file
  ROOM = 1 << 16,
};
#define MOST_BYTES (8ull << 32)  // of a file, since places in it are told in 32 bits

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are read as they lie");
_Static_assert(sizeof(tc_prof_sync) == 208 && sizeof(tc_prof_plan) % 8 == 0, "as docs/profile-format.md has them");

const char *const tc_phase_names[TC_N_PHASES] = {"outside", "record", "lookup", "lower",   "compile", "allocate",
                                                 "launch",  "run",    "wait",   "publish", "total",   "awaited"};

// ---- Arrays that grow ----

// Room for one more behind n. Capacities grow by an eighth or less, from 64.
static bool make_room(void *array, size_t n, size_t each) {
  char *old;
  size_t step = n < 64 ? 64 : (size_t)1 << (60 - __builtin_clzll(n));
  if (n != 0 && (n < 64 || n % step != 0)) return true;
  memcpy(&old, array, sizeof old);
  char *more = realloc(old, (n + step) * each);
  if (!more) return false;
  memcpy(array, &more, sizeof more);
  return true;
}

// Room for a row of this id, and zeros before it. An id that a file of this size cannot have is
// refused as damage.
static bool make_row(const tc_profile *p, void *array, size_t *n, uint32_t id, size_t each) {
  char *rows;
  if (id > p->size / 16) return false;
  for (; *n <= id; ++*n) {
    if (!make_room(array, *n, each)) return false;
    memcpy(&rows, array, sizeof rows);
    memset(rows + *n * each, 0, each);
  }
  return true;
}

// ---- Bytes of the file ----

double tc_profile_number(double x) {
  return x > 0 && x < 1e30 ? x : 0;
}

bool tc_profile_bytes(const tc_profile *p, uint64_t offset, void *out, size_t bytes) {
  char *to = out;
  while (bytes) {
    ssize_t n = pread(p->file, to, bytes, (off_t)offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    offset += (uint64_t)n;
    bytes -= (size_t)n;
  }
  return true;
}

// Bytes of a record, from its end on zeros.
static void copy_fixed(void *out, size_t bytes, const void *record, size_t there) {
  memset(out, 0, bytes);
  memcpy(out, record, there < bytes ? there : bytes);
}

// How many bytes a well-formed character of UTF-8 has that moves no cursor; 0: it is none.
static size_t character_bytes(const unsigned char *c, size_t there) {
  if (c[0] < 0x80) return (c[0] >= ' ' && c[0] != 127) || c[0] == '\n';
  size_t n = c[0] >= 0xf5 || c[0] < 0xc2 ? 0 : c[0] >= 0xf0 ? 4 : c[0] >= 0xe0 ? 3 : 2;
  if (n > there) return 0;
  for (size_t i = 1; i < n; i++)
    if ((c[i] & 0xc0) != 0x80) return 0;
  bool wrong = (c[0] == 0xc2 && c[1] < 0xa0) || (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] >= 0xa0) ||
               (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] >= 0x90);
  return wrong ? 0 : n;
}

// Makes a text fit for a terminal and for JSON.
static void clean_text(char *text, size_t length) {
  for (size_t i = 0; i < length;) {
    size_t n = character_bytes((const unsigned char *)text + i, length - i);
    if (n == 0) text[i] = '?';
    i += n ? n : 1;
  }
  text[length] = 0;
}

// ---- Texts ----

static uint32_t hash_text(const char *text, size_t length) {
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < length; i++) h = (h ^ (unsigned char)text[i]) * 16777619u;
  return h;
}

static tc_text *find_asked(const tc_profile *p, uint32_t id) {
  size_t at = (id * 0x9e3779b97f4a7c15u >> 32) & p->text_mask;
  while (p->text[at].id && p->text[at].id != id) at = (at + 1) & p->text_mask;
  return &p->text[at];
}

static bool grow_asked(tc_profile *p) {
  tc_text *old = p->text, *more;
  size_t n = old ? p->text_mask + 1 : 0, mask = n ? 2 * n - 1 : 255;
  if (!(more = calloc(mask + 1, sizeof *more))) return false;
  p->text = more;
  p->text_mask = mask;
  for (size_t i = 0; i < n; i++)
    if (old[i].id) *find_asked(p, old[i].id) = old[i];
  free(old);
  return true;
}

static bool grow_seen(tc_profile *p) {
  size_t n = p->seen ? 2 * (p->seen_mask + 1) : 256;
  uint32_t *more = calloc(n, sizeof *more);
  if (!more) return false;
  for (size_t i = 0; p->seen && i <= p->seen_mask; i++) {
    if (!p->seen[i]) continue;
    const tc_text *t = find_asked(p, p->seen[i]);
    size_t at = hash_text(t->text, t->length) & (n - 1);
    while (more[at]) at = (at + 1) & (n - 1);
    more[at] = p->seen[i];
  }
  free(p->seen);
  p->seen = more;
  p->seen_mask = n - 1;
  return true;
}

// The first text of these bytes: this one, or one that is there.
static bool find_same(tc_profile *p, tc_text *t) {
  if ((!p->seen || 2 * p->n_seen > p->seen_mask) && !grow_seen(p)) return false;
  size_t at = hash_text(t->text, t->length) & p->seen_mask;
  for (; p->seen[at]; at = (at + 1) & p->seen_mask) {
    const tc_text *other = find_asked(p, p->seen[at]);
    if (other->length != t->length || memcmp(other->text, t->text, t->length) != 0) continue;
    t->same = p->seen[at];
    return true;
  }
  p->seen[at] = t->id;
  p->n_seen++;
  return true;
}

static char *take_room(tc_profile *p, size_t bytes) {
  if (p->room_left < bytes) {
    if (!make_room(&p->rooms, p->n_rooms, sizeof *p->rooms)) return NULL;
    p->room = p->rooms[p->n_rooms] = malloc(ROOM);
    if (!p->room) return NULL;
    p->n_rooms++;
    p->room_left = ROOM;
  }
  char *out = p->room;
  p->room += bytes;
  p->room_left -= bytes;
  return out;
}

typedef enum outcome { TAKEN, DAMAGE, NO_MEMORY } outcome;

// A number that came before keeps its first text, since tables point to it.
static outcome take_text(tc_profile *p, const char *record, size_t there, uint64_t offset) {
  tc_prof_text t;
  copy_fixed(&t, sizeof t, record, there);
  if (t.head.bytes < sizeof t || t.length > t.head.bytes - sizeof t || t.id == 0 || t.id > p->size / 16) return DAMAGE;
  if (!make_row(p, &p->text_at, &p->n_texts, t.id, sizeof *p->text_at)) return NO_MEMORY;
  if (!p->text_at[t.id]) p->text_at[t.id] = (uint32_t)(offset / 8);
  return TAKEN;
}

static uint64_t text_offset(const tc_profile *p, uint32_t id) {
  return 8ull * p->text_at[id] + sizeof(tc_prof_text);
}

// Reads a short text for good. False: no memory.
static bool read_short(tc_profile *p, tc_text *t) {
  t->text = take_room(p, t->length + 1u);
  if (!t->text) return false;
  clean_text(t->text, tc_profile_bytes(p, text_offset(p, t->id), t->text, t->length) ? t->length : 0);
  return find_same(p, t);
}

// A text that is in the file, with its bytes if it is short. NULL: it is not, or there is no memory.
static tc_text *ask_text(tc_profile *p, uint32_t id) {
  tc_prof_text head;
  if (id >= p->n_texts || !p->text_at[id]) return NULL;
  p->no_memory |= (!p->text || 2 * p->n_asked > p->text_mask) && !grow_asked(p);
  if (p->no_memory) return NULL;
  tc_text *t = find_asked(p, id);
  if (t->id) return t;
  if (!tc_profile_bytes(p, 8ull * p->text_at[id], &head, sizeof head)) head.length = 0;
  *t = (tc_text){.id = id, .same = id, .length = head.length};
  p->n_asked++;
  if (t->length < SHORT_TEXT) p->no_memory = !read_short(p, t);
  return p->no_memory ? NULL : t;
}

uint32_t tc_profile_same(tc_profile *p, uint32_t id) {
  const tc_text *t = ask_text(p, id);
  return t ? t->same : 0;
}

const char *tc_profile_text(tc_profile *p, uint32_t id) {
  tc_text *t = ask_text(p, id);
  if (!t) return "";
  if (!t->text) {
    t->text = malloc(t->length + 1u);
    if (!t->text) return "";
    clean_text(t->text, tc_profile_bytes(p, text_offset(p, id), t->text, t->length) ? t->length : 0);
  }
  return t->text;
}

void tc_profile_forget(tc_profile *p, uint32_t id) {
  tc_text *t = ask_text(p, id);
  if (!t || t->length < SHORT_TEXT) return;
  free(t->text);
  t->text = NULL;
}

// ---- Records ----

static uint32_t *find_thread_slot(const tc_profile *p, uint32_t number) {
  size_t at = (number * 0x9e3779b97f4a7c15u >> 32) & p->thread_mask;
  while (p->thread_slot[at] && p->thread[p->thread_slot[at] - 1] != number) at = (at + 1) & p->thread_mask;
  return &p->thread_slot[at];
}

static bool grow_threads(tc_profile *p) {
  size_t mask = p->thread_slot ? 2 * p->thread_mask + 1 : 63;
  uint32_t *slot = calloc(mask + 1, sizeof *slot);
  if (!slot) return false;
  free(p->thread_slot);
  p->thread_slot = slot;
  p->thread_mask = mask;
  for (size_t i = 0; i < p->n_threads; i++) *find_thread_slot(p, p->thread[i]) = (uint32_t)i + 1;
  return true;
}

static bool find_thread(tc_profile *p, uint32_t number, uint32_t *out) {
  if ((!p->thread_slot || p->n_threads >= (p->thread_mask + 1) / 2) && !grow_threads(p)) return false;
  uint32_t *slot = find_thread_slot(p, number);
  if (!*slot) {
    if (!make_room(&p->thread, p->n_threads, sizeof *p->thread)) return false;
    p->thread[p->n_threads] = number;
    *slot = (uint32_t)++p->n_threads;
  }
  *out = *slot - 1;
  return true;
}

static outcome take_process(tc_profile *p, const char *record, size_t there) {
  copy_fixed(&p->process, sizeof p->process, record, there);
  p->process.peak_flops = tc_profile_number(p->process.peak_flops);
  p->process.peak_bytes = tc_profile_number(p->process.peak_bytes);
  return TAKEN;
}

static outcome take_sync(tc_profile *p, const char *record, size_t there, uint64_t offset) {
  tc_prof_sync s;
  uint32_t thread;
  copy_fixed(&s, sizeof s, record, there);
  if (!make_room(&p->point, p->n_points, sizeof *p->point) || !find_thread(p, s.thread, &thread)) return NO_MEMORY;
  tc_point *out = &p->point[p->n_points++];
  *out = (tc_point){
      .at = (uint32_t)(offset / 8),
      .begin_ns = s.begin_ns,
      .sequence = s.sequence,
      .thread = thread,
      .plan = s.plan,
      .site = tc_profile_same(p, s.site),
      .cause = tc_profile_same(p, s.cause),
      .tier = tc_profile_same(p, s.tier),
      .region = tc_profile_same(p, s.region),
      // Files of earlier versions do not count a bound plan as cached.
      .flags = s.miss == TC_PROF_MISS_BOUND ? s.flags | TC_PROF_HIT : s.flags,
      .miss = s.miss,
      .n_launches = s.n_launches,
      .n_compiled = s.n_compiled,
      .planned_bytes = (float)s.planned_bytes,
      .peak_bytes = (float)s.peak_bytes,
      .bus_bytes = (float)s.to_device_bytes + (float)s.from_device_bytes,
      .copied_bytes = (float)s.copied_bytes,
      .cached_bytes = (float)s.cached_bytes,
  };
  const uint64_t ns[TC_N_PHASES] = {s.outside_ns, s.record_ns, s.lookup_ns, s.lower_ns,   s.compile_ns, s.allocate_ns,
                                    s.launch_ns,  s.run_ns,    s.wait_ns,   s.publish_ns, s.total_ns,   s.awaited_ns};
  for (int i = 0; i < TC_N_PHASES; i++) out->ns[i] = (float)ns[i];
  return p->no_memory ? NO_MEMORY : TAKEN;
}

static outcome take_plan(tc_profile *p, const char *record, size_t there, uint64_t offset) {
  tc_prof_plan plan;
  copy_fixed(&plan, sizeof plan, record, there);
  uint64_t rows = (uint64_t)plan.n_kernels * sizeof(tc_prof_kernel) +
                  (uint64_t)plan.n_boundaries * sizeof(tc_prof_boundary) +
                  (uint64_t)plan.n_blocks * sizeof(tc_prof_block);
  if (plan.id == 0 || plan.id > p->size / 16 || rows + (rows ? sizeof plan : 0) > plan.head.bytes) return DAMAGE;
  if (!make_row(p, &p->plan, &p->n_plans, plan.id, sizeof *p->plan)) return NO_MEMORY;
  if (p->plan[plan.id].at) return TAKEN;
  p->plan[plan.id] = (tc_plan){
      .hash = plan.hash,
      .shape_hash = plan.shape_hash,
      .bytes = plan.bytes,
      .least_bytes = plan.least_bytes,
      .flops = tc_profile_number(plan.flops),
      .id = plan.id,
      .at = (uint32_t)(offset / 8),
      .n_nodes = plan.n_nodes,
      .n_left = plan.n_left,
      .n_kernels = plan.n_kernels,
      .n_outputs = plan.n_outputs,
      .n_again = plan.n_again,
      .held_bytes = (float)plan.held_bytes,
      .output_bytes = (float)plan.output_bytes,
  };
  return TAKEN;
}

static outcome take_stack(tc_profile *p, const char *record, size_t there, uint64_t offset) {
  tc_prof_stack s;
  copy_fixed(&s, sizeof s, record, there);
  if (s.id > p->size / 16 || sizeof s + 8ull * s.head.n > s.head.bytes) return DAMAGE;
  if (!make_row(p, &p->stack, &p->n_stacks, s.id, sizeof *p->stack)) return NO_MEMORY;
  p->stack[s.id] = offset;
  return TAKEN;
}

static outcome take_times(tc_profile *p, const char *record, size_t there, uint64_t offset) {
  tc_prof_kernel_times t;
  copy_fixed(&t, sizeof t, record, there);
  if (t.head.n && sizeof t + (uint64_t)t.head.n * sizeof(tc_prof_kernel_time) > t.head.bytes) return DAMAGE;
  if (!make_room(&p->times, p->n_times, sizeof *p->times)) return NO_MEMORY;
  p->times[p->n_times++] = (tc_record_at){offset, t.sequence, t.head.n};
  return TAKEN;
}

static outcome take_memory(tc_profile *p, const char *record, size_t there, uint64_t offset) {
  tc_prof_memory m;
  copy_fixed(&m, sizeof m, record, there);
  if (m.head.n && sizeof m + (uint64_t)m.head.n * sizeof(tc_prof_live) > m.head.bytes) return DAMAGE;
  if (!make_room(&p->memory, p->n_memory, sizeof *p->memory) ||
      !make_room(&p->memory_bytes, p->n_memory, sizeof *p->memory_bytes) ||
      !make_room(&p->memory_ns, p->n_memory, sizeof *p->memory_ns))
    return NO_MEMORY;
  p->memory_bytes[p->n_memory] = m.bytes;
  p->memory_ns[p->n_memory] = m.at_ns;
  p->memory[p->n_memory++] = (tc_record_at){offset, m.sequence, m.head.n};
  return TAKEN;
}

static outcome take_compile(tc_profile *p, uint64_t offset) {
  if (!make_room(&p->compile_at, p->n_compiles, sizeof *p->compile_at)) return NO_MEMORY;
  p->compile_at[p->n_compiles++] = (uint32_t)(offset / 8);
  return TAKEN;
}

#define TAKE_ROW(array, n) \
  (make_room(&(array), (n), sizeof *(array)) ? (copy_fixed(&(array)[(n)++], sizeof *(array), record, there), TAKEN) \
                                             : NO_MEMORY)

// A record of which there bytes are looked at: all, or a window's.
static outcome take_record(tc_profile *p, const char *record, size_t there, uint64_t offset) {
  switch (((const tc_prof_head *)record)->kind) {
    case TC_PROF_PROCESS: return take_process(p, record, there);
    case TC_PROF_TEXT: return take_text(p, record, there, offset);
    case TC_PROF_MODULE: return TAKE_ROW(p->module, p->n_modules);
    case TC_PROF_STACK: return take_stack(p, record, there, offset);
    case TC_PROF_PLAN: return take_plan(p, record, there, offset);
    case TC_PROF_SYNC: return take_sync(p, record, there, offset);
    case TC_PROF_KERNEL_TIMES: return take_times(p, record, there, offset);
    case TC_PROF_COMPILE: return take_compile(p, offset);
    case TC_PROF_UNUSED: return TAKE_ROW(p->unused, p->n_unused);
    case TC_PROF_MEMORY: return take_memory(p, record, there, offset);
    case TC_PROF_END: copy_fixed(&p->end, sizeof p->end, record, there); return TAKEN;
    default: return TAKEN;
  }
}

// ---- The file ----

static bool refuse(const tc_profile *p, const char *why) {
  fprintf(stderr, "tc-prof: %s %s\n", p->path, why);
  return false;
}

bool tc_profile_open(tc_profile *p, const char *path) {
  char magic[sizeof TC_PROF_MAGIC] = {0};
  struct stat about;
  *p = (tc_profile){.path = path, .file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
  if (p->file < 0 || fstat(p->file, &about) != 0)
    return fprintf(stderr, "tc-prof: %s cannot be read: %s\n", path, strerror(errno)), false;
  if (!S_ISREG(about.st_mode)) return refuse(p, "is no regular file");
  p->size = (uint64_t)about.st_size;
  if (p->size == 0) return refuse(p, "is empty");
  if (p->size < sizeof magic || !tc_profile_bytes(p, 0, magic, sizeof magic))
    return refuse(p, "is too short for a profile of tc");
  if (memcmp(magic, TC_PROF_MAGIC, sizeof magic) != 0)
    return refuse(p, memcmp(magic, TC_PROF_MAGIC, 11) == 0
                         ? "is a profile of a version that this tc-prof does not read"
                         : "is no profile of tc: TC_PROFILE=FILE writes one, and tc-run --profile FILE");
  p->at = sizeof magic;
  return true;
}

static int compare_sequences(const void *a, const void *b, void *points) {
  const tc_point *point = points, *x = &point[*(const uint32_t *)a], *y = &point[*(const uint32_t *)b];
  if (x->sequence != y->sequence) return x->sequence < y->sequence ? -1 : 1;
  return (x->at > y->at) - (x->at < y->at);
}

// Threads write behind one another, so sequences may be out of order.
static bool sort_points(tc_profile *p) {
  size_t n = 1;
  while (n < p->n_points && p->point[n - 1].sequence <= p->point[n].sequence) n++;
  free(p->order);
  p->order = NULL;
  if (n >= p->n_points) return true;
  p->order = malloc(p->n_points * sizeof *p->order);
  if (!p->order) return false;
  for (size_t i = 0; i < p->n_points; i++) p->order[i] = (uint32_t)i;
  qsort_r(p->order, p->n_points, sizeof *p->order, compare_sequences, p->point);
  return true;
}

static void write_note(tc_profile *p) {
  p->note[0] = 0;
  if (p->damaged)
    snprintf(p->note, sizeof p->note, "damaged at byte %llu of %llu: what follows was not read",
             (unsigned long long)p->at, (unsigned long long)p->size);
  else if (p->is_long)
    snprintf(p->note, sizeof p->note, "is longer than 32 GiB: what lies behind was not read");
  else if (p->torn)
    snprintf(p->note, sizeof p->note, "ends in mid-record: the program was killed, or the file was cut");
  else if (!p->end.head.bytes)
    snprintf(p->note, sizeof p->note, "has no end: the program was killed, ended by _exit, or still runs");
}

// Takes the records that lie whole in a window of n bytes; p->at moves behind them. False: no more
// can be read, now or for ever; st says whether memory was the reason.
static bool take_window(tc_profile *p, const char *window, size_t n, outcome *st) {
  size_t at = 0;
  while (n - at >= sizeof(tc_prof_head)) {
    tc_prof_head head;
    memcpy(&head, window + at, sizeof head);
    if (head.bytes == 0) return false;
    p->damaged = head.bytes < sizeof head || head.bytes % 8 != 0 || head.bytes > TC_PROF_MAX_RECORD;
    p->torn = !p->damaged && head.bytes > p->size - p->at;
    if (p->damaged || p->torn) return false;
    if (head.bytes > n - at && at > 0) return true;  // the next window begins with it
    *st = take_record(p, window + at, head.bytes < n - at ? head.bytes : n - at, p->at);
    p->damaged = *st == DAMAGE;
    if (*st != TAKEN) return false;
    p->at += head.bytes;
    if (head.bytes >= n - at) return true;
    at += head.bytes;
  }
  if (at == 0) p->torn = true;
  return at > 0;
}

bool tc_profile_read(tc_profile *p) {
  struct stat about;
  _Alignas(8) static char window[WINDOW];
  outcome st = TAKEN;
  if (fstat(p->file, &about) == 0 && (uint64_t)about.st_size > p->size) p->size = (uint64_t)about.st_size;
  p->torn = false;
  while (!p->damaged && p->at < p->size && !p->is_long) {
    size_t n = p->size - p->at < WINDOW ? (size_t)(p->size - p->at) : WINDOW;
    if (!tc_profile_bytes(p, p->at, window, n)) {
      p->torn = true;  // it was cut while it was read
      break;
    }
    if (!take_window(p, window, n, &st)) break;
    p->is_long = p->at > MOST_BYTES - WINDOW;
  }
  bool sorted = sort_points(p);
  write_note(p);
  if (st != NO_MEMORY && sorted) return true;
  fprintf(stderr, "tc-prof: no memory for what %s holds\n", p->path);
  return false;
}

void tc_profile_close(tc_profile *p) {
  if (p->file >= 0) close(p->file);
  for (size_t i = 0; p->text && i <= p->text_mask; i++)
    if (p->text[i].length >= SHORT_TEXT) free(p->text[i].text);
  for (size_t i = 0; i < p->n_plans; i++) free(p->plan[i].record);
  for (size_t i = 0; i < p->n_rooms; i++) free(p->rooms[i]);
  void *arrays[] = {p->point,     p->plan,       p->text_at, p->text,  p->thread, p->stack,
                    p->module,    p->compile_at, p->unused,  p->times, p->memory, p->memory_bytes,
                    p->memory_ns, p->order,      p->seen,    p->rows,  p->rooms,  p->thread_slot};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
  *p = (tc_profile){.file = -1};
}

// ---- By number ----

// The record at a place, with zeros from its end on. False: the file has changed.
static bool read_record(const tc_profile *p, uint64_t offset, void *out, size_t bytes) {
  tc_prof_head head;
  memset(out, 0, bytes);
  return tc_profile_bytes(p, offset, &head, sizeof head) &&
         tc_profile_bytes(p, offset, out, head.bytes < bytes ? head.bytes : bytes);
}

const tc_plan *tc_profile_plan(const tc_profile *p, uint32_t id) {
  return id < p->n_plans && p->plan[id].at ? &p->plan[id] : NULL;
}

const tc_prof_plan *tc_profile_plan_record(tc_profile *p, uint32_t id) {
  if (!tc_profile_plan(p, id)) return NULL;
  tc_plan *plan = &p->plan[id];
  tc_prof_plan *record = plan->record ? NULL : malloc(sizeof *record);
  if (!record) return plan->record;
  if (!read_record(p, 8ull * plan->at, record, sizeof *record)) *record = (tc_prof_plan){.id = id};
  record->id = id;
  record->flops = plan->flops;
  return plan->record = record;
}

void tc_profile_forget_plan(tc_profile *p, uint32_t id) {
  if (!tc_profile_plan(p, id)) return;
  free(p->plan[id].record);
  p->plan[id].record = NULL;
}

tc_prof_compile tc_profile_compile(const tc_profile *p, size_t i) {
  tc_prof_compile c;
  if (!read_record(p, 8ull * p->compile_at[i], &c, sizeof c)) memset(&c, 0, sizeof c);
  return c;
}

const tc_point *tc_profile_point(const tc_profile *p, uint32_t sequence) {
  size_t low = 0, high = p->n_points;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const tc_point *point = &p->point[p->order ? p->order[middle] : middle];
    if (point->sequence == sequence) return point;
    if (point->sequence < sequence)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

bool tc_profile_sync(const tc_profile *p, const tc_point *point, tc_prof_sync *out) {
  return read_record(p, 8ull * point->at, out, sizeof *out);
}
