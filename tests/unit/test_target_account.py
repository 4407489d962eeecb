"""Users under which servers run, and the ways in which they are chosen."""

import os
import tempfile
from pathlib import Path

import pytest

from pgdyno.errors import TargetError
from pgdyno.targets.server_user import Account, Relation, find_account

OTHER = Account("other", 4_000_000, 4_000_000, Relation.OTHER)


def test_an_ordinary_user_is_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    account = find_account({"PGDYNO_SERVER_USER": "daemon"})
    assert (account.name, account.uid, account.relation) == ("4000000", 4_000_000, Relation.SAME)
    assert account.popen_user() == {}


def test_root_gives_way_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    account = find_account({})
    assert account.name == "nobody"
    assert account.uid != 0
    assert account.popen_user() == {"user": account.uid, "group": account.gid, "extra_groups": []}
    assert find_account({"PGDYNO_SERVER_USER": "daemon"}).name == "daemon"


@pytest.mark.parametrize(
    ("name", "reason"), [("root", "PostgreSQL refuses to run as root"), ("no-such-user", "there is no such user")]
)
def test_users_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch, name: str, reason: str) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(TargetError) as caught:
        find_account({"PGDYNO_SERVER_USER": name})
    assert caught.value.message == f"cannot run servers as user {name}: {reason}"
    assert caught.value.hint is not None
    assert "PGDYNO_SERVER_USER" in caught.value.hint


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


def test_groups_count(tmp_path: Path) -> None:
    tmp_path.chmod(0o710)
    peer = Account("peer", 4_000_000, tmp_path.stat().st_gid, Relation.OTHER)
    assert peer.can_traverse(tmp_path)
    assert not OTHER.can_traverse(tmp_path)
    # who owns it is held to the owner's rights
    tmp_path.chmod(0o077)
    assert not Account("own", tmp_path.stat().st_uid, 1, Relation.OTHER).can_traverse(tmp_path)
    tmp_path.chmod(0o700)


def test_executable_files(tmp_path: Path) -> None:
    path = tmp_path / "program"
    path.write_text("")
    path.chmod(0o744)
    assert not OTHER.can_execute(path)
    path.chmod(0o745)
    assert OTHER.can_execute(path)
    assert not OTHER.can_execute(tmp_path)
