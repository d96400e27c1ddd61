"""Kernels of the flights demo: they read and write columns of a pandas DataFrame in place."""
from std.sys import simd_width_of

from mojoview import E_SHAPE, OK, In, Out, Status

comptime F64 = DType.float64
comptime LANES = simd_width_of[F64]()


@export("ground_speed")
def ground_speed(distance: In[DType.int64], air_time: In[F64], mph: Out[F64]) abi("C") -> Status:
    """Ground speed in miles per hour, from miles and minutes; NaN if the time is missing."""
    var n = len(mph)
    if len(distance) != n or len(air_time) != n:
        return E_SHAPE
    var i = 0
    while i + LANES <= n:
        mph.store(i, distance.load[LANES](i).cast[F64]() / (air_time.load[LANES](i) / 60))
        i += LANES
    while i < n:
        mph[i] = distance[i].cast[F64]() / (air_time[i] / 60)
        i += 1
    return OK


@export("made_up")
def made_up(dep_delay: In[F64], arr_delay: In[F64], total: Out[F64]) abi("C") -> Status:
    """Minutes made up in the air, summed over all flights that arrived: total[0] minutes of total[1] flights."""
    var n = len(dep_delay)
    if len(arr_delay) != n or len(total) != 2:
        return E_SHAPE
    var minutes = SIMD[F64, LANES](0)
    var flights = SIMD[F64, LANES](0)
    var i = 0
    while i + LANES <= n:
        var gain = dep_delay.load[LANES](i) - arr_delay.load[LANES](i)
        var arrived = gain.eq(gain)  # false for NaN
        minutes += arrived.select(gain, 0)
        flights += arrived.cast[F64]()
        i += LANES
    total[0] = minutes.reduce_add()
    total[1] = flights.reduce_add()
    while i < n:
        var gain = dep_delay[i] - arr_delay[i]
        if gain == gain:
            total[0] += gain
            total[1] += 1
        i += 1
    return OK
