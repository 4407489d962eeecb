"""Files that commands write for people."""

from __future__ import annotations

from pathlib import Path

from pgdyno.errors import StoreError


def write_report_file(path: Path, content: str | bytes) -> None:
    """Writes `content` to `path`, whole or not at all. Raises StoreError with the reason."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise StoreError(f"cannot write {path}: {error.strerror}", hint="choose another place for it") from error
