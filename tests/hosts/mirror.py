"""A proxy for apt on the hosts, which caches packages and can block hosts."""

import hashlib
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from tests.listening import serving


@dataclass
class Mirror:
    """The settings of the proxy."""

    cache: Path
    """The cache of packages. Lists are not cached, because they change."""
    url: str = ""
    barred: set[str] = field(default_factory=set)
    """Names of hosts that are unreachable."""

    def answer(self, url: str, headers: Mapping[str, str]) -> tuple[int, dict[str, str], bytes]:
        """Returns status, headers and body for apt."""
        parts = urlsplit(url)
        if parts.hostname in self.barred:
            return 503, {}, b""
        kept = self.cache / hashlib.sha256(url.encode()).hexdigest()
        if kept.exists():
            return 200, {}, kept.read_bytes()
        status, answered, body = _fetched(url, headers)
        if status == 200 and parts.path.endswith(".deb"):
            self.cache.mkdir(parents=True, exist_ok=True)
            unfinished = kept.with_name(f".{kept.name}.{os.getpid()}.{threading.get_ident()}")
            unfinished.write_bytes(body)
            unfinished.replace(kept)
        return status, answered, body


def _fetched(url: str, headers: Mapping[str, str]) -> tuple[int, dict[str, str], bytes]:
    passed = {name: value for name, value in headers.items() if name in ("If-Modified-Since", "Cache-Control")}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=passed), timeout=60) as reply:
            told = {"Last-Modified": reply.headers["Last-Modified"]} if "Last-Modified" in reply.headers else {}
            return 200, told, reply.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, {}, b""
    except OSError:
        return 503, {}, b""


@contextmanager
def mirror(address: str, cache: Path) -> Iterator[Mirror]:
    """Runs a proxy on `address` until the block ends."""
    made = Mirror(cache)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, headers, body = made.answer(self.path, dict(self.headers.items()))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((address, 0), Handler)
    server.daemon_threads = True
    made.url = f"http://{address}:{server.server_address[1]}"
    with serving(server):
        yield made
