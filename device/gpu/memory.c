// Memory of a device, and copies to and from it through pinned memory of the host, in pieces. Large
// copies to the device go through upload.c. Copies from it that need not wait for all that was
// asked for have a line of their own.
//
// A copy reads its source when it runs. So a source that the caller may write again at once is
// first copied to a ring of pieces. A piece is reused when the last copy out of it has run. Small
// writes share a piece. Reading has two pieces of its own and empties one while the other is
// filled.
// Threads: thread-safe, under the device's lock and that of reading.
#include <string.h>

#include "device/gpu/state.h"

#define ALIGN 256
#define READ_PIECES 2

static size_t rounded_bytes(size_t bytes) {
  return (TC_MAX_OF(bytes, (size_t)1) + ALIGN - 1) / ALIGN * ALIGN;
}

// If memory is short, the device's own caches are freed and it is tried once more.
tc_status tc_gpu_take(tc_gpu *g, size_t bytes, void **out) {
  tc_status st = TC_OK;
  *out = NULL;
  if (bytes > SIZE_MAX - ALIGN) return TC_ERR_MEMORY;
  TC_TRY(tc_gpu_begin(g, "taking memory"));
  int result = tc_gpu_port_take(&g->port, TC_GPU_WORK, rounded_bytes(bytes), out);
  if (tc_gpu_is_out_of_memory(g, result) && (st = tc_gpu_trim(g)) == TC_OK)
    result = tc_gpu_port_take(&g->port, TC_GPU_WORK, rounded_bytes(bytes), out);
  if (st == TC_OK) st = tc_gpu_is_out_of_memory(g, result) ? TC_ERR_MEMORY : tc_gpu_check(g, result, "taking memory");
  tc_gpu_end(g);
  TC_ASSERT((uintptr_t)*out % ALIGN == 0);
  return st;
}

tc_status tc_gpu_fail_memory(tc_gpu *g, size_t bytes) {
  char what[64];
  snprintf(what, sizeof what, "%zu bytes are wanted", bytes);
  TC_TRY(tc_gpu_begin(g, "taking memory"));
  tc_status st = tc_gpu_fail_out_of_memory(g, what);
  tc_gpu_end(g);
  return st;
}

tc_status tc_gpu_alloc(tc_gpu *g, size_t bytes, void **out) {
  tc_status st = tc_gpu_take(g, bytes, out);
  if (st == TC_ERR_MEMORY) tc_gpu_evict(g), st = tc_gpu_take(g, bytes, out);
  return st == TC_ERR_MEMORY ? tc_gpu_fail_memory(g, bytes) : st;
}

void tc_gpu_free(tc_gpu *g, void *p) {
  if (!p || !tc_gpu_reach(g)) return;
  tc_gpu_note(g, tc_gpu_port_give(&g->port, p), "giving back memory");
  tc_gpu_end(g);
}

// ---- staging ----

// pre: begun.
static tc_status staging_make(tc_gpu *g, tc_gpu_staging *s, uint32_t n_pieces) {
  void *at = NULL;
  if (s->at) return TC_OK;
  for (uint32_t i = 0; i < n_pieces; i++)
    if (!s->event[i]) TC_TRY(tc_gpu_event(g, false, &s->event[i]));
  TC_TRY(tc_gpu_pinned(g, n_pieces * TC_GPU_PIECE_BYTES, &at));
  s->at = at;
  return TC_OK;
}

static void staging_drop(tc_gpu *g, tc_gpu_staging *s) {
  for (int i = 0; i < TC_GPU_PIECES; i++) tc_gpu_event_destroy(g, s->event[i]);
  tc_gpu_pinned_free(g, s->at);
  *s = (tc_gpu_staging){0};
}

void tc_gpu_staging_fini(tc_gpu *g) {
  staging_drop(g, &g->to);
  staging_drop(g, &g->from);
  tc_gpu_event_destroy(g, g->behind);
  g->behind = NULL;
}

// pre: begun. Goes on to the next piece once copies out of it have run.
static tc_status next_piece(tc_gpu *g) {
  tc_gpu_staging *s = &g->to;
  TC_TRY(tc_gpu_check(g, tc_gpu_port_record(&g->port, TC_GPU_WORK, s->event[s->piece]), "recording an event"));
  s->piece = (s->piece + 1) % TC_GPU_PIECES, s->used = 0;
  return tc_gpu_await(g, s->event[s->piece], "waiting for a copy to the device");
}

// pre: begun.
static tc_status write_pieces(tc_gpu *g, char *to, const char *from, size_t bytes) {
  tc_gpu_staging *s = &g->to;
  TC_TRY(staging_make(g, s, TC_GPU_PIECES));
  while (bytes > 0) {
    if (s->used == TC_GPU_PIECE_BYTES) TC_TRY(next_piece(g));
    char *room = s->at + s->piece * TC_GPU_PIECE_BYTES + s->used;
    size_t n = TC_MIN(bytes, TC_GPU_PIECE_BYTES - s->used);
    memcpy(room, from, n);
    TC_TRY(tc_gpu_check(g, g->driver->write(&g->port, TC_GPU_WORK, to, room, n), "copying to the device"));
    s->used = TC_MIN(TC_GPU_PIECE_BYTES, s->used + rounded_bytes(n));
    to += n, from += n, bytes -= n;
  }
  return TC_OK;
}

tc_status tc_gpu_write(tc_gpu *g, void *to, const void *from, size_t bytes) {
  bool done = false;
  if (bytes == 0) return TC_OK;
  TC_TRY(tc_gpu_begin(g, "copying to the device"));
  tc_status st = tc_gpu_is_beside(bytes) ? tc_gpu_upload_run(g, to, from, bytes, &done) : TC_OK;
  if (st == TC_OK && !done) st = write_pieces(g, to, from, bytes);
  tc_gpu_end(g);
  return st;
}

// Chooses the line that reads what is there after run `made`, and makes it wait for that run. Small
// reads of the latest run use WORK: lines that wait for each other take longer than the copy. pre:
// begun.
static tc_status line_of_read(tc_gpu *g, uint64_t made, size_t bytes, tc_gpu_line *out) {
  bool all = made == TC_GPU_ALL;
  *out = TC_GPU_WORK;
  bool last = made == g->in_flight.n_runs && g->upload.run != made;
  if (!tc_gpu_is_beside(bytes) && (all || last)) return TC_OK;
  if (all && !g->behind) TC_TRY(tc_gpu_event(g, false, &g->behind));
  if (all) TC_TRY(tc_gpu_check(g, tc_gpu_port_record(&g->port, TC_GPU_WORK, g->behind), "recording an event"));
  void *event = all ? g->behind : tc_gpu_in_flight_of(g, made);
  *out = TC_GPU_DOWN;
  return event ? tc_gpu_check(g, tc_gpu_port_follow(&g->port, TC_GPU_DOWN, event), "waiting for an event") : TC_OK;
}

// A read: bytes of the device's memory, by one line.
typedef struct reading {
  const char *from;
  size_t bytes;
  uint64_t made;
  tc_gpu_line line;
} reading;

static size_t piece_bytes(size_t bytes, size_t i) {
  return TC_MIN(TC_GPU_PIECE_BYTES, bytes - i * TC_GPU_PIECE_BYTES);
}

// Asks for piece i. pre: reading is locked.
static tc_status begin_piece(tc_gpu *g, reading *r, size_t i) {
  TC_TRY(tc_gpu_begin(g, "copying from the device"));
  tc_gpu_staging *s = &g->from;
  char *to;
  tc_status st = staging_make(g, s, READ_PIECES);
  if (st == TC_OK && i == 0) st = line_of_read(g, r->made, r->bytes, &r->line);
  to = s->at + i % READ_PIECES * TC_GPU_PIECE_BYTES;
  if (st == TC_OK)
    st = tc_gpu_check(
        g, g->driver->read(&g->port, r->line, to, r->from + i * TC_GPU_PIECE_BYTES, piece_bytes(r->bytes, i)),
        "copying from the device");
  if (st == TC_OK)
    st = tc_gpu_check(g, tc_gpu_port_record(&g->port, r->line, s->event[i % READ_PIECES]), "recording an event");
  tc_gpu_end(g);
  return st;
}

// Waits for a piece without the device's lock, and copies it out. pre: reading is locked.
static tc_status take_piece(tc_gpu *g, char *to, size_t n, uint32_t piece) {
  tc_gpu_staging *s = &g->from;
  tc_status st = tc_gpu_check(g, g->driver->enter(&g->port), "copying from the device");
  if (st != TC_OK) return st;
  st = tc_gpu_await(g, s->event[piece], "waiting for what was asked for before");
  g->driver->leave(&g->port);
  if (st == TC_OK) memcpy(to, s->at + piece * TC_GPU_PIECE_BYTES, n);
  return st;
}

tc_status tc_gpu_read_made(tc_gpu *g, void *to, const void *from, size_t bytes, uint64_t made) {
  reading r = {from, bytes, made, TC_GPU_WORK};
  size_t n = (bytes + TC_GPU_PIECE_BYTES - 1) / TC_GPU_PIECE_BYTES;
  tc_status st = TC_OK;
  if (bytes == 0) return tc_gpu_wait(g);
  if (tc_gpu_forked()) return tc_gpu_refuse_forked();
  pthread_mutex_lock(&g->reading);
  for (size_t i = 0; i <= n && st == TC_OK; i++) {
    if (i < n) st = begin_piece(g, &r, i);
    if (i > 0 && st == TC_OK)
      st = take_piece(g, (char *)to + (i - 1) * TC_GPU_PIECE_BYTES, piece_bytes(bytes, i - 1), (i - 1) % READ_PIECES);
  }
  pthread_mutex_unlock(&g->reading);
  // A copy may still read what the caller is about to free.
  if (st != TC_OK && r.line == TC_GPU_DOWN && tc_gpu_reach(g)) {
    tc_gpu_note(g, tc_gpu_port_wait(&g->port), "waiting for a copy");
    tc_gpu_end(g);
  }
  return st;
}

tc_status tc_gpu_read(tc_gpu *g, void *to, const void *from, size_t bytes) {
  return tc_gpu_read_made(g, to, from, bytes, TC_GPU_ALL);
}

tc_status tc_gpu_read_begin(tc_gpu *g, void *to, const void *from, size_t bytes) {
  if (bytes == 0) return TC_OK;
  if (tc_gpu_forked()) return tc_gpu_refuse_forked();
  return bytes > TC_GPU_MOST_READ_BYTES / 2 ? tc_gpu_read(g, to, from, bytes)
                                            : tc_gpu_async_read_begin(g, to, from, bytes);
}

tc_status tc_gpu_copy(tc_gpu *g, void *to, const void *from, size_t bytes) {
  if (bytes == 0) return TC_OK;
  TC_TRY(tc_gpu_begin(g, "copying on the device"));
  tc_status st = tc_gpu_check(g, g->driver->copy(&g->port, to, from, bytes), "copying on the device");
  tc_gpu_end(g);
  return st;
}

tc_status tc_gpu_copies_end(tc_gpu *g) {
  TC_TRY(tc_gpu_begin(g, "copying on the device"));
  tc_status st = tc_gpu_in_flight_wait(g);
  if (st == TC_OK) st = tc_gpu_in_flight_mark(g);
  tc_gpu_end(g);
  return st;
}
