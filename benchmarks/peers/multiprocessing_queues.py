"""Pipe and Queue of multiprocessing."""

from __future__ import annotations

from peers.transport import Transport, context


class Pipe(Transport):
    name = "Pipe"

    def open(self):
        self.out, self.into = context.Pipe(False)

    def poster(self):
        return self.into.send_bytes

    def fetcher(self):
        return self.out.recv_bytes_into

    def close(self):
        self.out.close(), self.into.close()


class Queue(Transport):
    name = "Queue"

    def open(self):
        self.queue = context.Queue()

    def poster(self):
        return self.queue.put

    def receiver(self):
        return lambda n: [self.queue.get() for _ in range(n)] and None

    def close(self):
        self.queue.close()
