"""Magics for IPython and Jupyter: `%load_ext mojoview` adds `%%mojo` and `%mojo_time`.

IPython is not imported here: the shell that loads the extension is an argument.
"""

from __future__ import annotations

import argparse
import ast
import keyword
import re
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any, NoReturn

import numpy as np

from mojoview.calls._kernel import Kernel
from mojoview.calls._overloads import KernelFamily
from mojoview.calls.compare import difference
from mojoview.loading.module import KernelModule
from mojoview.loading.mojo.loader import load
from mojoview.memory.errors import ArgumentError, KernelCompileError

__all__ = ["Magics", "Timing"]

MIN_SECONDS = 0.01  # duration of a round: fast calls are repeated


class Magics:
    """The magics of a shell.

    Notes
    -----
    Thread safety: only the thread of the shell.
    """

    def __init__(self, shell: Any):
        self.shell = shell

    def register(self) -> None:
        self.shell.register_magic_function(self.mojo, "cell", "mojo")
        self.shell.register_magic_function(self.mojo_time, "line", "mojo_time")

    def mojo(self, line: str, cell: str) -> KernelModule:
        """%%mojo [NAME] [--flags "FLAGS"] [--progress] [--timeout SECONDS]

        Compile the cell; its kernels become variables of the notebook, and NAME the module with all of them.

        --flags are more arguments for `mojo build`; --progress prints how long the compiler has been running. The value
        of the cell is the module, which lists its kernels and its refused exports with the reasons. Line numbers of
        messages include the line of the magic.
        """
        parser = _LineParser("%%mojo")
        parser.add_argument("name", nargs="?")
        parser.add_argument("--flags", default="", type=shlex.split)
        parser.add_argument("--progress", action="store_true")
        parser.add_argument("--timeout", default=600.0, type=float)
        asked = parser.parse(line)
        if asked.name is not None and (not asked.name.isidentifier() or keyword.iskeyword(asked.name)):
            raise ArgumentError(f"%%mojo: expected the name of a variable, got {asked.name!r}")
        try:
            module = load(
                source="\n" + cell,
                name="cell",
                flags=asked.flags,
                progress=print if asked.progress else None,
                timeout=asked.timeout,
            )
        except KernelCompileError as error:
            # IPython shows only the messages of the compiler, without a traceback.
            text = f"{type(error).__name__}: " + re.sub(r"(?m)^/.*?/(cell\.mojo:)", r"\1", str(error))
            error._render_traceback_ = text.splitlines  # type: ignore[attr-defined]
            raise
        names: dict[str, Any] = {**module.families, **module.kernels}
        if asked.name is not None:
            names[asked.name] = module
        self.shell.push(names)
        return module

    def mojo_time(self, line: str) -> Timing:
        """%mojo_time [-r ROUNDS] CALL [vs REFERENCE]

        Time a call and a reference in alternating rounds, and compare their results.

        `%mojo_time kernels.sum(x) vs x.sum()` evaluates both expressions. Without a reference, the kernel must have one
        (see the decorator `mojoview.native`): both are then called with copies of the arguments, and the arrays are
        compared as well.
        """
        parser = _LineParser("%mojo_time")
        parser.add_argument("-r", dest="rounds", default=7, type=int)
        match = re.match(r"\s*(-r\s*\S+)?\s*(.*)", line, re.S)
        options, text = (match[1] or "", match[2]) if match else ("", line)
        asked = parser.parse(options)
        if asked.rounds < 1:
            raise ArgumentError(f"%mojo_time: -r: expected a positive number of rounds, got {asked.rounds}")
        names = self.shell.user_ns
        for cut in [*re.finditer(r"\svs\s", text)]:
            sides = [_expression(part) for part in (text[: cut.start()], text[cut.end() :])]
            if all(side is not None for side in sides):
                call, reference = (_evaluator(side, names) for side in sides)
                results = call(), reference()
                return _timed(call, reference, asked.rounds, *_agreement(*results))
        tree = _expression(text)
        if tree is None or not isinstance(tree.body, ast.Call):
            raise ArgumentError(f"%mojo_time: expected CALL, or CALL vs REFERENCE, got {text!r}")
        return self._with_own_reference(tree.body, asked.rounds)

    def _with_own_reference(self, node: ast.Call, rounds: int) -> Timing:
        names = self.shell.user_ns
        function = _evaluator(ast.Expression(node.func), names)()
        reference = getattr(function, "reference", None)
        if reference is None:
            raise ArgumentError(
                f"%mojo_time: {ast.unparse(node.func)} has no reference; write: %mojo_time"
                f" {ast.unparse(node)} vs EXPRESSION"
            )
        # Evaluates the arguments once, keywords and starred ones included.
        catch = ast.Expression(ast.Call(ast.Name("__arguments", ast.Load()), node.args, node.keywords))
        args, keywords = _evaluator(catch, {**names, "__arguments": lambda *a, **k: (a, k)})()
        kernel = getattr(function, "kernel", function)
        sides = []
        for call in (kernel if isinstance(kernel, Kernel | KernelFamily) else function, reference):
            own = (
                [_copy(a) for a in args],
                {name: _copy(a) for name, a in keywords.items() if name != "threads" or call is not reference},
            )
            sides.append((_caller(call, *own), own))
        (first, mine), (second, other) = sides
        results = first(), second()
        agrees, problem = _agreement(results[0], None if results[0] is None else results[1])
        others = [*other[0], *(other[1].get(name) for name in mine[1])]
        for a, b in zip([*mine[0], *mine[1].values()], others, strict=True):
            if isinstance(a, np.ndarray) and (found := difference(a, b, None, 0.0)):
                agrees, problem = False, str(found)
            elif isinstance(a, np.ndarray) and agrees is None:
                agrees, problem = True, ""
        return _timed(first, second, rounds, agrees, problem)


class _LineParser(argparse.ArgumentParser):
    """An argument parser that raises ArgumentError rather than exit."""

    def __init__(self, magic: str):
        super().__init__(prog=magic, add_help=False)

    def parse(self, line: str) -> argparse.Namespace:
        try:
            return self.parse_args(shlex.split(line))
        except ValueError as error:  # an unclosed quote
            raise ArgumentError(f"{self.prog}: {error}") from error

    def error(self, message: str) -> NoReturn:
        raise ArgumentError(f"{self.prog}: {message}")


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of a call and its reference.

    Attributes
    ----------
    call, reference : tuple of float
        Seconds per call, in each round.
    agrees : bool or None
        Whether the results agree; None if there are no results to compare.
    difference : str
        Description of the difference.
    """

    call: tuple[float, ...]
    reference: tuple[float, ...]
    agrees: bool | None
    difference: str = ""

    @property
    def ratio(self) -> float:
        """The time of the reference divided by that of the call, in their fastest rounds."""
        return min(self.reference) / min(self.call)

    def __repr__(self) -> str:
        verdict = {
            True: "the results agree",
            False: f"the results DIFFER: {self.difference}",
            None: "no results to compare",
        }
        lines = [
            f"{name:9}  {_seconds(min(times))} at best, {_seconds(median(times))} in the median of {len(times)}"
            for name, times in (("call", self.call), ("reference", self.reference))
        ]
        return "\n".join([*lines, f"the reference takes {self.ratio:.3g} times as long; {verdict[self.agrees]}"])


def _seconds(value: float) -> str:
    unit, scale = next(
        (u, s) for u, s, least in (("s", 1, 1), ("ms", 1e3, 1e-3), ("µs", 1e6, 1e-6), ("ns", 1e9, 0)) if value >= least
    )
    return f"{value * scale:.3g} {unit}"


def _expression(text: str) -> ast.Expression | None:
    try:
        return ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # NUL characters, deep nesting
        return None


def _evaluator(tree: Any, names: dict[str, Any]) -> Callable[[], Any]:
    try:
        code = compile(ast.fix_missing_locations(tree), "<%mojo_time>", "eval")
    except (SyntaxError, RecursionError) as error:  # await and yield outside of a function
        raise ArgumentError(f"%mojo_time: {ast.unparse(tree)}: {error}") from error
    return lambda: eval(code, names)


def _caller(function: Any, args: list[Any], keywords: dict[str, Any]) -> Callable[[], Any]:
    return lambda: function(*args, **keywords)


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _agreement(result: Any, expected: Any) -> tuple[bool | None, str]:
    if result is None or expected is None:
        return None, ""
    found = difference(result, expected, None, 0.0)
    return not found, str(found or "")


def _timed(
    call: Callable[[], Any], reference: Callable[[], Any], rounds: int, agrees: bool | None, problem: str
) -> Timing:
    turns = []
    for side in (call, reference):
        start = time.perf_counter()
        side()
        turns.append(max(1, min(100_000, int(MIN_SECONDS / max(1e-9, time.perf_counter() - start)))))
    times: tuple[list[float], list[float]] = [], []
    for _ in range(rounds):
        for side, turn, kept in zip((call, reference), turns, times, strict=True):
            start = time.perf_counter()
            for _ in range(turn):
                side()
            kept.append((time.perf_counter() - start) / turn)
    return Timing(tuple(times[0]), tuple(times[1]), agrees, problem)
