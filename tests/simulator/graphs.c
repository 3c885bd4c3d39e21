// Graphs of the simulated driver: launches keep the parameters of their time, one executable runs
// alone, what is captured is what was asked for.
#include "tests/sim/use.h"

static const char put_text[] =
    "typedef struct { u64 *to; u64 n; u64 word[4]; } value;\n"
    "TC_KERNEL_OF(put, 32, value) {\n"
    "  if (TC_THREAD < (i32)tc_value->n) tc_value->to[TC_THREAD] = tc_value->word[TC_THREAD];\n"
    "}\n";

typedef struct put_value {
  CUdeviceptr to;
  uint64_t n, word[4];
} put_value;

static CUDA_KERNEL_NODE_PARAMS node_of(CUfunction f, void **parameter) {
  return (CUDA_KERNEL_NODE_PARAMS){.func = f,
                                   .gridDimX = 1,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = 32,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .kernelParams = parameter};
}

// A graph writes its table from a parameter, then runs. Each launch has the parameters that were
// set when it was asked for, however late it runs.
static void test_replay(void) {
  CUfunction put = use_kernel("put", put_text), add = use_kernel("add", use_add_text);
  uint32_t zeros[32] = {0};
  CUdeviceptr data = use_upload(zeros, sizeof zeros), other = use_upload(zeros, sizeof zeros), table = use_alloc(16);
  put_value v = {table, 2, {data, 1}};
  void *put_parameter[] = {&v}, *add_parameter[] = {&table};
  CUDA_KERNEL_NODE_PARAMS first = node_of(put, put_parameter), second = node_of(add, add_parameter);
  CUgraph g;
  CUgraphNode node[2];
  CUgraphExec e;
  CUstream s;
  EXPECT_FINE(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
  EXPECT_FINE(CU(cuGraphCreate)(&g, 0));
  EXPECT_FINE(CU(cuGraphAddKernelNode_v2)(&node[0], g, NULL, 0, &first));
  EXPECT_FINE(CU(cuGraphAddKernelNode_v2)(&node[1], g, &node[0], 1, &second));
  EXPECT_FINE(CU(cuGraphInstantiateWithFlags)(&e, g, 0));
  uint64_t want[2] = {0, 0};
  for (unsigned i = 0; i < 50; i++) {
    v.word[0] = i % 3 ? data : other;
    v.word[1] = i;
    want[i % 3 == 0] += i;
    EXPECT_FINE(CU(cuGraphExecKernelNodeSetParams_v2)(e, node[0], &first));
    EXPECT_FINE(CU(cuGraphLaunch)(e, s));
  }
  v.word[1] = 1000000;
  EXPECT_FINE(CU(cuStreamSynchronize)(s));
  EXPECT(use_first_word(data) == want[0] && use_first_word(other) == want[1], "%u, %u", use_first_word(data),
         use_first_word(other));
  EXPECT_CU(1u, CU(cuGraphExecKernelNodeSetParams_v2)(e, (CUgraphNode)g, &first));
  EXPECT_FINE(CU(cuGraphExecDestroy)(e));
  EXPECT_FINE(CU(cuGraphDestroy)(g));
  EXPECT_CU(1u, CU(cuGraphLaunch)(e, s));
  EXPECT_FINE(CU(cuStreamDestroy_v2)(s));
  CU(cuMemFree_v2)(data);
  CU(cuMemFree_v2)(other);
  CU(cuMemFree_v2)(table);
}

// Launches of one executable follow each other, even in two streams.
static void test_exec_alone(void) {
  CUfunction add = use_kernel("add", use_add_text);
  uint32_t zeros[32] = {0};
  CUdeviceptr data = use_upload(zeros, sizeof zeros);
  uint64_t words[] = {data, 1};
  CUdeviceptr table = use_upload(words, sizeof words), copy = use_alloc(128);
  void *parameter[] = {&table};
  CUDA_KERNEL_NODE_PARAMS p = node_of(add, parameter);
  CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                     .srcDevice = data,
                     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                     .dstDevice = copy,
                     .WidthInBytes = 128,
                     .Height = 1,
                     .Depth = 1};
  CUgraph g, child;
  CUgraphNode n[3];
  CUgraphExec e;
  CUcontext context;
  CUstream s[2];
  CU(cuCtxGetCurrent)(&context);
  EXPECT_FINE(CU(cuGraphCreate)(&child, 0));
  EXPECT_FINE(CU(cuGraphAddKernelNode_v2)(&n[0], child, NULL, 0, &p));
  EXPECT_FINE(CU(cuGraphAddKernelNode_v2)(&n[1], child, &n[0], 1, &p));
  EXPECT_FINE(CU(cuGraphCreate)(&g, 0));
  EXPECT_FINE(CU(cuGraphAddKernelNode_v2)(&n[0], g, NULL, 0, &p));
  EXPECT_FINE(CU(cuGraphAddChildGraphNode)(&n[1], g, &n[0], 1, child));
  EXPECT_FINE(CU(cuGraphAddMemcpyNode)(&n[2], g, &n[1], 1, &c, context));
  EXPECT_FINE(CU(cuGraphInstantiateWithFlags)(&e, g, 0));
  for (int i = 0; i < 2; i++) EXPECT_FINE(CU(cuStreamCreate)(&s[i], CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < 20; i++) EXPECT_FINE(CU(cuGraphLaunch)(e, s[i % 2]));
  EXPECT_FINE(CU(cuCtxSynchronize)());
  EXPECT(use_first_word(data) == 60 && use_first_word(copy) == 60, "%u, %u", use_first_word(data),
         use_first_word(copy));
  for (int i = 0; i < 2; i++) EXPECT_FINE(CU(cuStreamDestroy_v2)(s[i]));
  EXPECT_FINE(CU(cuGraphExecDestroy)(e));
  EXPECT_FINE(CU(cuGraphDestroy)(g));
  EXPECT_FINE(CU(cuGraphDestroy)(child));
  CU(cuMemFree_v2)(data);
  CU(cuMemFree_v2)(table);
  CU(cuMemFree_v2)(copy);
}

// What a stream is asked for in a capture becomes a graph; waiting spoils it.
static void test_capture(void) {
  CUstream s, side;
  CUevent e;
  CUgraph g = NULL;
  CUgraphExec exec;
  CUstreamCaptureStatus status;
  CUdeviceptr p = use_alloc(128), q = use_alloc(128), nothing;
  EXPECT_FINE(CU(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING));
  EXPECT_FINE(CU(cuStreamCreate)(&side, CU_STREAM_NON_BLOCKING));
  EXPECT_FINE(CU(cuEventCreate)(&e, CU_EVENT_DISABLE_TIMING));
  EXPECT_FINE(CU(cuMemsetD32Async)(p, 1, 32, s));
  EXPECT_FINE(CU(cuMemsetD32Async)(q, 1, 32, s));
  EXPECT_FINE(CU(cuStreamSynchronize)(s));
  EXPECT_FINE(CU(cuStreamBeginCapture_v2)(s, 0));
  EXPECT_FINE(CU(cuMemsetD32Async)(p, 5, 32, s));
  EXPECT_FINE(CU(cuEventRecord)(e, s));
  EXPECT_FINE(CU(cuStreamWaitEvent)(side, e, 0));
  EXPECT_FINE(CU(cuMemcpyDtoDAsync_v2)(q, p, 128, side));
  EXPECT_FINE(CU(cuEventRecord)(e, side));
  EXPECT_FINE(CU(cuStreamWaitEvent)(s, e, 0));
  EXPECT_FINE(CU(cuMemsetD32Async)(p, 6, 32, s));
  EXPECT_FINE(CU(cuStreamIsCapturing)(s, &status));
  EXPECT(status == CU_STREAM_CAPTURE_STATUS_ACTIVE, "%u", status);
  EXPECT_FINE(CU(cuStreamEndCapture)(s, &g));
  EXPECT(use_first_word(p) == 1, "it ran");
  EXPECT_FINE(CU(cuGraphInstantiateWithFlags)(&exec, g, 0));
  EXPECT_FINE(CU(cuGraphLaunch)(exec, s));
  EXPECT_FINE(CU(cuStreamSynchronize)(s));
  EXPECT(use_first_word(p) == 6 && use_first_word(q) == 5, "%u, %u", use_first_word(p), use_first_word(q));
  EXPECT_FINE(CU(cuGraphExecDestroy)(exec));
  EXPECT_FINE(CU(cuGraphDestroy)(g));
  EXPECT_FINE(CU(cuStreamBeginCapture_v2)(s, 0));
  EXPECT_CU(900u, CU(cuStreamSynchronize)(s));
  EXPECT_CU(901u, CU(cuStreamEndCapture)(s, &g));
  EXPECT_FINE(CU(cuStreamBeginCapture_v2)(s, 0));
  EXPECT_CU(900u, CU(cuMemAlloc_v2)(&nothing, 16));
  EXPECT_CU(901u, CU(cuStreamEndCapture)(s, &g));
  EXPECT_FINE(CU(cuStreamSynchronize)(s));
  EXPECT_FINE(CU(cuEventDestroy_v2)(e));
  EXPECT_FINE(CU(cuStreamDestroy_v2)(s));
  EXPECT_FINE(CU(cuStreamDestroy_v2)(side));
  CU(cuMemFree_v2)(p);
  CU(cuMemFree_v2)(q);
}

int main(void) {
  setenv("TC_SIM_MEMORY_MIB", "64", 1);
  setenv("TC_SIM_EAGER", "0", 1);  // nothing runs before it is waited for
  if (!use_begin()) {
    printf("skipped: the simulated driver is not built\n");
    return 77;
  }
  test_replay();
  test_exec_alone();
  test_capture();
  EXPECT(CU(sim_live_bytes)(0) == 0, "%zu bytes are in use", CU(sim_live_bytes)(0));
  EXPECT(CU(sim_faults)() == 0, "%s", CU(sim_fault_text)());
  return expect_done("simulator-graphs");
}
