"""What a kernel reports to its caller; the numbers are those of `abi.h`."""


struct Status(TrivialRegisterPassable):
    """Success or a failure code, with the element at which the kernel failed.

    One Int64, as the caller reads it: the code in the low byte, the element + 1 above it.
    """

    var bits: Int64

    @always_inline
    def __init__(out self, code: Int):
        """Holds `code`: 0 is success, 1 to 63 are mojoview's, 64 to 255 the kernel author's."""
        self.bits = Int64(code & 255)

    @always_inline
    def at(self, index: Int) -> Status:
        """The same code, with the element at which it happened."""
        var located = Status(self.code())
        located.bits |= (Int64(index) + 1) << 8
        return located

    @always_inline
    def code(self) -> Int:
        """The code alone."""
        return Int(self.bits & 255)

    @always_inline
    def failed(self) -> Bool:
        """Whether it is anything but success."""
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
comptime E_USER = 64  # the first code that is the kernel author's own: Status(E_USER + k)
