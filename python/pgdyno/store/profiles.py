"""The profiles of a run: folded stacks, which other tools for flame graphs read as well."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from pgdyno.errors import StoreError
from pgdyno.records.manifest import MOST_SAMPLES, ProfileRecord
from pgdyno.store.safe_files import DAMAGED, NO_LINKS, open_regular, store_errors, sync, write_durably

FOLDER = "profiles"
MOST_BYTES = 64 << 20
DEEPEST_STACK = LONGEST_NAME = 200
"""Limits on a profile's file, which may come from elsewhere."""

Stacks = Mapping[str, int]
"""Samples by stack; the frames of a stack are separated by semicolons, the outermost first."""


def keep_profile(run: Path, name: str, stacks: Stacks) -> str:
    """Write `stacks` as `profiles/NAME.folded` of the run folder `run`, and return that path. Raises StoreError."""
    folder = run / FOLDER
    content = "".join(f"{stack} {count}\n" for stack, count in sorted(stacks.items()))
    with store_errors("write", folder):
        folder.mkdir(exist_ok=True)
        write_durably(folder / f"{name}.folded", content.encode("utf-8", "replace"))
        sync(folder)
    return f"{FOLDER}/{name}.folded"


def read_profile(run: Path, profile: ProfileRecord) -> Counter[str] | None:
    """Return the stacks of `profile`; None if somebody removed the file. Raises StoreError."""
    # the manifest may name a path outside the run folder
    folder = run / FOLDER
    path = folder / Path(profile.file).name
    if folder.is_symlink():
        raise StoreError(f"cannot read {folder}: it is a symbolic link", hint=NO_LINKS)
    if not path.exists() and not path.is_symlink():
        return None
    with store_errors("read", path), open_regular(path) as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise StoreError(f"cannot read {path}: it is larger than {MOST_BYTES >> 20} MiB", hint=DAMAGED)
    found: Counter[str] = Counter()
    for number, line in enumerate(content.decode("utf-8", "replace").split("\n"), start=1):
        stack, _, count = line.rpartition(" ")
        if not line:
            continue
        if not stack or not count.isascii() or not count.isdecimal() or not 0 < len(count) <= len(str(MOST_SAMPLES)):
            raise StoreError(f"cannot read {path}: line {number} is not a stack and a number", hint=DAMAGED)
        frames = stack.split(";", DEEPEST_STACK)[:DEEPEST_STACK]
        found[";".join(frame[:LONGEST_NAME] for frame in frames)] += int(count)
    return found if found.total() else None
