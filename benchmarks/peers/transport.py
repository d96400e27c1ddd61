"""Transport: the interface of a way between two processes."""

from __future__ import annotations

import itertools
import multiprocessing

context = multiprocessing.get_context("fork")
BATCH = 1000  # messages a call of the peers that send many


class Transport:
    """One way of sending: `open()` before the fork, then `poster()` in the child and `fetcher()` in the parent.

    `poster()` returns a function that sends one message, `fetcher()` one that copies the next message into a buffer;
    `sender()` and `receiver()` return functions of n messages.
    """

    name = ""
    needs: str | None = None
    step = 1  # messages a call

    def __init__(self, size: int):
        self.size = size
        self.message = bytes(size)

    def open(self) -> None: ...
    def poster(self): ...
    def fetcher(self): ...
    def close(self) -> None: ...

    def sender(self):
        post, message = self.poster(), self.message

        def send(n):
            for _ in itertools.repeat(None, n):
                post(message)

        return send

    def receiver(self):
        fetch, buffer = self.fetcher(), bytearray(self.size)

        def receive(n):
            for _ in itertools.repeat(None, n):
                fetch(buffer)

        return receive
