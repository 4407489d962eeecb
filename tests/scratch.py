"""Folders for clusters of tests.

Tests create and remove thousands of files each second. ext4 without a journal, which virtual machines often have, gives
no inode again for minutes, and reads all of these before it finds another one near the folder: then a copy of a cluster
takes ten times as long as elsewhere. In `spread` folders, each subfolder begins in another part of the disk.
"""

import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

PARENT = Path(f"/tmp/pgdyno-tests-{os.geteuid()}")


def scratch_folder() -> Path:
    """Creates a folder with a short path that every user can access; pytest's own folders are closed to others."""
    PARENT.mkdir(mode=0o755, exist_ok=True)
    PARENT.chmod(0o755)
    spread(PARENT)
    folder = Path(tempfile.mkdtemp(dir=PARENT))
    folder.chmod(0o755)
    return folder


def spread(folder: Path) -> None:
    with suppress(FileNotFoundError):
        subprocess.run(["chattr", "+T", str(folder)], capture_output=True, check=False)
