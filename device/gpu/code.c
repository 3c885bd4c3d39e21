// Kernels: source is compiled once, kept on disk under all that the result depends on, and loaded.
// Threads: thread-safe; compiling takes no lock.
#include <inttypes.h>
#include <string.h>

#include "device/gpu/state.h"
#include "runtime/arena.h"
#include "runtime/hash.h"
#include "runtime/log.h"
#include "runtime/disk.h"

static tc_disk kept = TC_DISK("gpu");

// Returns all that an image depends on, as text, to be freed; NULL: there is no memory.
static char *key_of(const tc_gpu *g, const char *name, const char *source, size_t *bytes) {
  const tc_gpu_driver *d = g->driver;
  tc_hash words = tc_hash_bytes(d->words, strlen(d->words));
  char head[512];
  int n = snprintf(head, sizeof head, "%s\n%s\n%s\n%s\nwords %016" PRIx64 "%016" PRIx64 "\n%s\n", d->name,
                   d->compiler(), d->options, g->facts.arch, words.hi, words.lo, name);
  if (n < 0 || n >= (int)sizeof head) return NULL;
  *bytes = (size_t)n + strlen(source);
  char *key = tc_malloc(*bytes + 1);
  if (key) memcpy(key, head, (size_t)n), strcpy(key + n, source);
  return key;
}

// Runs without the device's lock, so that threads compile beside each other. afresh: the disk is
// not read.
static tc_status image_of(tc_gpu *g, const char *name, const char *source, bool afresh, tc_gpu_image *out,
                          bool *from_disk) {
  size_t key_bytes = 0;
  char *key = key_of(g, name, source, &key_bytes);
  *from_disk = key && !afresh && (out->data = tc_disk_find(&kept, key, key_bytes, &out->bytes)) != NULL;
  tc_status st = TC_OK;
  if (!*from_disk) {
    uint64_t began = tc_now_ns();
    st = g->driver->compile(g->facts.arch, name, source, out);
    if (st == TC_OK) {
      tc_log_line(TC_LOG_KERNEL, "%s: %s compiled for %s in %.1f ms, %zu bytes", tc_device_name(g->device), name,
                  g->facts.arch, (double)(tc_now_ns() - began) * 1e-6, out->bytes);
      if (key) tc_disk_keep(&kept, key, key_bytes, out->data, out->bytes);
    }
  }
  tc_free(key);
  return st;
}

// *useless: the image is whole, but the driver refuses it. useless NULL: that is an error, too.
static tc_status load_image(tc_gpu *g, const tc_gpu_image *image, const char *name, tc_gpu_code *c, bool *useless) {
  const char *result_name;
  TC_TRY(tc_gpu_begin(g, "loading a kernel"));
  int result = tc_gpu_port_load(&g->port, image, name, &c->loaded);
  tc_status st = TC_OK;
  if (tc_gpu_is_out_of_memory(g, result) && (st = tc_gpu_reclaim_for(g)) == TC_OK)
    result = tc_gpu_port_load(&g->port, image, name, &c->loaded);
  c->opened = g->opened;
  if (useless) *useless = st == TC_OK && g->driver->judge(result, &result_name) == TC_GPU_REFUSED;
  if (st == TC_OK && !(useless && *useless)) st = tc_gpu_check(g, result, "loading a kernel");
  if (st == TC_OK && result == 0) tc_holder_add(&c->holder, g->device, TC_HOLDS_CODE, image->bytes);
  tc_gpu_end(g);
  return st;
}

tc_status tc_gpu_compile(tc_gpu *g, const char *name, const char *source, tc_gpu_code **out) {
  tc_gpu_image image = {0};
  tc_status st = TC_OK;
  bool from_disk, useless = false;
  size_t name_bytes = strlen(name) + 1;
  *out = NULL;
  if (tc_gpu_forked()) return tc_gpu_refuse_forked();
  tc_gpu_code *c = tc_calloc(1, sizeof *c + name_bytes);
  if (c) c->retired = tc_calloc(1, sizeof *c->retired);
  if (!c || !c->retired) {
    st = TC_FAIL(TC_ERR_MEMORY, "no memory for the kernel %s", name);
    goto done;
  }
  c->g = g, c->refs = 1;
  memcpy(c->name, name, name_bytes);
  if ((st = image_of(g, name, source, false, &image, &from_disk)) != TC_OK) goto done;
  st = load_image(g, &image, name, c, from_disk ? &useless : NULL);
  if (useless) {
    tc_log_line(TC_LOG_WARN, "%s: %s from the disk does not load and is compiled again", tc_device_name(g->device),
                name);
    tc_free(image.data);
    if ((st = image_of(g, name, source, true, &image, &from_disk)) == TC_OK) st = load_image(g, &image, name, c, NULL);
  }
  if (st != TC_OK) goto done;
  c->from_disk = from_disk;
  *out = c, c = NULL;  // handed over
done:
  tc_free(image.data);
  if (c) tc_free(c->retired);
  tc_free(c);
  return st;
}

void tc_gpu_code_retain(tc_gpu_code *c) {
  atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
}

bool tc_gpu_code_is_from_disk(const tc_gpu_code *c) {
  return c->from_disk;
}

void tc_gpu_code_release(tc_gpu_code *c) {
  if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1) return;
  tc_gpu *g = c->g;
  tc_holder_remove(&c->holder);
  if (tc_gpu_reach(g)) {
    if (c->opened == g->opened) {
      c->retired->loaded = c->loaded;
      tc_gpu_retire(g, c->retired);
      c->retired = NULL;
    }
    tc_gpu_end(g);
  }
  tc_free(c->retired);
  tc_free(c);
}

// ---- tensor maps ----

tc_status tc_gpu_tensor_map_make(tc_gpu *g, const tc_gpu_tensor_map *m, const void *at,
                                 uint64_t words[TC_GPU_TENSOR_MAP_WORDS]) {
  if (!g->facts.wgmma) return TC_FAIL(TC_ERR_DEVICE, "%s fetches no boxes", tc_device_name(g->device));
  TC_TRY(tc_gpu_begin(g, "making a map"));
  tc_status st = tc_gpu_check(g, g->driver->map(m, at, words), "making a map");
  tc_gpu_end(g);
  return st;
}
