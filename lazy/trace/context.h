// The recording context: what a thread has set that changes what its calls record.
//
// In: a trace. Out: a word that is equal where the same calls record the same.
// Invariants: the low 16 bits are tc_no_grad_begin and the default device. The high 16 are the
// class of the thread's options (runtime/options.h). The others are t->context, autocast's.
// Threads: the trace's own thread.
#pragma once

#include "lazy/trace/trace.h"
#include "runtime/options.h"

#define TC_CONTEXT_NO_GRAD 1u
#define TC_CONTEXT_BITS 16  // from this bit on: t->context
#define TC_CONTEXT_OPTIONS 48  // from this bit on: their class

static inline uint64_t tc_record_context(const tc_trace *t) {
  return (uint64_t)(t->no_grad > 0) | (uint64_t)tc_device_default() << 1 |
         ((t->context << TC_CONTEXT_BITS) ^ ((uint64_t)tc_options_get()->plan_class << TC_CONTEXT_OPTIONS));
}
