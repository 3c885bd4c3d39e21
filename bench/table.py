#!/usr/bin/env python3
"""What a run's JSON lines say, as a table and as a picture, and which peers were the fastest.

    bench/table.py out.json              prints the table in Markdown
    bench/table.py --svg out.json        prints the picture: tc's speed as a share of the best peer's, with the floor, one bar a row
    bench/table.py --write out.json      puts the table into bench/README.md and the picture into bench/table.svg
    bench/table.py --best out.json       prints bench/best_peers.def, from a run with --all-peers

Of a row that is there twice the last line counts.
"""
import json
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
BEGIN, END = "<!-- table.py: begin -->", "<!-- table.py: end -->"


def read(path):
    rows = {}
    for line in open(path, encoding="utf-8"):
        row = json.loads(line)
        rows[row["bench"], row["case"], row["threads"]] = row
    return list(rows.values())


def number(x):
    return f"{x:.3g}" if abs(x) < 1000 else f"{x:,.0f}"


def bound_text(bounds):
    """A row's floors in words."""
    texts = []
    for what, bound in (bounds or {}).items():
        kind, _, peer = what.partition(" to ")
        if kind == "value":
            texts.append(f"at most {bound:.4g}")
        elif kind == "of_roof":
            texts.append(f"{100 * bound:.3g} % of the roof")
        else:
            texts.append(f"{bound:.3g}x" + (f" {peer}" if peer else ""))
    return ", ".join(texts)


def held(row):
    """Whether every floor that can be judged from the line holds; None if there is none."""
    verdicts = []
    for what, bound in (row["floor"] or {}).items():
        kind, _, peer = what.partition(" to ")
        if kind == "value":
            verdicts.append(row["value"] <= bound)
        elif kind == "of_roof" and row["of_roof"] is not None:
            verdicts.append(row["of_roof"] >= bound)
        elif kind == "ratio" and (ratio := ratio_to(row, peer)) is not None:
            verdicts.append(ratio >= bound)
    return all(verdicts) if verdicts else None


def ratio_to(row, peer):
    if not peer or peer == row["best_peer"]:
        return row["ratio"]
    theirs = row["peers"].get(peer)
    if not isinstance(theirs, (int, float)) or not row["value"]:
        return None
    return row["value"] / theirs if "/" in row["unit"] else theirs / row["value"]


def markdown(rows):
    out = ["| row | threads | tc | best peer | ratio | of the roof | floor | held |", "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for r in rows:
        best = r["best_peer"]
        peer = f"{best} {number(r['peers'][best])}" if best else ""
        ratio = f"{r['ratio']:.2f}" if best else ""
        roof = f"{100 * r['of_roof']:.0f} %" if r["of_roof"] else ""
        verdict = {True: "yes", False: "**no**", None: ""}[held(r)]
        out.append(f"| {r['bench']} {r['case']} | {r['threads']} | {number(r['value'])} {r['unit']} | {peer} | {ratio} | {roof} | {bound_text(r['floor'])} | {verdict} |")
    return "\n".join(out)


def bar_of(row):
    """(ratio to the best peer, its floor): of a row without a ratio, the share of the roof or of the value that is allowed."""
    floor = row["floor"] or {}
    if row["ratio"]:
        peers = [b for what, b in floor.items() if what == "ratio"]
        return row["ratio"], (peers[0] if peers else None), row["best_peer"]
    if row["of_roof"]:
        return row["of_roof"], floor.get("of_roof"), "roof"
    if "value" in floor and floor["value"] > 0 and row["value"] > 0:
        return floor["value"] / row["value"], 1, "allowed value"
    return None


def svg(rows):
    """Bars on a logarithmic axis: to the right of the line at 1 tc is the faster; a tick marks the floor."""
    bars = [(r, b) for r in rows if (b := bar_of(r))]
    left, width, step, top = 260, 520, 18, 44
    low, high = -3.0, 3.0  # powers of two

    def x(ratio):
        return left + (min(max(math.log2(ratio), low), high) - low) / (high - low) * width

    height = top + step * len(bars) + 16
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 190}" height="{height}" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{left}" y="14" font-size="13">How many times as fast as the best peer (bar), and the floor (tick)</text>',
    ]
    for power in range(int(low), int(high) + 1):
        at, label = x(2.0**power), f"{2.0**power:g}x"
        out.append(f'<line x1="{at:.1f}" y1="{top - 8}" x2="{at:.1f}" y2="{height - 12}" stroke="{"#333" if power == 0 else "#ddd"}"/>')
        out.append(f'<text x="{at:.1f}" y="{top - 12}" text-anchor="middle" fill="#555">{label}</text>')
    for i, (row, (ratio, floor, against)) in enumerate(bars):
        y = top + i * step
        begin, end = sorted((x(1), x(ratio)))
        color = "#2a7f3f" if ratio >= 1 else "#b5482a"
        out.append(f'<text x="{left - 8}" y="{y + 11}" text-anchor="end">{row["bench"]} {row["case"]}, {row["threads"]}</text>')
        out.append(f'<rect x="{begin:.1f}" y="{y + 2}" width="{max(end - begin, 1):.1f}" height="{step - 6}" fill="{color}"/>')
        if floor:
            out.append(f'<line x1="{x(floor):.1f}" y1="{y}" x2="{x(floor):.1f}" y2="{y + step - 2}" stroke="black" stroke-width="2"/>')
        out.append(f'<text x="{left + width + 8}" y="{y + 11}">{ratio:.2f} of {against}</text>')
    return "\n".join([*out, "</svg>"])


def best(rows):
    """The table of bench/best_peers.def: the rows' own processes are always run, so only the others count."""
    head = (HERE / "best_peers.def").read_text(encoding="utf-8").split("\nBEST(")[0].rstrip()
    lines = []
    for r in rows:
        outside = {name: v for name, v in r["peers"].items() if isinstance(v, (int, float)) and name not in ("openblas", "onednn", "llvm")}
        if outside:
            pick = (max if "/" in r["unit"] else min)(outside, key=outside.get)
            lines.append(f'BEST({r["bench"]}, "{r["case"]}", {min(r["threads"], 2)}, "{pick}")')
    return "\n".join([head, *lines])


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    rows = read(sys.argv[-1])
    what = sys.argv[1] if len(sys.argv) > 2 else ""
    if what == "--svg":
        print(svg(rows))
    elif what == "--best":
        print(best(rows))
    elif what == "--write":
        page = HERE / "README.md"
        text = page.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        page.write_text(f"{before}{BEGIN}\n{markdown(rows)}\n{END}{rest.split(END)[1]}", encoding="utf-8")
        (HERE / "table.svg").write_text(svg(rows) + "\n", encoding="utf-8")
    else:
        print(markdown(rows))


main()
