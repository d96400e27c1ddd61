"""The ring's C headers without Python: under the sanitizers, and with each memory order weakened in turn.

ThreadSanitizer must detect every weakened order. Effects that neither x86 hardware nor ThreadSanitizer shows (store
buffering, the fences of the overrun check) are in `tests/native/ring_litmus`.
"""

import shutil
import subprocess
from pathlib import Path

import pytest
from native.build import NATIVE, PACKAGE, Fault, changed_copy, faulty_copy

ONE_THREAD = [
    "crc",
    "wrap",
    "unblock",
    "sequence",
    "lapped",
    "flip",
    "hostile",
]  # ThreadSanitizer has nothing to find in them
THREADS = ["spsc", "mpsc", "broadcast"]
# An observer copies payloads that a producer may be overwriting, and discards them: for ThreadSanitizer that is a race.
OBSERVERS = ["observed-spsc", "observed-mpsc"]
SANITIZERS = {"memory": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"], "threads": ["-fsanitize=thread"]}
TESTS = [*(("memory", name) for name in ONE_THREAD + THREADS + OBSERVERS), *(("threads", name) for name in THREADS)]
# Header, access to weaken, test to run, text around the access where it is not the only one of its kind.
WEAKENED = {
    "tail": ("spsc.h", "mv_atomic_store(&r->ctl->tail, r->tail, memory_order_release)", "spsc", ""),
    "head": ("spsc.h", "mv_atomic_store(&r->ctl->head, upto, memory_order_release)", "spsc", ""),
    "reader's tail": (
        "spsc.h",
        "mv_atomic_load(&r->ctl->tail, memory_order_acquire)",
        "spsc",
        "uint64_t tail = mv_atomic_load(&r->ctl->tail, memory_order_acquire);",
    ),
    "writer's head": (
        "spsc.h",
        "mv_atomic_load(&r->ctl->head, memory_order_acquire)",
        "spsc",
        "uint64_t head = mv_atomic_load(&r->ctl->head, memory_order_acquire);\n    if (r->tail",
    ),
    "commit": ("mpsc.h", "mv_atomic_store(mv_word_at(r, pos), h->word, memory_order_release)", "mpsc", ""),
    "reader's commit": (
        "mpsc.h",
        "mv_atomic_load(mv_word_at(r, r->pos), memory_order_acquire)",
        "mpsc",
        "mv_atomic_load(mv_word_at(r, r->pos), memory_order_acquire); /* ACQ: the frame is complete */",
    ),
}


def weakened(header: str, access: str, context: str) -> Fault:
    weaker = access.replace("order_release", "order_relaxed").replace("order_acquire", "order_relaxed")
    return Fault(f"sharing/ring/{header}", access, weaker, context)


pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def build(folder: Path, flags: list[str], headers: Path = PACKAGE) -> Path:
    """Build without optimisation unless `flags` ask for it: the sanitizers check the same accesses, and it is quick."""
    program = folder / "ring_test"
    command = [
        "cc",
        "-std=gnu11",
        "-D_GNU_SOURCE",
        "-g1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unused-function",
        "-Wno-tsan",
        *flags,
        f"-I{headers}",
        str(NATIVE / "ring_test.c"),
        "-o",
        str(program),
        "-pthread",
    ]
    subprocess.run(command, check=True, timeout=120)
    return program


def run(program: Path, *arguments: str, fault: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {"TSAN_OPTIONS": "exitcode=66 halt_on_error=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
    environment["PLANTED_FAULT"] = str(fault)
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=280, env=environment)


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> dict[str, Path]:
    return {name: build(tmp_path_factory.mktemp(name), flags) for name, flags in SANITIZERS.items()}


@pytest.mark.parametrize(("sanitizer", "name"), TESTS)
def test_core_under_sanitizers(programs, sanitizer, name):
    done = run(programs[sanitizer], name)
    assert done.returncode == 0, done.stderr[:4000]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "scale"),
    [
        ("flip", 167),
        ("hostile", 20),
        ("spsc", 20),
        ("mpsc", 10),
        ("broadcast", 20),
        ("observed-spsc", 100),
        ("observed-mpsc", 100),
    ],
)
def test_core_for_long(tmp_path, name, scale):
    """Run more rounds, among them 4 x 250,500 flipped bytes: each that belongs to a frame is found once."""
    done = run(build(tmp_path, ["-O2"]), name, str(scale))
    assert done.returncode == 0, done.stderr[:4000]


@pytest.fixture(scope="module")
def weakened_program(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("weakened")
    faults = [weakened(header, access, context) for header, access, _, context in WEAKENED.values()]
    return build(folder, SANITIZERS["threads"], faulty_copy(folder / "package", faults))


@pytest.mark.parametrize("order", WEAKENED)
def test_each_memory_order_is_needed(weakened_program, order):
    number, name = list(WEAKENED).index(order) + 1, WEAKENED[order][2]
    done = run(weakened_program, name, fault=number)
    assert done.returncode != 0, f"ThreadSanitizer does not see {order!r} weakened"
    assert "data race" in done.stderr or "ring_threads.h" in done.stderr


@pytest.mark.parametrize("name", sorted({name for _, _, name, _ in WEAKENED.values()}))
def test_no_race_without_a_weakened_order(weakened_program, name):
    done = run(weakened_program, name)
    assert done.returncode == 0, done.stderr[:4000]


def test_checksum_without_the_instruction(tmp_path):
    """Compute the CRC by table, as on a processor without the CRC instruction."""
    changed_copy(tmp_path, {"sharing/crc32c_step.h": {'return __builtin_cpu_supports("sse4.2") != 0;': "return 0;"}})
    done = run(build(tmp_path, SANITIZERS["memory"], tmp_path), "flip")
    assert done.returncode == 0, done.stderr[:4000]
