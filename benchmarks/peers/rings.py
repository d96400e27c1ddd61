"""mojoview's ring, written and read in several ways."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mojoview import Ring
from peers.transport import BATCH, Transport


class RingOne(Transport):
    name = "ring"
    options: ClassVar[dict] = {}

    def open(self):
        capacity = max(1 << 20, 1 << (4 * self.size - 1).bit_length())
        self.ring = Ring.create(capacity=capacity, **{"wait": "hybrid", **self.options})

    def poster(self):
        self.ring = Ring.attach(self.ring, wait=self.options.get("wait", "hybrid"))
        return self.ring.write

    def fetcher(self):
        return self.ring.read_into

    def close(self):
        assert self.ring.lost == 0
        self.ring.close()


class RingChecked(RingOne):
    name = "ring, crc"
    options: ClassVar[dict] = {"crc": True}


class RingFutex(RingOne):
    name = "ring, blocking"
    options: ClassVar[dict] = {"wait": "futex"}


class RingSpin(RingOne):
    name = "ring, polling"
    options: ClassVar[dict] = {"wait": "spin"}


class RingIterate(RingOne):
    name = "ring, for frame"

    def receiver(self):
        ring = self.ring

        def receive(n):
            for frame in ring:
                n -= 1
                if n == 0:
                    frame.seq  # noqa: B018
                    return

        return receive


class RingView(RingOne):
    name = "ring, view out"

    def receiver(self):
        ring = self.ring

        def receive(n):
            while n:
                with ring.read(min(n, 16)) as batch:
                    for frame in batch:
                        with memoryview(frame) as shown:
                            shown[0], shown[-1]
                    n -= len(batch)

        return receive


class RingMany(RingOne):
    name = "ring, batches"
    step = BATCH

    def sender(self):
        ring, rows = Ring.attach(self.ring), np.zeros((BATCH, self.size), "u1")

        def send(n):
            for _ in range(n // BATCH):
                ring.write_many(rows)

        return send

    def receiver(self):
        ring, rows = self.ring, np.empty((BATCH, self.size), "u1")

        def receive(n):
            while n > 0:
                n -= ring.read_many(rows[:n])

        return receive
