"""The magics in an IPython shell, and the notebook of the documentation."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mojoview as mv
from mojoview.loading.mojo.notebook import Timing, _seconds
from mojoview.memory import errors

RUN = """
import sys
import nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
nbformat.validate(notebook)
NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
for cell in notebook.cells:
    for output in cell.get("outputs", ()):
        print(output.get("text") or output.get("data", {}).get("text/plain"))
"""
NOTEBOOK = Path(__file__).parents[3] / "docs" / "examples" / "first_kernel.ipynb"


@pytest.fixture(scope="module")
def ipython():
    interactive = pytest.importorskip("IPython.core.interactiveshell", reason="IPython is not installed")
    from IPython.core.history import HistoryManager

    HistoryManager.enabled = False
    shell = interactive.InteractiveShell.instance(colors="nocolor")
    shell.run_line_magic("load_ext", "mojoview")
    yield shell
    interactive.InteractiveShell.clear_instance()


@pytest.fixture
def shell(ipython, fake):
    """run(cell) gives its value, or raises what it raised."""
    ipython.user_ns.update(mv=mv, np=np, kernels=mv.kernels)

    def run(cell):
        done = ipython.run_cell(cell)
        done.raise_error()
        return done.result

    run.names, run.text = ipython.user_ns, fake.text
    yield run
    ipython.reset(new_session=False)


# ---- %%mojo
def test_the_kernels_of_a_cell_become_variables(shell, fake, capsys):
    module = shell(f"%%mojo\n{shell.text}")
    assert isinstance(module, mv.KernelModule)
    assert shell.names["add"] is module.add
    assert shell("add(1, 2)") == 3
    again = shell(f"%%mojo lib --flags '-O1 -D X=1' --timeout 60\n{shell.text}")
    assert shell.names["lib"] is again
    assert len(fake.builds) == 2
    capsys.readouterr()
    shell(f"%%mojo --progress\n{shell.text}# more\n")
    assert "compiling cell.mojo with " in capsys.readouterr().out
    shell(f"%%mojo\n{shell.text}")
    assert len(fake.builds) == 3  # from the cache


def test_a_compile_error_is_shown_without_a_traceback(shell, fake, capsys):
    fake.mode("refuse")
    with pytest.raises(errors.KernelCompileError):
        shell(f"%%mojo\n{shell.text}")
    shown = capsys.readouterr().out
    assert "KernelCompileError: load(): the Mojo compiler rejects cell.mojo\n" in shown
    assert "f.mojo:3:9: error: no such thing\n    é = x\n        ^" in shown
    assert "Traceback" not in shown
    assert "add" not in shell.names


BAD_LINES = [
    ("%%mojo a b\nx", "unrecognized arguments: b"),
    ("%%mojo 5x\nx", "name of a variable"),
    ("%%mojo --timeout soon\nx", "invalid float"),
    ("%%mojo 'open\nx", "No closing quotation"),
    ("%mojo_time -r 0 kernels.sum(x)", "-r: expected a positive number of rounds"),
    ("%mojo_time -r two kernels.sum(x)", "invalid int"),
    ("%mojo_time", "expected CALL"),
    ("%mojo_time x +", "expected CALL"),
    ("%mojo_time x\0()", "expected CALL"),
    ("%mojo_time " + "(" * 5000, "expected CALL"),
    ("%mojo_time (await x)() vs 1", "outside"),
    ("%mojo_time (yield)() vs 1", "yield"),
    ("%%mojo class\nx", "name of a variable"),
    ("%mojo_time kernels", "expected CALL"),
    (
        "%mojo_time kernels.sum(x)",
        "kernels.sum has no reference; write: %mojo_time kernels.sum\\(x\\) vs EXPRESSION",
    ),
]


def test_bad_lines(shell):
    for cell, words in BAD_LINES:
        print(cell)  # pytest shows the last one if it does not raise
        with pytest.raises(errors.ArgumentError) as caught:
            shell(cell)
        assert re.search(words, str(caught.value)), (cell, words)


# ---- %mojo_time
def test_a_call_beside_an_expression(shell, capsys):
    shell("x = np.arange(100.0); text = ' vs '")
    timing = shell("%mojo_time -r 3 kernels.sum(x) vs x.sum()")
    assert isinstance(timing, Timing)
    assert (timing.agrees, len(timing.call), len(timing.reference)) == (True, 3, 3)
    assert timing.ratio == min(timing.reference) / min(timing.call)
    assert "the results agree" in repr(timing)
    timing = shell("%mojo_time -r 1 kernels.sum(x) vs x.sum() + len(' vs ')")
    assert timing.agrees is False
    assert "the results DIFFER: got 4950.0, the reference 4954.0" in repr(timing)
    assert shell("%mojo_time -r 1 [1].sort() vs [2].sort()").agrees is None
    with pytest.raises(ZeroDivisionError):
        shell("%mojo_time kernels.sum(x) vs 1 / 0")


def test_a_bound_kernel_beside_its_body(shell, capsys):
    shell(
        "x, y = np.arange(100.0), np.ones(100)\n"
        "@mv.native(kernels.axpy)\ndef axpy(a: float, x: np.ndarray, y: np.ndarray) -> None:\n    y += a * x\n"
        "@mv.native(kernels.axpy)\ndef wrong(a: float, x: np.ndarray, y: np.ndarray) -> None:\n    y += a * x + 1\n"
    )
    timing = shell("%mojo_time -r 1 axpy(2.0, x, y=y)")
    assert timing.agrees is True
    assert shell("%mojo_time -r 1 axpy(2.0, *[x, y], threads=1)").agrees is True
    assert (shell.names["y"] == 1).all()  # both worked on copies
    assert shell("%mojo_time -r 1 wrong(2.0, x, y)").agrees is False


def test_a_family_beside_its_body(shell, capsys):
    from mojoview.calls._kernel import handled_kernel
    from mojoview.calls._overloads import KernelFamily

    def negate(x, threads):
        x *= -1

    shell.names["family"] = KernelFamily(
        "negate",
        tuple(
            handled_kernel(mv.Signature(f"negate_{dtype}", (mv.Param("x", "inout", dtype),)), negate)
            for dtype in ("float32", "float64")
        ),
    )
    shell("x = np.ones(4, 'f4')\n@mv.native(family)\ndef negate(x: np.ndarray) -> None:\n    x *= -1\n")
    assert shell("%mojo_time -r 1 negate(x)").agrees is True
    assert (shell.names["x"] == 1).all()


@pytest.mark.parametrize("folder", ["cache", "with a space"])
def test_the_compiler_s_paths_are_shortened_to_the_cell(shell, fake, monkeypatch, capsys, folder):
    monkeypatch.setenv("MOJOVIEW_CACHE_DIR", str(fake.root / folder))
    fake.mode("refuse here")
    with pytest.raises(errors.KernelCompileError, match=f"{folder}/sources/.*/cell.mojo:3:9: error") as caught:
        shell(f"%%mojo\n{shell.text}")
    assert caught.value.diagnostics[0].file.endswith("/cell.mojo")
    shown = capsys.readouterr().out
    assert "\ncell.mojo:3:9: error: no such thing" in shown
    assert "sources/" not in shown


@pytest.mark.parametrize(
    ("value", "words"), [(2.5, "2.5 s"), (0.0123, "12.3 ms"), (4.2e-6, "4.2 µs"), (5e-8, "50 ns"), (0.0, "0 ns")]
)
def test_seconds_in_words(value, words):
    assert _seconds(value) == words


# ---- the notebook
@pytest.mark.mojo
@pytest.mark.slow  # starts Jupyter and compiles its cells
def test_the_notebook_runs(mojo_cache, tmp_path):
    """In a process of its own, as Jupyter does; its cells hold their own assertions."""
    for package in ("nbclient", "ipykernel"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(NOTEBOOK)], cwd=tmp_path, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    for words in (
        "returns_of(price: In[float64], gain: Out[float64]) -> Status",
        "expected dtype float64, got int64",
        "the results agree",
        "<canary of returns_of, promoted: ",
    ):
        assert words in done.stdout


def test_the_notebook_is_kept_without_outputs():
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 3
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
