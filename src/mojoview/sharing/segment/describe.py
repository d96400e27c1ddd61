"""Headers of segments as plain data, for the command line and for bug reports."""

from __future__ import annotations

import os
from typing import Any

from mojoview.memory.errors import CorruptHeader
from mojoview.sharing.segment import _segment, naming, schema

__all__ = ["details"]


def details(name: str) -> dict[str, Any]:
    """Return the header of a named segment as a dict.

    Returns
    -------
    dict
        `header` is "ok" or its fault; the other keys only if the header can be read.

    Raises
    ------
    SegmentNotFound, NotAMojoviewSegment, SegmentAccessError
    """
    fd = naming.open_file(name, naming.path_of(name))
    try:
        fault, facts = _segment.inspect(fd)
        size = os.fstat(fd).st_size
        alive = "kind" in facts and _segment.owner_alive(fd, facts)
    finally:
        os.close(fd)
    if "kind" not in facts:
        return {"header": fault, "file_bytes": size}
    try:
        dtype = str(schema.dtype_from_text(facts["dtype_text"])) if facts["dtype_text"] else ""
    except CorruptHeader as error:
        dtype = str(error)
    return {
        "header": fault,
        "file_bytes": size,
        "kind": _segment.KINDS.get(facts["kind"], facts["kind"]),
        "version": ".".join(map(str, facts["version"])),
        "segment_bytes": facts["segment_bytes"],
        "payload_bytes": facts["payload_bytes"],
        "dtype": dtype,
        "shape": facts["shape"],
        "params": facts["params"],
        "uuid": facts["uuid"].hex(),
        "creator_pid": facts["creator_pid"],
        "creator_uid": facts["creator_uid"],
        "owner_pid": facts["owner_pid"],
        "owner_alive": alive,
        "takeovers": facts["epoch"],
        "this_boot": facts["boot_id"] == _segment.this_boot(),
    }
