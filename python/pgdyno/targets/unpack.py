"""An archive of a server unpacked whole, or not at all.

The archive is a zip with one xz-compressed tar inside. Nothing of it may land, or point, outside of its
folder: names are checked before anything is written, and links are made only when all files are, so that
nothing is ever written through one.
"""

from __future__ import annotations

import lzma
import os
import secrets
import shutil
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

from pgdyno.errors import TargetError
from pgdyno.targets.storage import ensure_folder, storage_error


def unpack_archive(archive: Path, folder: Path) -> None:
    """Unpacks `archive` as `folder`, which appears when all is there.

    Files are readable and folders traversable by everybody: servers may run as another user.
    Raises TargetError when the archive is broken or unsafe, or there is no space.
    """
    ensure_folder(folder.parent)
    beside = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    try:
        _unpack(archive, beside)
        beside.rename(folder)
    except (zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise TargetError(f"cannot unpack {archive}: {str(error).lower() or 'it ends too early'}") from error
    except OSError as error:
        raise storage_error(error, folder, "cannot unpack a server into") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _unpack(archive: Path, folder: Path) -> None:
    folder.mkdir(0o755)
    folder.chmod(0o755)
    root = folder.resolve()
    with zipfile.ZipFile(archive) as outer:
        names = [name for name in outer.namelist() if name.endswith(".txz")]
        if len(names) != 1:
            raise TargetError(f"cannot unpack {archive}: {len(names)} archives of a server inside instead of one")
        with outer.open(names[0]) as packed, tarfile.open(fileobj=packed, mode="r|xz") as inner:
            links = [member for member in inner if not _write(inner, member, root, archive)]
    _make_links(links, root, archive)


def _write(inner: tarfile.TarFile, member: tarfile.TarInfo, root: Path, archive: Path) -> bool:
    """Writes a folder or file; False for a link, which comes later."""
    path = _inside(member.name, root, archive)
    if member.isdir():
        _make_folders(path, root)
    elif member.isfile():
        _make_folders(path.parent, root)
        content = inner.extractfile(member)
        assert content is not None  # regular files always have content
        with content, path.open("xb") as file:
            shutil.copyfileobj(content, file)
        path.chmod(0o755 if member.mode & 0o100 else 0o644)
    elif member.issym() or member.islnk():
        return False
    else:
        raise TargetError(f"cannot unpack {archive}: {member.name} is neither file, folder nor link")
    return True


def _make_links(links: list[tarfile.TarInfo], root: Path, archive: Path) -> None:
    for link in (each for each in links if each.islnk()):
        path = _inside(link.name, root, archive)
        _make_folders(path.parent, root)
        os.link(_inside(link.linkname, root, archive), path, follow_symlinks=False)
    symbolic = [(_inside(each.name, root, archive), each) for each in links if each.issym()]
    for path, _ in symbolic:
        _make_folders(path.parent, root)
    for path, link in symbolic:
        if path.parent.resolve() != path.parent:
            raise TargetError(f"cannot unpack {archive}: {link.name} lies behind a link")
        path.symlink_to(link.linkname)
    # where links lead is asked of the file system, when all are there: they may pass through each other
    for path, link in symbolic:
        if not path.resolve().is_relative_to(root):
            raise TargetError(f"cannot unpack {archive}: the link {link.name} leads outside, to {link.linkname}")


def _make_folders(path: Path, root: Path) -> None:
    for folder in reversed([path, *path.parents]):
        if folder.is_relative_to(root) and not folder.is_dir():
            folder.mkdir()
            folder.chmod(0o755)


def _inside(name: str, root: Path, archive: Path) -> Path:
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts:
        raise TargetError(f"cannot unpack {archive}: {name} would land outside of its folder")
    return root / pure
