"""Lines: a 1-D array, a row or a column of a table, as elements with a constant stride."""
from std.memory import Pointer


trait Elements(Sized, TrivialRegisterPassable):
    """A sequence of `Scalar[dtype]`: a 1-D array argument or a line of a table, for generic functions."""

    comptime dtype: DType
    comptime takes_mask: Bool
    comptime writable: Bool

    def line(self) -> Line[Self.dtype, Self.writable]:
        """The elements as a `Line`, without the descriptor of their array."""
        ...

    def get(self, i: Int) -> Scalar[Self.dtype]:
        """Element i, as x[i]."""
        ...

    def get_lanes[width: SIMDLength](self, i: Int, count: Int) -> SIMD[Self.dtype, width]:
        """Elements i, i + 1, … i + count - 1, and 0 in the other lanes."""
        ...

    def is_missing(self, i: Int) -> Bool:
        """Whether element i is missing."""
        ...


trait WritableElements(Elements):
    """Elements that the kernel may write to."""

    def put_lanes[width: SIMDLength, //](self, i: Int, value: SIMD[Self.dtype, width], count: Int):
        """Writes the first `count` lanes to elements i, i + 1, …"""
        ...


struct Line[dt: DType, writes: Bool](WritableElements):
    """Elements with a constant stride, without mask; a reference to an array, valid as long as that."""

    comptime dtype = Self.dt
    comptime writable = Self.writes
    comptime takes_mask = False
    var _first: Pointer[Scalar[Self.dtype], MutUntrackedOrigin]
    var _count: Int
    var _stride: Int

    @always_inline
    def __init__(out self, first: Pointer[Scalar[Self.dtype], MutAnyOrigin], count: Int, stride: Int):
        self._first = Pointer[Scalar[Self.dtype], MutUntrackedOrigin](unsafe_from_address=Int(first))
        self._count = count
        self._stride = stride

    @always_inline
    def __len__(self) -> Int:
        """Number of elements."""
        return self._count

    @always_inline
    def line(self) -> Self:
        """The line itself."""
        return self

    @always_inline
    def stride(self) -> Int:
        """Distance of consecutive elements, in elements."""
        return self._stride

    @always_inline
    def slice(self, start: Int, stop: Int) -> Self:
        """Elements `start` to `stop` - 1."""
        return {self._at(start), stop - start, self._stride}

    @always_inline
    def _at(self, i: Int) -> Pointer[Scalar[Self.dtype], MutAnyOrigin]:
        var first = Pointer[Scalar[Self.dtype], MutAnyOrigin](unsafe_from_address=Int(self._first))
        return first.unsafe_offset(i * self._stride)

    @always_inline
    def __getitem__(self, i: Int) -> Scalar[Self.dtype]:
        return self._at(i)[]

    @always_inline
    def get(self, i: Int) -> Scalar[Self.dtype]:
        """Element i, as x[i]."""
        return self._at(i)[]

    @always_inline
    def get_lanes[width: SIMDLength](self, i: Int, count: Int) -> SIMD[Self.dtype, width]:
        """Elements i, i + 1, … i + count - 1, and 0 in the other lanes."""
        return self.load[width](i) if count >= Int(width) else self.load_part[width](i, count)

    @always_inline
    def is_missing(self, i: Int) -> Bool:
        """False: a line has no mask."""
        return False

    @always_inline
    def put_lanes[width: SIMDLength, //](self, i: Int, value: SIMD[Self.dtype, width], count: Int):
        """Writes the first `count` lanes to elements i, i + 1, …"""
        if count >= Int(width):
            self.store(i, value)
        else:
            self.store_part(i, value, count)

    @always_inline
    def __setitem__(self, i: Int, value: Scalar[Self.dtype]):
        comptime assert Self.writable, "what an In gives is read-only"
        self._at(i)[] = value

    @always_inline
    def load[width: SIMDLength](self, i: Int) -> SIMD[Self.dtype, width]:
        """Elements i, i + 1, …, with any stride."""
        return load_strided[width](self._at(i), self._stride)

    @always_inline
    def load_part[width: SIMDLength](self, i: Int, count: Int, fill: Scalar[Self.dtype] = 0) -> SIMD[Self.dtype, width]:
        """Elements i, i + 1, … i + count - 1, and `fill` in the other lanes."""
        var lanes = SIMD[Self.dtype, width](fill)
        comptime for k in range(Int(width)):
            if k < count:
                lanes[k] = self._at(i + k)[]
        return lanes

    @always_inline
    def store[width: SIMDLength, //](self, i: Int, value: SIMD[Self.dtype, width]):
        """Writes elements i, i + 1, …, with any stride."""
        comptime assert Self.writable, "what an In gives is read-only"
        store_strided(self._at(i), self._stride, value)

    @always_inline
    def store_part[width: SIMDLength, //](self, i: Int, value: SIMD[Self.dtype, width], count: Int):
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
        comptime for k in range(Int(width)):  # strided_store of the standard library does not compile at -O0
            first[unsafe_offset = k * stride] = value[k]
