"""Reader of ELF shared objects: symbols, dependencies, machine code, run path. Needs no binutils."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

from mojoview.memory.errors import KernelError

__all__ = ["MACHINES", "Elf", "code_digest", "drop_run_path", "read_elf"]

MACHINES = {62: "x86_64", 183: "aarch64"}
SHT_PROGBITS, SHT_DYNAMIC, SHT_DYNSYM = 1, 6, 11
SHF_EXECINSTR = 4
STT_FUNC, STB_GLOBAL, SHN_UNDEF = 2, 1, 0
DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH = 1, 14, 15, 29
VERSIONED = (0x6FFFFFFD, 0x6FFFFFFE)  # sections of symbol versions
SYMBOL, DYNAMIC = struct.Struct("<IBBHQQ"), struct.Struct("<qQ")

T = TypeVar("T")


@dataclass(slots=True)
class Elf:
    """Interface of a shared object.

    Attributes
    ----------
    exports : set of str
        Functions that its dynamic symbol table defines.
    imports : set of str
        Symbols that another library must define; weak ones are not counted.
    needed : list of str
        Names of the libraries that it depends on.
    runpath : str
    machine : str
        "x86_64", "aarch64", or the number of another architecture.
    """

    exports: set[str] = field(default_factory=set)
    imports: set[str] = field(default_factory=set)
    needed: list[str] = field(default_factory=list)
    runpath: str = ""
    machine: str = ""


class Section(NamedTuple):
    """A section header, as in the file."""

    name: int
    kind: int
    flags: int
    address: int
    start: int
    length: int
    link: int
    info: int
    align: int
    entry: int


def read_elf(path: Path) -> Elf:
    """Read the interface of a 64-bit little-endian ELF file.

    Raises
    ------
    KernelError
        The file has another format or is truncated.
    """
    return _checked(path, _read)


def code_digest(path: Path) -> str:
    """Return the SHA-256 of the machine code: unchanged by `strip`, different after another compilation.

    Raises
    ------
    KernelError
        The file is not a 64-bit little-endian ELF file, or has no code.
    """
    return _checked(path, _code_digest)


def drop_run_path(path: Path) -> bool:
    """Remove the run path from a file, and return whether there was one.

    The compiler writes the absolute path of its own libraries there, which means nothing on another machine and is
    invalid once the environment has been removed. The text of the path is erased unless another entry shares it.

    Raises
    ------
    KernelError
        The file is not a 64-bit little-endian ELF file, or is damaged; it has not been changed.
    """
    data = bytearray(path.read_bytes())
    changed = _checked(path, lambda _: _drop_run_path(data))
    if changed:
        path.write_bytes(data)
    return changed


def _checked(path: Path, read: Callable[[bytes], T]) -> T:
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise KernelError(f"load(): {path.name} is not a 64-bit little-endian ELF file")
    try:
        return read(data)
    except (struct.error, ValueError, IndexError, OverflowError) as error:
        raise KernelError(f"load(): {path.name} is a damaged ELF file ({error})") from error


def _sections(data: bytes | bytearray) -> list[Section]:
    (offset,) = struct.unpack_from("<Q", data, 40)
    size, count, _ = struct.unpack_from("<3H", data, 58)
    return [Section(*struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size)) for i in range(count)]


def _text(data: bytes, table: Section, offset: int) -> str:
    start = table.start + offset
    return data[start : data.index(b"\0", start)].decode()


def _read(data: bytes) -> Elf:
    (number,) = struct.unpack_from("<H", data, 18)
    elf, sections = Elf(machine=MACHINES.get(number, str(number))), _sections(data)
    for section in sections:
        if section.kind == SHT_DYNSYM:
            _read_symbols(data, section, sections[section.link], elf)
        elif section.kind == SHT_DYNAMIC:
            _read_dynamic(data, section, sections[section.link], elf)
    return elf


def _read_symbols(data: bytes, symbols: Section, names: Section, elf: Elf) -> None:
    for name, info, defined in _symbols(data, symbols):
        if defined and info & 15 == STT_FUNC:
            elf.exports.add(_text(data, names, name))
        elif not defined and info >> 4 == STB_GLOBAL:
            elf.imports.add(_text(data, names, name))


def _symbols(data: bytes | bytearray, section: Section) -> Iterator[tuple[int, int, bool]]:
    """Yield (name, type and binding, whether defined) of the dynamic symbols; entry 0 is empty."""
    for at in range(section.start + SYMBOL.size, section.start + section.length, SYMBOL.size):
        name, info, _, index, _, _ = SYMBOL.unpack_from(data, at)
        yield name, info, index != SHN_UNDEF


def _read_dynamic(data: bytes, dynamic: Section, names: Section, elf: Elf) -> None:
    for at in range(dynamic.start, dynamic.start + dynamic.length, DYNAMIC.size):
        tag, value = DYNAMIC.unpack_from(data, at)
        if tag == DT_NEEDED:
            elf.needed.append(_text(data, names, value))
        elif tag in (DT_RPATH, DT_RUNPATH):
            elf.runpath = _text(data, names, value)


def _code_digest(data: bytes) -> str:
    digest, any_code = hashlib.sha256(), False
    for section in _sections(data):
        if section.kind == SHT_PROGBITS and section.flags & SHF_EXECINSTR:
            any_code = any_code or section.length > 0
            digest.update(struct.pack("<Q", section.length) + data[section.start : section.start + section.length])
    if not any_code:
        raise ValueError("it has no code")
    return digest.hexdigest()


def _drop_run_path(data: bytearray) -> bool:
    sections = _sections(data)
    # A list: every dynamic section has to be changed.
    return any([_drop_entries(data, sections, section) for section in sections if section.kind == SHT_DYNAMIC])


def _drop_entries(data: bytearray, sections: list[Section], dynamic: Section) -> bool:
    span = slice(dynamic.start, dynamic.start + dynamic.length)
    entries = list(DYNAMIC.iter_unpack(data[span]))
    kept = [entry for entry in entries if entry[0] not in (DT_RPATH, DT_RUNPATH)]
    if len(kept) == len(entries):
        return False
    for _, value in (entry for entry in entries if entry not in kept):
        start = sections[dynamic.link].start + value
        end = data.index(b"\0", start)
        used = _name_offsets(data, sections, dynamic.link, kept)
        if data[start - 1] == 0 and not any(start <= shared <= end for shared in used):
            data[start:end] = bytes(end - start)
    kept += [(0, 0)] * (len(entries) - len(kept))
    data[span] = b"".join(DYNAMIC.pack(*entry) for entry in kept)
    return True


def _name_offsets(
    data: bytes | bytearray, sections: list[Section], table: int, dynamic: list[tuple[int, ...]]
) -> set[int]:
    """Return the file offsets of the names that the dynamic section and the symbols use."""
    begin = sections[table].start
    found = {begin + value for tag, value in dynamic if tag in (DT_NEEDED, DT_SONAME)}
    for section in sections:
        if section.link == table and section.kind == SHT_DYNSYM:
            found |= {begin + name for name, _, _ in _symbols(data, section)}
        elif section.link == table and section.kind in VERSIONED:
            return set(range(begin, begin + sections[table].length))  # versions use names too: keep all of them
    return found
