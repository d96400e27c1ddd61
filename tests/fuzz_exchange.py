"""Hostile exporters by the million: interfaces, DLPack and Arrow structures of random content are viewed or refused.

Run: python tests/fuzz_exchange.py [--inputs 1000000] [--seed 1]. A crash, a foreign exception or a lease left over
fails it; the seed of the failing input is printed before it is tried (to the file given by --last).
"""

import argparse
import ctypes
import gc
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from producers import arrow, dlpack

import mojoview as mv
from mojoview.memory._lease import live_leases
from mojoview.memory.errors import MojoViewError

MEMORY = (ctypes.c_uint8 * (1 << 16))()
EXTREMES = (-(2**63), -(2**31), -1, 0, 1, 2, 3, 7, 8, 255, 2**31, 2**32, 2**62, 2**63 - 1)
OBJECTS = (None, True, 1.5, "x", b"x", (), (1,), [2], {}, object(), float("nan"))
TYPES = ("<f8", "<i4", "|u1", ">f4", "<M8[ns]", "|O", "|V5", "<t1", "|S3", "<c16", "", "q", "<f99")
FORMATS = ["l", "i", "b", "u", "U", "z", "Z", "n", "g", "e", "tdD", "tsu:", "tDs", "d:3,1", "w:3", "vu", "vz", "x"]
FORMATS += ["+s", "+l", "+L", "+m", "+w:2", "+vl", "+vL", "+ud:0", "+r"]


def number(pick):
    return pick.choice(EXTREMES) if pick.random() < 0.3 else pick.randint(0, 5)


def interface(pick):
    """`__array_interface__` over a buffer that says how large it is; `__cuda_array_interface__` over an address."""
    fields = {
        "shape": tuple(number(pick) for _ in range(pick.choice((0, 1, 2, 3, 9, 65)))),
        "typestr": pick.choice(TYPES),
        "data": MEMORY,
        "version": 3,
        "strides": None if pick.random() < 0.5 else tuple(number(pick) for _ in range(pick.randint(0, 3))),
        "offset": number(pick) if pick.random() < 0.3 else 0,
    }
    name = "__array_interface__"
    if pick.random() < 0.5:
        name = "__cuda_array_interface__"
        fields["data"] = (number(pick) * 4096, bool(pick.getrandbits(1)))
        fields["stream"] = pick.choice((None, None, 0, 1, 2, -1))
        fields["mask"] = pick.choice((None, None, None, object()))
    for key in list(fields):
        if pick.random() < 0.05:
            fields[key] = pick.choice(OBJECTS)
        elif pick.random() < 0.03:
            del fields[key]
    if name == "__array_interface__" and not isinstance(fields.get("data"), ctypes.Array):
        fields["data"] = MEMORY  # an address is believed, and cannot be random
    return type("Liar", (), {})(), name, fields


def tensor(pick):
    shape = [number(pick) for _ in range(pick.randint(0, 9))]
    strides = None if pick.random() < 0.3 else [number(pick) for _ in range(9)]
    return dlpack.Producer(
        MEMORY if pick.random() < 0.9 else None,
        shape,
        strides,
        code=pick.randint(0, 20),
        bits=pick.choice((0, 1, 4, 8, 16, 32, 64, 128)),
        lanes=pick.choice((1, 1, 1, 0, 2, 65535)),
        ndim=len(shape) if pick.random() < 0.9 else pick.randint(-2, len(shape)),
        device=(pick.choice((1, 1, 1, 2, 3, 13, 0, 999)), 0),
        byte_offset=pick.choice((0, 0, 8, 2**63, 2**64 - 1)),
        legacy=bool(pick.getrandbits(1)),
        flags=pick.randint(0, 7),
        version=(pick.choice((1, 1, 1, 0, 2)), 0),
    )


def array(pick, depth=0):
    """Buffers are large enough for every sound count: Arrow's interface cannot say how large they are."""
    sound = pick.random() < 0.7
    length, offset = (pick.randint(0, 5), pick.randint(0, 5)) if sound else (number(pick), number(pick))
    large = max(abs(length), abs(offset)) > 8
    count = pick.choice((0, 1, 2, 2, 2, 3, 3, 4))
    children = [array(pick, depth + 1) for _ in range(pick.choice((0, 0, 1, 1, 2)))] if depth < 3 else []
    return arrow.Producer(
        pick.choice(FORMATS),
        length,
        [None if large or pick.random() < 0.2 else MEMORY for _ in range(count)],
        null_count=pick.choice((0, 0, -1, length)) if sound else number(pick),
        offset=offset,
        children=children,
        dictionary=array(pick, depth + 1) if depth < 2 and pick.random() < 0.1 else None,
        n_buffers=None if pick.random() < 0.9 else min(number(pick), count),
        lists=pick.random() < 0.95,
    )


def attempt(pick):
    kind = pick.randrange(3)
    producer = (interface, tensor, array)[kind](pick)
    if kind == 0:
        producer, name, fields = producer
        setattr(producer, name, fields)
    try:
        view = mv.view(producer, writable=kind < 2 and bool(pick.getrandbits(1)))
        repr(view)
        if kind == 2:
            view.__arrow_c_array__()
            for _ in zip(range(4), view, strict=False):
                pass
    except MojoViewError:
        return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--last", type=Path, help="file that holds the seed of the input under way")
    options = parser.parse_args()
    started, viewed, before = time.perf_counter(), 0, live_leases()
    ctypes.memset(MEMORY, 1, len(MEMORY))
    for seed in range(options.seed, options.seed + options.inputs):
        if options.last:
            options.last.write_text(f"{seed}\n")
        try:
            viewed += attempt(random.Random(seed))
        except Exception:
            print(f"seed {seed}:", file=sys.stderr)
            raise
        if seed % 1000 == 0:
            gc.collect()
            dlpack._alive.clear()
            arrow._alive.clear()
            if live_leases() != before:
                raise AssertionError(f"{live_leases() - before} leases left over by seed {seed}")
    seconds = time.perf_counter() - started
    print(f"{options.inputs:,} inputs in {seconds:.0f} s: {viewed:,} viewed, the others refused")


if __name__ == "__main__":
    main()
