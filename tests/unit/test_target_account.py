"""Users under which servers run, how they are chosen, and files that only they may read."""

import os
import tempfile
from pathlib import Path

import pytest

from pgdyno.errors import TargetError
from pgdyno.targets.home import write_private
from pgdyno.targets.server_user import Account, Relation, find_account

OTHER = Account("other", 4_000_000, 4_000_000, Relation.OTHER)


def test_an_ordinary_user_is_itself_and_root_gives_way_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    daemon = {"PGDYNO_SERVER_USER": "daemon"}
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    account = find_account(daemon)
    assert (account.name, account.uid, account.relation) == ("4000000", 4_000_000, Relation.SAME)
    assert account.popen_user() == {}
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    account = find_account({})
    assert (account.name, account.uid == 0) == ("nobody", False)
    assert account.popen_user() == {"user": account.uid, "group": account.gid, "extra_groups": []}
    assert find_account(daemon).name == "daemon"
    for name, reason in (("root", "PostgreSQL refuses to run as root"), ("no-such-user", "there is no such user")):
        with pytest.raises(TargetError) as caught:
            find_account({"PGDYNO_SERVER_USER": name})
        assert caught.value.message == f"cannot run servers as user {name}: {reason}"
        assert "PGDYNO_SERVER_USER" in str(caught.value.hint)


def test_closed_folders_on_the_way() -> None:
    own = Account("own", os.geteuid(), os.getegid(), Relation.SAME)
    # pytest's folders are closed to others
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        outer = Path(name)
        inner = outer / "inner"
        inner.mkdir(0o700)
        assert OTHER.blocked_at(inner / "file") == outer
        outer.chmod(0o755)
        assert OTHER.blocked_at(inner / "file") == inner
        assert OTHER.blocked_at(inner) is None
        assert OTHER.can_traverse(outer)
        assert not OTHER.can_traverse(inner)
        assert own.blocked_at(inner / "file") is None


def test_groups_and_owners_have_rights_of_their_own(tmp_path: Path) -> None:
    tmp_path.chmod(0o710)
    assert Account("peer", 4_000_000, tmp_path.stat().st_gid, Relation.OTHER).can_traverse(tmp_path)
    assert not OTHER.can_traverse(tmp_path)
    tmp_path.chmod(0o077)
    assert not Account("own", tmp_path.stat().st_uid, 1, Relation.OTHER).can_traverse(tmp_path)
    tmp_path.chmod(0o700)
    path = tmp_path / "program"
    path.touch(0o744)
    assert not OTHER.can_execute(path)
    path.chmod(0o745)
    assert OTHER.can_execute(path)
    assert not OTHER.can_execute(tmp_path)


def test_a_private_file_replaces_what_is_there(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "password", tmp_path / "elsewhere"
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
    with pytest.raises(TargetError, match=r"cannot write .*gone/password: no such file"):
        write_private(tmp_path / "gone" / "password", "secret", find_account())


def test_a_reader_may_delete_a_private_file_as_soon_as_it_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
