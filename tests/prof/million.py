"""A profile of very many sync points: million.py FILE [N [PLANS]]"""
import struct
import sys

from fixtures import small_plan, step_plan
from writer import COMPILE, HIT, MISS_NEW, MISS_NONE, PLAN, SYNC, TEXT, Writer


def kind_of(part):
    return struct.unpack_from("<IHH", part)[1] if len(part) >= 8 else 0


class Distinct:
    """Plans that are all different: four texts, a plan and a compile each, made by patching those of one."""

    def __init__(self, w):
        first = len(w.parts)
        number = "@@@@@@@@"
        plan = w.plan(n_nodes=6, n_left=5, hash=1, shape_hash=2, bytes=64, least_bytes=64, flops=6.0, graph="%0 = leaf f32[64] tc:cpu live @ m.c:1\n" * 5 + number,
                      simplified="%0 = leaf f32[64] leaf 0\n" * 5 + number, fusion="k0 FLAT [64]: %1 add\n" + number, program=f"6 nodes, 1 steps, {number}",
                      kernels=[{"name": "tc_f32_add", "kind": "generated", "n_nodes": 6, "bytes": 64, "flops": 6.0, "site": "m.c:1", "op": "add"}])
        w.add(COMPILE, name="tc_f32_add", tier="compiled", thread=4242, begin_ns=10**9, emit_ns=1000, generate_ns=10**6, load_ns=1000)
        parts = w.parts[first:]
        self.texts = [bytearray(p) for p in parts if kind_of(p) == TEXT and number.encode() in p]
        self.shared = [p for p in parts if kind_of(p) == TEXT and number.encode() not in p]
        self.plan = bytearray(next(p for p in parts if kind_of(p) == PLAN))
        self.compile = next(p for p in parts if kind_of(p) == COMPILE)
        self.at = [t.index(number.encode()) for t in self.texts]
        self.next_text, self.next_plan = len(w.texts) + 1, plan + 1
        assert len(self.texts) == 4

    def add(self, block):
        """Appends a plan; its id."""
        for k, (text, at) in enumerate(zip(self.texts, self.at)):
            struct.pack_into("<I", text, 8, self.next_text + k)
            text[at : at + 8] = b"%08d" % self.next_plan
            block += text
        struct.pack_into("<I", self.plan, 8, self.next_plan)
        struct.pack_into("<QQ", self.plan, 64, self.next_plan * 0x9E3779B97F4A7C15 % 2**64, 7)
        struct.pack_into("<IIII", self.plan, 128, *range(self.next_text, self.next_text + 4))
        self.next_text += 4
        self.next_plan += 1
        block += self.plan + self.compile
        return self.next_plan - 1


def write(path, n=1_000_000, n_plans=0):
    """Steps of four syncs from places of their own, with 200 graphs, each 5,000th step slow. n_plans: with so many more graphs, which come one after the other."""
    w = Writer()
    w.process()
    plans = [step_plan(w, n=32 + i) for i in range(100)] + [small_plan(w, 3 + i % 9, 0xd00 + i) for i in range(100)]
    first = len(w.parts)
    for i in range(4):  # records to copy
        w.sync(plans[i], f"model.c:{30 + i}", "item" if i == 3 else "eval")
    records = [bytearray(part) for part in w.parts[first:] if kind_of(part) == SYNC]
    texts = [part for part in w.parts[first:] if kind_of(part) != SYNC]
    distinct = Distinct(w)
    made, plan = 0, 0
    with open(path, "wb") as f:
        f.write(b"".join(w.parts[:first] + texts + distinct.shared))
        block = bytearray()
        for i in range(n):
            r, before = records[i % 4], made
            while made < n_plans and made * n <= i * n_plans:
                plan, made = distinct.add(block), made + 1
            struct.pack_into("<I", r, 8, i + 1)
            struct.pack_into("<Q", r, 16, 10**9 + i * 60_000)
            struct.pack_into("<HH", r, 52, 0 if made > before else HIT, MISS_NEW if made > before else MISS_NONE)
            struct.pack_into("<I", r, 24, plan or plans[i * 7 % 200])
            block += r
            if len(block) > 1 << 20:
                f.write(block)
                block = bytearray()
        f.write(block)
    return path


if __name__ == "__main__":
    write(sys.argv[1], *map(int, sys.argv[2:]))
