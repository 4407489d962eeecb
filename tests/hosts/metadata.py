"""A metadata service (version 2) that serves a folder: `python metadata.py FOLDER`, in the host's network.

It does not use pgdyno. Changes in the folder take effect at the next request.
"""

import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer

ADDRESS = "169.254.169.254"
TOKEN = "AQAEAHere=="
_TTL = "X-aws-ec2-metadata-token-ttl-seconds"


class Handler(BaseHTTPRequestHandler):
    """Serves the files of the folder."""

    folder: Path

    def do_PUT(self) -> None:
        asked = self.path == "/latest/api/token" and _TTL in self.headers
        self._answer(200 if asked else 400, TOKEN if asked else "")

    def do_GET(self) -> None:
        file = self.folder / self.path.removeprefix("/latest/")
        if self.headers.get("X-aws-ec2-metadata-token") != TOKEN:
            self._answer(401, "")
        elif not file.is_file():
            self._answer(404, "")
        else:
            self._answer(200, file.read_text())

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    Handler.folder = Path(sys.argv[1])
    # http.server's own would look up its name, which nothing answers here
    server = ThreadingTCPServer((ADDRESS, 80), Handler)
    print("listening", flush=True)
    server.serve_forever()
