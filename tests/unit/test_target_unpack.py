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


@pytest.mark.parametrize(
    ("fill", "message"),
    [
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
    ],
)
def test_entries_that_lead_outside_or_have_no_end_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fill: Fill | str, message: str
) -> None:
    monkeypatch.setattr(fetch_and_unpack._Bounded, "_left", 100 * 1024)
    monkeypatch.setattr(fetch_and_unpack, "MAX_UNPACKED_BYTES", 100 * 1024)
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


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda folder: (folder / "server.jar").write_bytes(b"not a zip"), ""),
        (not_a_tar, ""),
        (partial(changed_header, 6, 1), "encrypted"),
        (partial(changed_header, 8, 97), "compression"),
        (lambda folder: zipfile.ZipFile(folder / "server.jar", "w").close(), "0 archives of a server inside"),
        (lambda folder: archive(folder, "f", "a.txz", "b.txz"), "2 archives of a server inside instead of one"),
    ],
)
def test_archives_that_cannot_be_read(tmp_path: Path, write: Callable[[Path], object], message: str) -> None:
    write(tmp_path)
    with pytest.raises(TargetError, match=f"cannot unpack {tmp_path}/server.jar: .*{message}"):
        unpack_archive(tmp_path / "server.jar", tmp_path / "server")
    assert [each.name for each in tmp_path.iterdir()] == ["server.jar"]
