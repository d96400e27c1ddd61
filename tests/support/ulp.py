"""Errors in units in the last place, against 80-bit or wider long double, and the arguments worth trying."""

from __future__ import annotations

import numpy as np

LD = np.longdouble
REFERENCE = {
    function.__name__: function
    for function in (
        np.exp,
        np.exp2,
        np.expm1,
        np.log,
        np.log2,
        np.log10,
        np.log1p,
        np.sin,
        np.cos,
        np.tan,
        np.sinh,
        np.cosh,
        np.tanh,
        np.sqrt,
    )
} | {"pow": np.power}
LN2 = np.log(2)


def errors(got, reference):
    """Distance of each result from the reference, in units of the last place that this one has in the result's dtype.

    Infinity counts as the first number beyond the largest. Where only one of the two is NaN, the distance is infinite.
    """
    info = np.finfo(got.dtype)
    edge = LD(2) ** info.maxexp
    with np.errstate(all="ignore"):
        exact = np.clip(reference, -edge, edge)
        exponent = np.where(exact == 0, info.minexp, np.frexp(exact)[1] - 1)
        exponent = np.clip(exponent, info.minexp, info.maxexp - 1)
        unit = np.ldexp(LD(1), exponent - info.nmant)
        distance = (np.abs(np.clip(got.astype(LD), -edge, edge) - exact) / unit).astype("f8")
    return np.where(np.isnan(got) & np.isnan(reference), 0, np.where(np.isnan(distance), np.inf, distance))


def neighbours(x, reach=2):
    """Each number and those next to it."""
    steps = [x]
    with np.errstate(all="ignore"):
        for direction in (-np.inf, np.inf):
            y = x
            for _ in range(reach):
                y = np.nextafter(y, x.dtype.type(direction))
                steps.append(y)
    return np.concatenate(steps)


def specials(dtype):
    info = np.finfo(dtype)
    x = np.array([0, info.smallest_subnormal, info.tiny, 1, info.max], dtype)
    x = np.concatenate([neighbours(x), [np.inf, np.nan]]).astype(dtype)
    return np.concatenate([x, -x])


def patterns(dtype, count, rng):
    """Every kind of number alike: random sign, exponent and digits."""
    return np.frombuffer(rng.bytes(count * np.dtype(dtype).itemsize), dtype)


def arguments(name, dtype, count, rng):
    """About `count` arguments of a function: the whole range, its busy parts and its hard places."""
    dtype = np.dtype(dtype)
    top = np.log(np.finfo(dtype).max)
    spread = lambda low, high, share=8: rng.uniform(low, high, count // share)  # noqa: E731
    powers = np.ldexp(rng.uniform(-2, 2, count // 8), rng.integers(-60, 12, count // 8))
    if name in ("exp", "expm1", "sinh", "cosh", "tanh", "exp2"):
        unit = 1 if name == "exp2" else LN2
        low, high = -1.06 * top / LN2 * unit, 1.01 * top / LN2 * unit
        breaks = (np.arange(-1100, 1100) + 0.5) * unit
        parts = [
            spread(low, high, 4),
            spread(-1, 1, 4),
            spread(-25, 25),
            spread(-2 * unit, 2 * unit),
            powers,
            neighbours(breaks),
            neighbours(np.arange(-1080.0, 1030) * unit),
            spread(0.999 * high, 1.003 * high, 32),
        ]
    elif name in ("sin", "cos", "tan"):
        turns = rng.integers(1, 2**62, count // 8) >> rng.integers(0, 62, count // 8)
        near = (turns.astype(LD) * (LD(np.pi) / 2 + LD(6.123233995736766e-17))).astype("f8")
        parts = [
            spread(-np.pi, np.pi, 4),
            spread(-100, 100),
            spread(-1e6, 1e6),
            spread(-1e9, 1e9),
            powers,
            neighbours(near),
            np.array(WORST),
            10.0 ** spread(-12, np.log10(np.finfo(dtype).max)),
        ]
    else:
        parts = [
            spread(0.5, 2, 4),
            1 + powers * 2.0**-12,
            neighbours(np.sqrt([0.5, 2, 8.0])),
            10.0 ** np.arange(-300, 300),
            spread(0, 20),
            spread(-1, 1, 4),
            2.0 ** np.arange(-1074, 1024),
            powers,
            spread(0.9999, 1.0001),
        ]
    with np.errstate(all="ignore"):
        return np.concatenate([specials(dtype), patterns(dtype, count, rng), *(p.astype(dtype) for p in parts)])


# Closest to a multiple of pi/2 among all float64, and others that are near one at every size
WORST = [
    6381956970095103 * 2.0**797,
    5319372648326541 * 2.0**416,
    6411027962775774 / 2.0**53 * 2,
    3.14159265358979312,
    1.5707963267948966,
    4.71238898038469,
    1e22,
    2.0**1023,
    1.7976931348623157e308,
    823549.6,
    0.7853981633974483,
    0.7853981633974484,
    999999.9999999999,
    1e6,
]


def pairs(dtype, count, rng):
    """Arguments of pow: every special number with every other, the whole range, results over all of it, near 1."""
    dtype = np.dtype(dtype)
    top = np.log2(np.finfo(dtype).max) * 1.06
    small = [0.5, 1.5, 2, 3, -2, -3, 2**52 + 1, 2.0**53, 1e20, 1e300, 1 / 3]
    with np.errstate(all="ignore"):
        edge = np.concatenate([specials(dtype), np.array(small, dtype), -np.array(small, dtype)])
        x, y = (part.ravel() for part in np.meshgrid(edge, edge))
        base = np.exp2(rng.uniform(-20, 20, count))
        near = 1 + np.ldexp(rng.uniform(-1, 1, count), -rng.integers(1, 50, count))
        wide = np.abs(patterns(dtype, count, rng)).astype("f8")
        wide = np.where(np.isfinite(wide) & (wide > 0), wide, 2.0)
        whole = rng.integers(-40, 40, count)
        xs = [x, patterns(dtype, count, rng), -base]
        ys = [y, patterns(dtype, count, rng), whole]
        for b in (base, near, wide):
            b = b.astype(dtype)
            log = np.log2(b.astype(LD)).astype("f8")
            log = np.where(log == 0, 1, log)
            xs.append(b)
            ys.append(rng.uniform(-top, top, count) / log)
        return (
            np.concatenate([np.asarray(v).astype(dtype) for v in xs]),
            np.concatenate([np.asarray(v).astype(dtype) for v in ys]),
        )
