// The file of a profile. See profile_file.h.
#include "runtime/profile_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/arena.h"
#include "runtime/fork.h"
#include "runtime/hash.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/profile_modules.h"
#include "runtime/reentry.h"

#define WINDOW_BYTES (1u << 20)
#define PAGE_BYTES 65536u  // a multiple of every machine's page
#define LONGEST_TEXT (256u << 10)
#define MAGIC_BYTES 16
#define MOST_NAMES 1000  // that are tried for one file

_Atomic int tc_profile_now = TC_PROFILE_UNREAD;
_Thread_local uint32_t tc_profile_sequence;
_Thread_local uint64_t tc_profile_waited;

// What has a number: a text by its content's hash, or a word or site by its address.
typedef struct known {
  uint64_t key, kind;
  uint32_t id;  // 0: the row is free
} known;
enum { BY_SITE = 1, BY_WORD = 2, BY_CONTENT = 4 };  // BY_CONTENT and BY_STACK: with bits of the hash
#define BY_STACK 3

static struct {
  pthread_mutex_t lock;
  char path[PATH_MAX];  // as opened
  char base[PATH_MAX];  // as asked, absolute: what children name theirs by
  int file;
  char *window;  // NULL: none is mapped
  uint64_t window_at, at;  // the window's place in the file; the next record's
  known *known;
  uint32_t n_known, cap_known, n_texts, n_stacks, n_plans, n_syncs, n_lost;
  _Atomic uint32_t generation, sequence;
  tc_prof_unused unused;  // of one sync, not written yet. n_values 0: none
  tc_call unused_call;  // that made the largest of them
  char parent_path[PATH_MAX];  // of a forked child. "": none
  tc_profile_machine machine;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER, .file = -1};
TC_FORK_SAFE(&self.lock, 10)

// ---- windows ----

static void unmap_window(void) {
  if (self.window) munmap(self.window, WINDOW_BYTES);
  self.window = NULL;
}

// Ends the profile where the file takes no more.
static void give_up(const char *what, int error) {
  atomic_store_explicit(&tc_profile_now, TC_PROFILE_OFF, memory_order_relaxed);
  tc_log_line(TC_LOG_WARN, "the profile ends: %s %s: %s", self.path, what, strerror(error));
  unmap_window();
  if (self.file >= 0 && self.at) (void)!ftruncate(self.file, (off_t)self.at);
  if (self.file >= 0) close(self.file);
  self.file = -1;
}

// A write beyond the limit would end the process by SIGXFSZ.
static int reserve(uint64_t from, uint64_t bytes) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && from + bytes > limit.rlim_cur)
    return EFBIG;
  return posix_fallocate(self.file, (off_t)from, (off_t)bytes);
}

// Maps the window that the next record begins in.
static bool move_window(void) {
  uint64_t from = self.at / PAGE_BYTES * PAGE_BYTES;
  unmap_window();
  int error = reserve(from, WINDOW_BYTES);
  if (error) return give_up("cannot grow", error), false;
  void *p = mmap(NULL, WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, self.file, (off_t)from);
  if (p == MAP_FAILED) return give_up("cannot be mapped", errno), false;
  (void)madvise(p, WINDOW_BYTES, MADV_DONTFORK);
  self.window = p, self.window_at = from;
  return true;
}

// A record longer than a window is written by the file's descriptor: its head comes last, too.
static bool write_long(uint32_t bytes, int n_parts, const tc_profile_part *part, const tc_prof_head *head) {
  uint64_t to = self.at + sizeof *head;
  unmap_window();
  int error = reserve(self.at, (uint64_t)bytes + 8);
  for (int i = 0; i < n_parts && !error; i++) {
    size_t skip = i ? 0 : sizeof *head;
    const char *from = (const char *)part[i].at + skip;
    for (size_t n = part[i].bytes - skip; n && !error;) {
      ssize_t done = pwrite(self.file, from, n, (off_t)to);
      if (done <= 0)
        error = done ? errno : ENOSPC;
      else
        from += done, to += (uint64_t)done, n -= (size_t)done;
    }
  }
  if (!error && pwrite(self.file, head, sizeof *head, (off_t)self.at) != sizeof *head) error = errno;
  if (error) return give_up("cannot grow", error), false;
  self.at += bytes;
  return true;
}

bool tc_profile_write(tc_prof_kind kind, size_t n, int n_parts, const tc_profile_part *part) {
  size_t bytes = 0;
  for (int i = 0; i < n_parts; i++) bytes += part[i].bytes;
  size_t padded = (bytes + 7) & ~(size_t)7;
  if (self.file < 0 || padded > TC_PROF_MAX_RECORD) return false;
  tc_prof_head head = {(uint32_t)padded, (uint16_t)kind, (uint16_t)TC_MIN(n, (size_t)UINT16_MAX)};
  if (padded > WINDOW_BYTES - PAGE_BYTES - sizeof head) return write_long((uint32_t)padded, n_parts, part, &head);
  bool fits = self.window && self.at + padded + sizeof head <= self.window_at + WINDOW_BYTES;
  if (!fits && !move_window()) return false;
  char *to = self.window + (self.at - self.window_at), *body = to;
  for (int i = 0; i < n_parts; i++) {
    size_t skip = i ? 0 : sizeof head;
    memcpy(body + skip, (const char *)part[i].at + skip, part[i].bytes - skip);
    body += part[i].bytes;
  }
  tc_prof_head *there = (tc_prof_head *)(void *)to;
  there->kind = head.kind, there->n = head.n;
  // release: who sees the bytes, as the kernel does at a kill, sees the record
  __atomic_store_n(&there->bytes, head.bytes, __ATOMIC_RELEASE);
  self.at += padded;
  return true;
}

// ---- texts ----

static bool grow_known(void) {
  uint32_t cap = self.cap_known ? 2 * self.cap_known : 256;
  known *more = tc_calloc(cap, sizeof *more);
  if (!more) return false;
  for (uint32_t i = 0; i < self.cap_known; i++) {
    const known *k = &self.known[i];
    if (!k->id) continue;
    uint64_t at = (k->key ^ k->kind) * UINT64_C(0x9E3779B97F4A7C15) >> 32;
    while (more[at & (cap - 1)].id) at++;
    more[at & (cap - 1)] = *k;
  }
  tc_free(self.known);
  self.known = more, self.cap_known = cap;
  return true;
}

// The row of a key, whose id is 0 if it is new. NULL: no memory.
static known *find_known(uint64_t key, uint64_t kind) {
  if (4 * self.n_known >= 3 * self.cap_known && !grow_known()) return NULL;
  uint64_t at = (key ^ kind) * UINT64_C(0x9E3779B97F4A7C15) >> 32;
  for (;; at++) {
    known *k = &self.known[at & (self.cap_known - 1)];
    if (!k->id) return *k = (known){key, kind, 0}, k;
    if (k->key == key && k->kind == kind) return k;
  }
}

static uint32_t keep_known(known *k, uint32_t id) {
  if (id) k->id = id, self.n_known++;
  return id;
}

// Cut behind a line, if it is long.
static uint32_t write_text(const char *text, size_t bytes) {
  static const char dots[] = "...";
  size_t kept = bytes;
  if (bytes > LONGEST_TEXT) {
    kept = LONGEST_TEXT;
    while (kept > 1 && text[kept - 1] != '\n') kept--;
  }
  size_t more = kept < bytes ? sizeof dots - 1 : 0;
  tc_prof_text r = {.id = self.n_texts + 1, .length = (uint32_t)(kept + more)};
  if (!tc_profile_write(TC_PROF_TEXT, 0, 3, (tc_profile_part[]){{&r, sizeof r}, {text, kept}, {dots, more}})) return 0;
  return ++self.n_texts;
}

uint32_t tc_profile_text(const char *text, size_t bytes) {
  if (!text || bytes == 0) return 0;
  tc_hash h = tc_hash_bytes(text, bytes);
  known *k = find_known(h.lo, h.hi | BY_CONTENT);
  return !k ? 0 : k->id ? k->id : keep_known(k, write_text(text, bytes));
}

uint32_t tc_profile_word(const char *word) {
  if (!word || !*word) return 0;
  const known *k = find_known((uint64_t)(uintptr_t)word, BY_WORD);
  if (!k || k->id) return k ? k->id : 0;
  uint32_t id = tc_profile_text(word, strlen(word));
  known *own = find_known((uint64_t)(uintptr_t)word, BY_WORD);  // the table may have moved
  return own ? keep_known(own, id) : id;
}

uint32_t tc_profile_site(tc_site site) {
  char text[PATH_MAX];
  if (site == 0) return 0;
  const known *k = find_known(site, BY_SITE);
  if (!k || k->id) return k ? k->id : 0;
  tc_site_text(site, text, sizeof text);
  uint32_t id = tc_profile_text(text, strlen(text));
  known *own = find_known(site, BY_SITE);
  return own ? keep_known(own, id) : id;
}

static void tell_module(const tc_profile_module *m) {
  tc_prof_module r = {.begin = m->begin, .end = m->end, .bias = m->bias};
  r.path = tc_profile_text(m->path, strlen(m->path));
  r.build_id = tc_profile_text(m->build_id, strlen(m->build_id));
  (void)tc_profile_write(TC_PROF_MODULE, 0, 1, &(tc_profile_part){&r, sizeof r});
}

uint32_t tc_profile_stack(void *const *address, int n) {
  if (n <= 0) return 0;
  size_t bytes = (size_t)n * sizeof *address;
  tc_hash h = tc_hash_bytes(address, bytes);
  uint64_t kind = (h.hi & ~(uint64_t)7) | BY_STACK;
  const known *k = find_known(h.lo, kind);
  if (!k || k->id) return k ? k->id : 0;
  tc_profile_modules_each_new(address, n, tell_module);
  tc_prof_stack r = {.id = self.n_stacks + 1};
  if (!tc_profile_write(TC_PROF_STACK, (size_t)n, 2, (tc_profile_part[]){{&r, sizeof r}, {address, bytes}})) return 0;
  self.n_stacks++;
  known *own = find_known(h.lo, kind);
  return own ? keep_known(own, r.id) : r.id;
}

// ---- opening ----

static uint32_t text_of_file(const char *path, const char *after) {
  char text[4096];
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = file < 0 ? 0 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  if (n <= 0) return 0;
  text[n] = 0;
  char *at = text, *end = text + n;
  if (after) {
    at = strstr(text, after);
    if (!at || !(at = strchr(at, ':'))) return 0;
    at += 1 + strspn(at + 1, " ");
    end = at + strcspn(at, "\n");
  } else {  // words with zeros between
    while (end > at && !end[-1]) end--;
    for (char *c = at; c < end; c++)
      if (!*c) *c = ' ';
  }
  return tc_profile_text(at, (size_t)(end - at));
}

static bool write_process(void) {
  char program[PATH_MAX], options[4096];
  struct timespec utc;
  ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  tc_options_text(options, sizeof options);
  tc_prof_process r = {.pid = (uint32_t)getpid(), .parent = (uint32_t)getppid()};
  // Texts come behind the record that names them, which is the file's first: their numbers are
  // known before they are written.
  uint64_t at = self.at;
  if (!tc_profile_write(TC_PROF_PROCESS, 0, 1, &(tc_profile_part){&r, sizeof r})) return false;
  tc_prof_process *there = (tc_prof_process *)(void *)(self.window + (at - self.window_at));
  clock_gettime(CLOCK_REALTIME, &utc);
  r.start_ns = tc_now_ns(), r.start_utc_ns = (uint64_t)utc.tv_sec * 1000000000u + (uint64_t)utc.tv_nsec;
  r.peak_flops = self.machine.peak_flops, r.peak_bytes = self.machine.peak_bytes, r.threads = self.machine.threads;
  r.program = tc_profile_text(program, n > 0 ? (size_t)n : 0);
  r.command = text_of_file("/proc/self/cmdline", NULL);
  r.cpu = text_of_file("/proc/cpuinfo", "model name");
  r.isa = tc_profile_word(self.machine.isa), r.library = tc_profile_word(tc_version_text());
  r.options = tc_profile_text(options, strlen(options)), r.device = tc_profile_word(self.machine.device);
  r.parent_file = tc_profile_text(self.parent_path, strlen(self.parent_path));
  if (self.file < 0 || self.window_at != 0) return false;
  r.head = there->head;
  memcpy(there, &r, sizeof r);
  return true;
}

// The name for this process in self.path: self.base with %p replaced by its number. Returns whether
// it was. self.base is shorter than a path may be by more than a number.
static bool expand_name(void) {
  const char *at = strstr(self.base, "%p");
  size_t n = at ? (size_t)(at - self.base) : strlen(self.base);
  memcpy(self.path, self.base, n);
  self.path[n] = 0;
  if (at) tc_text_append(self.path, sizeof self.path, "%d%s", (int)getpid(), at + 2);
  return at != NULL;
}

// When this process began, in nanoseconds of CLOCK_REALTIME; an exec does not change it. 0: not
// known.
static uint64_t process_began_ns(void) {
  char text[1024];
  struct timespec booted, now;
  unsigned long long ticks = 0;
  int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  ssize_t n = file < 0 ? 0 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  text[n > 0 ? n : 0] = 0;
  const char *at = strrchr(text, ')');  // of the second field, the program's name
  for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
  if (!at || sscanf(at, "%llu", &ticks) != 1) return 0;
  clock_gettime(CLOCK_BOOTTIME, &booted), clock_gettime(CLOCK_REALTIME, &now);
  double age = (double)booted.tv_sec + (double)booted.tv_nsec * 1e-9 - (double)ticks / (double)sysconf(_SC_CLK_TCK);
  return (uint64_t)(((double)now.tv_sec - age) * 1e9) + (uint64_t)now.tv_nsec;
}

// Whether the file is of a program that ran in this process and then executed this one.
static bool is_of_this_process(int file) {
  static const char magic[MAGIC_BYTES] = TC_PROF_MAGIC;
  struct {
    char magic[MAGIC_BYTES];
    tc_prof_process process;
  } is;
  if (pread(file, &is, sizeof is, 0) != (ssize_t)sizeof is || memcmp(is.magic, magic, sizeof magic) != 0) return false;
  uint64_t began = process_began_ns();
  // a second for clocks that are set
  return is.process.head.kind == TC_PROF_PROCESS && is.process.pid == (uint32_t)getpid() && began &&
         is.process.start_utc_ns + UINT64_C(1000000000) > began;
}

// Opens and owns a file. Returns -1: another process that lives owns it; -2: it cannot be. keep:
// -1 also where it is of an earlier program of this process.
static int open_owned(const char *path, bool keep) {
  struct stat s;
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
  if (file < 0) return -2;
  bool regular = fstat(file, &s) == 0 && S_ISREG(s.st_mode);
  if (!regular) return close(file), errno = EINVAL, -2;
  if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return close(file), -1;
  if (keep && is_of_this_process(file)) return close(file), errno = EEXIST, -1;
  if (ftruncate(file, 0) != 0) return close(file), -2;
  return file;
}

// Why a file could not be opened, in words. error 0: it was, but takes nothing.
static const char *why_not(int error) {
  return error == EINVAL ? "it is no regular file" : error ? strerror(error) : "it is full";
}

static void make_absolute(const char *path, char *out) {
  char here[PATH_MAX];
  if (path[0] == '/' || !getcwd(here, sizeof here) || strlen(here) + strlen(path) + 2 > PATH_MAX)
    strcpy(out, path);
  else
    snprintf(out, PATH_MAX, "%.2000s/%.2000s", here, path);
}

// Opens the first name that may be written. The first is as asked, or a child's parent's, which is
// left out. The second ends in this process's number. The others have 2, 3, .. behind it.
static int open_name(bool is_child, bool keep) {
  int file = -1;
  bool own = expand_name();
  size_t n_base = strlen(self.path);
  for (int n = is_child && !own; n < MOST_NAMES && file == -1; n++) {
    self.path[n_base] = 0;
    if (n > 0) tc_text_append(self.path, sizeof self.path, ".%d", (int)getpid());
    if (n > 1) tc_text_append(self.path, sizeof self.path, ".%d", n);
    file = open_owned(self.path, keep);
  }
  return file;
}

// pre: locked. Opens a file for self.base. keep: as in open_owned. error: what was in the way. 0:
// nothing.
static bool open_locked(bool is_child, bool keep, int *error) {
  static const char magic[MAGIC_BYTES] = TC_PROF_MAGIC;
  tc_free(self.known);
  self.known = NULL, self.n_known = self.cap_known = 0;
  self.n_texts = self.n_stacks = self.n_plans = self.n_syncs = self.n_lost = 0;
  self.unused = (tc_prof_unused){.n_values = 0};
  self.window = NULL, self.at = MAGIC_BYTES;
  tc_profile_modules_forget();
  self.file = open_name(is_child, keep);
  *error = self.file < 0 ? errno : 0;
  if (self.file < 0) return self.file = -1, false;
  atomic_fetch_add_explicit(&self.generation, 1, memory_order_relaxed);
  if (!move_window()) return *error = 0, false;
  memcpy(self.window, magic, sizeof magic);
  if (!write_process()) return false;
  atomic_store_explicit(&tc_profile_now, TC_PROFILE_ON, memory_order_relaxed);
  return true;
}

// pre: locked.
static void write_unused(void) {
  if (self.unused.n_values) {
    self.unused.site = tc_profile_site(self.unused_call.site), self.unused.op = tc_profile_word(self.unused_call.op);
    (void)tc_profile_write(TC_PROF_UNUSED, 0, 1, &(tc_profile_part){&self.unused, sizeof self.unused});
  }
  self.unused = (tc_prof_unused){.n_values = 0}, self.unused_call = (tc_call){NULL, 0};
}

static void close_locked(void) {
  if (self.file < 0) return;
  write_unused();
  tc_prof_end r = {.n_syncs = self.n_syncs, .n_lost = self.n_lost, .end_ns = tc_now_ns()};
  (void)tc_profile_write(TC_PROF_END, 0, 1, &(tc_profile_part){&r, sizeof r});
  unmap_window();
  if (self.file < 0) return;
  (void)!ftruncate(self.file, (off_t)self.at);
  close(self.file);
  self.file = -1;
}

bool tc_profile_is_due(void) {
  int now = atomic_load_explicit(&tc_profile_now, memory_order_relaxed);
  if (now == TC_PROFILE_UNREAD && !tc_options_profile_file())
    (void)atomic_compare_exchange_strong(&tc_profile_now, &now, TC_PROFILE_OFF);
  return now == TC_PROFILE_FORKED || (now == TC_PROFILE_UNREAD && tc_options_profile_file());
}

bool tc_profile_wake(const tc_profile_machine *machine) {
  int error = 0, now = atomic_load_explicit(&tc_profile_now, memory_order_relaxed);
  if (now == TC_PROFILE_ON || now == TC_PROFILE_OFF) return now == TC_PROFILE_ON;
  const char *name = tc_options_profile_file();
  pthread_mutex_lock(&self.lock);
  now = atomic_load_explicit(&tc_profile_now, memory_order_relaxed);
  self.machine = *machine;
  bool due = now == TC_PROFILE_FORKED || (now == TC_PROFILE_UNREAD && name && strlen(name) < PATH_MAX / 2);
  if (due && now == TC_PROFILE_UNREAD) make_absolute(name, self.base);
  bool on = due ? open_locked(now == TC_PROFILE_FORKED, now == TC_PROFILE_UNREAD, &error) : now == TC_PROFILE_ON;
  if (!on) atomic_store_explicit(&tc_profile_now, TC_PROFILE_OFF, memory_order_relaxed);
  if (error)
    tc_log_line(TC_LOG_WARN, "TC_PROFILE: %s cannot be written: %s; there is no profile", self.path, why_not(error));
  pthread_mutex_unlock(&self.lock);
  return on;
}

tc_status tc_profile_start_with(const char *file, const tc_profile_machine *machine) {
  int error = 0;
  if (!file || !*file || strlen(file) >= PATH_MAX / 2) return TC_FAIL(TC_ERR_ARG, "no file is named");
  (void)tc_profile_wake(machine);
  pthread_mutex_lock(&self.lock);
  bool busy = self.file >= 0, done = false;
  if (!busy) {
    make_absolute(file, self.base);
    self.parent_path[0] = 0, self.machine = *machine;  // no sync may have told it
    done = open_locked(false, false, &error);
  }
  pthread_mutex_unlock(&self.lock);
  if (busy) return TC_FAIL(TC_ERR_STATE, "a profile is being written to %s already", self.path);
  if (!done) return TC_FAIL(TC_ERR_IO, "%s cannot be written: %s", self.path, why_not(error));
  return TC_OK;
}

tc_status tc_profile_stop_now(void) {
  pthread_mutex_lock(&self.lock);
  bool open = self.file >= 0;
  atomic_store_explicit(&tc_profile_now, TC_PROFILE_OFF, memory_order_relaxed);
  close_locked();
  pthread_mutex_unlock(&self.lock);
  return open ? TC_OK : TC_FAIL(TC_ERR_STATE, "no profile is being written");
}

// ---- facts ----

bool tc_profile_begin(void) {
  pthread_mutex_lock(&self.lock);
  if (self.file >= 0) return true;
  pthread_mutex_unlock(&self.lock);
  return false;
}

void tc_profile_end(void) {
  pthread_mutex_unlock(&self.lock);
}

void tc_profile_unused(uint32_t sequence, uint64_t bytes, tc_call made) {
  if (!tc_profile_is_on() || !tc_profile_begin()) return;
  if (self.unused.sequence != sequence) write_unused();
  self.unused.sequence = sequence, self.unused.n_values++, self.unused.bytes += bytes;
  if (made.op && bytes >= self.unused.largest_bytes) self.unused.largest_bytes = bytes, self.unused_call = made;
  tc_profile_end();
}

uint32_t tc_profile_generation(void) {
  return atomic_load_explicit(&self.generation, memory_order_relaxed);
}

uint32_t tc_profile_new_plan(void) {
  return ++self.n_plans;
}

void tc_profile_count(bool written) {
  *(written ? &self.n_syncs : &self.n_lost) += 1;
}

uint32_t tc_profile_next_sequence(void) {
  return atomic_fetch_add_explicit(&self.sequence, 1, memory_order_relaxed) + 1;
}

uint32_t tc_profile_thread(void) {
  static _Thread_local struct {
    uint32_t of, generation;
  } thread;
  uint32_t generation = tc_profile_generation();
  if (thread.generation != generation) thread.of = (uint32_t)syscall(SYS_gettid), thread.generation = generation;
  return thread.of;
}

// ---- fork and exit ----

// The window is not mapped here (MADV_DONTFORK). The descriptor is closed, since it would keep the
// parent's lock when the parent has ended.
static void forget_in_child(void) {
  if (self.file < 0) return;
  close(self.file);
  self.file = -1, self.window = NULL;
  atomic_store_explicit(&self.sequence, 0, memory_order_relaxed);
  memcpy(self.parent_path, self.path, sizeof self.parent_path);
  atomic_store_explicit(&tc_profile_now, TC_PROFILE_FORKED, memory_order_relaxed);
}

static void watch_forks(void) __attribute__((constructor));
static void watch_forks(void) {
  pthread_atfork(NULL, NULL, forget_in_child);
}

static void close_at_exit(void) __attribute__((destructor));
static void close_at_exit(void) {
  if (tc_inside || self.file < 0) return;
  (void)tc_profile_stop_now();
}
