"""What watchers may ask of a run, and which runs are going on.

`.control/` exists while a run with `--live` is in progress; only the run's user can write there. A request is a file
that is created atomically; the run removes it after reading it.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import stat
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.messages import Message
from pgdyno.report.run_events import MarkedMoment
from pgdyno.store.run_folder import LOCK

LOCKS = Path("/proc/locks")


def is_running(run: Path) -> bool:
    """Return whether a pgdyno works on the folder `run`, by the kernel's list of locks."""
    try:
        inode = (run / LOCK).stat().st_ino
        lines = LOCKS.read_text().splitlines()
    except OSError:
        return False
    # 1: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF, with -> for a process that waits
    held = (line.split() for line in lines if "->" not in line)
    return any(len(words) > 5 and words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(inode) for words in held)


CONTROL = ".control"
LOOK_S = 0.2
LONGEST = 200
"""Characters of a mark's label."""
NOT_HERE = "this run accepts no requests"


class Ask(StrEnum):
    MARK = "mark"
    STOP_AFTER = "stop-after"
    STOP_NOW = "stop-now"


def can_ask(run: Path) -> bool:
    """Return whether the run is in progress, was started with `--live`, and by this user."""
    try:
        found = (run / CONTROL).lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and is_running(run)


def ask(run: Path, what: Ask, text: str = "") -> None:
    """Send a request to the run at `run`. Raises UsageError if it accepts none."""
    if not can_ask(run):
        raise UsageError(NOT_HERE, hint="it has ended, or was not started with --live by the user who runs this server")
    name = f"{time.time_ns()}-{secrets.token_hex(4)}"
    partial = run / CONTROL / f".{name}"
    try:
        partial.write_text(json.dumps({"what": what.value, "text": text[:LONGEST], "wall_us": time.time_ns() // 1000}))
        partial.rename(run / CONTROL / name)
    except OSError as error:
        raise UsageError(NOT_HERE, hint="it has ended") from error


class Control:
    """The run's side: a thread that reads requests."""

    def __init__(self, folder: Path, tell: Callable[[str, str], None]) -> None:
        """Use `open` instead."""
        self._folder = folder
        self._tell = tell
        self._lock = threading.Lock()
        self._marks: list[MarkedMoment] = []
        self._stop: Message | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, name="control", daemon=True)

    @classmethod
    def open(cls, run: Path, tell: Callable[[str, str], None]) -> Control | None:
        """Accept requests for the run; `tell` receives each, with its kind. None if the folder cannot be created."""
        folder = run / CONTROL
        try:
            # left by a killed run
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
        except OSError:
            return None
        control = cls(folder, tell)
        control._thread.start()
        return control

    @property
    def stop_wanted(self) -> Message | None:
        """Return why there should be no further trial."""
        return self._stop

    def marks(self) -> list[MarkedMoment]:
        """Return the moments marked since the last call."""
        with self._lock:
            marks, self._marks = self._marks, []
        return marks

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _look(self) -> None:
        while not self._ended.wait(LOOK_S):
            with suppress(OSError):
                for path in sorted(self._folder.iterdir()):
                    if not path.name.startswith("."):
                        self._take(path)

    def _take(self, path: Path) -> None:
        try:
            own = path.lstat().st_uid == os.geteuid()
            asked = json.loads(path.read_bytes()) if own else {}
            what, text, wall_us = Ask(asked["what"]), str(asked["text"])[:LONGEST], int(asked["wall_us"])
        except (OSError, ValueError, KeyError, TypeError):
            return
        finally:
            path.unlink(missing_ok=True)
        if what is Ask.MARK:
            with self._lock:
                self._marks.append(MarkedMoment(wall_us, text))
            self._tell("mark", text)
        elif what is Ask.STOP_AFTER:
            self._stop = Message("stop-requested", "requested on the live page")
            self._tell("note", "stops after this trial: requested on the live page")
        else:
            self._tell("note", "stops now: requested on the live page")
            _interrupt()


def _interrupt() -> None:
    """End the run as Ctrl-C does; as SIGTERM does if SIGINT is ignored, as in the background of a script."""
    ignored = signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None)
    thread = threading.main_thread().ident
    assert thread is not None
    # send it to that thread, which may be waiting for the engine
    signal.pthread_kill(thread, signal.SIGTERM if ignored else signal.SIGINT)
