"""Real servers for tests, and a local mirror that can fail in every way.

Downloads go to `PGDYNO_HOME`, or else to the user's cache, and stay there: later test runs need the network only to ask
for the newest version.
"""

import hashlib
import io
import os
import pickle
import pwd
import shutil
import tarfile
import threading
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import pytest

import pgdyno.targets
from pgdyno.targets import Home, Server, SilentProgress, open_target, sweep_leftovers
from pgdyno.targets.cluster.installation import Installation, Release, classifier, parse_release
from pgdyno.targets.embedded.kind import find_embedded
from pgdyno.targets.embedded.maven_repository import GROUP, Mirror
from pgdyno.targets.embedded.schema import EmbeddedTarget
from pgdyno.targets.home import ensure_folder
from pgdyno.targets.http_requests import Patience
from tests.postgres.own_servers import remove_templates
from tests.scratch import scratch_folder, spread

MAJOR = "18"
FAST = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "16MB", "max_connections": "40"}

T = TypeVar("T")


# ---- servers ----


@pytest.fixture(scope="session")
def home() -> Home:
    """The cache that all tests share, and that remains after them."""
    home = Home.locate()
    sweep_leftovers(home)
    ensure_folder(home.instances)
    spread(home.instances)
    return home


@pytest.fixture(scope="session")
def server(home: Home) -> Iterator[Server]:
    """One PostgreSQL 18 for many tests; each test must create and drop its own tables."""
    spec = EmbeddedTarget(kind="embedded", version=MAJOR, settings={**FAST, "max_connections": "100"})
    with open_target("tests", spec, home=home, progress=SilentProgress()) as server:
        yield server


@pytest.fixture(scope="session")
def installed(home: Home) -> Iterator[Installation]:
    """PostgreSQL 18, unpacked in the shared home."""
    yield find_embedded(EmbeddedTarget(kind="embedded", version=MAJOR), home, SilentProgress())
    remove_templates()


@pytest.fixture(scope="session")
def installed_release(installed: Installation) -> Release:
    release = parse_release(installed.bin.parent.name.removesuffix(f"-{classifier()}"))
    assert release is not None
    return release


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder with a short path that every user can access."""
    folder = scratch_folder()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def fresh_home(scratch: Path) -> Home:
    return Home.locate(scratch / "home")


@pytest.fixture
def warm_home(fresh_home: Home, home: Home, installed: Installation) -> Home:
    """A home for one test with an unpacked PostgreSQL 18 and its version list."""
    fresh_home.postgres.symlink_to(installed.bin.parent.parent)
    # clusters of tests are copies of one that initdb made
    home.templates.mkdir(exist_ok=True)
    fresh_home.templates.symlink_to(home.templates)
    return fresh_home


@pytest.fixture
def child_environment() -> dict[str, str]:
    package = Path(pgdyno.targets.__file__).parent.parent
    return {**os.environ, "PYTHONPATH": str(package.parent)}


# ---- users ----


@pytest.fixture
def as_unprivileged() -> Callable[[Callable[[], Any]], Any]:
    return _as_unprivileged


def _as_unprivileged(function: Callable[[], T]) -> T:
    """Returns the result of `function` as an unprivileged user: in this process, or in a fork as `nobody` if it runs as
    root.

    The fork keeps the loaded modules, because `nobody` may not be able to read their files.
    """
    if os.geteuid() != 0:
        return function()
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # later Pythons warn of threads: the mirror's are not needed in the child
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os.close(reader)
        _report(function, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        answer = stream.read()
    os.waitpid(pid, 0)
    result, error = pickle.loads(answer)
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


def _report(function: Callable[[], Any], writer: int) -> None:
    answer: tuple[Any, BaseException | None]
    try:
        nobody = pwd.getpwnam("nobody")
        os.setgroups([])
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)
        os.chdir("/")
        answer = (function(), None)
    except BaseException as error:
        traceback.print_exc()
        answer = (None, error)
    with os.fdopen(writer, "wb") as stream:
        stream.write(pickle.dumps(answer))
    os._exit(0)


@pytest.fixture
def unprivileged_folder(scratch: Path) -> Path:
    folder = scratch / "own"
    folder.mkdir()
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return folder


# ---- mirror ----


@dataclass(frozen=True)
class Answer:
    """How one request fails."""

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

    good = GOOD
    broken = Answer

    @property
    def environ(self) -> dict[str, str]:
        return {"PGDYNO_MAVEN_URL": self.url}

    def path(self, release: str) -> str:
        name = f"embedded-postgres-binaries-{classifier()}"
        return f"/{GROUP}/{name}/{release}/{name}-{release}.jar"

    def publish(self, release: str, archive: bytes, checksums: tuple[str, ...] = ("sha512", "sha256", "sha1")) -> str:
        path = self.path(release)
        self.files[path] = archive
        for kind in checksums:
            self.files[f"{path}.{kind}"] = hashlib.new(kind, archive).hexdigest().encode()
        releases = [name.split("/")[-2] for name in self.files if name.endswith(".jar")]
        self.list_versions(*releases)
        return path

    def list_versions(self, *releases: str) -> None:
        named = "".join(f"<version>{release}</version>" for release in releases)
        text = f"<metadata><versioning><versions>{named}</versions></versioning></metadata>"
        self.files[f"/{GROUP}/embedded-postgres-binaries-{classifier()}/maven-metadata.xml"] = text.encode()

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
                self.send_response(answer.status or 302)
                self.send_header("Location", answer.location)
                self.end_headers()
                return
            if answer.status is not None or content is None:
                self.send_error(answer.status or 404)
                return
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
def mirror() -> Iterator[LocalMirror]:
    """An empty mirror for one test."""
    mirror = LocalMirror()
    http_server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(mirror))
    http_server.daemon_threads = True
    mirror.url = f"http://127.0.0.1:{http_server.server_address[1]}"
    thread = threading.Thread(target=http_server.serve_forever, daemon=True)
    thread.start()
    yield mirror
    http_server.shutdown()
    http_server.server_close()
    thread.join()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Patience, "pause", lambda *_: None)


@pytest.fixture(scope="session")
def real_archive(home: Home, installed_release: Release) -> bytes:
    """The published archive of PostgreSQL 18."""
    mirror = Mirror.from_environment(classifier())
    path = home.root / "test-archives" / mirror.archive_name(installed_release)
    if not path.is_file():
        path.parent.mkdir(exist_ok=True)
        mirror.fetch_archive(installed_release, path, SilentProgress())
    return path.read_bytes()


@pytest.fixture(scope="session")
def small_archive() -> Callable[..., bytes]:
    return _small_archive


def _small_archive(version: str = "18.99", extra: Callable[[tarfile.TarFile], None] | None = None) -> bytes:
    """Creates such an archive with programs that only print their version."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as inner:
        for name in ("initdb", "postgres"):
            script = f'#!/bin/sh\necho "{name} (PostgreSQL) {version}"\n'.encode()
            member = tarfile.TarInfo(f"bin/{name}")
            member.size, member.mode = len(script), 0o755
            inner.addfile(member, io.BytesIO(script))
        # something that does not compress, so that halves of it are halves
        noise = os.urandom(600_000)
        member = tarfile.TarInfo("lib/noise")
        member.size = len(noise)
        inner.addfile(member, io.BytesIO(noise))
        if extra is not None:
            extra(inner)
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
        jar.writestr("postgres-linux-any.txz", packed.getvalue())
    return outer.getvalue()
