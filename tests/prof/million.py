"""A profile of very many sync points: million.py FILE [N]"""
import struct
import sys

from fixtures import small_plan, step_plan
from writer import SYNC, Writer


def write(path, n=1_000_000):
    """Steps of four syncs from places of their own, with 200 graphs, each 5,000th step slow."""
    w = Writer()
    w.process()
    plans = [step_plan(w, n=32 + i) for i in range(100)] + [small_plan(w, 3 + i % 9, 0xd00 + i) for i in range(100)]
    first = len(w.parts)
    for i in range(4):  # records to copy
        w.sync(plans[i], f"model.c:{30 + i}", "item" if i == 3 else "eval")
    records = [bytearray(part) for part in w.parts[first:] if struct.unpack_from("<IHH", part)[1] == SYNC]
    texts = [part for part in w.parts[first:] if struct.unpack_from("<IHH", part)[1] != SYNC]
    with open(path, "wb") as f:
        f.write(b"".join(w.parts[:first] + texts))
        block = bytearray()
        for i in range(n):
            r = records[i % 4]
            struct.pack_into("<I", r, 8, i + 1)
            struct.pack_into("<Q", r, 16, 10**9 + i * 60_000)
            struct.pack_into("<I", r, 24, plans[i * 7 % 200])
            block += r
            if len(block) > 1 << 20:
                f.write(block)
                block = bytearray()
        f.write(block)
    return path


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000)
