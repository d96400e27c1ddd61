"""Elements at equal distances: a 1-D array, a row or a column of a table."""
from std.memory import Pointer


struct Line[dt: DType, writable: Bool](Sized, TrivialRegisterPassable):
    """Elements at equal distances, without mask; it borrows the array that it was taken from."""

    var _first: Pointer[Scalar[Self.dt], MutUntrackedOrigin]
    var _count: Int
    var _stride: Int

    @always_inline
    def __init__(out self, first: Pointer[Scalar[Self.dt], MutAnyOrigin], count: Int, stride: Int):
        self._first = Pointer[Scalar[Self.dt], MutUntrackedOrigin](unsafe_from_address=Int(first))
        self._count = count
        self._stride = stride

    @always_inline
    def __len__(self) -> Int:
        """Number of elements."""
        return self._count

    @always_inline
    def stride(self) -> Int:
        """Elements of memory from one to the next."""
        return self._stride

    @always_inline
    def slice(self, start: Int, stop: Int) -> Self:
        """Elements start to stop - 1."""
        return {self._at(start), stop - start, self._stride}

    @always_inline
    def _at(self, i: Int) -> Pointer[Scalar[Self.dt], MutAnyOrigin]:
        return Pointer[Scalar[Self.dt], MutAnyOrigin](unsafe_from_address=Int(self._first)).unsafe_offset(i * self._stride)

    @always_inline
    def __getitem__(self, i: Int) -> Scalar[Self.dt]:
        return self._at(i)[]

    @always_inline
    def __setitem__(self, i: Int, value: Scalar[Self.dt]):
        comptime assert Self.writable, "what an In gives is read-only"
        self._at(i)[] = value

    @always_inline
    def load[width: SIMDLength](self, i: Int) -> SIMD[Self.dt, width]:
        """Elements i, i + 1, …, whatever the stride."""
        return load_strided[width](self._at(i), self._stride)

    @always_inline
    def load_part[width: SIMDLength](self, i: Int, count: Int, fill: Scalar[Self.dt] = 0) -> SIMD[Self.dt, width]:
        """Elements i, i + 1, … i + count - 1, and `fill` in the lanes that are left."""
        var lanes = SIMD[Self.dt, width](fill)
        comptime for k in range(Int(width)):
            if k < count:
                lanes[k] = self._at(i + k)[]
        return lanes

    @always_inline
    def store[width: SIMDLength, //](self, i: Int, value: SIMD[Self.dt, width]):
        """Writes elements i, i + 1, …, whatever the stride."""
        comptime assert Self.writable, "what an In gives is read-only"
        store_strided(self._at(i), self._stride, value)

    @always_inline
    def store_part[width: SIMDLength, //](self, i: Int, value: SIMD[Self.dt, width], count: Int):
        """Writes the first `count` lanes to elements i, i + 1, …"""
        comptime assert Self.writable, "what an In gives is read-only"
        comptime for k in range(Int(width)):
            if k < count:
                self._at(i + k)[] = value[k]


@always_inline
def load_strided[
    dt: DType, //, width: SIMDLength
](first: Pointer[Scalar[dt], MutAnyOrigin], stride: Int) -> SIMD[dt, width]:
    """The elements at `first`, `first` + stride, …"""
    if stride == 1:
        return first.unsafe_load[width=width]()
    var lanes = SIMD[dt, width]()
    comptime for k in range(Int(width)):
        lanes[k] = first[unsafe_offset = k * stride]
    return lanes


@always_inline
def store_strided[
    dt: DType, width: SIMDLength, //
](first: Pointer[Scalar[dt], MutAnyOrigin], stride: Int, value: SIMD[dt, width]):
    """Writes the lanes to `first`, `first` + stride, …"""
    if stride == 1:
        first.unsafe_store(value)
    else:
        comptime for k in range(Int(width)):  # the compiler's own strided store does not compile at -O0
            first[unsafe_offset = k * stride] = value[k]
