"""The dynamic section of a shared object, read without binutils."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

from mojoview.memory.errors import KernelError

__all__ = ["Elf", "read_elf"]

SHT_DYNAMIC, SHT_DYNSYM = 6, 11
STT_FUNC, STB_GLOBAL = 2, 1
DT_NEEDED, DT_RPATH, DT_RUNPATH = 1, 15, 29


@dataclass(slots=True)
class Elf:
    """What a shared object offers and needs.

    Attributes
    ----------
    exports : set of str
        Functions that its dynamic symbol table defines.
    imports : set of str
        Symbols that another library must bring; weak ones are not counted.
    needed : list of str
        Libraries that it names.
    runpath : str
    """

    exports: set[str] = field(default_factory=set)
    imports: set[str] = field(default_factory=set)
    needed: list[str] = field(default_factory=list)
    runpath: str = ""


def read_elf(path: Path) -> Elf:
    """Reads a 64-bit little-endian ELF file.

    Raises
    ------
    KernelError
        The file is something else, or cut short.
    """
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise KernelError(f"load(): {path.name} is no 64-bit little-endian ELF file")
    try:
        return _read(data)
    except (struct.error, ValueError, IndexError, OverflowError) as error:
        raise KernelError(f"load(): {path.name} is a damaged ELF file ({error})") from error


def _read(data: bytes) -> Elf:
    offset, = struct.unpack_from("<Q", data, 40)
    size, count, _ = struct.unpack_from("<3H", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]

    def text(table: int, at: int) -> str:
        start = sections[table][4] + at
        return data[start:data.index(b"\0", start)].decode()

    elf = Elf()
    for _, kind, _, _, start, length, link, *_ in sections:
        if kind == SHT_DYNSYM:
            for at in range(start + 24, start + length, 24):  # entry 0 is empty
                name, info, _, section, _, _ = struct.unpack_from("<IBBHQQ", data, at)
                if section == 0:
                    if info >> 4 == STB_GLOBAL:
                        elf.imports.add(text(link, name))
                elif info & 15 == STT_FUNC:
                    elf.exports.add(text(link, name))
        elif kind == SHT_DYNAMIC:
            for at in range(start, start + length, 16):
                tag, value = struct.unpack_from("<qQ", data, at)
                if tag == DT_NEEDED:
                    elf.needed.append(text(link, value))
                elif tag in (DT_RPATH, DT_RUNPATH):
                    elf.runpath = text(link, value)
    return elf
