"""faster-fifo, which copies pickles through shared memory."""

from __future__ import annotations

import functools

from peers.transport import BATCH, Transport


class FasterFifo(Transport):
    name = "faster-fifo"
    needs = "faster_fifo"

    def open(self):
        import faster_fifo

        def same(data):
            return bytes(data)

        self.queue = faster_fifo.Queue(max_size_bytes=max(1 << 20, 8 * self.size), loads=same, dumps=same)

    def poster(self):
        return functools.partial(self.queue.put, timeout=20)

    def receiver(self):
        return lambda n: [self.queue.get(timeout=20) for _ in range(n)] and None


class FasterFifoMany(FasterFifo):
    name = "faster-fifo, many"
    step = BATCH

    def sender(self):
        rows = [self.message] * BATCH

        def send(n):
            for _ in range(n // BATCH):
                self.queue.put_many(rows, timeout=20)

        return send

    def receiver(self):
        def receive(n):
            while n > 0:
                n -= len(self.queue.get_many(timeout=20, max_messages_to_get=min(n, BATCH)))

        return receive
