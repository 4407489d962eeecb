"""Two pgdyno processes on one host: the second reports the first, waits for it, or measures alongside it."""

import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode, TargetError
from pgdyno.targets import SilentProgress, Use, WhenBusy, host_in_use
from pgdyno.targets import lock as lock_module
from pgdyno.targets.lock import FILE, lock_folder


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "POLL_S", 0.01)


class Told(SilentProgress):
    def __init__(self) -> None:
        self.said: list[str] = []

    def step(self, text: str) -> None:
        self.said.append(text)


@contextmanager
def another(folder: Path, plan: str = "first") -> Iterator[int]:
    """Starts another process that measures, and yields its PID."""
    ready, release = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        with host_in_use(Use(plan), SilentProgress(), folder):
            os.write(ready[1], b"x")
            os.close(release[1])
            os.read(release[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    try:
        yield pid
    finally:
        os.close(release[1])
        os.waitpid(pid, 0)


def test_a_process_alone_on_the_host_reports_nothing(tmp_path: Path) -> None:
    for _ in range(2):
        with host_in_use(Use("mine"), SilentProgress(), tmp_path) as note:
            assert note is None
    assert (tmp_path / FILE).read_text() == ""
    # every user of the host must be able to hold it
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o666


def test_the_second_is_refused_and_told_of_the_first(tmp_path: Path) -> None:
    with (
        another(tmp_path) as pid,
        pytest.raises(TargetError, match=f"on this host: process {pid}, plan first, since 20") as caught,
        host_in_use(Use("second"), SilentProgress(), tmp_path),
    ):
        pass
    assert caught.value.exit_code is ExitCode.TARGET
    assert caught.value.hint == "wait for it with --wait, or measure anyway with --alongside"


def test_the_second_measures_alongside(tmp_path: Path) -> None:
    with another(tmp_path) as pid, host_in_use(Use("second", WhenBusy.ALONGSIDE), SilentProgress(), tmp_path) as note:
        assert note is not None
        assert note.id == "alongside-on-host"
        assert str(note).startswith(
            f"measured alongside: another pgdyno is measuring on this host: process {pid}, plan first"
        )
        # a third process learns which one holds the lock
        assert f'"pid": {pid}' in (tmp_path / FILE).read_text()


def test_the_second_waits(tmp_path: Path) -> None:
    told = Told()
    entered = threading.Event()

    def second() -> None:
        with host_in_use(Use("second", WhenBusy.WAIT), told, tmp_path):
            entered.set()

    with another(tmp_path) as pid:
        thread = threading.Thread(target=second)
        thread.start()
        while not told.said:
            time.sleep(0.005)
        assert not entered.is_set()
    thread.join(timeout=120)
    assert entered.is_set()
    # once, not at every look
    assert told.said[0].startswith(f"waiting: another pgdyno is measuring on this host: process {pid}, plan first")
    assert len(told.said) <= 2


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    with another(tmp_path) as pid:
        os.kill(pid, 9)
        waiting = Use("second", WhenBusy.WAIT)
        with host_in_use(waiting, SilentProgress(), tmp_path) as note:
            assert note is None


def test_the_content_of_the_lock_file_is_not_trusted(tmp_path: Path) -> None:
    with another(tmp_path, plan="evil\x1b[2J"):
        with pytest.raises(TargetError, match=r"plan evil\?\[2J"), host_in_use(Use(), SilentProgress(), tmp_path):
            pass
        (tmp_path / FILE).write_text("{nonsense")
        with pytest.raises(TargetError, match="does not name it"), host_in_use(Use(), SilentProgress(), tmp_path):
            pass


def test_a_lock_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TargetError, match="cannot open the lock"), host_in_use(Use(), SilentProgress(), tmp_path):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_lock_in_a_missing_folder_asks_to_create_it(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    cannot = pytest.raises(TargetError, match="cannot open the lock")
    with cannot as raised, host_in_use(Use(), SilentProgress(), missing):
        pass
    assert raised.value.hint == f"create the folder {missing}, or set PGDYNO_LOCKS to another one"


def test_another_folder_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDYNO_LOCKS", str(tmp_path))
    assert lock_folder() == tmp_path
    monkeypatch.delenv("PGDYNO_LOCKS")
    assert lock_folder().is_dir()
