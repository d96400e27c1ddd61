"""Typed array arguments: structs of one pointer to a descriptor, which C passes like the pointer.

`In` is an input, `InOut` is updated, `Out` is overwritten. The traits have their common methods.
"""
from std.memory import Pointer
from std.reflection import reflect

from .lines import Elements, Line, WritableElements, load_strided, store_strided
from .desc import C_CONTIGUOUS, HAS_MASK, MASK_BITS, MAX_NDIM, Desc, DescPointer, check_layout


trait ArrayArgument(Sized, TrivialRegisterPassable):
    """An array of `rank` dimensions whose elements are `Scalar[dtype]`."""

    comptime dtype: DType
    comptime rank: Int
    comptime takes_mask: Bool
    comptime writable: Bool

    def _pointer(self) -> DescPointer:
        ...

    @always_inline
    def desc(self) -> DescPointer:
        """The descriptor, for fields without a method here."""
        check_layout()
        comptime assert 1 <= Self.rank and Self.rank <= MAX_NDIM, "an array argument has 1 to 8 dimensions"
        return self._pointer()

    @always_inline
    def size(self) -> Int:
        """Number of elements."""
        return Int(self.desc()[].size)

    @always_inline
    def __len__(self) -> Int:
        """Extent of the first axis."""
        comptime if Self.rank == 1:
            return self.size()
        return self.shape(0)

    @always_inline
    def shape(self, axis: Int) -> Int:
        """Extent of one axis."""
        return _extent(self.desc(), reflect[Desc].field_offset[name="shape"](), axis)

    @always_inline
    def byte_stride(self, axis: Int) -> Int:
        """Bytes from one element to the next along one axis."""
        return _extent(self.desc(), reflect[Desc].field_offset[name="strides"](), axis)

    @always_inline
    def stride(self, axis: Int) -> Int:
        """Elements from one to the next along one axis of an array of one or two dimensions."""
        comptime assert Self.rank <= 2, "element strides are kept for up to two dimensions; use byte_stride"
        return Int(self.desc()[].stride[0] if axis == 0 else self.desc()[].stride[1])

    @always_inline
    def is_contiguous(self) -> Bool:
        """Whether the elements are contiguous, in C order."""
        return self.desc()[].flags & C_CONTIGUOUS != 0

    @always_inline
    def _data(self) -> Pointer[Scalar[Self.dtype], MutAnyOrigin]:
        return Pointer[Scalar[Self.dtype], MutAnyOrigin](unsafe_from_address=Int(self.desc()[].data))

    @always_inline
    def _element(self, i: Int) -> Pointer[Scalar[Self.dtype], MutAnyOrigin]:
        comptime assert Self.rank == 1, "one index needs a 1-D array argument"
        return self._data().unsafe_offset(i * Int(self.desc()[].stride[0]))

    @always_inline
    def _element(self, i: Int, j: Int) -> Pointer[Scalar[Self.dtype], MutAnyOrigin]:
        comptime assert Self.rank == 2, "two indices need a 2-D array argument: In[dtype, 2]"
        return self._data().unsafe_offset(i * Int(self.desc()[].stride[0]) + j * Int(self.desc()[].stride[1]))

    @always_inline
    def __getitem__(self, i: Int) -> Scalar[Self.dtype]:
        return self._element(i)[]

    @always_inline
    def __getitem__(self, i: Int, j: Int) -> Scalar[Self.dtype]:
        return self._element(i, j)[]

    @always_inline
    def load[width: SIMDLength](self, i: Int) -> SIMD[Self.dtype, width]:
        """Elements i, i + 1, …, with any stride."""
        return load_strided[width](self._element(i), Int(self.desc()[].stride[0]))

    @always_inline
    def load[width: SIMDLength](self, i: Int, j: Int) -> SIMD[Self.dtype, width]:
        """Elements j, j + 1, … of row i, with any stride."""
        return load_strided[width](self._element(i, j), Int(self.desc()[].stride[1]))

    @always_inline
    def load_part[
        width: SIMDLength
    ](self, i: Int, count: Int, fill: Scalar[Self.dtype] = 0) -> SIMD[Self.dtype, width]:
        """Elements i, i + 1, … i + count - 1, and `fill` in the other lanes."""
        return self.line().load_part[width](i, count, fill)

    @always_inline
    def line(self) -> Line[Self.dtype, Self.writable]:
        """The elements of a 1-D array, without the descriptor."""
        comptime assert Self.rank == 1, "line() is for 1-D arguments; a table has row(i) and column(j)"
        return {self._data(), self.size(), Int(self.desc()[].stride[0])}

    @always_inline
    def row(self, i: Int) -> Line[Self.dtype, Self.writable]:
        """Row i of a table."""
        return {self._element(i, 0), self.shape(1), Int(self.desc()[].stride[1])}

    @always_inline
    def column(self, j: Int) -> Line[Self.dtype, Self.writable]:
        """Column j of a table."""
        return {self._element(0, j), self.shape(0), Int(self.desc()[].stride[0])}

    @always_inline
    def missing(self, i: Int) -> Bool:
        """Whether element i is missing."""
        comptime assert Self.takes_mask, "declare the argument In[dtype, masked=True] for arrays with missing values"
        comptime assert Self.rank == 1, "one index needs a 1-D array argument"
        ref d = self.desc()[]
        if d.flags & HAS_MASK == 0:
            return False
        if d.flags & MASK_BITS == 0:
            return _byte(d.mask, Int(d.mask_offset // 8) + i * Int(d.mask_stride[0])) != 0
        var bit = Int(d.mask_offset) + i
        return (_byte(d.mask, bit // 8) >> UInt8(bit % 8)) & 1 == 0

    @always_inline
    def missing(self, i: Int, j: Int) -> Bool:
        """Whether element (i, j) is missing; in two dimensions, masks are bytes."""
        comptime assert Self.takes_mask, "declare the argument In[dtype, 2, masked=True] for arrays with missing values"
        comptime assert Self.rank == 2, "two indices need a 2-D array argument: In[dtype, 2]"
        ref d = self.desc()[]
        if d.flags & HAS_MASK == 0:
            return False
        var at = Int(d.mask_offset // 8) + i * Int(d.mask_stride[0]) + j * Int(d.mask_stride[1])
        return _byte(d.mask, at) != 0


    @always_inline
    def get(self, i: Int) -> Scalar[Self.dtype]:
        """Element i, as x[i]."""
        return self._element(i)[]

    @always_inline
    def get_lanes[width: SIMDLength](self, i: Int, count: Int) -> SIMD[Self.dtype, width]:
        """Elements i, i + 1, … i + count - 1, and 0 in the other lanes."""
        return self.load[width](i) if count >= Int(width) else self.load_part[width](i, count)

    @always_inline
    def is_missing(self, i: Int) -> Bool:
        """Whether element i is missing; False if the argument takes no masks."""
        comptime if Self.takes_mask:
            return self.missing(i)
        return False

    @always_inline
    def missing_lanes[width: SIMDLength](self, i: Int) -> SIMD[DType.bool, width]:
        """Whether elements i, i + 1, … are missing."""
        var lanes = SIMD[DType.bool, width](fill=False)
        comptime for k in range(Int(width)):
            lanes[k] = self.missing(i + k)
        return lanes

    @always_inline
    def missing_count(self) -> Int:
        """Number of missing elements of a 1-D array."""
        var count = 0
        if self.desc()[].flags & HAS_MASK != 0:
            for i in range(self.size()):
                count += 1 if self.missing(i) else 0
        return count


trait Writable(ArrayArgument):
    """Arrays that the kernel may write to."""

    @always_inline
    def __setitem__(self, i: Int, value: Scalar[Self.dtype]):
        self._element(i)[] = value

    @always_inline
    def __setitem__(self, i: Int, j: Int, value: Scalar[Self.dtype]):
        self._element(i, j)[] = value

    @always_inline
    def store[width: SIMDLength, //](self, i: Int, value: SIMD[Self.dtype, width]):
        """Writes elements i, i + 1, …, with any stride."""
        store_strided(self._element(i), Int(self.desc()[].stride[0]), value)

    @always_inline
    def store[width: SIMDLength, //](self, i: Int, j: Int, value: SIMD[Self.dtype, width]):
        """Writes elements j, j + 1, … of row i, with any stride."""
        store_strided(self._element(i, j), Int(self.desc()[].stride[1]), value)

    @always_inline
    def store_part[width: SIMDLength, //](self, i: Int, value: SIMD[Self.dtype, width], count: Int):
        """Writes the first `count` lanes to elements i, i + 1, …"""
        self.line().store_part(i, value, count)

    @always_inline
    def put_lanes[width: SIMDLength, //](self, i: Int, value: SIMD[Self.dtype, width], count: Int):
        """Writes the first `count` lanes to elements i, i + 1, …"""
        self.line().put_lanes(i, value, count)

    @always_inline
    def data(self) -> Pointer[Scalar[Self.dtype], MutAnyOrigin]:
        """Element [0, …, 0]."""
        return self._data()


struct In[dt: DType, ndim: Int = 1, *, masked: Bool = False](ArrayArgument, Elements):
    """An array that the kernel reads; `masked=True` takes arrays with missing values."""

    comptime dtype = Self.dt
    comptime rank = Self.ndim
    comptime takes_mask = Self.masked
    comptime writable = False
    var _desc: DescPointer

    @always_inline
    def _pointer(self) -> DescPointer:
        return self._desc

    @always_inline
    def data(self) -> Pointer[Scalar[Self.dtype], ImmutAnyOrigin]:
        """Element [0, …, 0]."""
        return Pointer[Scalar[Self.dtype], ImmutAnyOrigin](unsafe_from_address=Int(self.desc()[].data))


struct InOut[dt: DType, ndim: Int = 1, *, masked: Bool = False](Writable, WritableElements):
    """An array that the kernel updates; `masked=True` takes arrays with missing values."""

    comptime dtype = Self.dt
    comptime rank = Self.ndim
    comptime takes_mask = Self.masked
    comptime writable = True
    var _desc: DescPointer

    @always_inline
    def _pointer(self) -> DescPointer:
        return self._desc


struct Out[dt: DType, ndim: Int = 1](Writable, WritableElements):
    """An array that the kernel overwrites: its previous contents are undefined."""

    comptime dtype = Self.dt
    comptime rank = Self.ndim
    comptime takes_mask = False
    comptime writable = True
    var _desc: DescPointer

    @always_inline
    def _pointer(self) -> DescPointer:
        return self._desc


@always_inline
def _byte(address: UInt64, offset: Int) -> UInt8:
    return Pointer[UInt8, ImmutAnyOrigin](unsafe_from_address=Int(address))[unsafe_offset=offset]


@always_inline
def _extent(desc: DescPointer, field: Int, axis: Int) -> Int:
    # Address arithmetic: a runtime index into Array has a bounds check, which needs Mojo's runtime library.
    return Int(Pointer[Int64, ImmutAnyOrigin](unsafe_from_address=Int(desc) + field)[unsafe_offset=axis])
