"""The simulator's HTTP server on the loopback address."""

import socket
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, str], str, str, str], tuple[int, bytes]]
"""Returns status and body of the response to headers, body, method and path of a request."""
_PATIENCE_S = 60


class Endpoint(ThreadingHTTPServer):
    """Serves requests, each connection in its own thread."""

    daemon_threads = True

    def __init__(self, answer: Answer, report: Callable[[str], None]) -> None:
        """Listens; `report` gets the traceback of every exception that is no lost connection."""
        super().__init__(("127.0.0.1", 0), _handler(answer))
        self._report = report
        self._open: dict[socket.socket, str] = {}
        """The addresses of clients, by connection."""
        self._changed = threading.Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def settle(self) -> None:
        """Returns once every request that clients sent before the call has been executed; closes all connections.

        A killed process's last requests may still be on their way then, as on any network.
        """
        with socket.create_connection(("127.0.0.1", self.server_port)) as last:
            name = str(last.getsockname())
            # connections are accepted in their order
            self._wait_until(lambda: name in self._open.values())
            with self._changed:
                for each in self._open:
                    with suppress(OSError):
                        # what has arrived is still read
                        each.shutdown(socket.SHUT_RD)
            self._wait_until(lambda: not self._open)

    def _wait_until(self, so: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(so, _PATIENCE_S)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            self._open[request] = str(client_address)
            self._changed.notify_all()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._changed:
            self._open.pop(request, None)
            self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Reports the exception, except that of a client that was killed before it had its response."""
        del request, client_address
        if not isinstance(sys.exception(), ConnectionError):
            self._report(traceback.format_exc())


def _handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # else each answer waits 40 ms for the acknowledgement of its headers
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length)
            if len(body) < length:
                # who asks was killed before it had asked
                self.close_connection = True
                return
            status, reply = answer(dict(self.headers.items()), body.decode(), self.command, self.path)
            self.send_response(status)
            self.send_header("Content-Type", "text/xml")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        # the protocol "rest-json" has other methods, too
        do_GET = do_PUT = do_DELETE = do_POST  # noqa: N815 - names that http.server calls

        def log_message(self, *_: object) -> None:
            pass

    return Handler
