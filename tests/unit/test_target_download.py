"""Archives of servers, valid and invalid, which published build a version in a plan means, and malformed answers."""

import io
import re
import socket
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from pgdyno.errors import TargetError
from pgdyno.targets import SilentProgress
from pgdyno.targets.cluster.installation import Release, classifier, newest_match, parse_release, resolve
from pgdyno.targets.embedded import fetch_and_unpack
from pgdyno.targets.embedded.fetch_and_unpack import fetch_file, unpack_archive
from pgdyno.targets.embedded.maven_repository import parse_list
from pgdyno.targets.http_requests import Patience, fetch_text

Fill = Callable[[tarfile.TarFile], None]


def fill_with(inner: tarfile.TarFile, members: str) -> None:
    """Packs members: `name mode` is a file that contains its name, `name -> to` and `name = to` are symbolic and hard
    links, and `name |` is a pipe.
    """
    for text in members.split("; "):
        name, mark, to = re.fullmatch(r"(\S+) ?(\S*) ?(\S*)", text).groups()  # type: ignore[union-attr]
        member = tarfile.TarInfo(name)
        kinds = {"->": tarfile.SYMTYPE, "=": tarfile.LNKTYPE, "|": tarfile.FIFOTYPE}
        member.type, member.linkname = kinds.get(mark, tarfile.REGTYPE), to
        if member.isreg():
            member.size, member.mode = len(name), int(mark or "600", 8)
        inner.addfile(member, io.BytesIO(name.encode()))


def archive(folder: Path, fill: Fill | str, *names: str) -> Path:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as inner:
        if isinstance(fill, str):
            fill_with(inner, fill)
        else:
            fill(inner)
    path = folder / "server.jar"
    with zipfile.ZipFile(path, "w") as outer:
        for name in names or ["postgres.txz"]:
            outer.writestr(name, packed.getvalue())
    return path


def test_files_folders_and_links(tmp_path: Path) -> None:
    # links may come before what they lead to, files before their folders
    members = "lib/libpq.so -> libpq.so.5; bin/postgres 700; lib/libpq.so.5; lib/again = lib/libpq.so.5"
    unpack_archive(archive(tmp_path, f"{members}; share/lib -> ../lib"), tmp_path / "server")
    server = tmp_path / "server"
    assert (server / "lib" / "libpq.so").read_bytes() == b"lib/libpq.so.5"
    assert (server / "share" / "lib" / "again").read_bytes() == b"lib/libpq.so.5"
    # everybody may read and run them: servers may run as another user
    modes = [(server / name).stat().st_mode & 0o777 for name in ("bin/postgres", "lib/libpq.so.5", "bin", ".")]
    assert modes == [0o755, 0o644, 0o755, 0o755]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["server", "server.jar"]


def with_nul(inner: tarfile.TarFile) -> None:
    member = tarfile.TarInfo("x")
    member.pax_headers = {"path": "a\0b"}
    inner.addfile(member)


def sparse(inner: tarfile.TarFile) -> None:
    # 512 bytes that unpack to 10 PB
    member = tarfile.TarInfo("sparse")
    size = "9999999999999999"
    names = {"major": "1", "minor": "0", "name": "sparse", "realsize": size}
    member.pax_headers = {f"GNU.sparse.{name}": value for name, value in names.items()}
    member.size = 512
    inner.addfile(member, io.BytesIO(f"1\n{size}\n0\n".encode().ljust(512, b"\0")))


def large(inner: tarfile.TarFile) -> None:
    member = tarfile.TarInfo("large")
    member.size = 200_000
    inner.addfile(member, io.BytesIO(bytes(member.size)))


def test_entries_that_lead_outside_or_have_no_end_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_and_unpack._Bounded, "_left", 100 * 1024)
    monkeypatch.setattr(fetch_and_unpack, "MAX_UNPACKED_BYTES", 100 * 1024)
    for fill, message in (
        ("../escaped", "../escaped would be outside"),
        ("/tmp/escaped", "/tmp/escaped would be outside"),
        ("out -> /etc", "the link out points outside, to /etc"),
        ("out -> ../../escaped", "the link out points outside"),
        # each stays inside when its name alone is looked at
        ("a/b/file; a/b/up -> ../..; out -> a/b/up/..", "the link out points outside, to a/b/up/.."),
        ("lib -> ../..; lib/escaped", "file exists"),
        ("out = ../escaped", "../escaped would be outside"),
        ("pipe |", "pipe is neither file, folder nor link"),
        ("a -> b; b -> a", "symlink loop"),
        (with_nul, "embedded null"),
        (sparse, "sparse is neither file, folder nor link"),
        (large, "it is larger than 100.0 KiB"),
    ):
        path = archive(tmp_path, fill)
        with pytest.raises(TargetError, match=re.escape(message)):
            unpack_archive(path, tmp_path / "inside" / "server")
        assert sorted(each.name for each in tmp_path.iterdir()) == ["inside", "server.jar"]
        assert list((tmp_path / "inside").iterdir()) == []


def not_a_tar(folder: Path) -> None:
    with zipfile.ZipFile(folder / "server.jar", "w") as outer:
        outer.writestr("postgres.txz", b"not a tar")


def changed_header(offset: int, value: int, folder: Path) -> None:
    path = archive(folder, "f")
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\3\4") + offset] = value
    content[content.index(b"PK\1\2") + offset + 2] = value
    path.write_bytes(content)


def test_archives_that_cannot_be_read(tmp_path: Path) -> None:
    for write, message in (
        (lambda folder: (folder / "server.jar").write_bytes(b"not a zip"), ""),
        (not_a_tar, ""),
        (partial(changed_header, 6, 1), "encrypted"),
        (partial(changed_header, 8, 97), "compression"),
        (lambda folder: zipfile.ZipFile(folder / "server.jar", "w").close(), "0 archives of a server inside"),
        (lambda folder: archive(folder, "f", "a.txz", "b.txz"), "2 archives of a server inside instead of one"),
    ):
        write(tmp_path)
        with pytest.raises(TargetError, match=f"cannot unpack {tmp_path}/server.jar: .*{message}"):
            unpack_archive(tmp_path / "server.jar", tmp_path / "server")
        assert [each.name for each in tmp_path.iterdir()] == ["server.jar"]


NAMES = "9.6.24 10.5.0 10.5.0-1 10.15.0-1 10.23.0 11.5.0 12.17.0 12.17.1 17.9.0 17.10.0 18.0.0 18.4.0 18.6.0"
KNOWN = [release for name in NAMES.split() if (release := parse_release(name)) is not None]


def test_the_release_that_a_version_means_and_the_order_of_releases() -> None:
    meant = "18 18.6.0, 18.6 18.6.0, 18.6.0 18.6.0, 18.0 18.0.0, 17 17.10.0, 17.9 17.9.0, 12.17 12.17.1, "
    meant += "12.17.0 12.17.0, 10.5 10.5.0-1, 10.15.0 10.15.0-1, 10 10.23.0"
    assert ", ".join(f"{asked} {resolve(asked, KNOWN)}" for asked in re.findall(r"([\d.]+) ", meant)) == meant
    shuffled = sorted(KNOWN, key=str)
    assert shuffled != KNOWN
    assert sorted(shuffled) == KNOWN
    assert [str(release) for release in KNOWN] == NAMES.split()
    assert newest_match((16,), KNOWN) is None
    assert KNOWN[2].postgres == "10.5"
    for name in ("18", "18.6", "18.6.0-beta", "18.6.0.1", "", "x18.6.0"):
        assert parse_release(name) is None


def test_the_nearest_versions_are_offered_and_those_before_10_refused() -> None:
    for asked, hint in (
        ("18.5", "nearest: 18.0, 18.4, 18.6"),
        ("18.99", "nearest: 18.0, 18.4, 18.6"),
        ("12.17.5", "nearest: 12.17.0, 12.17.1"),
        ("12.1.5", "nearest: 12.17"),
        ("19", "nearest: 17, 18; there are 10 to 18"),
        ("14.2", "nearest: 12, 17; there are 10 to 18"),
        ("13", "nearest: 11, 12; there are 10 to 18"),
    ):
        with pytest.raises(TargetError) as caught:
            resolve(asked, KNOWN)
        assert caught.value.message == f"cannot get PostgreSQL {asked}: there is no such version"
        assert caught.value.hint == hint
    for asked in ("9", "9.6", "9.6.24"):
        with pytest.raises(TargetError, match=f"cannot get PostgreSQL {asked}: older than 10"):
            resolve(asked, KNOWN)
    with pytest.raises(TargetError) as caught:
        resolve("18", [])
    assert caught.value.hint == "the mirror has no versions for this processor architecture"


def test_the_list_of_a_mirror_and_builds_of_a_machine() -> None:
    versions = "<version>18.6.0</version><version>odd</version><version> 17.1.0 </version>"
    text = f"<metadata><versioning><latest>1.1.1</latest><versions>{versions}</versions></versioning></metadata>"
    assert parse_list(text) == [Release(18, 6, 0), Release(17, 1, 0)]
    assert parse_list("<html><body/></html>") is None
    assert parse_list("nothing of the kind") is None
    odd = "".join(f"<version>{each}</version>" for each in (f"18.{'9' * 5_000}.0", "\u0663.1.0", "18.6.0"))
    assert parse_list(f"<metadata><versions>{odd}</versions></metadata>") == [Release(18, 6, 0)]
    # the time grows with the length: four nested searches over 4 MiB would take years
    assert parse_list("<metadata <versions></versions>" * 130_000) is None
    for machines, name in (("x86_64 AMD64", "linux-amd64"), ("aarch64 arm64", "linux-arm64v8")):
        assert {classifier("Linux", machine) for machine in machines.split()} == {name}
    for system, machine in (("Linux", "riscv64"), ("Darwin", "arm64")):
        with pytest.raises(TargetError, match=f"for {system} on {machine}") as caught:
            classifier(system, machine)
        assert 'kind = "local"' in str(caught.value.hint)


# ---- mirrors with malformed answers ----

PATIENCE = Patience(timeout_s=30, attempts=2, backoff_s=0)
DIGITS = "9" * 5_000
OK = "HTTP/1.1 200 OK\r\n"


@contextmanager
def mirror(*answers: str) -> Iterator[str]:
    """Yields the URL of a server that gives these answers, one for each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            # the client may leave early, or ask for fewer
            with suppress(OSError):
                for answer in answers:
                    connection, _ = listening.accept()
                    with connection:
                        connection.recv(65_536)
                        connection.sendall(answer.encode("latin-1"))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/x"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(30)


def redirect(location: str) -> list[str]:
    return [f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"]


FIRST = f"{OK}Content-Length: 100\r\n\r\nabc"
NEXT = f"HTTP/1.1 206 Partial\r\nContent-Range: bytes 3-9/{DIGITS}\r\nContent-Length: 3\r\n\r\nabc"


def test_malformed_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # a length of more digits than Python makes a number of
    with mirror(f"{OK}Content-Length: {DIGITS}\r\n\r\nabc") as address:
        assert fetch_text(address, PATIENCE) == "abc"
    for answers, message in (
        ([FIRST, NEXT, NEXT], "cannot fetch"),
        (redirect("http://[::1"), "cannot fetch {url}: "),
        (redirect(f"https://{'a' * 300}.example/"), "cannot fetch {url}: "),
        (redirect("https://\xad.x..y/"), "cannot fetch {url}: "),
        ([f"{OK}\r\n{'x' * 2_000}"], "more than the limit of"),
        ([f"{OK}Content-Length: 999999999999\r\n\r\n{'x' * 2_000}"], "more than the limit of"),
    ):
        monkeypatch.setattr(fetch_and_unpack, "MAX_ARCHIVE_BYTES", 1_000)
        with mirror(*answers) as url, pytest.raises(TargetError, match=message.format(url=url)):
            fetch_file(url, tmp_path / "file", PATIENCE, SilentProgress())
        assert list(tmp_path.iterdir()) == []
