"""Segment headers forged for the tests: wrong contents under a right checksum."""

import struct


def recrc(content: bytearray) -> bytearray:
    text = sum(struct.unpack("<II", content[264:272]))
    crc = crc32c(bytes(content[8:120]) + bytes(content[256 : 1024 + min(text, 3072)]))
    content[120:124] = struct.pack("<I", crc)
    return content


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
