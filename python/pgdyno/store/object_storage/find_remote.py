"""Find objects and runs on object storage: by patterns, and in folders."""

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

from pgdyno.errors import StoreError
from pgdyno.store.object_storage import objects
from pgdyno.store.object_storage.address import WILD, Address
from pgdyno.store.run_folder import MANIFEST, TRIALS


def matching_objects(text: str) -> list[str]:
    """Return addresses of the objects that match the address or pattern `text`. Raises StoreError and UsageError."""
    if WILD.search(text) is None:
        return [text]
    found = _match_pattern(text, objects.files)
    if not found:
        raise StoreError(f"nothing matches {text}")
    return found


def several_runs(text: str) -> list[str] | None:
    """Return the runs of a pattern or a folder; None for a run."""
    if WILD.search(text) is not None:
        return _match_pattern(text, objects.folders)
    at = Address.parse(text)
    if at.key and objects.find_object(at / MANIFEST) is not None:
        return None
    names = objects.folders(at)
    if TRIALS in names:
        # a run without its manifest: its reader reports that
        return None
    return [str(at / name) for name in names if not name.startswith(".")]


def _match_pattern(text: str, last: Callable[[Address], list[str]]) -> list[str]:
    at = Address.parse(text)
    *levels, final = at.key.split("/")
    found = [Address(at.bucket, "", at.scheme)]
    for level in levels:
        found = [below for each in found for below in _level(each, level, objects.folders)]
    return [str(below) for each in found for below in _level(each, final, last)]


def _level(at: Address, pattern: str, names: Callable[[Address], list[str]]) -> Iterable[Address]:
    wild = WILD.search(pattern)
    if wild is None and names is objects.folders:
        # it may not exist: the listing shows that
        return [at / pattern]
    return [at / name for name in names(at) if fnmatchcase(name, pattern) and (pattern[0] == "." or name[0] != ".")]
