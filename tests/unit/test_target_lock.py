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
from tests.present import present


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


def test_the_second_is_refused_or_measures_alongside(tmp_path: Path) -> None:
    with another(tmp_path) as pid:
        first = f"another pgdyno is measuring on this host: process {pid}, plan first"
        refused = pytest.raises(TargetError, match=f"{first}, since 20")
        with refused as caught, host_in_use(Use("second"), SilentProgress(), tmp_path):
            pass
        assert caught.value.exit_code is ExitCode.TARGET
        assert caught.value.hint == "wait for it with --wait, or measure anyway with --alongside"
        with host_in_use(Use("second", WhenBusy.ALONGSIDE), SilentProgress(), tmp_path) as note:
            assert present(note).id == "alongside-on-host"
            assert str(note).startswith(f"measured alongside: {first}")
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


def test_a_lock_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("kept")
    (tmp_path / FILE).symlink_to(elsewhere)
    missing = tmp_path / "missing"
    for folder in (tmp_path, missing):
        cannot = pytest.raises(TargetError, match="cannot open the lock")
        with cannot as caught, host_in_use(Use(), SilentProgress(), folder):
            pass
    assert caught.value.hint == f"create the folder {missing}, or set PGDYNO_LOCKS to another one"
    assert elsewhere.read_text() == "kept"
    monkeypatch.setenv("PGDYNO_LOCKS", str(tmp_path))
    assert lock_folder() == tmp_path
    monkeypatch.delenv("PGDYNO_LOCKS")
    assert lock_folder().is_dir()
