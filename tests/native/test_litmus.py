"""The hand-shakes of sharing/ on AArch64: as built the bad outcome is impossible, each mutant shows it.

x86 cannot show these defects, and emulation on x86 cannot either. Here every outcome is enumerated (`weak_memory`); a
machine with herd7 checks the same files with the architecture's own model.
"""

import shutil
import subprocess
from pathlib import Path

import pytest
from native import weak_memory
from native.build import PACKAGE

LITMUS = Path(__file__).parent / "litmus"
EXPECTED = {
    name: (model, outcome)
    for name, model, outcome, *_ in (
        line.split() for line in (LITMUS / "expected.txt").read_text().splitlines() if line and not line.startswith("#")
    )
}
AARCH64 = [name for name, (model, _) in EXPECTED.items() if model == "aarch64.cat"]


# The accesses whose orders the litmus files model. Neither x86 nor ThreadSanitizer shows that one of these is weaker.
MODELLED = {
    "sharing/state/latch.h": [
        "return atomic_load_explicit(&mv_latch_head(r)->latest, memory_order_acquire);",
        "atomic_store_explicit(&slot->mark, 2 * n - 1, memory_order_relaxed);",
        "atomic_thread_fence(memory_order_release);",
        "atomic_store_explicit(&slot->mark, 2 * n, memory_order_release);",
        "atomic_store_explicit(&head->latest, n, memory_order_release);",
        "atomic_thread_fence(memory_order_acquire);",
    ],
    "sharing/snapshot/slots.h": [
        "uint64_t m = atomic_load_explicit(&r->head->map, memory_order_acquire);",
        "atomic_store_explicit(pinned, m, memory_order_release);",
        "if (atomic_load_explicit(&mv_slot_at(r, m & 255)->mark, memory_order_acquire) == 2 * (m >> 8)) {",
        "atomic_store_explicit(pinned, MV_SLOTS_IDLE, memory_order_release);",
        "atomic_store_explicit(&r->rows[row].pinned, MV_SLOTS_IDLE, memory_order_release);",
        "uint64_t m = atomic_load_explicit(&r->rows[row].pinned, memory_order_acquire);",
        "atomic_store_explicit(&s->mark, 2 * n, memory_order_release);",
        "atomic_store_explicit(&r->head->map, n << 8 | slot, memory_order_release);",
    ],
}
FENCES = {"sharing/state/latch.h": 0, "sharing/snapshot/slots.h": 4}  # memory_order_seq_cst


@pytest.mark.parametrize("header", MODELLED)
def test_the_code_has_the_modelled_orders(header):
    text = (PACKAGE / header).read_text()
    assert [access for access in MODELLED[header] if text.count(access) != 1] == []
    assert text.count("atomic_thread_fence(memory_order_seq_cst)") == FENCES[header]


@pytest.mark.parametrize("name", AARCH64)
def test_every_outcome(name):
    assert weak_memory.verdict(LITMUS / f"{name}.litmus") == EXPECTED[name][1]


@pytest.mark.parametrize("name", EXPECTED)
def test_herd7(name):
    if shutil.which("herd7") is None:
        pytest.skip("herd7 is not installed: build github.com/herd/herdtools7, then run this test again")
    model, outcome = EXPECTED[name]
    done = subprocess.run(
        ["herd7", "-model", model, LITMUS / f"{name}.litmus"], capture_output=True, text=True, timeout=120
    )
    assert f"Observation {name} {outcome}" in done.stdout, done.stdout + done.stderr


def test_every_file_has_an_expected_outcome_and_both_kinds_exist():
    assert {path.stem for path in LITMUS.glob("*.litmus")} == set(EXPECTED)
    assert {outcome for _, outcome in EXPECTED.values()} == {"Never", "Sometimes"}


@pytest.mark.parametrize(
    ("program", "exists", "outcome"),
    [
        (
            [["MOV W0,#1", "STR W0,[X1]", "LDR W2,[X2]"], ["MOV W0,#1", "STR W0,[X2]", "LDR W2,[X1]"]],
            "0:X2=0 /\\ 1:X2=0",
            "Sometimes",
        ),
        (
            [["MOV W0,#1", "STLR W0,[X1]", "LDAR W2,[X2]"], ["MOV W0,#1", "STLR W0,[X2]", "LDAR W2,[X1]"]],
            "0:X2=0 /\\ 1:X2=0",
            "Never",
        ),
        (
            [["LDR W2,[X1]", "MOV W0,#1", "STR W0,[X2]"], ["LDR W2,[X2]", "MOV W0,#1", "STR W0,[X1]"]],
            "0:X2=1 /\\ 1:X2=1",
            "Sometimes",
        ),
        (
            [["LDR W2,[X1]", "STR W2,[X2]"], ["LDR W2,[X2]", "MOV W0,#1", "STR W0,[X1]"]],
            "0:X2=1 /\\ 1:X2=1",
            "Sometimes",
        ),
        ([["LDR W2,[X1]", "STR W2,[X2]"], ["LDR W2,[X2]", "STR W2,[X1]"]], "0:X2=1", "Never"),
        (
            [["MOV W0,#1", "STR W0,[X1]", "MOV W0,#2", "STR W0,[X1]"], ["LDR W2,[X1]", "LDR W3,[X1]"]],
            "1:X2=2 /\\ 1:X3=1",
            "Never",
        ),
        (
            [["MOV W0,#1", "STR W0,[X1]", "DMB ISHST", "STR W0,[X2]"], ["LDR W2,[X2]", "DMB ISHLD", "LDR W3,[X1]"]],
            "1:X2=1 /\\ 1:X3=0",
            "Never",
        ),
        (
            [["MOV W0,#1", "STR W0,[X1]", "DMB ISHST", "STR W0,[X2]"], ["LDR W2,[X2]", "LDR W3,[X1]"]],
            "1:X2=1 /\\ 1:X3=0",
            "Sometimes",
        ),
        ([["MOV W0,#1", "STR W0,[X1]", "LDR W2,[X1]"], ["MOV W0,#2", "STR W0,[X1]"]], "0:X2=0", "Never"),
        (
            [
                ["LDR W2,[X1]", "CMP W2,#1", "B.NE L", "MOV W0,#1", "STR W0,[X2]", "L:"],
                ["LDR W2,[X2]", "MOV W0,#1", "DMB ISH", "STR W0,[X1]"],
            ],
            "1:X2=1",
            "Never",
        ),
    ],
    ids=[
        "store buffering",
        "store buffering, release-acquire",
        "load buffering",
        "load buffering, one dependency",
        "out of thin air",
        "coherence",
        "message passing",
        "message passing, no reader fence",
        "own store",
        "control dependency",
    ],
)
def test_the_model_knows_the_architecture(program, exists, outcome, tmp_path):
    """The classical shapes, whose outcomes are in the architecture's literature."""
    rows = [
        " | ".join(cells) + " ;"
        for cells in zip(*(thread + [""] * (6 - len(thread)) for thread in program), strict=True)
    ]
    source = (
        "AArch64 shape\n{ 0:X1=x; 0:X2=y; 1:X1=x; 1:X2=y; }\nP0 | P1 ;\n" + "\n".join(rows) + f"\nexists ({exists})\n"
    )
    path = tmp_path / "shape.litmus"
    path.write_text(source)
    assert weak_memory.verdict(path) == outcome
