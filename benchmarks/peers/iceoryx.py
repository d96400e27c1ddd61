"""iceoryx2, which hands over samples in shared memory."""

from __future__ import annotations

import ctypes
import os
import time

from peers.transport import Transport

SILENCE = 0.5  # seconds without a message after which the publisher is taken to have no more


class Iceoryx(Transport):
    name = "iceoryx2"
    needs = "iceoryx2"

    def service(self):
        import iceoryx2 as iox

        iox.set_log_level(iox.LogLevel.Error)
        self.node = iox.NodeBuilder.new().create(iox.ServiceType.Ipc)
        builder = self.node.service_builder(iox.ServiceName.new(self.title)).publish_subscribe(
            iox.Slice[ctypes.c_uint8]
        )
        return builder.enable_safe_overflow(False).subscriber_max_buffer_size(64).history_size(0).open_or_create()

    def open(self):
        self.title = f"mojoview-bench-{os.getpid()}-{time.monotonic_ns()}"

    def poster(self):
        import iceoryx2 as iox

        self.topic = self.service()
        builder = self.topic.publisher_builder().initial_max_slice_len(self.size)
        publisher = builder.backpressure_strategy(iox.BackpressureStrategy.RetryUntilDelivered).create()
        source, size = ctypes.create_string_buffer(self.message, self.size), self.size

        def post(message):
            sample = publisher.loan_slice_uninit(size)
            ctypes.memmove(sample.payload_ptr, source, size)
            sample.assume_init().send()

        return post

    def fetcher(self):
        self.topic = self.service()
        receive = self.topic.subscriber_builder().create().receive

        def fetch(buffer):
            """Read the first and the last byte in place; return None if no message arrived in time."""
            sample, last = receive(), None
            while sample is None:
                now = time.perf_counter()
                last = last or now
                if now - last > SILENCE * (1 if self.came else 10):
                    return None
                sample = receive()
            shown = sample.payload().as_memory_view().cast("B")
            shown[0], shown[-1]
            sample.delete()
            self.came = True
            return self.size

        self.came = False
        return fetch

    def receiver(self):
        fetch = self.fetcher()

        def receive(n):
            """Count the messages that arrive: it drops what the subscriber does not take in time."""
            for got in range(n):
                if fetch(None) is None:
                    return got, time.perf_counter() - SILENCE
            return n, time.perf_counter()

        return receive
