"""Files that only the server's user may read."""

import os
from pathlib import Path

import pytest

from pgdyno.errors import TargetError
from pgdyno.targets.home import write_private
from pgdyno.targets.server_user import Account, Relation, find_account


def test_it_is_private_and_replaces_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "password"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("kept")
    path.symlink_to(elsewhere)
    before = os.umask(0)
    try:
        write_private(path, "secret\n", find_account())
    finally:
        os.umask(before)
    assert (path.read_text(), path.stat().st_mode & 0o777, path.is_symlink()) == ("secret\n", 0o600, False)
    assert path.stat().st_uid == find_account().uid
    assert elsewhere.read_text() == "kept"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["elsewhere", "password"]


def test_a_reader_may_delete_the_file_as_soon_as_it_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A standby deletes its trigger file when it sees it: the file has to be complete by then."""
    path = tmp_path / "promote"
    chown = os.chown

    def consumed(*args: object, **_: object) -> None:
        path.unlink(missing_ok=True)
        chown(args[0], -1, -1)  # type: ignore[arg-type]

    for name in ("chown", "fchown", "chmod", "fchmod"):
        monkeypatch.setattr(os, name, consumed)
    write_private(path, "", Account("nobody", os.getuid(), os.getgid(), Relation.OTHER))
    assert path.exists()


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"cannot write .*gone/password: no such file"):
        write_private(tmp_path / "gone" / "password", "secret", find_account())
