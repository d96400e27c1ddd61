"""The error tree: every failure is a `MojoViewError` and also the builtin that callers expect."""

from typing import Any

__all__ = [
    "AccessorError",
    "AlignmentError",
    "AllocationError",
    "ArgumentError",
    "BorrowError",
    "BrokenFrame",
    "Busy",
    "CacheError",
    "CanaryError",
    "ClosedError",
    "ColumnError",
    "CompileTimeoutError",
    "CompilerNotFound",
    "CorruptHeader",
    "DTypeError",
    "DeclarationError",
    "DeviceError",
    "ExportedError",
    "FieldError",
    "FrameError",
    "GuardError",
    "IndexingError",
    "InterfaceError",
    "KernelAttributeError",
    "KernelCompileError",
    "KernelCrashed",
    "KernelDivisionError",
    "KernelError",
    "KernelImportError",
    "KernelIndexError",
    "KernelMemoryError",
    "KernelOverflowError",
    "KernelTimeout",
    "KernelValueError",
    "LayoutError",
    "MappingError",
    "MaskError",
    "MemberError",
    "MojoSafetyError",
    "MojoViewError",
    "NonFiniteError",
    "NotAMojoviewSegment",
    "NotOwnerError",
    "NotReady",
    "OptionError",
    "OverlapError",
    "OwnerGone",
    "PeerGone",
    "ProtocolError",
    "QueueFull",
    "RangeError",
    "ReadOnlyError",
    "ReleasedError",
    "RingFull",
    "SchemaMismatch",
    "SegmentAccessError",
    "SegmentError",
    "SegmentExists",
    "SegmentLost",
    "SegmentNotFound",
    "ShapeError",
    "SharedError",
    "ShmFullError",
    "StaleError",
    "StreamError",
    "TruncatedError",
    "VersionMismatch",
    "WaitTimeout",
    "ZeroCopyError",
]


class MojoViewError(Exception):
    """Root of every error that mojoview raises."""


class ZeroCopyError(MojoViewError, BufferError, ValueError):
    """The memory cannot be shared without a copy; the message states the cause and the remedy."""


class ReadOnlyError(MojoViewError, BufferError, ValueError):
    """Writing was requested on memory that is read-only or was opened for reading."""


class ReleasedError(MojoViewError, ValueError):
    """A view was used after `release()`."""


class ExportedError(MojoViewError, BufferError):
    """A view cannot be released while a consumer or a running kernel still uses its memory."""


class BorrowError(MojoViewError, BufferError, ValueError):
    """The memory is being written through another view, or is viewed elsewhere while writing was requested."""


class MappingError(MojoViewError, OSError):
    """A file cannot be opened or mapped."""


class StaleError(MojoViewError, BufferError):
    """The frame has changed: the leased memory no longer belongs to the column."""


class AllocationError(MojoViewError, MemoryError):
    """The structures that describe or export a view could not be allocated."""


class ArgumentError(MojoViewError, TypeError, ValueError):
    """An argument has a type or a value that the operation does not accept."""


class RangeError(MojoViewError, OverflowError):
    """A number does not fit its dtype."""


class OptionError(MojoViewError, TypeError, NotImplementedError):
    """An option of a protocol is not supported by this version."""


class DTypeError(MojoViewError, TypeError):
    """The operation does not support this dtype or byte order."""


class ShapeError(MojoViewError, ValueError):
    """Dimensions or sizes do not fit together."""


class LayoutError(MojoViewError, ValueError, BufferError):
    """The operation does not support these strides, or needs contiguous memory."""


class AlignmentError(MojoViewError, ValueError):
    """The address or a stride is not a multiple of the dtype's alignment."""


class OverlapError(MojoViewError, ValueError):
    """An output shares memory with another argument."""


class MaskError(MojoViewError, ValueError, BufferError):
    """The operation does not support missing values."""


class DeviceError(MojoViewError, BufferError):
    """The memory is on a device that the host cannot read."""


class StreamError(MojoViewError, ValueError):
    """A stream number is invalid for this memory."""


class IndexingError(MojoViewError, IndexError):
    """An index is out of range, or of a kind that needs a copy."""


class FieldError(MojoViewError, KeyError, ValueError):
    """A record has no field of that name."""

    def __str__(self) -> str:
        return ValueError.__str__(self)  # KeyError would show the message in quotes


class InterfaceError(MojoViewError, ValueError):
    """An exporter's description of its memory is malformed or contradicts its real size."""


class ProtocolError(MojoViewError, AttributeError):
    """A protocol cannot describe this view; consumers then try the next protocol."""


class ColumnError(MojoViewError, KeyError, ValueError):
    """A label matches no column, or more than one."""

    def __str__(self) -> str:
        return ValueError.__str__(self)  # KeyError would show the message in quotes


class AccessorError(MojoViewError, AttributeError):
    """The accessor cannot be overwritten."""


class SharedError(MojoViewError, BufferError):
    """Writing was requested on memory that other pandas objects or views share."""


class FrameError(MojoViewError, RuntimeError):
    """pandas is in a state that forbids the operation (for example Copy-on-Write is off)."""


class KernelError(MojoViewError, RuntimeError):
    """A kernel reported failure.

    Attributes
    ----------
    kernel : str or None
        Name of the kernel.
    code : int or None
        Status code that the kernel returned.
    index : int or None
        Element at which it failed, if the kernel reports one.
    """

    def __init__(self, message: str, *, kernel: str | None = None, code: int | None = None, index: int | None = None):
        super().__init__(message)
        self.kernel, self.code, self.index = kernel, code, index


class KernelValueError(KernelError, ValueError):
    """A kernel was given a value that it does not accept, or no elements."""


class KernelIndexError(KernelError, IndexError):
    """A kernel was given an index that is out of range."""


class KernelOverflowError(KernelError, OverflowError):
    """A value does not fit its type."""


class KernelDivisionError(KernelError, ZeroDivisionError):
    """A kernel divided by zero."""


class MojoSafetyError(KernelError):
    """A kernel violated a rule of a safe call; each class documents what the arrays hold afterwards."""


class KernelMemoryError(MojoSafetyError, MemoryError):
    """A kernel could not allocate the memory that it needs, or exceeded its limit.

    Attributes
    ----------
    refused : int or None
        Size of the last allocation that failed, in bytes, if the kernel then crashed in a worker process.
    """

    refused: int | None = None


class KernelTimeout(MojoSafetyError, TimeoutError):
    """A kernel did not finish in time, or no worker process became free. The arrays of the caller are unchanged.

    Attributes
    ----------
    stack : tuple of str
        Call stack of the kernel, innermost frame first, as far as the symbols of its library show.
    output : str
        The last text that it printed.
    """

    stack: tuple[str, ...] = ()
    output: str = ""


class KernelCrashed(MojoSafetyError):
    """A kernel terminated its worker process. The arrays of the caller are unchanged.

    Attributes
    ----------
    signal : int
        The signal that killed the process; 0 if it exited by itself.
    address : int or None
        The address that it accessed, in the worker's address space, if the signal reports one.
    argument : str or None
        The argument beside whose memory, or in whose read-only memory, the address is.
    stack : tuple of str
        Call stack of the kernel, innermost frame first, as far as the symbols of its library show.
    output : str
        The last text that it printed.
    """

    signal: int = 0
    address: int | None = None
    argument: str | None = None
    stack: tuple[str, ...] = ()
    output: str = ""


class GuardError(MojoSafetyError, BufferError):
    """A kernel wrote to an input, or outside an array. The arrays of the caller are unchanged.

    Attributes
    ----------
    argument : str or None
    """

    argument: str | None = None


class NonFiniteError(MojoSafetyError, ValueError):
    """A result holds NaN or an infinity, and the call forbids that. The arrays of the caller are unchanged."""


class QueueFull(KernelError, BlockingIOError):
    """The queue of asynchronous calls stayed full until the caller's timeout."""


class KernelCompileError(KernelError):
    """The compiler rejected a kernel file.

    Attributes
    ----------
    diagnostics : tuple of Diagnostic
        The compiler's messages, with file, line and column (both counted from 1).
    """

    def __init__(self, message: str, diagnostics: tuple[Any, ...] = ()):
        super().__init__(message)
        self.diagnostics = tuple(diagnostics)


class CompileTimeoutError(KernelCompileError, TimeoutError):
    """Compilation, here or in another process that compiles the same file, did not finish in time."""


class CacheError(KernelError, OSError):
    """The kernel cache is not a usable directory, or other users could write to it."""


class KernelAttributeError(KernelError, AttributeError):
    """A kernel module has no kernel of that name, or its export cannot be called safely; the message states why."""


class DeclarationError(KernelError, ValueError):
    """A C declaration cannot be parsed, or has a type that cannot be passed.

    Attributes
    ----------
    line, column : int
        Position of the error, counted from 1; 0 if it has none.
    """

    def __init__(self, message: str, *, line: int = 0, column: int = 0):
        super().__init__(message)
        self.line, self.column = line, column


class CompilerNotFound(KernelError, ImportError):
    """No Mojo compiler is installed; the message names the extra that provides it."""

    def __init__(self, message: str):
        super().__init__(message)


class KernelImportError(KernelError, ImportError):
    """A Mojo module was found, but cannot be imported; the cause is chained.

    Attributes
    ----------
    name : str or None
        Dotted name of the module.
    path : str or None
        Its file.
    file : str or None
        File of the compiler's first error: that file, or one that it imports.
    line, column : int or None
        Position in `file`; both count from 1.
    diagnostics : tuple of Diagnostic
        All messages of the compiler.
    """

    def __init__(
        self, message: str, *, name: str | None = None, path: str | None = None, diagnostics: tuple[Any, ...] = ()
    ):
        super().__init__(message)
        self.msg, self.name, self.path, self.diagnostics = message, name, path, tuple(diagnostics)
        first = next((d for d in diagnostics if d.severity == "error" and d.line), None)
        self.file: str | None = first and first.file
        self.line: int | None = first and first.line
        self.column: int | None = first and first.column


class CanaryError(KernelError):
    """The results of a kernel and of its reference differ.

    Attributes
    ----------
    report : Mismatch or None
        The differences, and the file with the input.
    """

    def __init__(self, message: str, *, kernel: str | None = None, report: Any = None):
        super().__init__(message, kernel=kernel)
        self.report = report


class MemberError(MojoViewError, AttributeError):
    """A member that can be bound only once was bound again, or its class cannot store it."""


class SegmentError(MojoViewError, OSError):
    """Shared memory could not be created, found or used."""


class SegmentNotFound(SegmentError, FileNotFoundError):
    """No segment has that name."""


class SegmentExists(SegmentError, FileExistsError):
    """The name is in use; the message names the owner and whether it is still running."""


class SegmentAccessError(SegmentError, PermissionError):
    """The segment belongs to another user, or others may write to it."""


class NotAMojoviewSegment(SegmentError):
    """The shared memory of that name is not a segment of this package, and was not changed."""


class NotReady(SegmentError, TimeoutError):
    """The creator of the segment did not finish it in time."""


class VersionMismatch(SegmentError):
    """The segment was made by an incompatible version or on a host with another byte order."""


class SchemaMismatch(SegmentError, ValueError):
    """The segment does not have the requested kind, dtype or shape."""


class CorruptHeader(SegmentError, ValueError):
    """The checksum or the contents of the header are wrong."""


class TruncatedError(SegmentError):
    """The segment's memory is shorter than its header states."""


class ShmFullError(SegmentError):
    """There is not enough memory for the segment.

    Attributes
    ----------
    needed, free : int
        Bytes.
    """

    def __init__(self, message: str, needed: int = 0, free: int = 0):
        super().__init__(28, message)  # ENOSPC
        self.needed, self.free = needed, free

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.needed, self.free)

    def __str__(self) -> str:
        return str(self.args[1])


class SegmentLost(SegmentError):
    """The segment of a handle no longer exists, or its name belongs to another one."""


class NotOwnerError(SegmentError, PermissionError):
    """Only a segment's owner may write: this handle is a reader's, closed, or inherited by fork."""


class OwnerGone(SegmentError, ConnectionError):
    """The writer of the segment has closed it or exited."""


class Busy(SegmentError, BlockingIOError):
    """A resource is in use: readers pin every slot of a Snapshot, all producer slots of a ring are taken, or another
    thread is using the handle."""


class ClosedError(MojoViewError, ValueError):
    """A handle was used after `close()`."""


class WaitTimeout(MojoViewError, TimeoutError):
    """A wait on shared memory exceeded its timeout.

    Attributes
    ----------
    written : int
        Of `Ring.write_many`: number of messages written before.
    """

    written = 0


class RingFull(MojoViewError, BlockingIOError):
    """A ring was full, and its policy is not to wait. `written` is that of `WaitTimeout`."""

    written = 0


class PeerGone(MojoViewError, ConnectionError):
    """The other side of a ring has exited or closed it."""


class BrokenFrame(MojoViewError, ValueError):
    """A frame of a ring is damaged; reading goes on at the next good one.

    Attributes
    ----------
    position : int
        Position in the stream, in bytes.
    seq : int or None
        The sequence number that was expected there.
    reason : str
        The failed check: "header check", "length", "payload checksum" or "sequence gap".
    """

    def __init__(self, position: int, seq: int | None, reason: str, ring: str = ""):
        super().__init__(position, seq, reason, ring)
        self.position, self.seq, self.reason, self.ring = position, seq, reason, ring

    def __str__(self) -> str:
        which = "a frame" if self.seq is None else f"frame {self.seq}"
        return f"ring {self.ring!r}: {which} at position {self.position} is damaged: {self.reason}"
