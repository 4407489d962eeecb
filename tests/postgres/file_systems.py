"""A file system in a file, mounted for one test."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SIZE_BYTES = 600 << 20
"""The file is sparse, so that unused space takes no room. XFS needs at least 300 MB."""


class MountError(Exception):
    """This machine cannot create or mount such a file system."""


@contextmanager
def file_system(kind: str, folder: Path) -> Iterator[Path]:
    """Mounts a new file system below `folder` until the block ends. Raises MountError."""
    if os.geteuid() != 0:
        raise MountError("only root may mount")
    if shutil.which(f"mkfs.{kind}") is None:
        raise MountError(f"there is no mkfs.{kind}")
    image, place = folder / f"{kind}.img", folder / kind
    with image.open("wb") as file:
        file.truncate(SIZE_BYTES)
    place.mkdir()
    _run(f"mkfs.{kind}", str(image))
    _run("mount", "-t", kind, "-o", "loop", str(image), str(place))
    try:
        place.chmod(0o755)
        yield place
    finally:
        _run("umount", str(place))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MountError(f"{' '.join(command)} failed: {done.stderr.strip()}")
