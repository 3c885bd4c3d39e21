// Large copies to the device, which run beside its kernels.
//
// Tensors' memory is written in one line, WORK, so that freed memory may be reused at once. Data
// from the host first goes to device memory of its own, in pieces, by the line UP, which waits for
// these pieces alone. WORK then waits for a piece and copies it to its place, at the speed of the
// device's memory. So the next step's data is on its way while earlier kernels still run.
// Threads: under the device's lock.
// Owner: the device owns the pieces of pinned and device memory, each with an event that says when
// it may be written again. There are twice as many on the device as the largest upload took, at
// most TC_GPU_MOST_PIECES. Then UP waits for the piece moved longest ago.
#include <string.h>

#include "device/gpu/state.h"
#include "runtime/options.h"

bool tc_gpu_is_beside(size_t bytes) {
  return bytes >= (size_t)TC_MAX_OF(tc_options_get()->gpu_beside, 1);
}

static size_t n_pieces(size_t bytes) {
  return (bytes + TC_GPU_PIECE_BYTES - 1) / TC_GPU_PIECE_BYTES;
}

// pre: begun.
static tc_status make_pinned(tc_gpu *g, tc_gpu_upload *u) {
  void *at = NULL;
  for (int i = 0; i < TC_GPU_PIECES; i++)
    if (!u->sent[i]) TC_TRY(tc_gpu_event(g, false, &u->sent[i]));
  if (u->pinned) return TC_OK;
  TC_TRY(tc_gpu_pinned(g, TC_GPU_PIECES * TC_GPU_PIECE_BYTES, &at));
  u->pinned = at;
  return TC_OK;
}

// pre: begun. Makes more pieces of device memory, as many as there is room for.
static tc_status make_pieces(tc_gpu *g, tc_gpu_upload *u, size_t bytes) {
  size_t wanted = TC_MIN(2 * n_pieces(bytes), (size_t)TC_GPU_MOST_PIECES);
  if (u->n_there < wanted) u->next = u->n_there;
  while (u->n_there < wanted) {
    tc_gpu_piece *x = &u->there[u->n_there];
    const char *name;
    if (!x->moved) TC_TRY(tc_gpu_event(g, false, &x->moved));
    int result = tc_gpu_port_take(&g->port, TC_GPU_UP, TC_GPU_PIECE_BYTES, &x->at);
    if (g->driver->judge(result, &name) == TC_GPU_OUT_OF_MEMORY) break;
    TC_TRY(tc_gpu_check(g, result, "taking memory for copies"));
    u->n_there++;
  }
  if (u->next == u->n_there) u->next = 0;
  return TC_OK;
}

// pre: begun; n bytes, at most a piece.
static tc_status send_piece(tc_gpu *g, tc_gpu_upload *u, char *to, const char *from, size_t n) {
  const tc_gpu_driver *d = g->driver;
  tc_gpu_piece *x = &u->there[u->next];
  char *pinned = u->pinned + u->piece * TC_GPU_PIECE_BYTES;
  void *sent = u->sent[u->piece];
  TC_TRY(tc_gpu_await(g, sent, "waiting for a copy to the device"));
  memcpy(pinned, from, n);
  TC_TRY(tc_gpu_check(g, tc_gpu_port_follow(&g->port, TC_GPU_UP, x->moved), "waiting for an event"));
  TC_TRY(tc_gpu_check(g, d->write(&g->port, TC_GPU_UP, x->at, pinned, n), "copying to the device"));
  TC_TRY(tc_gpu_check(g, tc_gpu_port_record(&g->port, TC_GPU_UP, sent), "recording an event"));
  u->piece = (u->piece + 1) % TC_GPU_PIECES, u->next = (u->next + 1) % u->n_there;
  TC_TRY(tc_gpu_check(g, tc_gpu_port_follow(&g->port, TC_GPU_WORK, sent), "waiting for an event"));
  TC_TRY(tc_gpu_check(g, d->copy(&g->port, to, x->at, n), "copying on the device"));
  return tc_gpu_check(g, tc_gpu_port_record(&g->port, TC_GPU_WORK, x->moved), "recording an event");
}

tc_status tc_gpu_upload_run(tc_gpu *g, char *to, const char *from, size_t bytes, bool *out_done) {
  tc_gpu_upload *u = &g->upload;
  *out_done = false;
  TC_TRY(make_pinned(g, u));
  TC_TRY(make_pieces(g, u, bytes));
  if (u->n_there == 0) return TC_OK;
  u->run = tc_gpu_runs(g);
  while (bytes > 0) {
    size_t n = TC_MIN(bytes, TC_GPU_PIECE_BYTES);
    TC_TRY(send_piece(g, u, to, from, n));
    to += n, from += n, bytes -= n;
  }
  *out_done = true;
  return TC_OK;
}

void tc_gpu_upload_fini(tc_gpu *g) {
  tc_gpu_upload *u = &g->upload;
  tc_gpu_upload_trim(g);
  for (int i = 0; i < TC_GPU_MOST_PIECES; i++) tc_gpu_event_destroy(g, u->there[i].moved);
  for (int i = 0; i < TC_GPU_PIECES; i++) tc_gpu_event_destroy(g, u->sent[i]);
  tc_gpu_pinned_free(g, u->pinned);
  *u = (tc_gpu_upload){0};
}
