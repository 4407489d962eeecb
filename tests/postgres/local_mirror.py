"""A local mirror of published servers that can fail in every way."""

import hashlib
import io
import os
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pgdyno.targets.cluster.installation import classifier
from pgdyno.targets.embedded.maven_repository import GROUP
from pgdyno.targets.http_requests import Patience
from tests.listening import serving

NAME = f"embedded-postgres-binaries-{classifier()}"
NOISE_BYTES = 150_000
"""Of an archive: something that does not compress, so that halves of it are halves."""


@dataclass(frozen=True)
class Answer:
    status: int | None = None
    """The status of the response."""
    cut_at: int | None = None
    """The number of bytes of the body after which the connection ends."""
    body: bytes | None = None
    """The file to send instead."""
    hold: threading.Event | None = None
    """An event that the response waits for."""
    location: str | None = None
    """The target of a redirect."""


GOOD = Answer()


@dataclass
class LocalMirror:
    """A Maven repository on the loopback address."""

    files: dict[str, bytes] = field(default_factory=dict)
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    """Answers by path, one for each request; the last one is repeated."""
    ranges: bool = True
    """Whether it supports requests for a part of a file."""
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    """Path and Range of each request."""
    seen: threading.Condition = field(default_factory=threading.Condition)
    url: str = ""
    index = f"/{GROUP}/{NAME}/maven-metadata.xml"

    @property
    def environ(self) -> dict[str, str]:
        return {"PGDYNO_MAVEN_URL": self.url}

    def publish(
        self, release: str = "18.99.0", archive: bytes | None = None, checksums: str = "sha512 sha256 sha1"
    ) -> str:
        """Offers an archive, which is a small one by default; its path."""
        path = f"/{GROUP}/{NAME}/{release}/{NAME}-{release}.jar"
        archive = self.files[path] = archive or small_archive(release.removesuffix(".0"))
        for kind in checksums.split():
            self.files[f"{path}.{kind}"] = hashlib.new(kind, archive).hexdigest().encode()
        self.list_versions(*(name.split("/")[-2] for name in self.files if name.endswith(".jar")))
        return path

    def list_versions(self, *releases: str) -> None:
        named = "".join(f"<version>{release}</version>" for release in releases)
        self.files[self.index] = f"<metadata><versioning><versions>{named}</versions></versioning></metadata>".encode()

    def count(self, path: str) -> int:
        return sum(1 for asked, _ in self.requests if asked == path)

    def wait_for(self, path: str) -> None:
        with self.seen:
            assert self.seen.wait_for(lambda: self.count(path) > 0, timeout=60), f"nobody asked for {path}"

    def next_answer(self, path: str, asked_range: str | None) -> Answer:
        with self.seen:
            self.requests.append((path, asked_range))
            self.seen.notify_all()
            planned = self.answers.get(path, [GOOD])
            return planned.pop(0) if len(planned) > 1 else planned[0]


def _handler(mirror: LocalMirror) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            answer = mirror.next_answer(self.path, asked)
            if answer.hold is not None:
                answer.hold.wait(60)
            content = mirror.files.get(self.path) if answer.body is None else answer.body
            if answer.location is not None:
                self.send_response(302)
                self.send_header("Location", answer.location)
                self.end_headers()
            elif answer.status is not None or content is None:
                self.send_error(answer.status or 404)
            else:
                self._send(content, asked, answer)

        def _send(self, content: bytes, asked: str | None, answer: Answer) -> None:
            tag = f'"{hashlib.sha1(content).hexdigest()}"'
            start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and mirror.ranges else 0
            if self.headers.get("If-Range", tag) != tag:
                start = 0
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.send_header("ETag", tag)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            end = len(content) if answer.cut_at is None else min(len(content), start + answer.cut_at)
            self.wfile.write(content[start:end])

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalMirror]:
    """An empty mirror for one test, which is asked again without a pause."""
    monkeypatch.setattr(Patience, "pause", lambda *_: None)
    mirror = LocalMirror()
    http_server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(mirror))
    http_server.daemon_threads = True
    mirror.url = f"http://127.0.0.1:{http_server.server_address[1]}"
    with serving(http_server):
        yield mirror


@cache
def small_archive(version: str = "18.99") -> bytes:
    """Creates an archive with programs that only print their version."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as inner:
        for name in ("initdb", "postgres"):
            script = f'#!/bin/sh\necho "{name} (PostgreSQL) {version}"\n'.encode()
            member = tarfile.TarInfo(f"bin/{name}")
            member.size, member.mode = len(script), 0o755
            inner.addfile(member, io.BytesIO(script))
        member = tarfile.TarInfo("lib/noise")
        member.size = NOISE_BYTES
        inner.addfile(member, io.BytesIO(os.urandom(NOISE_BYTES)))
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
        jar.writestr("postgres-linux-any.txz", packed.getvalue())
    return outer.getvalue()
