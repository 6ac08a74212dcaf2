"""The network between trainer and web server: a proxy that can be cut, and put together again."""

import contextlib
import socket
import threading


class Network:
    """Passes TCP connections on to `port` of this machine. While it is cut nothing arrives and nothing is refused, as
    with lost packets; what was under way arrives when it is whole again, unless the sender has given up."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._is_whole = threading.Event()
        self._is_whole.set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Nothing gets through from now on."""
        self._is_whole.clear()

    def restore(self) -> None:
        """Everything gets through again. Safe to repeat."""
        self._is_whole.set()

    def close(self) -> None:
        """Take no further connections."""
        self._is_whole.set()
        # Only now may its number go to another socket: the thread would take that one's connections.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._is_whole.wait()
        try:
            far = socket.create_connection(self._target, timeout=5)
        except OSError:  # nobody listens there: the caller is to see just that
            near.close()
            return
        far.settimeout(None)
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._is_whole.wait()
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
