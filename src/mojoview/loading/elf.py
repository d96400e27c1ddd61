"""Shared objects, read without binutils: what they offer and need, their code, and the run path, which is taken out."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from mojoview.memory.errors import KernelError

__all__ = ["MACHINES", "Elf", "code_digest", "drop_run_path", "read_elf"]

MACHINES = {62: "x86_64", 183: "aarch64"}
SHT_PROGBITS, SHT_DYNAMIC, SHT_DYNSYM = 1, 6, 11
SHF_EXECINSTR = 4
STT_FUNC, STB_GLOBAL = 2, 1
DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH = 1, 14, 15, 29
VERSIONED = (0x6ffffffd, 0x6ffffffe)  # sections of symbol versions

T = TypeVar("T")


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
    machine : str
        "x86_64", "aarch64", or the number of another architecture.
    """

    exports: set[str] = field(default_factory=set)
    imports: set[str] = field(default_factory=set)
    needed: list[str] = field(default_factory=list)
    runpath: str = ""
    machine: str = ""


def read_elf(path: Path) -> Elf:
    """Reads a 64-bit little-endian ELF file.

    Raises
    ------
    KernelError
        The file is something else, or cut short.
    """
    return _checked(path, _read)


def code_digest(path: Path) -> str:
    """SHA-256 of the machine code alone: the same after `strip`, another one after another compilation.

    Raises
    ------
    KernelError
        The file is no 64-bit little-endian ELF file, or has no code.
    """
    def digest(data: bytes) -> str:
        found, any_code = hashlib.sha256(), False
        for _, kind, flags, _, start, length, *_ in _sections(data):
            if kind == SHT_PROGBITS and flags & SHF_EXECINSTR:
                any_code = any_code or length > 0
                found.update(struct.pack("<Q", length) + data[start:start + length])
        if not any_code:
            raise ValueError("it has no code")
        return found.hexdigest()

    return _checked(path, digest)


def drop_run_path(path: Path) -> bool:
    """Takes the entries for run paths out of the dynamic section; whether there were any.

    The compiler writes the absolute path of its own libraries there, which means nothing on another machine and is
    gone when the environment is. The text of the path is blanked where no other entry shares it.

    Raises
    ------
    KernelError
        The file is no 64-bit little-endian ELF file, or is damaged; then it has not been changed.
    """
    data = bytearray(path.read_bytes())
    changed = _checked(path, lambda _: _drop(data))
    if changed:
        path.write_bytes(data)
    return changed


def _checked(path: Path, read: Callable[[bytes], T]) -> T:
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise KernelError(f"load(): {path.name} is no 64-bit little-endian ELF file")
    try:
        return read(data)
    except (struct.error, ValueError, IndexError, OverflowError) as error:
        raise KernelError(f"load(): {path.name} is a damaged ELF file ({error})") from error


def _sections(data: bytes) -> list[tuple[int, ...]]:
    offset, = struct.unpack_from("<Q", data, 40)
    size, count, _ = struct.unpack_from("<3H", data, 58)
    return [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]


def _drop(data: bytearray) -> bool:
    sections, changed = _sections(bytes(data)), False
    for _, kind, _, _, start, length, link, *_ in sections:
        if kind != SHT_DYNAMIC:
            continue
        entries = list(struct.iter_unpack("<qQ", data[start:start + length]))
        kept = [entry for entry in entries if entry[0] not in (DT_RPATH, DT_RUNPATH)]
        if len(kept) == len(entries):
            continue
        changed = True
        for _, value in (entry for entry in entries if entry not in kept):
            at = sections[link][4] + value
            end = data.index(b"\0", at)
            if data[at - 1] == 0 and not any(at <= shared <= end for shared in _names(data, sections, link, kept)):
                data[at:end] = bytes(end - at)
        kept += [(0, 0)] * (len(entries) - len(kept))
        data[start:start + length] = b"".join(struct.pack("<qQ", *entry) for entry in kept)
    return changed


def _names(data: bytearray, sections: list[tuple[int, ...]], table: int, dynamic: list[tuple[int, ...]]) -> set[int]:
    """Where the names that the dynamic section and symbols use begin in the file."""
    begin = sections[table][4]
    found = {begin + value for tag, value in dynamic if tag in (DT_NEEDED, DT_SONAME)}
    for _, kind, _, _, start, length, link, *_ in sections:
        if kind == SHT_DYNSYM and link == table:
            found |= {begin + struct.unpack_from("<I", data, at)[0] for at in range(start + 24, start + length, 24)}
        elif link == table and kind in VERSIONED:
            return set(range(begin, begin + sections[table][5]))  # versions use names as well: leave all as they are
    return found


def _read(data: bytes) -> Elf:
    sections = _sections(data)

    def text(table: int, at: int) -> str:
        start = sections[table][4] + at
        return data[start:data.index(b"\0", start)].decode()

    number, = struct.unpack_from("<H", data, 18)
    elf = Elf(machine=MACHINES.get(number, str(number)))
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
