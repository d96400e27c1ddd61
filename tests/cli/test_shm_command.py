"""`python -m mojoview shm`."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import mojoview as mv
from mojoview.cli.main import main


def shm(capsys, *arguments):
    status = main(["shm", *arguments])
    return status, capsys.readouterr()


def test_list_and_info(name, capsys):
    assert shm(capsys, "list") == (0, ("no segments\n", ""))
    with mv.share(np.zeros((3, 4), "f4"), name):
        status, (out, _) = shm(capsys, "list", "--json")
        row = json.loads(out)["segments"][0]
        assert (status, row["name"], row["kind"], row["state"], row["owner"]) == (0, name, "array", "live", os.getpid())
        _, (out, _) = shm(capsys, "list")
        assert name in out
        status, (out, _) = shm(capsys, "info", name, "--json")
        facts = json.loads(out)
        assert (facts["dtype"], facts["shape"], facts["owner_alive"], facts["header"]) == (
            "float32",
            [3, 4],
            True,
            "ok",
        )
    status, (_, err) = shm(capsys, "info", name)
    assert (status, "there is none" in err) == (1, True)


def test_gc_removes_what_the_dead_left(name, capsys):
    code = f"import mojoview as mv, os; mv.State.create({name!r}, 'f8'); os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    with mv.State.create(name + "-live", "f8"):
        _, (out, _) = shm(capsys, "list")
        assert "the owners of 1 are dead" in out
        assert shm(capsys, "gc") == (0, (f"removed {name}\n", ""))
        assert shm(capsys, "gc") == (0, ("nothing to remove\n", ""))
        mv.State.attach(name + "-live").close()


@pytest.mark.parametrize("arguments", [[], ["info"], ["burn"]])
def test_bad_usage(arguments, capsys):
    with pytest.raises(SystemExit) as info:
        main(["shm", *arguments])
    assert info.value.code == 2
