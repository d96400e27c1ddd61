"""ZeroMQ over a Unix socket."""

from __future__ import annotations

import shutil
import tempfile

from peers.transport import Transport


class Zmq(Transport):
    name = "pyzmq"
    needs = "zmq"

    def open(self):
        self.folder = tempfile.mkdtemp()
        self.address = f"ipc://{self.folder}/z"

    def poster(self):
        import zmq

        self.context = zmq.Context()
        self.push = self.context.socket(zmq.PUSH)
        self.push.connect(self.address)
        return self.push.send

    def receiver(self):
        import zmq

        self.context = zmq.Context()
        self.pull = self.context.socket(zmq.PULL)
        self.pull.bind(self.address)
        return lambda n: [self.pull.recv() for _ in range(n)] and None

    def close(self):
        self.pull.close()
        self.context.term()
        shutil.rmtree(self.folder)
