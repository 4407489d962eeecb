"""The end of a process while a thread still connects, or still works."""

import subprocess
import sys

import pytest

PROGRAM = """
import atexit, sys, threading
from pgdyno.signals_and_exit import CONNECT_THREAD, leave
threading.Thread(target=threading.Event().wait, name=CONNECT_THREAD if {connects} else "other", daemon=True).start()
atexit.register(print, "cleaned up")
print("kept")
leave(7)
"""


@pytest.mark.parametrize("connects", [True, False])
def test_a_thread_that_connects_changes_only_how_the_process_exits(connects: bool) -> None:
    argv = [sys.executable, "-c", PROGRAM.format(connects=connects)]
    ended = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "kept\ncleaned up\n", "")


WORKS = """
import atexit, threading, time
from pgdyno.signals_and_exit import leave
def work():
    time.sleep(0.2)
    print("worked")
threading.Thread(target=work).start()
atexit.register(print, "cleaned up")
leave(7)
"""


def test_a_thread_that_is_no_daemon_ends_before_the_process() -> None:
    ended = subprocess.run([sys.executable, "-c", WORKS], check=False, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "worked\ncleaned up\n", "")
