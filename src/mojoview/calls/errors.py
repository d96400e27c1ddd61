"""What a failing kernel of a module raises: status codes, their exceptions, and the line of Mojo that they point to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from mojoview.calls.binding import kernel_error
from mojoview.calls.signature import Signature
from mojoview.memory import errors
from mojoview.memory.errors import ArgumentError, KernelError

__all__ = ["ErrorTable", "SourceLocation"]

FIRST_OWN, LAST_OWN = 64, 255
# What a docstring may begin with: the builtin, and the class that is both it and a KernelError.
BUILTIN = {"ValueError": errors.KernelValueError, "IndexError": errors.KernelIndexError,
           "OverflowError": errors.KernelOverflowError, "ZeroDivisionError": errors.KernelDivisionError,
           "MemoryError": errors.KernelMemoryError, "RuntimeError": KernelError}

Kind = type[Exception]


@dataclass(frozen=True, slots=True)
class Entry:
    """The exception of one code, its words, and the name that the Mojo source has for it."""

    kind: Kind
    words: str
    name: str


class ErrorTable(MutableMapping[int, Kind]):
    """`module.errors`: the exceptions that an author's own status codes (64 to 255) stand for.

    Codes that the source declares, `comptime E_COLD = Status(E_USER + 1)`, are there from the beginning. A docstring
    below the declaration gives the message; where it begins with the name of an exception and a colon, as in
    `\"\"\"ValueError: the sample is too cold.\"\"\"`, that exception: ValueError, IndexError, OverflowError,
    ZeroDivisionError, MemoryError or RuntimeError. Each then is the KernelError that is this builtin as well.

    `errors[65] = Cold` makes the code raise a class of your own, `errors["E_COLD"] = Cold` the code of that name, and
    `errors[65] = Cold, "the sample is too cold"` changes the words, too. The class is called with the message. What it
    makes gets the attributes `kernel`, `code` and `index`. `del errors[65]` returns to a plain KernelError.

    Notes
    -----
    Thread safety: may be changed while kernels run; a failure finds the old entry or the new one.

    Examples
    --------
    >>> import mojoview as mv
    >>> module = mv.load("probe.mojo")  # doctest: +SKIP
    >>> module.errors["E_COLD"] = ColdSample  # doctest: +SKIP
    """

    def __init__(self, declared: Mapping[str, tuple[int, str]] = {}):
        self._entries = dict[int, Entry]()
        for name, (code, said) in declared.items():
            if FIRST_OWN <= code <= LAST_OWN and code not in self._entries:
                head, colon, rest = said.partition(":")
                kind = BUILTIN.get(head.strip()) if colon else None
                words = (rest if kind else said).strip().removesuffix(".")
                self._entries[code] = Entry(kind or KernelError, words, name)

    def _code(self, key: Any) -> int:
        if isinstance(key, str):
            for code, entry in self._entries.items():
                if entry.name == key:
                    return code
            raise ArgumentError(f"errors: the source declares no status {key!r};"
                                f" it has: {', '.join(e.name for e in self._entries.values() if e.name) or 'none'}")
        if type(key) is not int or not FIRST_OWN <= key <= LAST_OWN:
            raise ArgumentError(f"errors: expected a code from {FIRST_OWN} (E_USER) to {LAST_OWN}, or the name of one,"
                                f" got {key!r}")
        return key

    def __getitem__(self, key: int | str) -> Kind:
        entry = self._entries.get(self._code(key))
        return entry.kind if entry else KernelError

    def __setitem__(self, key: int | str, value: Any) -> None:
        code = self._code(key)
        old = self._entries.get(code, Entry(KernelError, "", ""))
        kind, words = value if isinstance(value, tuple) and len(value) == 2 else (value, old.words)
        if not isinstance(kind, type) or not issubclass(kind, Exception) or not isinstance(words, str):
            raise ArgumentError(f"errors[{key!r}]: expected an exception class, or one and its words, got {value!r}")
        self._entries[code] = Entry(kind, words, old.name)

    def __delitem__(self, key: int | str) -> None:
        code = self._code(key)
        old = self._entries.pop(code, None)
        if old and old.name:  # the source goes on declaring it
            self._entries[code] = Entry(KernelError, old.words, old.name)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        shown = (f"{code}: {e.kind.__name__}" + (f" ({', '.join(filter(None, (e.name, e.words)))})" if e.name else "")
                 for code, e in sorted(self._entries.items()))
        return f"<errors of a kernel module: {', '.join(shown) or 'none'}>"

    def exception(self, signature: Signature, code: int, index: int | None) -> BaseException:
        """The exception for a status that a running kernel returned."""
        entry = self._entries.get(code)
        names = ", ".join(p.name for p in signature.params if not p.is_message)
        if entry is None:
            return kernel_error(signature, code, index, names)
        status = f"{entry.name}, status {code}" if entry.name else f"status {code}"
        words = f"{entry.words} ({status})" if entry.words else status
        message = f"kernel {signature.name}({names}): {words}" + ("" if index is None else f", at element {index}")
        try:
            error = entry.kind(message)
        except Exception as refused:
            error = KernelError(f"{message}; {entry.kind.__name__}(message) raised {type(refused).__name__}: {refused}")
        with suppress(AttributeError, TypeError):  # a class that takes no attributes goes without
            for name, value in (("kernel", signature.name), ("code", code), ("index", index)):
                setattr(error, name, value)
        return error


@dataclass(slots=True)
class SourceLocation:
    """Where the source of a kernel stands, and what its statuses mean."""

    table: ErrorTable
    file: Path | None = None
    line: int = 0
    frame: CodeType | None = None

    def failure(self, signature: Signature, code: int, index: int | None) -> BaseException:
        """The exception, whose traceback ends in the line of the export."""
        error = self.table.exception(signature, code, index)
        if isinstance(error, KernelError):
            error.kernel = error.kernel or signature.name
        if self.file is None:
            return error
        if self.frame is None:
            self.frame = synthetic_frame(self.file, self.line, signature.name)
        scope = {"error": error}
        try:
            exec(self.frame, scope)
        except BaseException as raised:
            trace = raised.__traceback__
            return raised.with_traceback(trace and trace.tb_next)
        finally:  # frames of the traceback must not lead back to the exception, or only the collector could free it
            scope.clear()
            del error
            trace = None
        raise KernelError(f"{signature.name}: status {code}")


def synthetic_frame(file: Path, line: int, name: str) -> CodeType:
    """Code that raises `error` and claims to stand at a line of another file: tracebacks show that line."""
    code = compile("raise error", str(file), "exec")
    units = len(code.co_code) // 2
    # each entry: up to 8 units, on the same line, without columns (which would underline a part of that line)
    table = b"".join(bytes([0x80 | 13 << 3 | min(8, units - done) - 1, 0]) for done in range(0, units, 8))
    return code.replace(co_name=name, co_qualname=name, co_firstlineno=line, co_linetable=table)
