"""A fake Mojo compiler, for quick tests of the code around a compilation; no compiler needs to be installed.

It supports the three runs of `load` for a file that exports `add`, and compiles C code; libraries are kept in
FAKE_LIBRARIES for the other tests of the run. It logs each run in FAKE_LOG. FAKE_MODE makes it fail: "slow" (a second),
"hang" (with a child process), "refuse", "refuse here" (in the given file), "die", "garble", "needs" (a missing
function), "runtime" (a function of Mojo's runtime library), "killed" (by a signal), "touch" (changes the source while
it is compiled).
"""

# Only what each run needs: a test of the cache runs this hundreds of times.
import os
import sys
import time

LLVM = "define dso_local double @add(double noundef %0, double noundef %1) #0 {\n"
DOC = """{"decl": {
  "name": "fake", "summary": "A file.", "description": "", "aliases": [], "structs": [],
  "functions": [{"name": "add", "overloads": [{
    "args": [
      {"name": "a", "convention": "imm", "type": "Float64"},
      {"name": "b", "convention": "imm", "type": "Float64"}
    ],
    "parameters": [], "raises": false, "async": false, "returns": {"type": "Float64"},
    "summary": "Adds.", "description": ""
  }]}]
}}"""
REMARK = """{"kind": "error", "message": "no such thing", "diagnostic": {
  "file": "FILE", "text": "    é = x", "location": {"line": 3, "column": 9}, "ranges": [], "fixIts": []
}}"""


def main(command, *arguments):
    mode, source = os.environ.get("FAKE_MODE", ""), next(a for a in arguments if a.endswith(".mojo"))
    emit = arguments[arguments.index("--emit") + 1] if "--emit" in arguments else command
    with open(os.environ["FAKE_LOG"], "a") as log:
        log.write(f"{emit} {os.getpid()}\n")
    if mode == "hang":
        import subprocess

        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        with open(os.environ["FAKE_LOG"], "a") as log:
            log.write(f"child {child.pid}\n")
        time.sleep(600)
    if mode == "slow":
        time.sleep(1)
    if mode == "touch" and emit == "shared-lib":
        with open(source, "a") as file:
            file.write(f"# {time.monotonic_ns()}\n")
    if mode.startswith("refuse"):
        remark = REMARK.replace("\n", "").replace("FILE", source if mode == "refuse here" else "f.mojo")
        sys.stderr.write(f"Some other line\n{remark}\n")
        return 1
    if mode == "killed" and emit != "doc":
        os.kill(os.getpid(), 9)
    if mode == "die":
        sys.stderr.write("Segmentation fault (core dumped)\n")
        return -11
    if command == "doc":
        print("{" if mode == "garble" else DOC)
        return 0
    target = arguments[arguments.index("-o") + 1]
    if emit == "llvm":
        with open(target, "w") as file:
            file.write(LLVM)
        return 0
    missing = {"needs": "nowhere", "runtime": "KGEN_CompilerRT_nowhere"}.get(mode)
    code = (
        f"extern double {missing or 'unused'}(void);\n"
        f"double add(double a, double b) {{ return a + b{f' + {missing}()' if missing else ''}; }}\n"
    )
    return compile_once(code, "-c" if emit == "object" else "-shared", target)


def compile_once(code, kind, target):
    """Compile C code to a file, or copy the result of an earlier compilation."""
    import hashlib

    command = [os.environ.get("CC", "cc"), kind, "-fPIC"]
    name = hashlib.sha256(repr((command, code)).encode()).hexdigest()
    known = os.path.join(os.environ["FAKE_LIBRARIES"], name)
    if not os.path.exists(known):
        import subprocess

        source, fresh = f"{target}.c", f"{known}.{os.getpid()}"
        with open(source, "w") as file:
            file.write(code)
        if failed := subprocess.call([*command, source, "-o", fresh]):
            return failed
        os.rename(fresh, known)
    with open(known, "rb") as file, open(target, "wb") as copy:
        copy.write(file.read())
    os.chmod(target, 0o755)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
