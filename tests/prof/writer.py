"""Writes profile files as runtime/profile_format.h has them, for tests: bytes alone, no library.

In: calls with the fields of a record by their names; what is not named is 0. Out: Writer.data.
Texts are given as strings and get numbers at their first use.
"""
import struct

MAGIC = b"tc-profile 1\n\0\0\0"
assert len(MAGIC) == 16
PROCESS, TEXT, MODULE, STACK, PLAN, SYNC, TIMES, COMPILE, UNUSED, MEMORY, END = range(1, 12)
HIT, REPLAYED, INTERPRETED, FAILED, WRONG = 1, 2, 4, 8, 16
MISS_NONE, MISS_NEW, MISS_EVICTED, MISS_CLEARED, MISS_BOUND = range(5)

# Fields behind the head: name and struct letter. A name with t: is a text.
FIELDS = {
    PROCESS: "pid I parent I start_ns Q start_utc_ns Q peak_flops d peak_bytes d threads I t:program I t:command I t:cpu I t:isa I t:library I t:options I "
             "t:device I t:parent_file I",
    MODULE: "begin Q end Q bias Q t:path I t:build_id I",
    STACK: "id I unused I",
    PLAN: "id I n_nodes I n_left I n_kernels I n_boundaries I n_blocks I n_inputs I n_outputs I n_in_place I n_again I n_held I unused I held_bytes Q hash Q "
          "shape_hash Q bytes Q least_bytes Q arena_bytes Q output_bytes Q input_bytes Q flops d t:graph I t:simplified I t:fusion I t:program I t:device I "
          "unused2 I",
    SYNC: "sequence I thread I begin_ns Q plan I t:site I t:cause I t:tier I t:region I t:note I stack I flags H miss H n_launches I n_compiled I outside_ns Q "
          "record_ns Q lookup_ns Q lower_ns Q compile_ns Q allocate_ns Q launch_ns Q run_ns Q wait_ns Q publish_ns Q total_ns Q planned_bytes Q peak_bytes Q "
          "to_device_bytes Q from_device_bytes Q copied_bytes Q cached_bytes Q awaited_ns Q",
    TIMES: "sequence I plan I",
    COMPILE: "t:name I t:tier I thread I sequence I begin_ns Q emit_ns Q optimize_ns Q generate_ns Q load_ns Q code_bytes Q",
    UNUSED: "sequence I n_values I bytes Q largest_bytes Q t:site I t:op I",
    MEMORY: "sequence I n_live I at_ns Q bytes Q",
    END: "n_syncs I n_lost I end_ns Q",
}
ROWS = {
    "kernel": "t:name I t:kind I stage I n_nodes I bytes Q flops d t:site I t:op I",
    "boundary": "from I to I node I t:reason I bytes Q",
    "block": "t:site I t:op I bytes Q first_stage I last_stage I is I unused I",
    "time": "kernel I n_threads I begin_ns Q ns Q",
    "live": "t:site I t:op I bytes Q",
}


class Writer:
    def __init__(self, magic=MAGIC):
        self.parts, self.texts, self.n_plans, self.n_syncs, self.clock = [magic], {}, 0, 0, 10**9

    @property
    def data(self):
        return b"".join(self.parts)

    def save(self, path):
        with open(path, "wb") as f:
            f.write(self.data)
        return path

    def record(self, kind, body, n=0):
        body += b"\0" * (-len(body) % 8)
        self.parts.append(struct.pack("<IHH", 8 + len(body), kind, n) + body)

    def text(self, text):
        if not text:
            return 0
        if text not in self.texts:
            self.texts[text] = len(self.texts) + 1
            raw = text.encode()
            self.record(TEXT, struct.pack("<II", self.texts[text], len(raw)) + raw)
        return self.texts[text]

    def pack(self, spec, values):
        words, out, letters = spec.split(), [], "<"
        known = set()
        for name, letter in zip(words[::2], words[1::2]):
            text, _, name = name.rpartition(":")
            known.add(name)
            value = values.get(name, "" if text else 0)
            out.append(self.text(value) if text else value)
            letters += letter
        assert set(values) <= known, set(values) - known
        return struct.pack(letters, *out)

    def add(self, kind, rows=(), **values):
        """A record, its rows (kind of row, values) behind it."""
        body = self.pack(FIELDS[kind], values)
        body += b"\0" * (-len(body) % 8)
        body += b"".join(self.pack(ROWS[kind_of], row) for kind_of, row in rows)
        self.record(kind, body, len(rows) if kind in (TIMES, MEMORY) else 0)

    def process(self, **values):
        self.add(PROCESS, **{"pid": 4242, "parent": 1, "start_ns": self.clock, "start_utc_ns": 1764313200 * 10**9, "peak_flops": 1e11, "peak_bytes": 2e10, "threads": 2,
                             "program": "/home/user/train", "command": "./train --epochs 3", "cpu": "a processor", "isa": "avx2", "library": "0.1.0",
                             "options": "TC_NUM_THREADS=2", "device": "tc:cpu", **values})

    def plan(self, kernels=(), boundaries=(), blocks=(), **values):
        """A plan; its id."""
        self.n_plans += 1
        rows = [("kernel", k) for k in kernels] + [("boundary", b) for b in boundaries] + [("block", b) for b in blocks]
        self.add(PLAN, rows, **{"id": self.n_plans, "n_kernels": len(kernels), "n_boundaries": len(boundaries), "n_blocks": len(blocks), "n_nodes": 10, "n_left": 8,
                                "hash": 0x1000 + self.n_plans, "shape_hash": 0x2000 + self.n_plans, "device": "tc:cpu", **values})
        return self.n_plans

    def sync(self, plan, site, cause, outside=2000, record=5000, lookup=1000, lower=0, compile=0, allocate=200, launch=500, run=50000, wait=0, publish=300,
             unaccounted=100, new=False, **values):
        """A sync behind the last one, with times in ns; its sequence."""
        self.n_syncs += 1
        total = lookup + lower + compile + allocate + launch + run + publish + unaccounted
        self.clock += outside + record
        flags = values.pop("flags", 0) | (0 if new else HIT)
        self.add(SYNC, **{"sequence": self.n_syncs, "thread": 4242, "begin_ns": self.clock, "plan": plan, "site": site, "cause": cause, "flags": flags,
                          "miss": MISS_NEW if new else MISS_NONE, "tier": "compiled" if new else "memory", "n_launches": 1, "n_compiled": 1 if new else 0,
                          "outside_ns": outside, "record_ns": record, "lookup_ns": lookup, "lower_ns": lower, "compile_ns": compile, "allocate_ns": allocate,
                          "launch_ns": launch, "run_ns": run, "wait_ns": wait, "publish_ns": publish, "total_ns": total, "planned_bytes": 1 << 20,
                          "peak_bytes": 1 << 20, **values})
        self.clock += total
        return self.n_syncs

    def end(self, **values):
        self.add(END, **{"n_syncs": self.n_syncs, "end_ns": self.clock, **values})
