"""Signatures as JSON: in the entries of the kernel cache, and in the signature file beside a compiled library.

Both files are checked before they are used: a signature that does not describe the machine code is a crash.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mojoview.calls.signature import Param, Signature
from mojoview.loading.elf import code_digest, read_elf
from mojoview.loading.exports import Exports
from mojoview.memory.errors import ArgumentError, KernelError, KernelValueError, MojoViewError

__all__ = [
    "checksum",
    "describe_library",
    "description_path",
    "exports_from_json",
    "exports_to_json",
    "missing_features",
    "read_description",
    "signature_from_json",
    "signature_to_json",
]

FORMAT = "mojoview kernels 1"
MAX_BYTES = 1 << 22  # of a signature file
INTEGERS = {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
DTYPES = {"bool", "float16", "float32", "float64", *INTEGERS}
RESULTS = {"none", "status", "status_index", *DTYPES}
ROLES = {"in", "inout", "out", "value"}
PASSINGS = {"descriptor", "pointer", "value"}
# The features that each level of x86-64 adds to the one before, as /proc/cpuinfo names them.
LEVELS = {
    "x86-64-v2": {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"},
    "x86-64-v3": {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"},
    "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}


def checksum(body: Mapping[str, Any]) -> str:
    """Return the checksum of a description, which is stored in it as `seal`."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def signature_to_json(signature: Signature) -> dict[str, Any]:
    """Return a signature as plain dicts, lists and strings."""
    fields = asdict(signature)
    for param in fields["params"]:
        if param["default"] is inspect.Parameter.empty:
            del param["default"]
    return fields


def signature_from_json(plain: Mapping[str, Any]) -> Signature:
    """Return the signature that `signature_to_json` wrote.

    Raises
    ------
    KernelValueError, KeyError, TypeError, AttributeError
        The data is not a signature. Callers that read files expect all of these.
    """
    fields = dict(plain)
    if fields.pop("sizes", []):  # only C declarations have sizes, and those are never stored
        raise KernelValueError("a compiled kernel cannot have sizes that are filled in")
    params = tuple(_param(**p) for p in fields.pop("params"))
    signature = Signature(params=params, **fields)
    strings = (signature.name, signature.doc, signature.text, signature.result)
    valid = (
        all(type(s) is str for s in strings)
        and signature.result in RESULTS
        and type(signature.masks) is bool
        and signature.shapes == "free"
    )
    if not valid:
        raise KernelValueError(f"not a signature: {plain}")
    return signature


def _param(**fields: Any) -> Param:
    p = Param(**fields)
    valid = (
        type(p.name) is str
        and p.role in ROLES
        and p.dtype in DTYPES
        and p.passing in PASSINGS
        and (p.role == "value") == (p.passing == "value")
        and (p.ndim is None or (type(p.ndim) is int and 0 <= p.ndim <= 8))
        and (p.default is inspect.Parameter.empty or type(p.default) in (bool, int, float))
    )
    if not valid:
        raise KernelValueError(f"not a parameter: {fields}")
    return p


def exports_to_json(exports: Exports) -> dict[str, Any]:
    """Return the kernels of a library as plain dicts, lists and strings."""
    return {
        "doc": exports.doc,
        "kernels": [signature_to_json(s) for s in exports.kernels.values()],
        "refused": dict(exports.refused),
    }


def exports_from_json(plain: Mapping[str, Any]) -> Exports:
    """Return the kernels that `exports_to_json` wrote; raises as `signature_from_json` does."""
    kernels = {s.name: s for s in map(signature_from_json, plain["kernels"])}
    refused = {str(symbol): str(reason) for symbol, reason in plain["refused"].items()}
    return Exports(kernels, refused, str(plain["doc"]))


def description_path(library: Path) -> Path:
    """Return the path of a library's signature file."""
    return library.with_name(library.name + ".json")


def describe_library(library: Path, exports: Exports, *, compiler: str, triple: str, cpu: str) -> str:
    """Return the text of the signature file of a library."""
    body = {
        "format": FORMAT,
        "compiler": compiler,
        "triple": triple,
        "cpu": cpu,
        "code": code_digest(library),
        **exports_to_json(exports),
    }
    return json.dumps({**body, "seal": checksum(body)}, indent=1)


def read_description(library: Path) -> Exports:
    """Read the signature file beside a library, and check that it describes that library.

    Raises
    ------
    ArgumentError
        There is no signature file.
    KernelError
        It is damaged or describes another library, or the library is for another machine or a newer CPU.
    """
    path = description_path(library)
    if not library.is_absolute():
        raise ArgumentError(f"load_library(): {library} is not a file here; a library of the system needs declarations")
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ArgumentError(
            f"load_library(): {library.name} has no signature file {path.name} beside it; give C declarations, or"
            " compile it with: python -m mojoview compile"
        ) from None
    except OSError as error:
        raise ArgumentError(f"load_library(): cannot read {path}: {error.strerror}") from error
    try:
        body = json.loads(data)
        if len(data) > MAX_BYTES or body.pop("seal") != checksum(body):
            raise ValueError("its checksum is wrong")
        if body["format"] != FORMAT:
            raise ValueError(f"its format is {body['format']!r}, this version of mojoview reads {FORMAT!r}")
        exports, cpu, code = exports_from_json(body), str(body["cpu"]), str(body["code"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, MojoViewError) as error:
        raise KernelError(f"load_library(): {path.name} is not a signature file, or is damaged ({error})") from error
    elf = read_elf(library)
    if elf.machine != platform.machine():
        raise KernelError(
            f"load_library(): {library.name} was compiled for {elf.machine}, this machine is {platform.machine()}"
        )
    if code != code_digest(library) or not exports.kernels.keys() <= elf.exports:
        raise KernelError(
            f"load_library(): {path.name} describes another library than {library.name}; compile it again"
        )
    if missing := sorted(missing_features(cpu, cpu_features())):
        raise KernelError(f"load_library(): {library.name} was compiled for {cpu}; this CPU lacks {', '.join(missing)}")
    return exports


def missing_features(cpu: str, features: set[str]) -> set[str]:
    """Return the features of a level of x86-64 that the CPU lacks; the empty set for other names of CPUs."""
    if cpu not in LEVELS:
        return set()
    names = list(LEVELS)[: list(LEVELS).index(cpu) + 1]
    return set().union(*(LEVELS[name] for name in names)) - features


def cpu_features() -> set[str]:
    """Return the features that the system reports for this CPU; all features if it reports none."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("flags"):
                    return set(line.partition(":")[2].split())
    except OSError:
        pass
    return set().union(*LEVELS.values())
