"""Sockets of the standard library."""

from __future__ import annotations

import socket

from peers.transport import Transport


class Sockets(Transport):
    def poster(self):
        return self.pair[0].sendall

    def fetcher(self):
        receive, size = self.pair[1].recv_into, self.size
        return lambda buffer: receive(buffer, size, socket.MSG_WAITALL)

    def close(self):
        for end in self.pair:
            end.close()


class UnixSocket(Sockets):
    name = "Unix socket"

    def open(self):
        self.pair = socket.socketpair()


class Tcp(Sockets):
    name = "TCP"

    def open(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            first = socket.create_connection(server.getsockname())
            second, _ = server.accept()
        self.pair = (first, second)
        for end in self.pair:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
