// Memory of the simulated devices: one range of addresses for all, a state for every byte, and
// segments that are handed out.
// Segments lie GAP bytes apart, so that what leaves one is found. What is freed in a stream's order
// may be taken again in it at once, by others when that order has been run.
#include "tests/sim/core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGN = 512, GAP = 512 };

uint8_t *sim_memory, *sim_state;
size_t sim_memory_size;

typedef struct pinned {
  uintptr_t at;
  size_t bytes;
  bool owned;
  struct pinned *next;
} pinned;
static pinned *pins;

static uint8_t *reserve(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

bool sim_memory_setup(void) {
  size_t bytes = sim_option.memory_bytes * (size_t)sim_option.n_devices;
  if (bytes == 0) return true;
  sim_memory = reserve(bytes);
  sim_state = reserve(bytes);
  if (!sim_memory || !sim_state) return false;
  for (int i = 0; i < sim_option.n_devices; i++) {
    sim_segment *s = calloc(1, sizeof *s);
    if (!s) return false;
    *s = (sim_segment){.at = (uintptr_t)sim_memory + (size_t)i * sim_option.memory_bytes,
                       .bytes = sim_option.memory_bytes};
    sim_devices[i].segment = s;
  }
  sim_memory_size = bytes;
  return true;
}

sim_device *sim_memory_device(uintptr_t at) {
  size_t o = at - (uintptr_t)sim_memory;
  return o < sim_memory_size ? &sim_devices[o / sim_option.memory_bytes] : NULL;
}

static uint8_t *state_of(uintptr_t at) {
  return sim_state + (at - (uintptr_t)sim_memory);
}

static sim_error now_or_later(sim_device *d, sim_op *op, sim_stream *stream) {
  if (stream) return sim_enqueue(stream, op);
  sim_perform(d, NULL, op);
  return SIM_OK;
}

// Joins s with those behind it that are as free as it is.
static void join(sim_segment *s) {
  while (s->next && s->use != SIM_USED && s->next->use == s->use && s->next->stream == s->stream) {
    sim_segment *gone = s->next;
    s->bytes += gone->bytes;
    s->next = gone->next;
    if (gone->number > s->number) s->number = gone->number;
    free(gone);
  }
}

static sim_segment *find_free(sim_device *d, size_t need, const sim_stream *stream) {
  sim_segment *found = NULL;
  for (sim_segment *s = d->segment; s && !found; s = s->next) {
    join(s);
    if (s->bytes >= need && (s->use == SIM_FREE || (s->use == SIM_FREEING && s->stream == stream))) found = s;
  }
  return found;
}

sim_error sim_alloc(sim_device *d, size_t bytes, sim_stream *stream, sim_pool *pool, uintptr_t *out) {
  *out = 0;
  if (bytes == 0) return SIM_INVALID;
  if (bytes > sim_option.memory_bytes) return SIM_MEMORY;
  size_t need = (bytes + ALIGN - 1) / ALIGN * ALIGN + GAP;
  sim_segment *s = find_free(d, need, stream);
  if (!s && stream) {  // as a driver does: what others are giving back is waited for
    sim_error e = sim_wait_device(d);
    if (e != SIM_OK) return e;
    s = find_free(d, need, stream);
  }
  if (!s) return SIM_MEMORY;
  if (s->bytes > need) {
    sim_segment *rest = malloc(sizeof *rest);
    if (!rest) return SIM_MEMORY;
    *rest = *s;
    rest->at += need;
    rest->bytes -= need;
    s->next = rest;
    s->bytes = need;
  }
  s->use = SIM_USED;
  s->stream = NULL;
  s->asked = bytes;
  s->pool = pool;
  d->used_bytes += bytes;
  if (pool) pool->used += bytes;
  if (pool && pool->used > pool->used_high) pool->used_high = pool->used;
  *out = s->at;
  return now_or_later(d, &(sim_op){.kind = SIM_OP_ALLOC, .to = s->at, .bytes = bytes}, stream);
}

sim_segment *sim_segment_of(uintptr_t at) {
  sim_device *d = sim_memory_device(at);
  for (sim_segment *s = d ? d->segment : NULL; s && s->at <= at; s = s->next) {
    if (s->use == SIM_USED && at - s->at < s->asked) return s;
  }
  return NULL;
}

sim_error sim_free(sim_device *d, uintptr_t at, sim_stream *stream) {
  sim_segment *s = sim_segment_of(at);
  if (!s || s->at != at || sim_memory_device(at) != d) return SIM_INVALID;
  d->used_bytes -= s->asked;
  if (s->pool) s->pool->used -= s->asked;
  s->pool = NULL;
  s->use = SIM_FREEING;
  s->stream = stream;
  s->number = sim_next_number();
  return now_or_later(
      d, &(sim_op){.kind = SIM_OP_FREE, .to = at, .bytes = s->asked, .stream = stream, .number = s->number}, stream);
}

void sim_segments_freed(const sim_op *op) {
  sim_device *d = sim_memory_device(op->to);
  for (sim_segment *s = d->segment; s; s = s->next) {
    if (s->use != SIM_FREEING || s->stream != op->stream || s->number > op->number) continue;
    s->use = SIM_FREE;
    s->stream = NULL;
  }
}

void sim_pool_end(sim_pool *p) {
  if (p->used) sim_fault(31, "a pool is destroyed while %llu bytes of it are in use", (unsigned long long)p->used);
  sim_object_end(p);
}

bool sim_reachable(sim_device *d, uintptr_t at, size_t bytes) {
  sim_device *owner = sim_memory_device(at);
  const sim_segment *s = sim_segment_of(at);
  return s && (owner == d || d->peer[owner->index]) && at - s->at + bytes <= s->asked;
}

// A device's side of a copy: its bytes are in one allocation, as the order of work has it now.
// text: "reads" or "writes".
static sim_error check_side(uintptr_t at, size_t bytes, const char *text) {
  const uint8_t *state = state_of(at);
  for (size_t i = 0; i < bytes; i++) {
    if (state[i] == SIM_UNWRITTEN || state[i] == SIM_WRITTEN) continue;
    sim_fault(sim_hash(text, strlen(text), 7), "a copy or fill %s %s memory: byte %zu of %zu", text,
              state[i] == SIM_GONE ? "freed" : "not allocated", i, bytes);
    return SIM_ILLEGAL_ADDRESS;
  }
  return SIM_OK;
}

sim_error sim_copy_bytes(uintptr_t to, uintptr_t from, size_t bytes) {
  bool to_device = sim_memory_device(to) != NULL, from_device = sim_memory_device(from) != NULL;
  if (to_device) SIM_TRY(check_side(to, bytes, "writes"));
  if (from_device) SIM_TRY(check_side(from, bytes, "reads"));
  memmove((void *)to, (const void *)from, bytes);
  if (to_device && from_device) {
    memmove(state_of(to), state_of(from), bytes);
  } else if (to_device) {
    memset(state_of(to), SIM_WRITTEN, bytes);
  } else if (from_device) {
    const uint8_t *state = state_of(from);
    for (size_t i = 0; i < bytes; i++) {
      if (state[i] != SIM_WRITTEN) ((uint8_t *)to)[i] = 0xff;
    }
  }
  return SIM_OK;
}

sim_error sim_set_bytes(uintptr_t to, uint32_t value, int width, size_t bytes) {
  SIM_TRY(check_side(to, bytes, "writes"));
  for (size_t i = 0; i < bytes; i += (size_t)width) memcpy((uint8_t *)to + i, &value, (size_t)width);
  memset(state_of(to), SIM_WRITTEN, bytes);
  return SIM_OK;
}

// ---- pinned host memory ----

sim_error sim_pin(void *p, size_t bytes, bool owned) {
  if (!p || bytes == 0) return SIM_INVALID;
  for (const pinned *i = pins; i; i = i->next) {
    if ((uintptr_t)p < i->at + i->bytes && i->at < (uintptr_t)p + bytes) return SIM_HOST_REGISTERED;
  }
  pinned *n = malloc(sizeof *n);
  if (!n) return SIM_MEMORY;
  *n = (pinned){(uintptr_t)p, bytes, owned, pins};
  pins = n;
  return SIM_OK;
}

sim_error sim_unpin(void *p, bool owned) {
  for (pinned **at = &pins; *at; at = &(*at)->next) {
    pinned *gone = *at;
    if (gone->at != (uintptr_t)p || gone->owned != owned) continue;
    *at = gone->next;
    free(gone);
    return SIM_OK;
  }
  return owned ? SIM_INVALID : SIM_HOST_NOT_REGISTERED;
}

bool sim_pinned(uintptr_t p, size_t bytes) {
  for (const pinned *i = pins; i; i = i->next) {
    if (p >= i->at && p + bytes <= i->at + i->bytes) return true;
  }
  return false;
}

sim_error sim_host_alloc(size_t bytes, void **out) {
  if (bytes == 0) return SIM_INVALID;
  void *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!p) return SIM_MEMORY;
  memset(p, 0xff, bytes);
  sim_error e = sim_pin(p, bytes, true);
  if (e != SIM_OK) {
    free(p);
    return e;
  }
  *out = p;
  return SIM_OK;
}

sim_error sim_host_free(void *p) {
  SIM_TRY(sim_wait_device(sim_here()));
  SIM_TRY(sim_unpin(p, true));
  free(p);
  return SIM_OK;
}
