"""A TCP proxy that cuts a connection when somebody says COMMIT."""

import socket
import threading
from contextlib import suppress
from enum import Enum, auto


class Cut(Enum):
    """When the next COMMIT is cut."""

    NEVER = auto()
    BEFORE = auto()
    """The server does not see it."""
    AFTER = auto()
    """The server does, and its answer is lost."""


class CuttingProxy:
    """
    Forwards connections of a loopback port to a server.

    Attributes:
        cut: what becomes of the next COMMIT.
    """

    def __init__(self, port: int) -> None:
        self.cut = Cut.NEVER
        self._server_port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Cut everything, and listen no more."""
        for one in [self._listener, *self._sockets]:
            _end(one)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                try:
                    server = socket.create_connection(("127.0.0.1", self._server_port))
                except OSError:
                    _end(client)
                    continue
                self._sockets.append(server)
                threading.Thread(target=self._forward, args=(client, server), daemon=True).start()
                threading.Thread(target=self._back, args=(server, client), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while sent := client.recv(65536):
                if b"COMMIT" not in sent or self.cut is Cut.NEVER:
                    server.sendall(sent)
                    continue
                cut, self.cut = self.cut, Cut.NEVER
                if cut is Cut.AFTER:
                    client.shutdown(socket.SHUT_WR)
                    server.sendall(sent)
                    server.shutdown(socket.SHUT_WR)
                break
        _end(client)
        if server.fileno() >= 0:
            _end(server)

    def _back(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while answered := server.recv(65536):
                client.sendall(answered)
        _end(client)
        _end(server)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
