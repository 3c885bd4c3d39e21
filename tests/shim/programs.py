#!/usr/bin/env python3
"""Programs of others with the shim: NumPy has the same values and is counted; programs without BLAS print the same, and leave neither a file nor a thread;
tc-run starts programs and says which it cannot reach.

programs.py SHIM STANDIN TC_RUN   77: no reference BLAS
"""
import os
import re
import shutil
import stat
import subprocess
import sys

sys.dont_write_bytecode = True

from common import HERE, ROOT, Shim, need_reference

problems = []

NUMPY = r"""
import hashlib, os, sys, numpy as np
rng = np.random.default_rng(1)
a, b = rng.integers(-8, 8, (300, 200)).astype('f4'), rng.integers(-8, 8, (200, 100)).astype('f4')
c, d = a.astype('f8'), b.astype('f8')
said = hashlib.sha256()
for x in (a @ b, c @ d, c.T @ c, a[:, :150] @ b[:150], c @ d[:, 0], np.dot(c[0], c[1]), np.vdot(c[0] + 1j, c[1]), (c + 1j * c) @ d):  # of integers: no rounding
    said.update(np.ascontiguousarray(x).tobytes())
print(said.hexdigest())
m = c.T @ c + 1e5 * np.eye(200)
print(np.allclose(np.linalg.inv(m) @ m, np.eye(200)), np.allclose(np.linalg.cholesky(m) @ np.linalg.cholesky(m).T, m))
sys.stdout.flush()
if os.fork() == 0:
    print(np.array_equal(a @ b, (c @ d).astype('f4')), flush=True)
    os._exit(0)
os.wait()
"""
# In a directory that holds a few files.
COREUTILS = ["true", "echo a b", "ls -la --time-style=+ .", "cat one two", "wc one two", "sort one", "uniq one", "head -n 2 one", "tail -n 2 one", "cut -c 1-3 one", "tr a b", "od -c one",
             "md5sum one", "sha256sum one two", "cksum one", "base64 one", "basename /a/b.c .c", "dirname /a/b", "seq 5", "printf %05d 42", "expr 3 + 4", "factor 360", "nl one", "rev one",
             "tac one", "paste one two", "join one two", "comm one two", "fold -w 2 one", "expand one", "stat -c %s one", "du --apparent-size -b one", "pwd", "id -u", "uname -s", "env echo x",
             "test -e one", "sh -c 'echo $((6 * 7)); ls'", "timeout 5 echo in time", "xargs echo",
             "cat -n one", "tail -c 5 one", "head -c 3 one", "sort -r one", "sort -u one", "uniq -c one", "wc -l one", "cut -d a -f 1 one", "tr -d a", "od -x one",
             "sha1sum one", "sha224sum one", "sha384sum one", "sha512sum one", "b2sum one", "sum one", "base32 one", "basenc --base16 one", "fmt one", "pr -t one",
             "unexpand one", "tsort two", "ptx -G one", "shuf -e a", "numfmt --to=iec 2048", "seq 1 2 9", "printf %s a b", "expr length abc", "false", "yes | head -n 3",
             "echo -n x", "[ 1 = 1 ]", "test 1 -lt 2", "pathchk a", "readlink -f .", "realpath one", "dir", "vdir --time-style=+", "ls -1", "stat -c %a two", "du -b two",
             "date -u -d @0", "dd if=one bs=2 count=1 status=none", "env -i /bin/echo x", "printenv HOME", "nproc --all", "id -un", "whoami", "groups", "logname", "tty",
             "hostid", "arch", "uname -m", "who", "users", "nice", "sleep 0", "stdbuf -o0 echo x", "kill -l", "touch -c nothing", "rm -f nothing", "cp one /dev/null",
             "chmod u+r one", "tee /dev/null", "truncate -c -s 0 nothing", "factor 97 98", "nl -ba two", "paste -s one", "join -a 1 one two", "comm -12 one two",
             "fold -s -w 3 one", "expand -t 4 two", "head -n -1 one", "tail -n +2 one", "cksum two", "tac two", "dircolors -p", "getconf PAGESIZE", "cmp one one",
             "diff one two", "grep a one", "sed s/a/b/ one", "find . -name one", "xargs -n 1 echo", "gzip -nc one", "awk 1 one"]


def expect(what, fact):
    if not fact:
        problems.append(what)


def check_numpy(shim, reference):
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode != 0:
        print("numpy of the system (python3-numpy) is not installed: it was not tested")
        return
    script = shim.place / "script.py"
    script.write_text(NUMPY)
    plain = shim.run([python, script], None, library=reference)
    expect(f"numpy without the shim: {plain}", plain.returncode == 0 and plain.stdout.count("True") == 3)
    for level in ("off", "trace", "eager"):
        done, calls, direct, lines = shim.profiled([python, script], level, library=reference)
        expect(f"numpy at {level}: {done}", (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, ""))
        wanted = {"cblas_sgemm", "cblas_dgemm", "cblas_dsyrk", "cblas_dgemv", "cblas_ddot", "cblas_zdotc_sub", "cblas_zgemm"}
        expect(f"numpy at {level}: {calls}", level == "off" and not lines or wanted <= {n for n, count in calls.items() if count})
        if level == "eager":
            expect(f"numpy: libtc did {direct}", direct["cblas_sgemm"] and direct["cblas_dgemm"] and direct["cblas_dsyrk"] and not direct["cblas_dgemv"])
        for line in lines:
            expect(f"numpy at {level}: {line}", line["kind"] != "site" or "umath" in line["module"] or "lapack" in line["module"] or "blas" in line["module"])
    done = shim.run([python, script], "trace", library=reference)
    table = done.stderr.splitlines()
    done_at = shim.run([python, "-c", "import numpy as np; a = np.ones((900, 900)); [a @ a for _ in range(9)]"], "trace", library=reference).stderr
    nobody = shim.run([python, "-c", "import numpy as np; np.ones((9, 9)) @ np.ones((9, 9))"], "trace", library=reference, TC_SHIM_ONLY="zzz")
    expect(f"a list that no module is in: {nobody}", nobody.returncode == 0 and nobody.stderr.count("\n") == 1 and "no call was counted" in nobody.stderr)
    expect(f"a program of products is told of eager: {done_at}", "tc-run --shim=eager has libtc make them" in done_at)
    expect(f"numpy's table: {done.stderr}", done.stdout == plain.stdout and table and all(len(line) <= 80 for line in table) and "cblas_sgemm" in done.stderr and "_multiarray_umath" in done.stderr)


def check_locale(shim, reference):
    """In a program that writes numbers with a comma, options and the profile have points."""
    if not os.path.exists("/usr/share/i18n/locales/de_DE") or subprocess.run(["/usr/bin/python3", "-c", "import numpy"], capture_output=True).returncode != 0:
        print("no sources of locales (package locales) or no NumPy: a decimal comma was not tested")
        return
    subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", str(shim.place / "de_DE.UTF-8")], check=False, capture_output=True)
    script = "import locale, numpy as np; locale.setlocale(locale.LC_ALL, 'de_DE.UTF-8'); print(locale.str(1.5)); np.ones((99, 99)) @ np.eye(99)"
    done, calls, _, lines = shim.profiled(["/usr/bin/python3", "-c", script], "trace", library=reference, LOCPATH=str(shim.place), TC_SHIM_PEAK="12.5")
    expect(f"a decimal comma: {done} {calls}", (done.returncode, done.stdout, done.stderr) == (0, "1,5\n", "") and calls["cblas_dgemm"] == 1)
    expect(f"the peak: {lines}", any(line.get("peak_gflops") == 12.5 for line in lines))


def check_silence(shim):
    """No program without BLAS notices the shim, with a HOME that cannot be written."""
    home = shim.place / "home"
    home.mkdir()
    (home / "one").write_text("apple\nbanana\nbanana\ncherry\n")
    (home / "two").write_text("banana\ncherry\n")
    before = sorted(os.listdir(home))
    n_run = 0
    home.chmod(stat.S_IRUSR | stat.S_IXUSR)
    for line in COREUTILS:
        if not shutil.which(line.split()[0]):
            continue
        n_run += 1
        plain = shim.run(["sh", "-c", line], None, stdin=home / "one", cwd=home, HOME=str(home))
        for level in ("trace", "eager"):
            done = shim.run(["sh", "-c", line], level, stdin=home / "one", cwd=home, HOME=str(home))
            expect(f"{line} at {level}: {done} instead of {plain}", (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr))
    home.chmod(stat.S_IRWXU)
    expect(f"{n_run} programs", n_run >= 100)
    expect(f"files: {os.listdir(home)}", sorted(os.listdir(home)) == before)
    for level in ("trace", "eager"):
        done = shim.run(["sh", "-c", "grep Threads: /proc/self/status"], level)
        expect(f"threads: {done.stdout}", done.stdout.split() == ["Threads:", "1"])
    needs = subprocess.run(["readelf", "-d", shim.path], capture_output=True, text=True, check=True).stdout
    expect(f"what the shim links: {needs}", re.findall(r"NEEDED.*\[(.*)\]", needs) == ["libc.so.6"])


# Without /sys, and on a disk that is full, in a mount namespace of its own.
BARE = """
mount --bind {place}/empty /sys && mount -t tmpfs -o size=4k none {place}/full && dd if=/dev/zero of={place}/full/rest bs=4k status=none 2>/dev/null
test -e /sys/devices && exit 99
echo x > {place}/full/more 2>/dev/null && exit 98
exec "$@"
"""


def check_bare(shim, command, levels, reference):
    """No /sys, HOME and the profile on a full disk, and a stderr that cannot be written: the program ends as it would."""
    for name in ("empty", "full"):
        (shim.place / name).mkdir()
    bare = shim.place / "bare.sh"
    bare.write_text(BARE.format(place=shim.place))
    bare_room = subprocess.run(["unshare", "-m", "sh", bare, "true"], capture_output=True, check=False).returncode == 0
    if not bare_room:
        print("no mount namespace can be made: /sys and a full disk were not taken away")
    full = {"HOME": str(shim.place / "full"), "TMPDIR": str(shim.place / "full"), "XDG_CACHE_HOME": str(shim.place / "full")}
    words = " ".join(map(str, command))
    for level in levels:
        if bare_room:
            done = shim.run(["unshare", "-m", "sh", bare, *command], level, library=reference, TC_SHIM_MIN="0", **full)
            expect(f"bare at {level}: {done}", done.returncode == 0 and (not done.stderr or level == "trace"))
        done = shim.run(command, level, library=reference, TC_SHIM_PROFILE="/dev/full")
        expect(f"a profile on a full disk at {level}: {done}", done.returncode == 0 and done.stderr.count("\n") <= 1)
        done = shim.run(["sh", "-c", f"{words} 2>/dev/full"], level, library=reference)
        expect(f"a full stderr at {level}: {done}", done.returncode == 0)
        done = shim.run(["sh", "-c", f"{words} 2>&-"], level, library=reference)
        expect(f"no stderr at {level}: {done}", done.returncode == 0)


def check_tc_run(shim, tc_run, reference, calls):
    """tc-run beside the shim."""
    tool = shim.place / "tc-run"
    shutil.copy(tc_run, tool)
    env = {"library": reference}
    source = shim.place / "plain.c"
    source.write_text('#include <stdio.h>\nint main(int argc, char **argv) {\n  printf("%d %s\\n", argc, argv[argc - 1]);\n  return 3;\n}\n')
    plain, static = shim.compile("plain", source), shim.compile("static", source, "-static")
    for words, rc, out, err in (
        (["--shim=eager", "--", plain, "-x"], 3, "2 -x\n", "asks no library for BLAS"),
        (["--shim=eager", "--", static], 3, "static\n", "is linked statically"),
        (["--shim", "trace", "--", calls, "product"], 0, "", "6 calls of BLAS took"),  # one in a constructor
        (["--shim=eager", "--", calls, "product"], 0, "", None),
        (["--shim=off", calls, "product"], 0, "", None),
        (["--profile", "first.json", "--shim=trace", "--", calls, "product"], 0, "", None),
        (["--shim=trace", "--", "env", "echo", "hello"], 0, "hello\n", None),
        (["--shim=trace", "--", "sh", "-c", "exit 4"], 4, "", None),
        (["--shim=eager", "--", "no-such-program"], 127, "", "no-such-program cannot be run"),
        (["--shim=lazier", "--", "true"], 2, "", "takes off, trace, eager, writeback or lazy"),
        (["--shim=best", "--", "true"], 2, "", "not 'best'"),
        (["--shim=eager", "--nothing", "--", "true"], 2, "", "--nothing"),
        (["--shim=eager"], 2, "", "no program"),
        (["--shim"], 2, "", "value"),
        (["--shim=trace", "--profile", "--", calls, "product"], 2, "", "a value is wanted before -- by '--profile'"),
        (["--shim=off", "--profile", "p", "--", "true"], 2, "", "no profile"),
        (["--shim=trace", "--profile", "/nowhere/p", "--", "true"], 1, "", "cannot be written"),
    ):
        done = shim.run([tool, *words], None, **env)
        right = done.returncode == rc and (done.stdout == out or out == "static\n" and done.stdout.startswith("1 "))
        expect(f"tc-run {words}: {done}", right and (err in done.stderr if err else not done.stderr))
    profile = shim.place / "kept.json"
    profile.write_text("old\n")
    done = shim.run([tool, "--shim=trace", "--profile", "kept.json", "--", calls, "product"], None, **env)
    expect(f"tc-run --profile: {done}", done.returncode == 0 and not done.stderr and profile.read_text().count('"kind": "site"') == 2 and "old" not in profile.read_text())
    done = shim.run([tool, "--shim=trace", "--", "sh", "-c", "echo $LD_PRELOAD"], None, preload=["libm.so.6"])
    expect(f"what is preloaded: {done}", done.stdout == f"libm.so.6:{os.path.realpath(sys.argv[1])}\n" and not done.stderr)


def main():
    reference = need_reference()
    shim = Shim(*sys.argv[1:3])
    check_numpy(shim, reference)
    check_locale(shim, reference)
    check_silence(shim)
    calls = shim.compile("calls", HERE / "calls.c", f"{reference}/libblas.so.3", "-rdynamic", "-lpthread")
    check_bare(shim, [calls, "product"], ("trace", "eager"), reference)
    check_tc_run(shim, sys.argv[3], reference, calls)
    shim.close()
    print("\n".join(problems) or "programs are as they were")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
