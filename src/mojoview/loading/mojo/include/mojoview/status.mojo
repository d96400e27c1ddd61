"""Status codes of kernels; the numbers are those of `abi.h`."""


struct Status(TrivialRegisterPassable):
    """Success or a failure code, with the element at which the kernel failed.

    It is an Int64: the code in the low byte, the element + 1 above it.
    """

    var bits: Int64

    @always_inline
    def __init__(out self, code: Int):
        """Holds `code`: 0 is success, 1 to 63 are mojoview's, 64 to 255 those of the kernel's author."""
        self.bits = Int64(code & 255)

    @always_inline
    def at(self, index: Int) -> Status:
        """The same code, with the element that caused it."""
        var located = Status(self.code())
        located.bits |= (Int64(index) + 1) << 8
        return located

    @always_inline
    def code(self) -> Int:
        """The code without the element."""
        return Int(self.bits & 255)

    @always_inline
    def failed(self) -> Bool:
        """Whether it is a failure."""
        return self.code() != 0


comptime OK = Status(0)
comptime E_NULL = Status(1)
comptime E_ABI = Status(2)
comptime E_NDIM = Status(3)
comptime E_DTYPE = Status(4)
comptime E_SHAPE = Status(5)
comptime E_STRIDE = Status(6)
comptime E_ALIGN = Status(7)
comptime E_READONLY = Status(8)
comptime E_MASK = Status(9)
comptime E_DEVICE = Status(10)
comptime E_OVERLAP = Status(11)
comptime E_MEMORY = Status(12)
comptime E_OVERFLOW = Status(13)
comptime E_VALUE = Status(14)
comptime E_INDEX = Status(15)
comptime E_DIVIDE = Status(16)
comptime E_EMPTY = Status(17)
comptime E_INTERRUPTED = Status(18)
comptime E_USER = 64  # first code of the kernel's author: Status(E_USER + k)
