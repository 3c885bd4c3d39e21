#!/usr/bin/env python3
"""page.py TC_PROF: the page of tc-prof html, driven in headless Chromium at 1440 and 390 pixels: it opens without an error, refers to nothing outside,
filters by place, shows the sync that is clicked, zooms, and is not wider than the window. A text of the profile that looks like markup stays text.
Of a long run it has every miss and failed sync, and a fair sample of the others.
All but that is skipped (77) without Chromium. --look FILE PAGE writes a picture instead."""
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

import fixtures
from writer import FAILED, Writer

DRIVER = """<script>
window.said = [];
window.addEventListener("error", e => said.push(e.message));
window.drive = () => {
  const out = {}, rows = () => document.querySelectorAll("#sites tr.pick").length, $ = id => document.getElementById(id);
  out.title = document.title;
  out.inSync = [...document.querySelectorAll(".tile")].map(t => t.innerText).find(t => t.includes("in sync points"));
  out.rows = rows();
  out.width = document.documentElement.scrollWidth;
  $("filter").value = "item", $("filter").dispatchEvent(new Event("input"));
  out.filtered = rows();
  $("all-sites").click();
  out.unfiltered = rows();
  document.querySelector("#sites tr.pick").click();
  out.chosen = document.querySelectorAll("#sites tr.on").length;
  $("all-sites").click();
  const range = $("range").textContent;
  $("in").click();
  out.zoomed = $("range").textContent !== range;
  $("reset").click();
  out.whole = $("range").textContent === range;
  const c = $("time"), box = c.getBoundingClientRect();
  c.setPointerCapture = () => {};
  out.before = $("sync-title").textContent;
  for (let x = box.width - 2; x > 0 && $("sync-title").textContent === out.before; x -= 2)
    for (const kind of ["pointerdown", "pointerup"]) c.dispatchEvent(new PointerEvent(kind, {clientX: box.left + x, clientY: box.top + 22 + 23}));
  out.after = $("sync-title").textContent;
  for (let x = 0; x < box.width && !(out.slice || "").includes("tc_f32"); x++)
    c.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + x, clientY: box.top + box.height - 8})), out.slice = $("tip").textContent;
  const misses = [...document.querySelectorAll("#misses tr.pick")];
  for (const miss of misses) if (!out.kernels) miss.click(), out.kernels = document.querySelectorAll("#graph .kernel").length;
  if ($("before")) $("before").click();
  out.nodes = document.querySelectorAll("#graph .box").length;
  out.markup = document.querySelectorAll("b.planted, script.planted").length;
  return out;
};
</script>"""
RESULT = """<script>
let out;
try { out = drive(); } catch (e) { out = {}; said.push(String(e)); }
out.said = said;
const r = document.createElement("pre");
r.id = "result", r.textContent = JSON.stringify(out);
document.body.append(r);
</script>"""


def browser():
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def chromium(*words):
    with tempfile.TemporaryDirectory() as home:
        line = [browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir=" + home, *words]
        return subprocess.run(line, capture_output=True, text=True, timeout=120, check=False).stdout


def drive(page, width):
    text = page.read_text().replace('<script type="application/json"', DRIVER + '<script type="application/json"', 1).replace("</body>", RESULT + "</body>")
    driven = page.with_suffix(".driven.html")
    driven.write_text(text)
    dom = chromium(f"--window-size={width},1200", "--virtual-time-budget=4000", "--dump-dom", driven.as_uri())
    found = re.search(r'<pre id="result">(.*?)</pre>', dom, re.DOTALL)
    assert found, "the page did not finish: " + dom[-300:]
    return json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


def markup():
    """A profile whose texts are markup."""
    w = Writer()
    w.process()
    plan = fixtures.small_plan(w, 3, 1, site="</script><b class=planted>x</b>.c:1")
    for _ in range(4):
        w.sync(plan, "</script><script class=planted>said.push('planted')</script>:2", "item")
    return w


def threads():
    """Two threads that are in a sync for three quarters of their time, at the same moments."""
    w = Writer()
    w.process()
    plan = fixtures.small_plan(w, 3, 1)
    for i in range(20):
        for thread in (4242, 4243):
            w.clock = 10**9 + i * 80_000
            w.sync(plan, "model.c:40", "item", outside=15_000, record=5000, run=57_900, thread=thread)
    w.end()
    return w


def check(tool, name, profile, folder):
    path, page = folder / (name + ".prof"), folder / (name + ".html")
    path.write_bytes(profile)
    subprocess.run([tool, "html", "-o", page, path], check=True, capture_output=True)
    outside = [u for u in re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"'<]*", page.read_text()) if "www.w3.org/2000/svg" not in u]
    assert not outside, outside
    for width in (1440, 390):
        out = drive(page, width)
        assert out["said"] == [], (name, width, out["said"])
        assert out["markup"] == 0, (name, width)
        assert out["width"] <= max(width, 500), (name, width, out["width"])  # headless windows are 500 wide at least
        assert out["rows"] >= 1 and out["unfiltered"] == out["rows"] and out["chosen"] == 1, (name, width, out)
        assert out["zoomed"] and out["whole"], (name, width, out)
        if name == "threads":
            assert re.search(r"^75 %\s+of the threads' time in sync points$", out["inSync"]), out
        if name == "training":
            assert 0 < out["filtered"] < out["rows"], out
            assert out["after"] != out["before"] and out["after"].startswith("Sync "), out
            assert re.search(r"^tc_f32_sum_1_0a1b2c3d: 200 us$", out["slice"]), out  # the last track: compiles of the second thread
            assert out["kernels"] >= 1 and out["nodes"] >= 1, out
    print(name, "ok")


def check_sample(tool, folder):
    """A loop of four places, four times as long as the page has room: each place has its share, whatever the step's length."""
    chance = random.Random(1)
    for n_faults in (300, 40000):
        w = Writer()
        w.process()
        plan = fixtures.small_plan(w, 3, 1)
        faults = set(chance.sample(range(1, 80001), n_faults))
        for i in range(1, 80001):
            fault = i in faults
            w.sync(plan, f"model.c:{i % 4}", "eval", new=fault and i % 3 == 0, flags=FAILED if fault and i % 3 else 0, run=10**9 if i == 777 else 5000)
        w.end()
        text = subprocess.run([tool, "html", w.save(folder / "long.prof")], check=True, capture_output=True, text=True).stdout
        data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
        drawn = [(int(s[0]), int(s[4])) for s in data["syncs"]]
        assert 10000 < len(drawn) <= 20000 and drawn == sorted(set(drawn)), len(drawn)
        kept = {777} | (faults if data["has_faults"] else set())
        assert data["has_faults"] == (n_faults == 300) and kept <= {sequence for sequence, _ in drawn}, n_faults
        for site in range(4):
            share = sum(s == site for _, s in drawn) / len(drawn)
            assert 0.22 < share < 0.28, (n_faults, site, share)
    print("sample ok")


def unpack(packed):
    """The bytes that tools/prof/pack.h packed."""
    digits, out, i, back = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", bytearray(), 0, 0
    while i < len(packed):
        c, rest = packed[i], packed[i + 1 : i + 6]
        i += 1
        if c not in "~`" or (c == "~" and rest[0] in "~`"):
            out += (c if c not in "~`" else rest[0]).encode()
            i += c in "~`"
            continue
        if c == "~":
            back, rest, i = sum(digits.index(x) << 18 - 6 * k for k, x in enumerate(rest[:4])), rest[4:], i + 4
        for _ in range(digits.index(rest[0]) + 4):
            out.append(out[-back])
        i += 1
    return out


def check_size(tool, folder):
    """Graphs that are alike cost the page little, and each is there to the byte; one that is not ASCII, too."""
    w, texts = Writer(), []
    w.process()
    for i in range(240):
        lines = "".join(f"%{k} = {'matmul' if k % 7 == 0 else 'add'} f32[{100 + i},{64 + k % 5}] tc:cpu in %{k - 1} %{k // 2} live @ model.c:{k}\n" for k in range(1, 60))
        texts.append(lines + ("~~ `x é\n" if i == 3 else "~`\n"))
        kernels = [{"name": f"tc_f32_add_{k}", "kind": "generated", "n_nodes": 6, "bytes": 64 * i, "flops": 6.0, "site": f"model.c:{k}", "op": "add"} for k in range(12)]
        boundaries = [{"from": k, "to": k + 1, "node": k, "reason": "operands of a matmul have memory", "bytes": 4096 + i} for k in range(11)]
        plan = w.plan(n_nodes=60, graph=texts[-1], simplified=texts[-1].replace(" tc:cpu", ""), fusion=texts[-1].replace("=", ":"), kernels=kernels, boundaries=boundaries)
        w.sync(plan, f"model.c:{i % 3}", "eval", new=True)
    w.end()
    path = w.save(folder / "alike.prof")
    text = subprocess.run([tool, "html", path], check=True, capture_output=True, text=True).stdout
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    packed = bytes(unpack(data["texts"]))
    assert len(packed) == data["texts_bytes"]
    assert len(data["plans"]) == 200
    for plan in data["plans"]:
        graph = plan["graph"] if isinstance(plan["graph"], str) else packed[plan["graph"][0] : sum(plan["graph"])].decode()
        assert graph == texts[plan["id"] - 1], plan["id"]
        assert [data["names"][k[0]] for k in plan["kernels"]] == [f"tc_f32_add_{k}" for k in range(12)]
        assert all(data["names"][b[4]] == "operands of a matmul have memory" for b in plan["boundaries"])
    assert len(text) < 500_000 < sum(map(len, texts)), len(text)
    print(f"size ok: {len(text)} bytes")


def main():
    if sys.argv[1] != "--look":
        with tempfile.TemporaryDirectory() as folder:
            check_size(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(folder))
            check_sample(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(folder))
    if not browser():
        print("skipped: no Chromium (Debian: chromium)")
        return 77
    if sys.argv[1] == "--look":
        chromium("--window-size=1440,2000", f"--screenshot={sys.argv[2]}", pathlib.Path(sys.argv[3]).resolve().as_uri())
        return 0
    with tempfile.TemporaryDirectory() as folder:
        tool = pathlib.Path(sys.argv[1]).resolve()
        for name, w in (("training", fixtures.training()), ("killed", fixtures.killed()), ("markup", markup()), ("threads", threads())):
            check(tool, name, w if isinstance(w, bytes) else w.data, pathlib.Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
