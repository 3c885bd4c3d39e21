// One run of a trace in a child process. See attempt.h.
#include "tools/minify/attempt.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/device.h"
#include "runtime/options.h"
#include "tools/minify/reference.h"

// ---- children ----

// A sanitizer's handlers of signals would end the child with a status of their own.
static void reset_signals(void) {
  static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM};
  for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) signal(crashes[i], SIG_DFL);
}

static struct timeval time_of(double seconds) {
  long whole = (long)seconds;
  return (struct timeval){whole, (long)((seconds - (double)whole) * 1e6) + 1};
}

static void run_child(const tc_judge *j, tc_child_fn *fn, void *arg, tc_outcome *out) {
  const char *const *set = j->way ? j->way->set : NULL;
  int nowhere = open("/dev/null", O_RDWR);
  struct rlimit no_core = {0, 0};
  dup2(nowhere, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  setrlimit(RLIMIT_CORE, &no_core);
  reset_signals();
  setitimer(ITIMER_REAL, &(struct itimerval){.it_value = time_of(j->seconds)}, NULL);
  for (; set && *set; set += 2) setenv(set[0], set[1], 1);
  if (j->verify) setenv("TC_VERIFY", "1", 1);
  unsetenv("TC_LOG");
  unsetenv("TC_PROFILE");
  tc_options_reload();
  fn(arg, out);
  _exit(0);
}

tc_outcome tc_in_child(const tc_judge *j, tc_child_fn *fn, void *arg) {
  tc_outcome o = {.failure = TC_FAILS_UNKNOWN};
  tc_outcome *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return snprintf(o.text, sizeof o.text, "no memory for a child"), o;
  *shared = o;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) run_child(j, fn, arg, shared);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child)
    snprintf(shared->text, sizeof shared->text, "no child could be started");
  else if (WIFSIGNALED(status))
    shared->failure = WTERMSIG(status) == SIGALRM ? TC_FAILS_HANG : TC_FAILS_CRASH, shared->signal = WTERMSIG(status);
  else if (WEXITSTATUS(status) != 0)
    snprintf(shared->text, sizeof shared->text, "the attempt ended with exit status %d", WEXITSTATUS(status));
  o = *shared;
  munmap(shared, sizeof *shared);
  o.text[sizeof o.text - 1] = 0;
  return o;
}

// ---- one run ----

static void take_error(tc_outcome *o, tc_failure failure, tc_status st) {
  const tc_error *e = tc_last_error();
  o->failure = failure, o->status = st;
  snprintf(o->text, sizeof o->text, "%s", e->message);
}

static bool is_result(const tc_text_node *k) {
  return k->op != TC_OP_LEAF &&
         (k->flag & TC_NODE_LIVE ? k->flag & (TC_NODE_ASKED | TC_NODE_KEEP) : k->flag & TC_NODE_ASKED);
}

typedef struct expected {
  tc_arena arena;
  void **value;
  tc_allowance allow;
  bool allowed;  // allow is there: made once something differs
} expected;

// Whether a result differs from the reference's; what the outcome says then.
static tc_status compare_result(const tc_judge *j, const tc_text *x, uint32_t n, const void *got, expected *e,
                                tc_outcome *o) {
  const tc_text_node *k = &x->node[n];
  int64_t count = tc_dims_count(&k->dims);
  if (memcmp(got, e->value[n], (size_t)count * tc_type_bytes(k->type)) == 0) return TC_OK;
  if (!e->allowed) TC_TRY(tc_reference_allow(x, e->value, j->tolerance, &e->arena, &e->allow));
  e->allowed = true;
  tc_difference d = tc_reference_compare(k->type, count, got, e->value[n], e->allow.of[n]);
  if (d.at < 0) return TC_OK;
  o->failure = TC_FAILS_WRONG, o->node = n, o->element = d.at;
  o->got = d.got, o->want = d.want, o->allowed = d.allowed;
  return TC_OK;
}

static void judge_results(const tc_judge *j, const tc_text *x, const tc_tensor *out, tc_outcome *o) {
  expected e = {.value = NULL};
  tc_status st = (e.value = tc_arena_alloc(&e.arena, (x->n + 1) * sizeof *e.value))
                     ? tc_reference_trace(x, &e.arena, e.value)
                     : TC_ERR_MEMORY;
  o->failure = TC_FAILS_NOT;
  for (uint32_t n = 0; n < x->n && st == TC_OK && o->failure == TC_FAILS_NOT; n++) {
    if (!out[n].gen || !is_result(&x->node[n])) continue;
    const void *got = tc_map(out[n]);
    if (!got) return take_error(o, TC_FAILS_ERROR, tc_last_error()->status);
    st = compare_result(j, x, n, got, &e, o);
    (void)tc_unmap(out[n]);
  }
  if (st != TC_OK) take_error(o, TC_FAILS_UNKNOWN, st);
  tc_arena_fini(&e.arena);
}

typedef struct attempt {
  const tc_judge *j;
  const tc_text *x;
} attempt;

static void run_attempt(void *arg, tc_outcome *o) {
  const attempt *a = arg;
  const tc_text *x = a->x;
  tc_plan *plan;
  tc_sync_point point = {0};
  tc_tensor *out = calloc(x->n + 1, sizeof *out);
  if (!out) return;
  tc_status st = tc_text_plan(x, &plan);
  if (st != TC_OK) return take_error(o, TC_FAILS_UNFIT, st);
  tc_plan_release(plan);
  st = tc_text_run(x, out);
  if (st != TC_OK) return take_error(o, TC_FAILS_ERROR, st);
  o->failure = TC_FAILS_NOT;
  if (!a->j->verify) return judge_results(a->j, x, out, o);
  if (tc_sync_points(1, &point) == 1 && point.n_wrong) o->failure = TC_FAILS_VERIFY, o->node = point.n_wrong;
}

// ---- a command ----

static tc_outcome ask_command(const tc_judge *j, const tc_text *x) {
  char path[] = "/tmp/tc-run-XXXXXX", *line = NULL;
  tc_outcome o = {.failure = TC_FAILS_UNKNOWN};
  int fd = mkstemp(path), status = -1;
  FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
  if (out) {
    tc_text_write(out, x);
    if (fclose(out) == 0 && asprintf(&line, "%s %s >/dev/null 2>&1 </dev/null", j->check, path) > 0)
      status = system(line);
    unlink(path);
  }
  free(line);
  if (status == -1)
    snprintf(o.text, sizeof o.text, "the command could not be run");
  else
    o.failure = WIFEXITED(status) && WEXITSTATUS(status) == 0 ? TC_FAILS_CHECK : TC_FAILS_NOT;
  return o;
}

tc_outcome tc_attempt(tc_judge *j, const tc_text *x) {
  attempt a = {j, x};
  j->n_attempts++;
  return j->check ? ask_command(j, x) : tc_in_child(j, run_attempt, &a);
}

// ---- each record alone ----

// An assigned value's second operand is a leaf, too.
bool tc_attempt_cut(const tc_text *x, uint32_t n, void *const *value, tc_text *out) {
  const tc_text_node *k = &x->node[n];
  uint32_t n_in = (uint32_t)k->n_in, *in;
  *out = (tc_text){.title = x->title, .n = n_in + 1};
  out->node = tc_arena_alloc(&out->arena, (n_in + 1) * sizeof *out->node);
  in = tc_arena_alloc(&out->arena, (n_in + 1) * sizeof *in);
  if (!out->node || !in) return false;
  for (uint32_t i = 0; i < n_in; i++) {
    const tc_text_node *from = &x->node[k->in[i]];
    in[i] = i;
    out->node[i] = (tc_text_node){
        .op = TC_OP_LEAF, .type = from->type, .dev = from->dev, .dims = from->dims, .data = value[k->in[i]]};
    // An attention's length is a number that an argument gives.
    if (from->op == TC_OP_FULL) out->node[i] = *from, out->node[i].flag = 0;
  }
  out->node[n_in] = *k;
  out->node[n_in].in = in;
  out->node[n_in].flag = TC_NODE_LIVE | TC_NODE_ASKED;
  return true;
}

static void run_each(void *arg, tc_outcome *o) {
  const attempt *a = arg;
  const tc_text *x = a->x;
  tc_arena arena = {0};
  void **value = tc_arena_alloc(&arena, (x->n + 1) * sizeof *value);
  tc_status st = value ? tc_reference_trace(x, &arena, value) : TC_ERR_MEMORY;
  if (st != TC_OK) return take_error(o, TC_FAILS_UNKNOWN, st);
  for (uint32_t n = 0; n < x->n; n++) {
    tc_text one;
    tc_tensor out[TC_MAX_OF(512, 1) + 1];
    o->node = n;
    if (x->node[n].op == TC_OP_LEAF || !tc_attempt_cut(x, n, value, &one)) continue;
    tc_outcome now = {.failure = TC_FAILS_NOT};
    st = tc_text_run(&one, out);
    if (st != TC_OK)
      take_error(&now, TC_FAILS_ERROR, st);
    else
      judge_results(a->j, &one, out, &now);
    for (uint32_t i = 0; i < one.n && st == TC_OK; i++) tc_release(out[i]);
    tc_text_fini(&one);
    now.node = n;
    if (now.failure == TC_FAILS_WRONG || now.failure == TC_FAILS_ERROR) {
      *o = now;
      return;
    }
  }
  o->failure = TC_FAILS_NOT;
}

tc_outcome tc_attempt_each(tc_judge *j, const tc_text *x) {
  attempt a = {j, x};
  return tc_in_child(j, run_each, &a);
}

// ---- outcomes ----

bool tc_outcome_is_same(const tc_outcome *a, const tc_outcome *b) {
  if (a->failure != b->failure) return false;
  return a->failure == TC_FAILS_ERROR ? a->status == b->status : a->failure != TC_FAILS_CRASH || a->signal == b->signal;
}

void tc_outcome_print(FILE *out, const tc_text *x, const tc_outcome *o) {
  char dims[128];
  const tc_text_node *k = o->node < x->n ? &x->node[o->node] : NULL;
  switch (o->failure) {
    case TC_FAILS_NOT: fputs("does not fail", out); break;
    case TC_FAILS_WRONG:
      fprintf(out, "%%%u = %s %s%s is %g at element %lld, not %g within %.2g", o->node, k ? tc_op_names[k->op] : "",
              k ? tc_type_name(k->type) : "", k ? tc_dims_text(&k->dims, dims, sizeof dims) : "", o->got,
              (long long)o->element, o->want, o->allowed);
      break;
    case TC_FAILS_VERIFY: fprintf(out, "TC_VERIFY reports %u results", o->node); break;
    case TC_FAILS_ERROR: fprintf(out, "fails: %s", o->text); break;
    case TC_FAILS_CRASH: fprintf(out, "crashes: %s", strsignal(o->signal)); break;
    case TC_FAILS_HANG: fputs("does not end", out); break;
    case TC_FAILS_CHECK: fputs("fails as the command says", out); break;
    case TC_FAILS_UNFIT: fprintf(out, "cannot be recorded: %s", o->text); break;
    case TC_FAILS_UNKNOWN: fprintf(out, "cannot be judged: %s", o->text); break;
  }
}
