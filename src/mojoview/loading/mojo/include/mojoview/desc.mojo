"""The descriptor of an array, with the layout of `abi.h`."""
from std.collections import Array
from std.memory import Pointer
from std.reflection import reflect
from std.sys import align_of, size_of

comptime ABI_VERSION = 1
comptime MAX_NDIM = 8

comptime READONLY = UInt64(1) << 0
comptime C_CONTIGUOUS = UInt64(1) << 1
comptime F_CONTIGUOUS = UInt64(1) << 2
comptime ALIGNED = UInt64(1) << 3
comptime HAS_MASK = UInt64(1) << 4
comptime MASK_BITS = UInt64(1) << 5  # clear: one byte per element, nonzero = missing; set: LSB bitmap, 1 = valid
comptime BYTE_STRIDES = UInt64(1) << 6  # a byte stride is not a multiple of the item size: `stride` is meaningless
comptime SWAPPED = UInt64(1) << 7

comptime DescPointer = Pointer[Desc, MutUntrackedOrigin]


@align(64)
struct Desc(Movable):
    """`mv_desc` of `abi.h`: 256 bytes, 64-byte aligned."""

    # First cache line: sufficient for 1-D kernels.
    var data: UInt64
    var size: Int64
    var stride: Array[Int64, 2]  # in elements; 1-D: slot 0; 2-D: rows, columns
    var ndim: Int32
    var dtype_code: UInt8
    var dtype_bits: UInt8
    var dtype_lanes: UInt16
    var flags: UInt64
    var generation: UInt64
    var itemsize: UInt32
    var struct_bytes: UInt16
    var abi_version: UInt16
    # General case.
    var shape: Array[Int64, MAX_NDIM]
    var strides: Array[Int64, MAX_NDIM]  # in bytes
    var mask: UInt64
    var mask_offset: Int64  # in bits
    var device_id: Int32
    var logical: Int32
    var mask_stride: Array[Int64, 2]  # in bytes
    var reserved: Array[UInt64, 3]


@always_inline
def check_layout():
    """Checks `Desc` against the ABI. The compiler evaluates only code that exports reach, so every access calls it."""
    comptime r = reflect[Desc]
    comptime assert size_of[Desc]() == 256, "Desc: size"
    comptime assert align_of[Desc]() == 64, "Desc: alignment"
    comptime assert r.field_count() == 20, "Desc: number of fields"
    comptime assert r.field_offset[name="data"]() == 0, "Desc: data"
    comptime assert r.field_offset[name="size"]() == 8, "Desc: size"
    comptime assert r.field_offset[name="stride"]() == 16, "Desc: stride"
    comptime assert r.field_offset[name="ndim"]() == 32, "Desc: ndim"
    comptime assert r.field_offset[name="dtype_code"]() == 36, "Desc: dtype_code"
    comptime assert r.field_offset[name="dtype_bits"]() == 37, "Desc: dtype_bits"
    comptime assert r.field_offset[name="dtype_lanes"]() == 38, "Desc: dtype_lanes"
    comptime assert r.field_offset[name="flags"]() == 40, "Desc: flags"
    comptime assert r.field_offset[name="generation"]() == 48, "Desc: generation"
    comptime assert r.field_offset[name="itemsize"]() == 56, "Desc: itemsize"
    comptime assert r.field_offset[name="struct_bytes"]() == 60, "Desc: struct_bytes"
    comptime assert r.field_offset[name="abi_version"]() == 62, "Desc: abi_version"
    comptime assert r.field_offset[name="shape"]() == 64, "Desc: the first line must end at 64"
    comptime assert r.field_offset[name="strides"]() == 128, "Desc: strides"
    comptime assert r.field_offset[name="mask"]() == 192, "Desc: mask"
    comptime assert r.field_offset[name="mask_offset"]() == 200, "Desc: mask_offset"
    comptime assert r.field_offset[name="device_id"]() == 208, "Desc: device_id"
    comptime assert r.field_offset[name="logical"]() == 212, "Desc: logical"
    comptime assert r.field_offset[name="mask_stride"]() == 216, "Desc: mask_stride"
    comptime assert r.field_offset[name="reserved"]() == 232, "Desc: reserved"
