"""The error tree: every failure is a `MojoViewError` and also the builtin that callers expect."""

__all__ = [
    "AlignmentError",
    "CompilerNotFound",
    "DTypeError",
    "DeviceError",
    "ExportedError",
    "FrameError",
    "InterfaceError",
    "KernelCompileError",
    "KernelError",
    "LayoutError",
    "MaskError",
    "MojoViewError",
    "OverlapError",
    "ReadOnlyError",
    "ReleasedError",
    "ShapeError",
    "StaleError",
    "ZeroCopyError",
]


class MojoViewError(Exception):
    """Root of every error that mojoview raises."""


class ZeroCopyError(MojoViewError, BufferError, ValueError):
    """The memory cannot be shared without a copy; the message names what, why and the remedy."""


class ReadOnlyError(MojoViewError, BufferError, ValueError):
    """Writing was asked of memory that is read-only or was opened for reading."""


class ReleasedError(MojoViewError, ValueError):
    """A view was used after `release()`."""


class ExportedError(MojoViewError, BufferError):
    """A view cannot be released while a consumer or a running kernel still uses its memory."""


class StaleError(MojoViewError, BufferError):
    """The frame has moved on: the leased memory is no longer the column's own."""


class DTypeError(MojoViewError, TypeError):
    """The dtype, or its byte order, is not what the operation takes."""


class ShapeError(MojoViewError, ValueError):
    """Dimensions or sizes do not fit together."""


class LayoutError(MojoViewError, ValueError, BufferError):
    """Strides or contiguity are not what the operation takes."""


class AlignmentError(MojoViewError, ValueError):
    """The address or a stride is no multiple of the dtype's alignment."""


class OverlapError(MojoViewError, ValueError):
    """An output shares memory with another argument."""


class MaskError(MojoViewError, ValueError, BufferError):
    """Missing values meet an operation that has no notion of them."""


class DeviceError(MojoViewError, BufferError):
    """The memory lives on a device that the host cannot read."""


class InterfaceError(MojoViewError, ValueError):
    """An exporter's description of its memory is malformed or contradicts its real size."""


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
        Element at which it failed, where the kernel says so.
    """

    def __init__(self, message: str, *, kernel: str | None = None, code: int | None = None, index: int | None = None):
        super().__init__(message)
        self.kernel, self.code, self.index = kernel, code, index


class KernelCompileError(KernelError):
    """The compiler refused a kernel file.

    Attributes
    ----------
    diagnostics : tuple of Diagnostic
        What the compiler said, with file, line and column (both counted from 1).
    """

    def __init__(self, message: str, diagnostics: tuple = ()):
        super().__init__(message)
        self.diagnostics = tuple(diagnostics)


class CompilerNotFound(KernelError, ImportError):
    """No Mojo compiler is installed; the message says which extra brings it."""

    def __init__(self, message: str):
        super().__init__(message)
