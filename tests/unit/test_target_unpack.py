"""Archives, valid and invalid."""

import io
import re
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from pgdyno.errors import TargetError
from pgdyno.targets.embedded import fetch_and_unpack
from pgdyno.targets.embedded.fetch_and_unpack import unpack_archive

Fill = Callable[[tarfile.TarFile], None]


def add_file(inner: tarfile.TarFile, name: str, content: bytes = b"content", mode: int = 0o600) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    inner.addfile(member, io.BytesIO(content))


def add_link(inner: tarfile.TarFile, name: str, to: str, kind: bytes = tarfile.SYMTYPE) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, to
    inner.addfile(member)


def archive(folder: Path, fill: Fill, *names: str) -> Path:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as inner:
        fill(inner)
    path = folder / "server.jar"
    with zipfile.ZipFile(path, "w") as outer:
        for name in names or ["postgres.txz"]:
            outer.writestr(name, packed.getvalue())
    return path


def test_files_folders_and_links(tmp_path: Path) -> None:
    def fill(inner: tarfile.TarFile) -> None:
        # links may come before what they lead to, files before their folders
        add_link(inner, "lib/libpq.so", "libpq.so.5")
        add_file(inner, "bin/postgres", b"#!", 0o700)
        add_file(inner, "lib/libpq.so.5", b"library")
        add_link(inner, "lib/again", "lib/libpq.so.5", tarfile.LNKTYPE)
        add_link(inner, "share/lib", "../lib")

    unpack_archive(archive(tmp_path, fill), tmp_path / "server")
    server = tmp_path / "server"
    assert (server / "lib" / "libpq.so").read_bytes() == b"library"
    assert (server / "share" / "lib" / "again").read_bytes() == b"library"
    # everybody may read and run them: servers may run as another user
    modes = [(server / name).stat().st_mode & 0o777 for name in ("bin/postgres", "lib/libpq.so.5", "bin", ".")]
    assert modes == [0o755, 0o644, 0o755, 0o755]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["server", "server.jar"]


def escaping_twice(inner: tarfile.TarFile) -> None:
    # each stays inside when its name alone is looked at
    add_file(inner, "a/b/file")
    add_link(inner, "a/b/up", "../..")
    add_link(inner, "out", "a/b/up/..")


def writing_through_a_link(inner: tarfile.TarFile) -> None:
    add_link(inner, "lib", "../..")
    add_file(inner, "lib/escaped")


def looping(inner: tarfile.TarFile) -> None:
    add_link(inner, "a", "b")
    add_link(inner, "b", "a")


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


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        (lambda inner: add_file(inner, "../escaped"), "../escaped would be outside"),
        (lambda inner: add_file(inner, "/tmp/escaped"), "/tmp/escaped would be outside"),
        (lambda inner: add_link(inner, "out", "/etc"), "the link out points outside, to /etc"),
        (lambda inner: add_link(inner, "out", "../../escaped"), "the link out points outside"),
        (escaping_twice, "the link out points outside, to a/b/up/.."),
        (writing_through_a_link, "file exists"),
        (lambda inner: add_link(inner, "out", "../escaped", tarfile.LNKTYPE), "../escaped would be outside"),
        (lambda inner: add_link(inner, "pipe", "", tarfile.FIFOTYPE), "pipe is neither file, folder nor link"),
        (looping, "symlink loop"),
        (with_nul, "embedded null"),
        (sparse, "sparse is neither file, folder nor link"),
        (lambda inner: add_file(inner, "large", bytes(200_000)), "it is larger than 100.0 KiB"),
    ],
)
def test_entries_that_lead_outside_or_have_no_end_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fill: Fill, message: str
) -> None:
    monkeypatch.setattr(fetch_and_unpack._Bounded, "_left", 100 * 1024)
    monkeypatch.setattr(fetch_and_unpack, "MAX_UNPACKED_BYTES", 100 * 1024)
    path = archive(tmp_path, fill)
    with pytest.raises(TargetError, match=re.escape(message)):
        unpack_archive(path, tmp_path / "inside" / "server")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["inside", "server.jar"]
    assert list((tmp_path / "inside").iterdir()) == []


def add_f(inner: tarfile.TarFile) -> None:
    add_file(inner, "f")


def not_a_tar(folder: Path) -> None:
    with zipfile.ZipFile(folder / "server.jar", "w") as outer:
        outer.writestr("postgres.txz", b"not a tar")


def changed_header(offset: int, value: int, folder: Path) -> None:
    path = archive(folder, add_f)
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\3\4") + offset] = value
    content[content.index(b"PK\1\2") + offset + 2] = value
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda folder: (folder / "server.jar").write_bytes(b"not a zip"), ""),
        (not_a_tar, ""),
        (partial(changed_header, 6, 1), "encrypted"),
        (partial(changed_header, 8, 97), "compression"),
        (lambda folder: zipfile.ZipFile(folder / "server.jar", "w").close(), "0 archives of a server inside"),
        (lambda folder: archive(folder, add_f, "a.txz", "b.txz"), "2 archives of a server inside instead of one"),
    ],
)
def test_archives_that_cannot_be_read(tmp_path: Path, write: Callable[[Path], object], message: str) -> None:
    write(tmp_path)
    with pytest.raises(TargetError, match=f"cannot unpack {tmp_path}/server.jar: .*{message}"):
        unpack_archive(tmp_path / "server.jar", tmp_path / "server")
    assert [each.name for each in tmp_path.iterdir()] == ["server.jar"]
