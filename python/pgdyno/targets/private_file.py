"""Files that only the server's user may read."""

from __future__ import annotations

import os
from pathlib import Path

from pgdyno.targets.home import storing
from pgdyno.targets.server_user import Account


def write_private(path: Path, text: str, account: Account) -> None:
    """Replaces `path` by a file with `text`: mode 0600, owned by `account`. Raises TargetError.

    The file appears when it is complete, because a server deletes its trigger file as soon as it sees it. It follows no
    link: the folder may belong to the server's user, and pgdyno may be root.
    """
    partial = path.with_name(f".{path.name}.partial")
    with storing(path, "cannot write"):
        partial.unlink(missing_ok=True)
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            account.take(handle)
        partial.replace(path)
