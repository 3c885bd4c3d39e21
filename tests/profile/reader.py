"""Reads a profile file as docs/profile-format.md has it, independently of the library and of tc-prof. Records are dictionaries by field; rows are lists of them."""
import struct

MAGIC = b"tc-profile 1\n\0\0\0"
HEAD = struct.Struct("<IHH")

KINDS = {
    1: ("process", "I pid, I parent, Q start_ns, Q start_utc_ns, d peak_flops, d peak_bytes, I threads, I program, I command, I cpu, I isa, I library, I options, I device, I parent_file"),
    2: ("text", "I id, I length"),
    3: ("module", "Q begin, Q end, Q bias, I path, I build_id"),
    4: ("stack", "I id, I unused"),
    5: ("plan", "I id, I n_nodes, I n_left, I n_kernels, I n_boundaries, I n_blocks, I n_inputs, I n_outputs, I n_in_place, I n_again, I n_held, I unused, Q held_bytes, Q hash,"
                " Q shape_hash, Q bytes, Q least_bytes, Q arena_bytes, Q output_bytes, Q input_bytes, d flops, I graph, I simplified, I fusion, I program, I device, I unused2"),
    6: ("sync", "I sequence, I thread, Q begin_ns, I plan, I site, I cause, I tier, I region, I note, I stack, H flags, H miss, I n_launches, I n_compiled,"
                " Q outside_ns, Q record_ns, Q lookup_ns, Q lower_ns, Q compile_ns, Q allocate_ns, Q launch_ns, Q run_ns, Q wait_ns, Q publish_ns, Q total_ns,"
                " Q planned_bytes, Q peak_bytes, Q to_device_bytes, Q from_device_bytes, Q copied_bytes, Q cached_bytes, Q awaited_ns"),
    7: ("kernel_times", "I sequence, I plan"),
    8: ("compile", "I name, I tier, I thread, I sequence, Q begin_ns, Q emit_ns, Q optimize_ns, Q generate_ns, Q load_ns, Q code_bytes"),
    9: ("unused", "I sequence, I n_values, Q bytes, Q largest_bytes, I site, I op"),
    10: ("memory", "I sequence, I n_live, Q at_ns, Q bytes"),
    11: ("end", "I n_syncs, I n_lost, Q end_ns"),
}
ROWS = {
    "kernel": "I name, I kind, I stage, I n_nodes, Q bytes, d flops, I site, I op",
    "boundary": "I from_, I to, I node, I reason, Q bytes",
    "block": "I site, I op, Q bytes, I first_stage, I last_stage, I is_, I unused",
    "kernel_time": "I kernel, I n_threads, Q begin_ns, Q ns",
    "live": "I site, I op, Q bytes",
}
HIT, REPLAYED, INTERPRETED, FAILED, WRONG = 1, 2, 4, 8, 16
PHASES = ("lookup_ns", "lower_ns", "compile_ns", "allocate_ns", "launch_ns", "run_ns", "publish_ns")
# Fields that name a text, in records and rows.
TEXTS = {"program", "command", "cpu", "isa", "library", "options", "device", "parent_file", "path", "build_id", "graph", "simplified", "fusion", "site", "cause", "tier", "region", "note", "name", "kind", "op", "reason"}


def fields(layout, data, at):
    """The fields of a layout at a place. A C struct's own alignment leaves no holes in any of them but sync, whose two do."""
    names, out = [f.strip().split() for f in layout.split(",")], {}
    for code, name in names:
        size = struct.calcsize(code)
        at = (at + size - 1) // size * size
        out[name] = struct.unpack_from("<" + code, data, at)[0]
        at += size
    return out, at


class Profile:
    """The records of a file in their order, and by kind. Texts are put in the place of their numbers."""

    def __init__(self, path):
        data = path.read_bytes()
        assert data[:16] == MAGIC, f"{path}: no profile"
        self.records, self.texts, self.plans, self.stacks, self.size = [], {0: ""}, {}, {}, len(data)
        at = 16
        while at + 8 <= len(data):
            length, kind, n = HEAD.unpack_from(data, at)
            if length == 0:
                break
            assert length % 8 == 0 and length >= 8 and at + length <= len(data), f"{path}: a record of {length} bytes at {at}"
            self.add(data[at : at + length], kind, n)
            at += length
        self.end_at = at
        self.name_texts()

    def add(self, data, kind, n):
        name, layout = KINDS[kind]
        record, at = fields(layout, data, 8)
        record.update(kind_=name, n=n)
        if name == "text":
            assert record["id"] not in self.texts
            self.texts[record["id"]] = data[at : at + record["length"]].decode(errors="replace")
        if name == "stack":
            self.stacks[record["id"]] = struct.unpack_from(f"<{n}Q", data, at)
        for row, count in {"plan": [("kernel", "n_kernels"), ("boundary", "n_boundaries"), ("block", "n_blocks")], "kernel_times": [("kernel_time", "n")], "memory": [("live", "n")]}.get(name, []):
            at = (at + 7) // 8 * 8
            record[row] = []
            for _ in range(record[count]):
                x, at = fields(ROWS[row], data, at)
                record[row].append(x)
                at = (at + 7) // 8 * 8
        if name == "plan":
            self.plans[record["id"]] = record
        self.records.append(record)

    def name_texts(self):
        for r in self.records:
            rows = [x for value in r.values() if isinstance(value, list) for x in value]
            for x in [r, *rows]:
                for field in TEXTS & x.keys():
                    if isinstance(x[field], int) and not (x is r and r["kind_"] in ("process",) and field == "threads"):
                        assert x[field] in self.texts, f"text {x[field]} of {field} is not there"
                        x[field] = self.texts[x[field]]

    def of(self, kind):
        return [r for r in self.records if r["kind_"] == kind]
