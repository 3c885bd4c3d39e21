// CUDA's face of the simulated driver: streams, events, capture.
#include "tests/sim/cuda_face.h"

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  SIM_ENTER(SIM_USUAL);
  if (flags > CU_STREAM_NON_BLOCKING) return SIM_INVALID;
  sim_stream *s = sim_stream_new(sim_here(), flags != CU_STREAM_NON_BLOCKING);
  if (!s) return SIM_MEMORY;
  *stream = (CUstream)s;
  return SIM_OK;
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
  (void)priority;
  return cuStreamCreate(stream, flags);
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  SIM_ENTER(SIM_USUAL | SIM_AFTER_FAULT);
  if ((uintptr_t)stream <= 2 || !sim_alive(stream, SIM_STREAM)) return SIM_INVALID_HANDLE;
  sim_stream_end((sim_stream *)stream);
  return SIM_OK;
}

CUresult cuStreamSynchronize(CUstream stream) {
  SIM_ENTER(SIM_USUAL);
  SIM_STREAM_OR_RETURN(s, stream);
  SIM_TRY(sim_not_captured(s));
  return sim_wait_stream(s);
}

CUresult cuStreamQuery(CUstream stream) {
  SIM_ENTER(SIM_USUAL);
  SIM_STREAM_OR_RETURN(s, stream);
  SIM_TRY(sim_not_captured(s));
  if (!s->first) return SIM_OK;
  sim_step(sim_here());
  return sim_here()->sticky ? sim_here()->sticky : s->first ? SIM_NOT_READY : SIM_OK;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  SIM_ENTER(SIM_USUAL);
  SIM_STREAM_OR_RETURN(s, stream);
  if (flags > 1) return SIM_INVALID;
  return sim_cu_event(event) ? sim_wait_event(s, sim_cu_event(event)) : SIM_INVALID_HANDLE;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
  SIM_ENTER(SIM_USUAL);
  SIM_STREAM_OR_RETURN(s, stream);
  return sim_enqueue(s, &(sim_op){.kind = SIM_OP_HOST, .host = function, .data = data});
}

// ---- events ----

CUresult cuEventCreate(CUevent *event, unsigned flags) {
  SIM_ENTER(SIM_USUAL);
  if (flags > 7) return SIM_INVALID;
  sim_event *e = sim_object_new(SIM_EVENT, sim_here(), sizeof *e);
  if (!e) return SIM_MEMORY;
  e->timing = !(flags & CU_EVENT_DISABLE_TIMING);
  *event = (CUevent)e;
  return SIM_OK;
}

CUresult cuEventDestroy_v2(CUevent event) {
  SIM_ENTER(SIM_USUAL | SIM_AFTER_FAULT);
  sim_event *e = sim_cu_event(event);
  if (!e) return SIM_INVALID_HANDLE;
  sim_event_end(e);
  return SIM_OK;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  SIM_ENTER(SIM_USUAL);
  SIM_STREAM_OR_RETURN(s, stream);
  sim_event *e = sim_cu_event(event);
  return e && e->object.device == sim_here() ? sim_record(s, e) : SIM_INVALID_HANDLE;
}

CUresult cuEventQuery(CUevent event) {
  SIM_ENTER(SIM_UNCAPTURED);
  const sim_event *e = sim_cu_event(event);
  if (!e) return SIM_INVALID_HANDLE;
  if (!e->mark || e->mark->done) return SIM_OK;
  sim_step(e->object.device);
  return e->object.device->sticky ? e->object.device->sticky : e->mark->done ? SIM_OK : SIM_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event) {
  SIM_ENTER(SIM_UNCAPTURED);
  const sim_event *e = sim_cu_event(event);
  return e ? sim_wait_recorded(e) : SIM_INVALID_HANDLE;
}

static sim_error elapsed(float *ms, CUevent begin, CUevent end) {
  const sim_event *a = sim_cu_event(begin), *b = sim_cu_event(end);
  if (!a || !b || !a->mark || !b->mark || !a->timing || !b->timing) return SIM_INVALID_HANDLE;
  if (!a->mark->done || !b->mark->done) return SIM_NOT_READY;
  *ms = (float)(b->mark->ms - a->mark->ms);
  return SIM_OK;
}

CUresult cuEventElapsedTime(float *ms, CUevent begin, CUevent end) {
  SIM_ENTER(SIM_USUAL);
  return elapsed(ms, begin, end);
}

CUresult cuEventElapsedTime_v2(float *ms, CUevent begin, CUevent end) {
  SIM_ENTER(SIM_USUAL);
  return elapsed(ms, begin, end);
}

// ---- capture ----

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  SIM_ENTER(SIM_USUAL);
  SIM_STREAM_OR_RETURN(s, stream);
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED) return SIM_INVALID;
  return sim_capture_begin(s, mode == CU_STREAM_CAPTURE_MODE_RELAXED, NULL, NULL, 0);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *after,
                                     const CUgraphEdgeData *edges, size_t n_after, CUstreamCaptureMode mode) {
  SIM_ENTER(SIM_USUAL);
  SIM_STREAM_OR_RETURN(s, stream);
  if (edges || mode > CU_STREAM_CAPTURE_MODE_RELAXED || !sim_alive(graph, SIM_GRAPH)) return SIM_INVALID;
  return sim_capture_begin(s, mode == CU_STREAM_CAPTURE_MODE_RELAXED, (sim_graph *)graph, (sim_node *const *)after,
                           n_after);
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  SIM_ENTER(SIM_USUAL);
  SIM_STREAM_OR_RETURN(s, stream);
  sim_graph *g;
  sim_error e = sim_capture_end(s, &g);
  *graph = (CUgraph)g;
  return e;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  SIM_ENTER(SIM_USUAL);
  SIM_STREAM_OR_RETURN(s, stream);
  *status = !s->capture         ? CU_STREAM_CAPTURE_STATUS_NONE
            : s->capture_broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return SIM_OK;
}
