"""Writes the files that commands create for users."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pgdyno.errors import StoreError
from pgdyno.store.remote.address import Address, is_remote
from pgdyno.store.storing import open_new
from pgdyno.terminal import visible


def write_report_file(path: Path, content: str | bytes) -> None:
    """Writes `content` to `path` atomically. Raises StoreError with the reason."""
    write_pieces(path, [_bytes(content)])


def _bytes(content: str | bytes) -> bytes:
    """Escapes control characters as on a terminal, so that printing the file is safe."""
    return visible(content).encode() if isinstance(content, str) else content


def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Writes `pieces` to `path` atomically without holding all of them in memory.

    Raises StoreError with the reason.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open_new(partial) as file:
            file.writelines(pieces)
        partial.replace(path)
    except OSError as error:
        raise StoreError(
            f"cannot write {path}: {(error.strerror or str(error)).lower()}", hint="choose another path"
        ) from error
    finally:
        partial.unlink(missing_ok=True)


def write_report_at(place: str, content: str | bytes) -> None:
    """Writes `content` to `place`, a path or an address of object storage. Raises StoreError and UsageError."""
    if not is_remote(place):
        write_report_file(Path(place).expanduser(), content)
        return
    from pgdyno.store.remote.objects import write

    write(_bytes(content), Address.of(place))


def below(place: str, name: str) -> str:
    """Returns the location of `name` in the folder at `place`."""
    return str(Address.of(place) / name) if is_remote(place) else str(Path(place) / name)
