// Matrix products by a vendor's library: opening it, its algorithms, and products that sequences launch.
//
// A product is what the library is told of it, made once, and the algorithm. The library's own results are told from the driver's by their numbers (driver.h),
// so that both become statuses in one place. Threads: thread-safe; the library is called under the device's lock.
#include <stdlib.h>
#include <string.h>

#include "device/gpu/state.h"
#include "runtime/arena.h"

// ---- the library ----

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;  // of a library, which several devices have; taken after a device's

// pre: begun.
static void open_products(tc_gpu *g) {
  const tc_gpu_driver *d = g->driver;
  const char *name;
  g->products = TC_GPU_NONE;
  pthread_mutex_lock(&opening);
  bool ready = d->products_ready && d->products_ready(&g->facts, g->products_why, sizeof g->products_why);
  pthread_mutex_unlock(&opening);
  if (!d->products_ready) {
    snprintf(g->products_why, sizeof g->products_why, "no library of products is used with %s", d->name);
  } else if (ready) {
    int result = d->products_open(&g->port);
    if (result == 0) {
      g->products = TC_GPU_THERE;
    } else {
      (void)d->judge(result, &name);
      snprintf(g->products_why, sizeof g->products_why, "%s does not start on %s: %s", d->products_name(), tc_device_name(g->device), name);
    }
  }
}

const char *tc_gpu_products_absent(tc_gpu *g) {
  bool clean = tc_last_error()->status == TC_OK;
  if (tc_gpu_begin(g, "opening a library of products") != TC_OK) {
    if (clean) tc_clear_error();
    return "the device is lost, shut down or the parent's";
  }
  if (g->products == TC_GPU_UNTRIED) open_products(g);
  bool there = g->products == TC_GPU_THERE;
  tc_gpu_end(g);
  return there ? NULL : g->products_why;
}

const char *tc_gpu_products_name(const tc_gpu *g) {
  return g->driver->products_name();
}

// ---- products ----

// Whether f is said in full: which rows there are, and how long, is the caller's to know.
static tc_status facts_check(const tc_gpu_product_facts *f) {
  bool typed = f->type == TC_F32 || f->type == TC_F16 || f->type == TC_BF16;
  int64_t left = f->left.turned ? f->m : f->k, right = f->right.turned ? f->k : f->n;
  if (!typed || f->batch < 1 || f->batch > INT32_MAX || f->m < 1 || f->n < 1 || f->k < 1 || f->left.row < left || f->right.row < right ||
      f->left.batch < 0 || f->right.batch < 0 || f->alignment < tc_type_bytes(f->type) || (f->alignment & (f->alignment - 1)))
    return TC_FAIL(TC_ERR_ARG, "a product of %lld x %lld x %lld by a library is said wrongly", (long long)f->m, (long long)f->n, (long long)f->k);
  return TC_OK;
}

// pre: begun.
static tc_status library_there(tc_gpu *g) {
  if (g->products == TC_GPU_UNTRIED) open_products(g);
  return g->products == TC_GPU_THERE ? TC_OK : TC_FAIL(TC_ERR_DEVICE, "%s", g->products_why);
}

tc_status tc_gpu_product_find(tc_gpu *g, const tc_gpu_product_facts *f, tc_gpu_algorithm *out, int most, int *n) {
  void *made = NULL;
  *n = 0;
  TC_TRY(facts_check(f));
  TC_TRY(tc_gpu_begin(g, "asking for a product's algorithms"));
  tc_status st = library_there(g);
  if (st == TC_OK) st = tc_gpu_check(g, g->driver->product_make(&g->port, f, &made), "describing a product to its library");
  if (st == TC_OK) st = tc_gpu_check(g, g->driver->product_find(&g->port, made, out, most, n), "asking for a product's algorithms");
  if (made) g->driver->product_drop(made);
  tc_gpu_end(g);
  return st;
}

static void name(tc_gpu_product *p) {
  const tc_gpu_product_facts *f = &p->facts;
  int n = snprintf(p->name, sizeof p->name, "library_%s_%lldx%lldx%lld", tc_type_name(f->type), (long long)f->m, (long long)f->n, (long long)f->k);
  if (f->batch > 1 && n < (int)sizeof p->name) snprintf(p->name + n, sizeof p->name - (size_t)n, "_by%lld", (long long)f->batch);
}

tc_status tc_gpu_product_create(tc_gpu *g, const tc_gpu_product_facts *f, const tc_gpu_algorithm *a, tc_gpu_product **out) {
  *out = NULL;
  TC_TRY(facts_check(f));
  tc_gpu_product *p = tc_calloc(1, sizeof *p);
  if (!p) return TC_FAIL(TC_ERR_MEMORY, "no memory for a product");
  *p = (tc_gpu_product){.refs = 1, .g = g, .facts = *f, .algorithm = *a};
  name(p);
  tc_status st = tc_gpu_begin(g, "making a product");
  if (st == TC_OK) {
    p->opened = g->opened;
    st = library_there(g);
    if (st == TC_OK) st = tc_gpu_check(g, g->driver->product_make(&g->port, f, &p->made), "describing a product to its library");
    if (st == TC_OK) st = tc_gpu_check(g, g->driver->product_check(&g->port, p->made, &p->algorithm), "asking for a product by an algorithm");
    tc_gpu_end(g);
  }
  if (st != TC_OK) return tc_gpu_product_release(p), st;
  *out = p;
  return TC_OK;
}

void tc_gpu_product_retain(tc_gpu_product *p) {
  atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
}

// What the library was told is memory of the host alone: the device need not be there any more.
void tc_gpu_product_release(tc_gpu_product *p) {
  if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1) return;
  if (p->made) p->g->driver->product_drop(p->made);
  tc_free(p);
}

size_t tc_gpu_product_workspace(const tc_gpu_product *p) {
  return p->algorithm.workspace_bytes;
}
