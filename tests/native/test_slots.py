"""Reader pins in C, without Python: under the sanitizers, against kills, and mutants that the detector must find."""

import re
import subprocess

import pytest
from native import build, programs


def run(program, *arguments, ok=True):
    result = subprocess.run(
        [program, *map(str, arguments)], capture_output=True, text=True, timeout=250, env=build.environment()
    )
    if ok:
        assert result.returncode == 0, result.stdout + result.stderr
    return result


def count(result, what):
    return int(re.search(rf"\b{what} (\d+)", result.stdout)[1])


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("flavour", ["plain", "sanitized", "threads"])
@pytest.mark.parametrize(("slots", "mode"), [(3, "threads"), (5, "threads"), (3, "processes")])
def test_a_pinned_slot_never_changes(compiler, flavour, slots, mode):
    program = programs.program("slots_test.c", flavour, compiler)
    run(program, "stress", slots, 2, 20_000 if flavour == "plain" else 2_000, mode)


@pytest.mark.parametrize("flavour", ["plain", "sanitized"])
def test_rows(flavour):
    run(programs.program("slots_test.c", flavour), "rows")


@pytest.mark.parametrize("point", ["after_mark", "mid_payload", "before_mark", "before_map", "after_map"])
def test_a_writer_killed_anywhere_loses_nothing(point):
    result = run(programs.program("slots_test.c"), "kill", f"slots.{point}", 10)
    assert count(result, "kills") == 10


@pytest.mark.parametrize("point", ["after_announce", "pinned"])
def test_a_dead_reader_is_reaped(point):
    assert count(run(programs.program("slots_test.c"), "reader", f"slots.{point}", 10), "kills") == 10


# Defects that this machine's memory model shows too; what only aarch64 shows is the litmus tests' concern.
MUTANTS = {
    "the writer ignores the rows": {"if (!mv_slots_is_pinned(r, slot))": "if (1)"},
    "the reader ignores the mark": {
        "if (atomic_load_explicit(&mv_slot_at(r, m & 255)->mark, memory_order_acquire) == 2 * (m >> 8)) {": "{"
    },
    "the reader pins after checking the mark": {
        "        atomic_store_explicit(pinned, m, memory_order_release);": "",
        'MV_FAILPOINT("slots.pinned");': 'MV_FAILPOINT("slots.pinned");\n            atomic_store(pinned, m);',
    },
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_detector_finds_mutants(mutant, tmp_path):
    build.changed_copy(tmp_path, {"sharing/snapshot/slots.h": MUTANTS[mutant]})
    program = programs.program("slots_test.c", "plain", "gcc", (f"-I{tmp_path}",))
    for _ in range(20):
        result = run(program, "stress", 2, 2, 20_000, "processes", ok=False)
        if result.returncode:
            break
    assert count(result, "torn") + count(result, "backwards") > 0, result.stdout


def test_the_aarch64_build_under_emulation():
    done = subprocess.run(
        [*programs.emulated("slots_test.c"), "stress", "3", "2", "2000", "threads"],
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stdout + done.stderr
