"""States read by programs without Python and by Mojo kernels; tests/consumer has Cython without the GIL."""

import subprocess
import threading
from subprocess import PIPE

import numpy as np
import pytest
from native import build, programs

import mojoview as mv
from mojoview.memory import errors
from mojoview.sharing.segment import naming


def reader(name: str, last: int, flavour: str = "plain") -> list[str]:
    return [str(programs.program("state_reader.c", flavour)), naming.path_of(name), str(last)]


@pytest.mark.parametrize("flavour", ["plain", "sanitized"])
def test_c_reads_what_python_publishes(name, flavour):
    with mv.State.create(name, [("words", "u8", 10)]) as state:
        process = subprocess.Popen(
            reader(name, 20_000, flavour), stdout=PIPE, stderr=PIPE, text=True, env=build.environment()
        )
        assert process.stdout.readline() == "ready\n", process.communicate()
        for number in range(1, 20_001):
            state.out["words"] = number
            state.publish()
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err, int(out) > 0) == (0, "", True)


def test_c_refuses_what_is_no_state(name, tmp_path, monkeypatch):
    with mv.share(np.zeros(100), name):
        assert subprocess.run(reader(name, 1), timeout=60).returncode == 4
    assert subprocess.run(reader(name, 1), timeout=60).returncode == 2
    monkeypatch.setenv("MOJOVIEW_SHM_DIR", str(tmp_path))
    (tmp_path / f"mojoview-{name}").write_bytes(b"MOJOVIEW" + bytes(100))
    assert subprocess.run(reader(name, 1), timeout=60).returncode == 3


@pytest.mark.mojo
def test_a_mojo_kernel_reads_beside_a_writer(examples):
    """The example of the documentation, which has the orders of latch.h."""
    newest = examples.newest
    record, number = np.zeros(10, "u8"), np.zeros(1, "u8")
    with mv.State.create(None, [("words", "u8", 10)]) as state:
        memory = np.asarray(state.memory()).view("u8")
        with pytest.raises(errors.MojoViewError, match="at least one"):
            newest(memory, record, number)
        stop = threading.Event()

        def write():
            while not stop.is_set():
                state.out["words"] += np.uint64(1)
                state.publish()

        thread = threading.Thread(target=write)
        thread.start()
        before = wrong = 0
        while before < 2000:
            if state.version:
                newest(memory, record, number)
                wrong += bool((record != number).any()) or int(number[0]) < before
                before = int(number[0])
        stop.set()
        thread.join(60)
        assert wrong == 0
        with pytest.raises(errors.MojoViewError):
            newest(memory, np.zeros(9, "u8"), number)
