"""Mojo files for tests of the import hook."""

import importlib

ADD = '@export("add")\ndef add(a: Float64, b: Float64) abi("C") -> Float64:\n    return a + b\n'


def write(place, name, text=ADD):
    path = place / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    importlib.invalidate_caches()
    return path
