"""Files that commands write for people."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pgdyno.errors import StoreError
from pgdyno.store.remote.address import Address, is_remote
from pgdyno.store.storing import open_new
from pgdyno.terminal import visible


def write_report_file(path: Path, content: str | bytes) -> None:
    """Writes `content` to `path`, whole or not at all. Raises StoreError with the reason."""
    write_pieces(path, [_bytes(content)])


def _bytes(content: str | bytes) -> bytes:
    """Text goes out as it goes to a terminal: whoever prints the file is not steered by it."""
    return visible(content).encode() if isinstance(content, str) else content


def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Writes `pieces` to `path`, whole or not at all: they may be large, and are never in memory together.

    Raises StoreError with the reason.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open_new(partial) as file:
            file.writelines(pieces)
        partial.replace(path)
    except OSError as error:
        raise StoreError(
            f"cannot write {path}: {(error.strerror or str(error)).lower()}", hint="choose another place for it"
        ) from error
    finally:
        partial.unlink(missing_ok=True)


def write_report_at(place: str, content: str | bytes) -> None:
    """Likewise, where `place` may be an address of object storage, too. Raises StoreError and UsageError."""
    if not is_remote(place):
        write_report_file(Path(place).expanduser(), content)
        return
    from pgdyno.store.remote.objects import write

    write(_bytes(content), Address.of(place))


def below(place: str, name: str) -> str:
    """What is called `name` in the folder at `place`."""
    return str(Address.of(place) / name) if is_remote(place) else str(Path(place) / name)
