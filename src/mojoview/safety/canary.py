"""Canaries: kernels of whose calls a sample is checked against a Python reference."""

from __future__ import annotations

import inspect
import os
import random
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mojoview.calls.arguments import array_from_list, check_number, output_shape, pack_results
from mojoview.calls.compare import Difference, difference, row_count, rows, take, write
from mojoview.memory.errors import ArgumentError, CanaryError, KernelError, MojoViewError

if TYPE_CHECKING:
    from mojoview.calls._kernel import Kernel
    from mojoview.calls._overloads import KernelFamily

__all__ = ["Canary", "Mismatch", "watch"]

Reaction = Literal["fallback", "raise", "warn"]
REACTIONS = ("fallback", "raise", "warn")
MAX_SAVED_BYTES = 1 << 22  # most bytes of a failing input that are saved


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One call on which a kernel and its reference disagreed.

    Attributes
    ----------
    kernel : str
    call : int
        Number of the call, from 1.
    where : str
        "argument 'y'", "the result", "the input 'x'" (the kernel wrote to it) or "an exception".
    difference : Difference or None
        The first elements that differ, and how many do; None for exceptions.
    text : str
        Description of the disagreement.
    path : Path or None
        The .npz with the input: arguments by name, outputs as they were before the call, and the results
        `kernel.NAME` and `reference.NAME`. None if nothing was saved.
    """

    kernel: str
    call: int
    where: str
    difference: Difference | None
    text: str
    path: Path | None = None

    def __str__(self) -> str:
        saved = f"; the input is in {self.path}" if self.path else ""
        return f"{self.kernel}(): call {self.call}: {self.where}: {self.text}{saved}"


@dataclass(slots=True)
class _Call:
    """The arguments of one call, with arrays copied as they were before it.

    `allocated`: outputs and numbers that the caller leaves out and gets back; in `arrays` with their initial values.
    `passed`: arrays that are the caller's own.
    """

    arrays: dict[str, np.ndarray]
    writes: frozenset[str]
    given: dict[str, Any]
    allocated: tuple[str, ...]
    passed: frozenset[str]
    options: dict[str, Any] = field(default_factory=dict)

    def copied(self) -> dict[str, Any]:
        """Return fresh copies of the arguments in the order of the signature, inputs read-only."""
        fresh = {name: array.copy(order="K") for name, array in self.arrays.items()}
        for name in fresh.keys() - self.writes:
            fresh[name].setflags(write=False)
        return {name: fresh.get(name, value) for name, value in self.given.items()}

    def arguments(self, arrays: Mapping[str, Any]) -> list[Any]:
        """Return the arguments in the form that the kernel takes, with numbers that it updates as numbers."""
        return [value.item() if name in self.allocated and value.ndim == 0 else value for name, value in arrays.items()]

    def outputs(self, result: Any, gives: bool, names: Sequence[str]) -> tuple[Any, dict[str, Any]]:
        """Split what a call returned into the kernel's own result and the values allocated under `names`."""
        if not names:
            return result, {}
        parts = result if len(names) + gives > 1 else (result,)
        return (parts[0] if gives else None), dict(zip(names, parts[gives:], strict=True))


class Canary:
    """A kernel and its Python reference, run side by side on a sample of the calls.

    Made by `Kernel.canary` and `KernelFamily.canary`; called as the kernel is.

    Attributes
    ----------
    kernel : Kernel or KernelFamily
    reference : callable
    state : {"watching", "promoted", "fallback"}
        "promoted": enough checked calls agreed, so that no more are checked. "fallback": only the reference is called.
    calls, checked, unchecked, mismatches : int
        Number of calls while watching; of checked calls; of chosen calls whose arguments could not be copied; of
        checked calls on which the two disagreed.
    report : Mismatch or None
        The first disagreement.

    Notes
    -----
    Thread safety: any thread. Arrays that other threads write to during a checked call look like disagreements.
    """

    def __init__(
        self,
        kernel: Kernel | KernelFamily,
        reference: Callable[..., Any],
        *,
        sample: float,
        rtol: float | None,
        atol: float,
        on_mismatch: Reaction,
        promote_after: int | None,
        directory: Path | None,
        seed: int | None,
    ):
        self.kernel, self.reference = kernel, reference
        self.calls = self.checked = self.unchecked = self.mismatches = 0
        self.state: Literal["watching", "promoted", "fallback"] = "watching"
        self.report: Mismatch | None = None
        self._sample, self._rtol, self._atol = sample, rtol, atol
        self._on_mismatch, self._promote_after, self._directory = on_mismatch, promote_after, directory
        self._clean = 0
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._form = inspect.signature(kernel)
        self._gives = kernel.signature.result not in ("none", "status", "status_index")
        self._run: Callable[..., Any] = self._watch
        self.__name__, self.__doc__, self.__signature__ = kernel.name, kernel.__doc__, self._form

    @property
    def signature(self) -> Any:
        return self.kernel.signature

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self._run(*args, **keywords)

    def __repr__(self) -> str:
        return (
            f"<canary of {self.kernel.name}, {self.state}: {self.calls} calls, {self.checked} checked,"
            f" {self.mismatches} mismatches>"
        )

    def _watch(self, *args: Any, **keywords: Any) -> Any:
        with self._lock:
            self.calls += 1
            number, chosen = self.calls, self._random.random() < self._sample
        if not chosen:
            return self.kernel(*args, **keywords)
        call = self._copied(args, keywords)
        if call is None:
            return self._unchecked(args, keywords)
        kernel_error: KernelError | None = None
        result = None
        try:
            result = self.kernel(*args, **keywords)
        except KernelError as error:
            if error.code is None:  # the arguments were rejected: an error of the caller
                raise
            kernel_error = error
        after = {name: take(call.given[name]) for name in call.passed}
        own = result
        if kernel_error is None:
            own, returned = call.outputs(result, self._gives, call.allocated)
            after |= returned
        expected, outputs, reference_error = self._reference(call)
        if kernel_error is not None and reference_error is not None:
            raise kernel_error  # both raised: the call itself is invalid
        found = self._compare(call, after, own, outputs, expected, kernel_error, reference_error)
        if found is None:
            self._note_clean()
            return result
        return self._disagree(number, call, found, result, after, outputs, expected, kernel_error, reference_error)

    def _unchecked(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        result = self.kernel(*args, **keywords)  # it usually rejects the arguments with a reason
        with self._lock:
            self.unchecked += 1
            first = self.unchecked == 1
        if first:
            warnings.warn(
                f"{self.kernel.name}(): the canary cannot copy these arguments; such calls are not checked",
                RuntimeWarning,
                stacklevel=5,
            )
        return result

    # ---- both sides of a call
    def _copied(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> _Call | None:
        """Return the arguments, copied, or None if they are invalid, which the kernel then reports."""
        try:
            bound = self._form.bind(*args, **keywords)
        except TypeError:
            return None
        options = {name: value for name, value in bound.arguments.items() if name != "threads"}
        bound.apply_defaults()
        try:
            member = getattr(self.kernel, "kernel_for", None)  # KernelFamily
            signature = member(*args, **keywords).signature if member else self.kernel.signature
            params = [p for p in signature.params if p.name in bound.arguments]  # not the message buffer
            given = {p.name: bound.arguments[p.name] for p in params}
            arrays, allocated, passed = dict[str, Any](), list[str](), set[str]()
            for p in params:
                if p.role != "value" and type(given[p.name]) in (list, tuple) and p.dtype != "T":
                    arrays[p.name] = array_from_list(signature, p, given[p.name])
            values = [arrays.get(p.name, given.get(p.name)) for p in signature.params]
            for p in params:
                value = given[p.name]
                if p.name in arrays:
                    continue
                if p.is_number:
                    arrays[p.name] = np.array(check_number(signature, p, value), p.dtype)
                    allocated.append(p.name)
                elif p.role == "out" and value is None and p.dtype != "T":
                    arrays[p.name] = np.zeros(output_shape(signature, p, values), p.dtype)
                    allocated.append(p.name)
                elif p.role != "value" and not isinstance(value, int | float | np.generic):
                    arrays[p.name] = take(value)
                    passed.add(p.name)
        except MojoViewError:
            return None
        return _Call(
            arrays,
            frozenset(p.name for p in params if p.writes),
            given,
            tuple(allocated),
            frozenset(passed),
            {name: value for name, value in options.items() if name not in given},
        )

    def _reference(self, call: _Call) -> tuple[Any, dict[str, Any], Exception | None]:
        """Call the reference on copies; return its result, the arguments after the call, and the exception."""
        fresh = call.copied()
        try:
            result = self.reference(*fresh.values(), **call.options)
        except Exception as error:
            return None, fresh, error
        return (result if self._gives else None), fresh, None

    def _compare(
        self,
        call: _Call,
        after: Mapping[str, np.ndarray],
        result: Any,
        outputs: Mapping[str, Any],
        expected: Any,
        kernel_error: Exception | None,
        reference_error: Exception | None,
    ) -> tuple[str, Difference | None, str] | None:
        """Return the place of a disagreement, the difference and a description; None if there is none."""
        if kernel_error is not None:
            return "an exception", None, f"the kernel raised {kernel_error!r}, the reference did not"
        if reference_error is not None:
            return "an exception", None, f"the reference raised {reference_error!r}, the kernel did not"
        for name, array in after.items():
            if name in call.writes:
                where, right = f"argument '{name}'", outputs[name]
                found = difference(array, right, self._rtol, self._atol)
            else:
                where = f"the input '{name}'"
                found = difference(array, call.arrays[name], 0.0, 0.0)
            if found:
                return where, found, str(found)
        found = difference(result, expected, self._rtol, self._atol)
        return ("the result", found, str(found)) if found else None

    # ---- what follows
    def _note_clean(self) -> None:
        with self._lock:
            self.checked += 1
            self._clean += 1
            if self._promote_after is not None and self._clean >= self._promote_after and self.state == "watching":
                self.state, self._run = "promoted", self.kernel

    def _disagree(
        self,
        number: int,
        call: _Call,
        found: tuple[str, Difference | None, str],
        result: Any,
        after: Mapping[str, np.ndarray],
        outputs: Mapping[str, Any],
        expected: Any,
        kernel_error: Exception | None,
        reference_error: Exception | None,
    ) -> Any:
        report = Mismatch(self.kernel.name, number, *found)
        with self._lock:
            self.checked += 1
            self.mismatches += 1
            self._clean = 0
            first = self.report is None
            if first:
                self.report = report
            if self._on_mismatch == "fallback":
                self.state, self._run = "fallback", self._fall_back
        if first and self._directory is not None:
            self.report = report = replace(report, path=self._save(report, call))
        if self._on_mismatch == "warn":
            warnings.warn(str(report), RuntimeWarning, stacklevel=4)
            if kernel_error is not None:
                raise kernel_error
            return result
        modified = [name for name in call.passed if name in call.writes or found[0] == f"the input '{name}'"]
        if self._on_mismatch == "raise" or reference_error is not None:
            for name in modified:
                write(call.given[name], call.arrays[name])
            if self._on_mismatch == "fallback" and reference_error is not None:
                raise reference_error
            cause = kernel_error or reference_error
            raise CanaryError(str(report), kernel=self.kernel.name, report=report) from cause
        for name in modified:
            write(call.given[name], outputs[name] if name in call.writes else call.arrays[name])
        warnings.warn(f"{report}; from now on the reference is called instead", RuntimeWarning, stacklevel=4)
        return self._outcome(call, expected, outputs)

    def _outcome(self, call: _Call, result: Any, outputs: Mapping[str, Any]) -> Any:
        """Return what the kernel would have returned, from the results of the reference."""
        return pack_results(result, [outputs[name] for name in call.allocated]) if call.allocated else result

    def _fall_back(self, *args: Any, **keywords: Any) -> Any:
        """Call the reference on copies, as while watching."""
        call = self._copied(args, keywords)
        if call is None:
            return self.kernel(*args, **keywords)  # which rejects the arguments
        result, outputs, error = self._reference(call)
        if error is not None:
            raise error
        for name in call.writes & call.passed:
            write(call.given[name], outputs[name])
        return self._outcome(call, result, outputs)

    # ---- the report
    def _both(self, call: _Call) -> tuple[dict[str, Any], Any, dict[str, Any], Any] | None:
        """Run both sides on copies; return None if they agree or one of them raises."""
        mine = call.copied()
        numbers = [name for name in call.allocated if mine[name].ndim == 0]
        try:
            result, returned = call.outputs(self.kernel(*call.arguments(mine), **call.options), self._gives, numbers)
        except MojoViewError:
            return None
        expected, outputs, error = self._reference(call)
        after = {name: mine[name] for name in call.arrays} | returned
        if error is not None or not self._compare(call, after, result, outputs, expected, None, None):
            return None
        return mine, result, outputs, expected

    def _save(self, report: Mismatch, call: _Call) -> Path | None:
        """Halve the arrays while the two sides still disagree, and write what is left."""
        sides = self._both(call)
        while sides is not None and (count := row_count(call.arrays)) > 1:
            for part in (slice(0, count // 2), slice(count // 2, count)):
                half = replace(call, arrays=rows(call.arrays, part))
                if (closer := self._both(half)) is not None:
                    call, sides = half, closer
                    break
            else:
                break
        contents = {name: call.arrays.get(name, value) for name, value in (call.given | call.options).items()}
        for side, after, result in [("kernel", *sides[:2]), ("reference", *sides[2:])] if sides else []:
            contents |= {f"{side}.{name}": after[name] for name in call.arrays if name in call.writes}
            if result is not None:
                contents[f"{side}.result"] = result
        if sum(np.asarray(value).nbytes for value in contents.values()) > MAX_SAVED_BYTES or self._directory is None:
            return None
        path = self._directory / f"{self.kernel.name}-{os.getpid()}-{report.call}.npz"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            arrays: dict[str, Any] = {name: np.asarray(value) for name, value in contents.items()}
            with open(path.with_suffix(".part"), "wb") as file:
                np.savez(file, **arrays)
            os.replace(file.name, path)
        except (OSError, ValueError) as error:
            warnings.warn(
                f"{self.kernel.name}(): the input of the disagreement cannot be saved in {self._directory}: {error}",
                RuntimeWarning,
                stacklevel=5,
            )
            return None
        return path


def watch(
    kernel: Kernel | KernelFamily,
    reference: Callable[..., Any],
    *,
    sample: float = 0.01,
    rtol: float | None = None,
    atol: float = 0.0,
    on_mismatch: Reaction = "fallback",
    promote_after: int | None = None,
    directory: str | os.PathLike[str] | None = None,
    seed: int | None = None,
) -> Canary | Kernel | KernelFamily:
    """kernel.canary(reference, *, sample=0.01, rtol=None, atol=0.0, on_mismatch="fallback", promote_after=None,
    directory=None, seed=None)

    Return the kernel with a Python reference that also runs on a sample of the calls.

    On a checked call the arrays are copied first. The kernel works on the originals, the reference on the copies; then
    outputs, results and exceptions are compared, and the inputs are checked to be unchanged.

    Parameters
    ----------
    reference : callable
        Takes the arguments of the kernel's signature by position, arrays as ndarrays, and fills the same outputs.
        Outputs that a call leaves out are zeros, and numbers that the kernel updates are 0-d arrays. Its return value
        counts only if the kernel returns a value.
    sample : float
        Share of calls that are checked, chosen at random. With 0 the kernel itself is returned: a canary that is off
        costs nothing.
    rtol, atol : float
        Tolerances; None is half of the digits of the coarser floating dtype. Integers must be equal.
    on_mismatch : {"fallback", "raise", "warn"}
        "fallback": warn (RuntimeWarning) and return the reference's results for this call and all later ones. "raise":
        raise CanaryError and restore the outputs. "warn": warn and return the kernel's results.
    promote_after : int, optional
        Stop checking after this many checked calls in a row agreed.
    directory : path-like, optional
        Directory in which the input of the first disagreement is saved as an .npz, created if needed. The rows are
        halved while both sides still disagree on one half; an input that stays above 4 MiB is not saved.
    seed : int, optional
        Seed of the choice of calls.

    Returns
    -------
    Canary, Kernel or KernelFamily
        Called as the kernel is; owns a reference to both.

    Raises
    ------
    ArgumentError
        An argument has an unusable type or value.
    CanaryError
        At a call, with on_mismatch="raise".

    Notes
    -----
    Arguments that the kernel rejects are rejected, without a comparison. Thread safety: any thread; arrays that other
    threads write to during a checked call look like disagreements.

    Examples
    --------
    >>> from mojoview import kernels
    >>> def norm(x, y):
    ...     return float((x * y).sum())
    >>> dot = kernels.dot.canary(norm, sample=1, promote_after=2)
    >>> x = np.arange(3.0)
    >>> dot(x, x), dot(x, x)
    (5.0, 5.0)
    >>> dot
    <canary of dot, promoted: 2 calls, 2 checked, 0 mismatches>
    """
    where = f"{kernel.name}.canary()"
    if not callable(reference):
        raise ArgumentError(f"{where}: reference: expected a callable, got {type(reference).__name__}")
    if isinstance(sample, bool) or not isinstance(sample, int | float) or not 0 <= sample <= 1:
        raise ArgumentError(f"{where}: sample: expected a share from 0 to 1, got {sample!r}")
    for name, value in (("rtol", rtol), ("atol", atol)):
        if (name, value) != ("rtol", None) and (not isinstance(value, int | float) or not value >= 0):
            raise ArgumentError(f"{where}: {name}: expected a non-negative number, got {value!r}")
    if on_mismatch not in REACTIONS:
        raise ArgumentError(f"{where}: on_mismatch: expected one of {REACTIONS}, got {on_mismatch!r}")
    if promote_after is not None and (type(promote_after) is not int or promote_after < 1):
        raise ArgumentError(f"{where}: promote_after: expected None or at least 1 call, got {promote_after!r}")
    if sample == 0:
        return kernel
    return Canary(
        kernel,
        reference,
        sample=sample,
        rtol=rtol,
        atol=atol,
        on_mismatch=on_mismatch,
        promote_after=promote_after,
        directory=None if directory is None else Path(directory),
        seed=seed,
    )
