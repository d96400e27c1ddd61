"""The K-slot latch in C, without Python: under sanitizers, against kills, and mutants that the detector must find."""

import re
import shutil
import subprocess

import pytest
from native import build, programs

POINTS = ["before_mark", "after_mark", "mid_payload", "after_payload", "before_latest", "after_latest"]
SIZES = [8, 13, 96, 255, 4096]


def run(program, *arguments, prefix=(), ok=True):
    result = subprocess.run([*prefix, program, *map(str, arguments)], capture_output=True, text=True, timeout=250)
    if ok:
        assert result.returncode == 0, result.stdout + result.stderr
    return result


def count(result, what):
    return int(re.search(rf"\b{what} (\d+)", result.stdout)[1])


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("variant", ["plain", "sanitized", "threads"])
@pytest.mark.parametrize("size", SIZES)
def test_no_read_is_torn(compiler, variant, size):
    program = programs.program("latch_test.c", variant, compiler)
    reads = 200_000 if variant == "plain" else 10_000
    result = run(program, "stress", size, 8, reads, 2, "threads")
    assert count(result, "reads") >= reads


@pytest.mark.parametrize("slots", [2, 8, 64])
def test_the_fence_free_variant_is_free_of_races(slots):
    program = programs.program("latch_test.c", "threads", "gcc", ("-DMV_LATCH_FENCE_FREE",))
    run(program, "stress", 96, slots, 20_000, 2, "threads")


def test_ten_million_reads():
    """Processes and threads, pauses, a writer that is stopped at random, odd sizes: 0 torn, never backwards."""
    program = programs.program("latch_test.c")
    total = 0
    for size, mode, pause, reads in [
        (80, "processes", 0, 4e6),
        (80, "threads", 0, 4e6),
        (80, "threads", 1, 1e6),
        (1021, "processes", 1, 5e5),
        (37, "stopped", 0, 1e6),
    ]:
        total += count(run(program, "stress", size, 8, int(reads), 2, mode, pause), "reads")
    assert total >= 10_000_000


@pytest.mark.skipif(shutil.which("taskset") is None, reason="taskset is not installed")
def test_one_core():
    run(programs.program("latch_test.c"), "stress", 80, 8, 200_000, 2, "processes", 1, prefix=("taskset", "-c", "0"))


@pytest.mark.parametrize("variant", ["plain", "sanitized"])
def test_the_counter_crosses_32_bits(variant):
    run(programs.program("latch_test.c", variant), "wrap")


@pytest.mark.parametrize("variant", ["plain", "sanitized"])
@pytest.mark.parametrize(("size", "slots"), [(8, 2), (100, 8), (4096, 4)])
def test_history_is_the_last_k(variant, size, slots):
    run(programs.program("latch_test.c", variant), "history", size, slots)


@pytest.mark.parametrize("point", POINTS)
def test_a_writer_killed_anywhere_loses_nothing(point):
    result = run(programs.program("latch_test.c"), "kill", f"latch.{point}", 10, 96)
    assert count(result, "kills") == 10
    assert count(result, "torn") + count(result, "backwards") == 0


# A detector that cannot fail proves nothing: mutants of the algorithm whose defect shows on this machine's memory
# model too.
CHECK = "    if (atomic_load_explicit(&slot->mark, memory_order_relaxed) != 2 * n)\n        return MV_LATCH_GONE;"
MUTANTS = {
    "any even mark is accepted": {CHECK: "    if (atomic_load(&slot->mark) & 1) return MV_LATCH_GONE;"},
    "the mark is not checked": {CHECK: ""},
    "latest before the payload": {
        '    MV_FAILPOINT("latch.before_mark");\n': (
            "    atomic_store(&head->latest, n);\n    atomic_store(&slot->mark, 2 * n);\n"
        ),
        "    atomic_store_explicit(&slot->mark, 2 * n - 1, memory_order_relaxed);": "",
    },
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_detector_finds_mutants(mutant, tmp_path):
    build.changed_copy(tmp_path, {"sharing/state/latch.h": MUTANTS[mutant]})
    program = programs.program("latch_test.c", "plain", "gcc", (f"-I{tmp_path}",))
    for _ in range(20):
        result = run(program, "stress", 4096, 2, 100_000, 2, "processes", ok=False)
        if result.returncode:
            break
    assert count(result, "torn") + count(result, "backwards") > 0, result.stdout


def test_the_aarch64_build_under_emulation():
    done = subprocess.run(
        [*programs.emulated("latch_test.c"), "stress", "96", "8", "20000", "2", "threads"],
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stdout + done.stderr
