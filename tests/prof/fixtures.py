"""Profiles of programs that never were, the same bytes each time, for the golden outputs."""
from writer import COMPILE, END, FAILED, HIT, MEMORY, MISS_BOUND, MODULE, STACK, TIMES, UNUSED, Writer

GRAPH = """%0 = leaf f32[{n},64] tc:cpu live @ model.c:30
%1 = leaf f32[64,10] tc:cpu live @ model.c:12
%2 = matmul f32[{n},10] tc:cpu in %0 %1 @ model.c:31
%3 = leaf f32[10] tc:cpu live @ model.c:13
%4 = add f32[{n},10] tc:cpu in %2 %3 @ model.c:32
%5 = relu f32[{n},10] tc:cpu in %4 live asked @ model.c:33
%6 = sum f32[{n}] tc:cpu in %5 attr {axis} live asked @ model.c:34
"""
SIMPLIFIED = """%0 = leaf f32[{n},64] leaf 0
%1 = leaf f32[64,10] leaf 1
%2 = matmul f32[{n},10] %0 %1
%3 = leaf f32[10] leaf 2
%4 = add f32[{n},10] %2 %3
%5 = relu f32[{n},10] %4 out 0
%6 = sum f32[{n}] %5 axes {axis} out 1
"""
FUSION = """k0 GEMM [1, {n}, 10]: %2 matmul, %4 add, %5 relu
  reads %0 %1 %3
  stores %5
k1 ROW [1, {n}, 1]: %6 sum
  reads %5: a sum over rows needs whole rows of a product
  stores %6
"""
PROGRAM = """7 nodes, 2 steps, 2 stages, arena 0
  stage 0 tc_f32_relu_3_c7eabbb1 l0 l1 l2 >o0
  stage 1 tc_f32_sum_1_0a1b2c3d o0 >o1
"""


def step_plan(w, n=32, axis=1, hash=0xabc):
    """A product with its epilogue, and a sum of its rows that is a kernel of its own."""
    return w.plan(
        n_nodes=7, n_left=4, n_inputs=3, n_outputs=2, hash=hash, shape_hash=0x5000 + n, bytes=4 * (n * 64 + 650 + 2 * n * 10 + n), least_bytes=4 * (n * 64 + 650 + n * 11),
        arena_bytes=0, output_bytes=44 * n, input_bytes=4 * (n * 64 + 650), flops=2.0 * n * 640 + 30 * n, graph=GRAPH.format(n=n, axis=axis),
        simplified=SIMPLIFIED.format(n=n, axis=axis), fusion=FUSION.format(n=n), program=PROGRAM,
        kernels=[{"name": "tc_f32_relu_3_c7eabbb1", "kind": "generated", "stage": 0, "n_nodes": 3, "bytes": 4 * (n * 64 + 650 + n * 10), "flops": 2.0 * n * 640 + 20 * n,
                  "site": "model.c:33", "op": "relu"},
                 {"name": "tc_f32_sum_1_0a1b2c3d", "kind": "generated", "stage": 1, "n_nodes": 1, "bytes": 44 * n, "flops": 10.0 * n, "site": "model.c:34", "op": "sum"}],
        boundaries=[{"from": 0, "to": 1, "node": 5, "reason": "a sum over rows needs whole rows of a product", "bytes": 80 * n}],
        blocks=[{"site": "model.c:30", "op": "leaf", "bytes": 256 * n, "first_stage": 0, "last_stage": 1, "is": 2},
                {"site": "model.c:33", "op": "relu", "bytes": 40 * n, "first_stage": 0, "last_stage": 1, "is": 1},
                {"site": "model.c:34", "op": "sum", "bytes": 4 * n, "first_stage": 1, "last_stage": 1, "is": 1}])


def small_plan(w, n_nodes, hash, site="model.c:40"):
    graph = "".join(f"%{i} = {'leaf' if i == 0 else 'add'} f32[] tc:cpu{'' if i == 0 else f' in %{i - 1} %{i - 1}'} @ {site}\n" for i in range(n_nodes))
    return w.plan(n_nodes=n_nodes, n_left=n_nodes, n_inputs=1, n_outputs=1, hash=hash, shape_hash=7, bytes=8, least_bytes=8, flops=float(n_nodes), graph=graph, simplified=graph,
                  kernels=[{"name": f"tc_f32_add_{n_nodes}", "kind": "generated", "n_nodes": n_nodes, "bytes": 8, "flops": float(n_nodes), "site": site, "op": "add"}])


def training(n_steps=40):
    """A warm-up, then steps of an update and a scalar read; every tenth step validates; one step is slow."""
    w = Writer()
    w.process()
    step, read = step_plan(w), small_plan(w, 3, 0xdef)
    start = w.plan(n_nodes=400, n_left=380, hash=0x77, bytes=10**6, least_bytes=10**6, kernels=[])
    w.sync(start, "model.c:20", "eval", new=True, lookup=100_000, lower=2_900_000, compile=20_000_000)
    w.add(COMPILE, name="tc_f32_relu_3_c7eabbb1", tier="compiled", thread=4242, sequence=2, begin_ns=w.clock, emit_ns=100_000, optimize_ns=3_000_000, generate_ns=5_000_000,
          load_ns=400_000, code_bytes=2048)
    w.add(COMPILE, name="tc_f32_sum_1_0a1b2c3d", tier="disk", thread=4243, sequence=0, begin_ns=w.clock, load_ns=200_000, code_bytes=512)
    for i in range(n_steps):
        s = w.sync(step, "model.c:33", "eval", new=i == 0, lower=500_000 if i == 0 else 0, lookup=2000, compile=9_000_000 if i == 0 else 0,
                   run=900_000 if i == 25 else 80_000, region="train/step")
        if i == 3:
            w.add(TIMES, [("time", {"kernel": 0, "n_threads": 2, "begin_ns": w.clock - 80_000, "ns": 60_000}),
                          ("time", {"kernel": 1, "n_threads": 1, "begin_ns": w.clock - 20_000, "ns": 15_000}),
                          ("time", {"kernel": 9, "n_threads": 1, "begin_ns": w.clock, "ns": 1})], sequence=s, plan=step)
        s = w.sync(read, "model.c:40", "item", new=i == 0, run=4000)
        if i == 5:
            w.add(UNUSED, sequence=s, n_values=2, bytes=128)
        if i == 2:
            w.add(MEMORY, [("live", {"site": "model.c:12", "op": "randn", "bytes": 2560}), ("live", {"site": "model.c:33", "op": "relu", "bytes": 1280}),
                           ("live", {"site": "model.c:13", "op": "zeros", "bytes": 40})], sequence=s, n_live=5, at_ns=w.clock, bytes=4096)
        if i % 10 == 9:
            w.sync(read, "model.c:60", "to_host", new=False)
    w.end()
    return w


def changing(n_steps=24):
    """A site whose first extent changes in each step, one whose attribute does once, and one whose graph grows."""
    w = Writer()
    w.process(program="/home/user/changing")
    for i in range(n_steps):
        w.sync(step_plan(w, n=32 + i), "model.c:33", "eval", new=True, lookup=50_000, lower=350_000, compile=2_000_000)
        w.sync(small_plan(w, 8 + 4 * i, 0xd00 + i), "peer.c:9", "item", new=True, lookup=100_000, lower=200_000, compile=1_000_000)
    w.sync(step_plan(w, n=55, axis=0, hash=0xabd), "model.c:33", "eval", new=True)
    w.sync(step_plan(w, n=32, axis=0, hash=0xabd), "program.c:5", "to_host", new=True)
    w.sync(0, "program.c:8", "item", flags=FAILED, new=True)
    w.end()
    return w


def killed():
    """The training of a process that was killed."""
    w = training()
    w.parts.pop()  # no end
    data = w.data
    return data[:-72]


def bound(n_steps=40):
    """A site whose first extent changes in each step, and is bound to a plan from the third on; binding costs most. A scalar is read before it."""
    w = Writer()
    w.process(program="/home/user/bound")
    for i in range(n_steps):
        w.sync(small_plan(w, 3, 0xdef), "model.c:40", "item", new=i == 0, run=4000)
        how = {"new": True, "lower": 350_000, "compile": 2_000_000} if i < 2 else {"new": True, "flags": HIT, "miss": MISS_BOUND, "lower": 90_000, "n_compiled": 0}
        w.sync(step_plan(w, n=32 + i), "model.c:33", "eval", run=20_000, **how)
    w.end()
    return w


def stacks():
    """A sync with a backtrace, into files that are not there, and one that waits, with sizes bound to a plan."""
    w = Writer()
    w.process()
    w.add(MODULE, begin=0x400000, end=0x500000, bias=0x400000, path="/nowhere/program", build_id="00ff")
    w.record(STACK, (1).to_bytes(8, "little") + (0x401234).to_bytes(8, "little") + (0x7f0000000000).to_bytes(8, "little"), 2)
    w.sync(small_plan(w, 5, 1), "program.c:3", "item", new=True, stack=1)
    w.sync(1, "program.c:9", "item", new=True, miss=MISS_BOUND, outside=900_000, run=80_000, wait=30_000, awaited_ns=700_000)
    w.end()
    return w


def empty():
    """A process that evaluated nothing."""
    w = Writer()
    w.process()
    w.end()
    return w


if __name__ == "__main__":
    import sys
    made = globals()[sys.argv[1]]()
    sys.stdout.buffer.write(made if isinstance(made, bytes) else made.data)
