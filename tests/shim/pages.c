// What programs do to pages of blocks whose contents wait, by themselves or by another thread: mapping, unmapping,
// advice; sizes that no memory has; limits on memory; waits in which a thread is cancelled; children that share memory;
// a main thread that ends first. tests/shim/defer.py runs each case with the shim and without.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // mremap
#endif
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/shim/defer.h"

enum { PAGE = 4096, PER_PAGE = PAGE / sizeof(double) };
extern char **environ;

// A result that waits, in pages of its own.
static double *pending_pages(double first) {
  double *p = aligned_alloc(PAGE, BYTES);
  assert(p);
  for (int i = 0; i < SIZE; i++) p[i] = first + i % 7;
  __asm__ volatile("" : "+r"(p)::"memory");
  dscal_(&size, &(const double){2}, p, &one);
  return p;
}

static void in_thread(void *(*work)(void *), void *argument) {
  pthread_t t;
  assert(pthread_create(&t, NULL, work, argument) == 0 && pthread_join(t, NULL) == 0);
}

// ---- Sizes ----

static void case_sizes(void) {
  void *p;
  volatile size_t most = SIZE_MAX, half = PTRDIFF_MAX;
  assert(!pvalloc(most) && errno == ENOMEM && !pvalloc(most - 4000) && !valloc(most - 4000));
  assert(!malloc(most) && !malloc(half) && !calloc(most, 2) && !aligned_alloc(64, most - 100));
  assert(posix_memalign(&p, 64, most - 100) == ENOMEM);
  p = calloc(1, 1 << 20);
  assert(!realloc(p, most - 5) && !reallocarray(p, half, 3) && *(char *)p == 0);
  free(p);
  for (size_t align = 16; align <= 16 << 20; align *= 2) {
    p = memalign(align, 1 << 20);
    assert(p && (uintptr_t)p % align == 0 && malloc_usable_size(p) >= 1 << 20);
    free(p);
  }
  p = memset(malloc(1000), 5, 1000);
  for (size_t bytes = 4 << 20; bytes; bytes /= 3) {
    p = realloc(p, bytes);
    assert(p && *(char *)p == 5);
  }
  free(p);
}

// ---- Pages ----

static double *shared;

static void *map_file(void *file) {
  assert(pwrite((int)(intptr_t)file, shared + PER_PAGE, PAGE, 0) == PAGE);
  assert(mmap(shared + PER_PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, (int)(intptr_t)file, 0) !=
         MAP_FAILED);
  return NULL;
}

// A page of a block is a file's from now on: what BLAS writes there is in the file.
static void case_mapped(void) {
  int file = memfd_create("page", 0);
  assert(file >= 0 && ftruncate(file, PAGE) == 0);
  shared = pending_pages(1);
  in_thread(map_file, (void *)(intptr_t)file);
  check_doubled(shared, 1);
  for (int i = 0; i < 2; i++) dscal_(&size, &(const double){2}, shared, &one);
  double *seen = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
  for (int i = 0; i < PER_PAGE; i++) assert(seen[i] == 8 * (1 + (PER_PAGE + i) % 7) && shared[PER_PAGE + i] == seen[i]);
  shared[PER_PAGE] = 99;
  assert(seen[0] == 99);
  free(shared);
}

static void *empty_pages(void *unused) {
  assert(madvise(shared, 10 * PAGE, MADV_DONTNEED) == 0);
  return unused;
}

static void *replace_pages(void *unused) {
  assert(munmap(shared + PER_PAGE, 10 * PAGE) == 0);
  assert(mmap(shared + PER_PAGE, 10 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
         MAP_FAILED);
  shared[PER_PAGE + 1] = 8;
  return unused;
}

static void *move_pages(void *out) {
  void *to = mmap(NULL, 10 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *(double **)out = mremap(shared, 10 * PAGE, 10 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
  return NULL;
}

static void case_changed(void) {
  shared = pending_pages(1);
  in_thread(empty_pages, NULL);
  for (int i = 0; i < 20 * PER_PAGE; i++) assert(shared[i] == (i < 10 * PER_PAGE ? 0 : 2. * (1 + i % 7)));
  free(shared);
  shared = pending_pages(1);
  in_thread(replace_pages, NULL);
  dscal_(&size, &(const double){2}, shared, &one);
  for (int i = 0; i < 10 * PER_PAGE; i++) assert(shared[PER_PAGE + i] == (i == 1 ? 16 : 0));
  assert(shared[3] == 16 && shared[11 * PER_PAGE] == 4. * (1 + 11 * PER_PAGE % 7));
  free(shared);
  double *moved;
  shared = pending_pages(1);
  in_thread(move_pages, &moved);
  for (int i = 0; i < 20 * PER_PAGE; i++) assert((i < 10 * PER_PAGE ? moved : shared)[i] == 2. * (1 + i % 7));
}

// ---- System calls ----

static int ends[2], sockets[2], file;

typedef struct transfer {
  int way;
  double *from, *to;
} transfer;

// From one place to the other; the last two only by the thread whose results wait.
enum { BYTES_MOVED = 32, WAYS_OF_ANY = 8, WAYS = 10 };

static void finish(const struct aiocb *request) {
  while (aio_error(request) == EINPROGRESS) usleep(100);
  assert(aio_return((struct aiocb *)(uintptr_t)request) == BYTES_MOVED);
}

static void *move(void *argument) {
  const transfer *t = argument;
  struct iovec from = {t->from, BYTES_MOVED}, to = {t->to, BYTES_MOVED};
  struct msghdr out = {.msg_iov = &from, .msg_iovlen = 1}, in = {.msg_iov = &to, .msg_iovlen = 1};
  struct aiocb write_it = {.aio_fildes = file, .aio_buf = t->from, .aio_nbytes = BYTES_MOVED};
  struct aiocb read_it = {.aio_fildes = file, .aio_buf = t->to, .aio_nbytes = BYTES_MOVED, .aio_lio_opcode = LIO_READ};
  struct aiocb *list[] = {NULL, &read_it};
  const ssize_t n = BYTES_MOVED;
  switch (t->way) {
    case 0: assert(writev(ends[1], &from, 1) == n && readv(ends[0], &to, 1) == n); break;
    case 1: assert(sendto(sockets[0], t->from, (size_t)n, 0, NULL, 0) == n && recvmsg(sockets[1], &in, 0) == n); break;
    case 2:
      assert(sendmsg(sockets[0], &out, 0) == n && recvfrom(sockets[1], t->to, (size_t)n, 0, NULL, NULL) == n);
      break;
    case 3: assert(pwritev(file, &from, 1, 0) == n && preadv(file, &to, 1, 0) == n); break;
    case 4: assert(pwritev2(file, &from, 1, 0, 0) == n && preadv2(file, &to, 1, 0, 0) == n); break;
    case 5: assert(send(sockets[0], t->from, (size_t)n, 0) == n && recv(sockets[1], t->to, (size_t)n, 0) == n); break;
    case 6:
      assert(aio_write(&write_it) == 0);
      finish(&write_it);
      assert(aio_read(&read_it) == 0);
      finish(&read_it);
      break;
    case 7: assert(pwrite(file, t->from, (size_t)n, 0) == n && lio_listio(LIO_WAIT, list, 2, NULL) == 0); break;
    case 8: assert(process_vm_readv(getpid(), &to, 1, &from, 1, 0) == n); break;
    case 9: assert(vmsplice(ends[1], &from, 1, 0) == n && read(ends[0], t->to, (size_t)n) == n); break;
  }
  return NULL;
}

static void case_calls(void) {
  file = memfd_create("file", 0);
  assert(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
  for (int i = 0; i < WAYS + WAYS_OF_ANY; i++) {
    transfer t = {i < WAYS ? i : i - WAYS, pending(1), pending(5)};
    if (i < WAYS)
      move(&t);
    else
      in_thread(move, &t);
    for (int k = 0; k < 8; k++) assert(t.to[k] == 2 * ((k < 4 ? 1 : 5) + k % 7));
    check_doubled(t.from, 1);
    free(t.from);
    free(t.to);
  }
}

// ---- Threads and children ----

static int never[2];
static sem_t closed;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static volatile int waits, n_cleaned;

static void count_cleaned(void *p) {
  check_doubled(p, 1);
  n_cleaned++;
}

static void unlock_mutex(void *m) {
  pthread_mutex_unlock(m);
}

static void *wait_cancelled(void *how) {
  double *p = pending(1);
  pthread_cleanup_push(count_cleaned, p);
  waits = 1;
  switch ((int)(intptr_t)how) {
    case 0: (void)!read(never[0], &(char){0}, 1); break;
    case 1: sem_wait(&closed); break;
    case 2:
      pthread_mutex_lock(&mutex);
      pthread_cleanup_push(unlock_mutex, &mutex);
      pthread_cond_wait(&condition, &mutex);
      pthread_cleanup_pop(1);
      break;
    case 3: sleep(50); break;
    case 4: pause(); break;
    case 5:
      pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
      while (waits) continue;
  }
  pthread_cleanup_pop(0);
  return NULL;
}

static void case_waits(void) {
  assert(pipe(never) == 0 && sem_init(&closed, 0, 0) == 0);
  for (int i = 0; i < 18; i++) {
    pthread_t t;
    void *result;
    waits = 0;
    assert(pthread_create(&t, NULL, wait_cancelled, (void *)(intptr_t)(i % 6)) == 0);
    while (!waits) sched_yield();
    usleep(1000);
    assert(pthread_cancel(t) == 0 && pthread_join(t, &result) == 0 && result == PTHREAD_CANCELED && n_cleaned == i + 1);
    double *p = pending(2);
    check_doubled(p, 2);
    free(p);
  }
}

static int scale_again(void *p) {
  check_doubled(p, 1);
  dscal_(&size, &(const double){2}, p, &one);
  return ((double *)p)[1] == 8 ? 7 : 1;
}

static int look(void *p) {
  return ((double *)p)[1] == 4 ? 7 : 1;
}

__attribute__((noinline)) static pid_t execute(char **words) {
  pid_t child = vfork();
  if (child == 0) {
    execv("/bin/sh", words);
    _exit(1);
  }
  return child;
}

// What children run or look at waits by then.
static void case_children(void) {
  static char stack[1 << 20];
  for (int way = 0; way < 6; way++) {
    double *p = pending(1);
    char *word = strcpy((char *)pending(3), "exit 7"), *words[] = {"sh", "-c", word, NULL};
    pid_t child = 0;
    int status = 0;
    switch (way) {
      case 0: child = execute(words); break;
      case 1: assert(posix_spawn(&child, "/bin/sh", NULL, NULL, words, environ) == 0); break;
      case 2: status = system(word); break;
      case 3: status = pclose(popen(word, "r")); break;
      case 4: child = clone(scale_again, stack + sizeof stack, SIGCHLD, p); break;
      case 5: child = clone(look, stack + sizeof stack, SIGCHLD | CLONE_VM, p); break;
    }
    assert((!child || waitpid(child, &status, 0) == child) && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    check_doubled(p, 1);
    free(p);
    free(word);
  }
}

static void *work_last(void *unused) {
  usleep(20000);
  for (int i = 0; i < 3; i++) {
    double *a = take(1), *c = pending(2);
    dgemm_("N", "N", &n, &n, &n, &(const double){1}, a, &n, a, &n, &(const double){0}, c, &n);
    assert(c[0] > 0);
  }
  return unused;
}

// The process ends with its last thread: none of the shim's is one.
static void case_last(void) {
  pthread_t t;
  work_last(NULL);
  shared = pending(1);
  assert(pthread_create(&t, NULL, work_last, NULL) == 0);
  pthread_exit(NULL);
}

// As much memory as there is now, and no more.
static void case_limit(void) {
  double *p[3] = {take(1), take(1), take(1)}, *c = take(0);
  dgemm_("N", "N", &n, &n, &n, &(const double){1}, p[0], &n, p[1], &n, &(const double){0}, c, &n);
  dscal_(&size, &(const double){2}, p[0], &one);
  check_doubled(p[0], 1);
  struct rlimit limit = {0, RLIM_INFINITY};
  FILE *f = fopen("/proc/self/statm", "r");
  assert(f && fscanf(f, "%lu", &limit.rlim_cur) == 1 && fclose(f) == 0);
  limit.rlim_cur *= PAGE;
  dscal_(&size, &(const double){2}, p[1], &one);
  assert(setrlimit(RLIMIT_AS, &limit) == 0);
  dscal_(&size, &(const double){2}, p[2], &one);
  daxpy_(&size, &(const double){2}, p[1], &one, p[2], &one);
  dgemm_("N", "N", &n, &n, &n, &(const double){1}, p[0], &n, p[2], &n, &(const double){0}, c, &n);
  check_doubled(p[1], 1);
  for (int i = 0; i < SIZE; i++) assert(p[2][i] == 6 * (1 + i % 7) && c[i] > 1);
  limit.rlim_cur = RLIM_INFINITY;  // for the profile
  assert(setrlimit(RLIMIT_AS, &limit) == 0);
}

static const test_case cases[] = {
    CASE(sizes), CASE(mapped), CASE(changed), CASE(calls), CASE(waits), CASE(children), CASE(last), CASE(limit),
};

int main(int argc, char **argv) {
  alarm(60);  // nothing hangs
  return run_case(cases, sizeof cases / sizeof *cases, argc, argv);
}
