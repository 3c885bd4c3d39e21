#!/usr/bin/env python3
"""Counts what `meson test` ran: count_tests.py testlog.json prints "PASSED FAILED SKIPPED", and on stderr what failed and why.
count_tests.py --facts testlog.json prints in one line how much there is and was tried: ops, golden cases, random graphs, planted bugs found.

A Criterion program counts by its TAP subtests, a plain program as one. A TAP program that died, timed out or printed no plan adds a failure.
"""
import json
import re
import sys


def count_tap(text):
    passed = failed = skipped = 0
    names = []
    plan, last_failed = None, False
    for line in text.splitlines():
        m = re.match(r"1\.\.(\d+)", line)
        if m:
            plan = int(m.group(1))
        m = re.match(r"(not )?ok\b\s*(.*)", line)
        if m is None:
            if names and last_failed and not line.startswith("1.."):
                names[-1] += "\n    " + line.strip()
            continue
        last_failed = False
        if re.search(r"#\s*skip", m.group(2), re.I):
            skipped += 1
        elif m.group(1):
            failed += 1
            names.append(m.group(2).lstrip("- "))
            last_failed = True
        else:
            passed += 1
    return passed, failed, skipped, names, plan


def count_lines(path, pattern):
    return sum(re.match(pattern, line) is not None for line in open(path, encoding="utf-8"))


def print_facts(path):
    """What tests say of themselves is looked for in all their output; "none" where no test said it."""
    said = "\n".join((run.get("stdout") or "") + "\n" + (run.get("stderr") or "")
                     for run in map(json.loads, open(path, encoding="utf-8", errors="replace")))

    def find(pattern):
        m = re.search(pattern, said, re.M)
        return m.group(1) if m else "none"

    print(f"ops: {count_lines('include/tc/api.def', r'TC_FN[(]')} public, {count_lines('include/tc/ops.def', r'TC_OP[(]')} recorded; "
          f"golden cases: {count_lines('tests/golden/golden.txt', r'[^#=]')}; random graphs: {find(r'^random graphs: ([0-9]+) ok')}; "
          f"planted bugs: {find(r'^planted bugs: (.*)$')}")


def main():
    if sys.argv[1] == "--facts":
        print_facts(sys.argv[2])
        return
    total = [0, 0, 0]
    for line in open(sys.argv[1], encoding="utf-8", errors="replace"):
        run = json.loads(line)
        result, out = run["result"], run.get("stdout") or ""
        passed, failed, skipped, names, plan = count_tap(out)
        if plan is None:  # a plain program, or a Criterion one that never got going
            passed, failed, skipped = int(result in ("OK", "EXPECTEDFAIL")), 0, int(result == "SKIP")
            failed = 1 - passed - skipped
            names = [result.lower()] if failed else []
            if failed:
                lines = (run.get("stderr") or "").splitlines() or out.splitlines()
                names[0] += "".join("\n    " + text for text in lines[:60])
        elif result not in ("OK", "SKIP") and failed == 0:
            failed, names = 1, [result.lower()]
        elif passed + failed + skipped < plan:
            failed += 1
            names.append(f"{plan - passed - failed - skipped + 1} tests of the plan did not report")
        for name in names[:20]:
            print(f"FAILED {run['name']}: {name}", file=sys.stderr)
        total = [a + b for a, b in zip(total, (passed, failed, skipped))]
    print(*total)


if __name__ == "__main__":
    main()
