"""What those who watch may ask of a run: files in a folder of it that only its user can write to.

`.control/` is there while a run goes on that was started with `--live`. A request is a file that is put there whole;
the run removes it when it has seen it.
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
from pgdyno.live.running import is_running
from pgdyno.report.run_events import Mark

CONTROL = ".control"
LOOK_S = 0.2
LONGEST = 200
"""Characters of what a mark says."""
NOT_HERE = "this run takes no wishes"


class Ask(StrEnum):
    """What may be asked."""

    MARK = "mark"
    STOP_AFTER = "stop-after"
    STOP_NOW = "stop-now"


def can_ask(run: Path) -> bool:
    """Whether the run goes on, was started with `--live`, and by this user."""
    try:
        found = (run / CONTROL).lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and is_running(run)


def ask(run: Path, what: Ask, text: str = "") -> None:
    """Asks the run at `run`. Raises UsageError when it takes no wishes."""
    if not can_ask(run):
        raise UsageError(NOT_HERE, hint="it has ended, or was not started with --live by the user who serves this page")
    name = f"{time.time_ns()}-{secrets.token_hex(4)}"
    partial = run / CONTROL / f".{name}"
    try:
        partial.write_text(json.dumps({"what": what.value, "text": text[:LONGEST], "wall_us": time.time_ns() // 1000}))
        partial.rename(run / CONTROL / name)
    except OSError as error:
        raise UsageError(NOT_HERE, hint="it has ended") from error


class Control:
    """The run's side: a thread that looks for requests."""

    def __init__(self, folder: Path, tell: Callable[[str, str], None]) -> None:
        """Use `open`."""
        self._folder = folder
        self._tell = tell
        self._lock = threading.Lock()
        self._marks: list[Mark] = []
        self._stop: str | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, name="control", daemon=True)

    @classmethod
    def open(cls, run: Path, tell: Callable[[str, str], None]) -> Control | None:
        """Takes requests for the run; `tell` hears each, with its kind. None where the folder cannot be made."""
        folder = run / CONTROL
        try:
            # of a run that was killed
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
        except OSError:
            return None
        control = cls(folder, tell)
        control._thread.start()
        return control

    @property
    def stop_wanted(self) -> str | None:
        """Why there is to be no further trial."""
        return self._stop

    def marks(self) -> list[Mark]:
        """Moments marked since this was last asked."""
        with self._lock:
            marks, self._marks = self._marks, []
        return marks

    def close(self) -> None:
        """Takes no more."""
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
                self._marks.append(Mark(wall_us, text))
            self._tell("mark", text)
        elif what is Ask.STOP_AFTER:
            self._stop = "the live page asked for it"
            self._tell("note", "stops after this trial: the live page asked for it")
        else:
            self._tell("note", "stops now: the live page asked for it")
            _interrupt()


def _interrupt() -> None:
    """Ends the run as Ctrl-C does; as SIGTERM does where that is ignored, as in the background of a script."""
    ignored = signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None)
    thread = threading.main_thread().ident
    assert thread is not None
    # to that thread, which may be waiting for the engine to say something
    signal.pthread_kill(thread, signal.SIGTERM if ignored else signal.SIGINT)
