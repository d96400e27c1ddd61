"""Stands in for the Mojo compiler, so that what surrounds a compilation can be tested quickly and where there is none.

Understands the three runs of `load` for a file that exports `add`; what it builds is C. It notes each run in FAKE_LOG
and misbehaves as FAKE_MODE says: "slow" (a second), "hang" (with a child of its own), "refuse", "refuse here" (in the
file it was given), "die", "garble", "needs" (a missing function), "runtime" (one of Mojo's own), "killed" (by a
signal), "touch" (changes the source meanwhile).
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

LLVM = "define dso_local double @add(double noundef %0, double noundef %1) #0 {\n"
FLOAT = {"convention": "imm", "type": "Float64"}
DOC = {
    "decl": {
        "name": "fake",
        "summary": "A file.",
        "description": "",
        "aliases": [],
        "structs": [],
        "functions": [
            {
                "name": "add",
                "overloads": [
                    {
                        "args": [{"name": "a", **FLOAT}, {"name": "b", **FLOAT}],
                        "parameters": [],
                        "raises": False,
                        "async": False,
                        "returns": {"type": "Float64"},
                        "summary": "Adds.",
                        "description": "",
                    }
                ],
            }
        ],
    }
}
REMARK = {
    "kind": "error",
    "message": "no such thing",
    "diagnostic": {
        "file": "f.mojo",
        "text": "    é = x",
        "location": {"line": 3, "column": 9},
        "ranges": [],
        "fixIts": [],
    },
}


def main(command, *arguments):
    mode, source = os.environ.get("FAKE_MODE", ""), next(Path(a) for a in arguments if a.endswith(".mojo"))
    emit = arguments[arguments.index("--emit") + 1] if "--emit" in arguments else command
    with open(os.environ["FAKE_LOG"], "a") as log:
        log.write(f"{emit} {os.getpid()}\n")
    if mode == "hang":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        with open(os.environ["FAKE_LOG"], "a") as log:
            log.write(f"child {child.pid}\n")
        time.sleep(600)
    if mode == "slow":
        time.sleep(1)
    if mode == "touch" and emit == "shared-lib":
        source.write_text(source.read_text() + f"# {time.monotonic_ns()}\n")
    if mode.startswith("refuse"):
        if mode == "refuse here":
            REMARK["diagnostic"]["file"] = str(source)
        sys.stderr.write(f"Some other line\n{json.dumps(REMARK)}\n")
        return 1
    if mode == "killed" and emit != "doc":
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "die":
        sys.stderr.write("Segmentation fault (core dumped)\n")
        return -11
    if command == "doc":
        print("{" if mode == "garble" else json.dumps(DOC))
        return 0
    target = Path(arguments[arguments.index("-o") + 1])
    if emit == "llvm":
        target.write_text(LLVM)
        return 0
    code = target.with_suffix(".c")
    missing = {"needs": "nowhere", "runtime": "KGEN_CompilerRT_nowhere"}.get(mode)
    code.write_text(
        f"extern double {missing or 'unused'}(void);\n"
        f"double add(double a, double b) {{ return a + b{f' + {missing}()' if missing else ''}; }}\n"
    )
    kind = "-c" if emit == "object" else "-shared"
    return subprocess.call([os.environ.get("CC", "cc"), kind, "-fPIC", code, "-o", target])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
