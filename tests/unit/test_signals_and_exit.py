"""The end of a process while a thread still connects, or still works."""

import subprocess
import sys

import pytest

PROGRAM = """
import atexit, threading, time
from pgdyno.signals_and_exit import CONNECT_THREAD, leave
def work():
    time.sleep(0.2)
    print("worked")
threading.Thread({thread}).start()
atexit.register(print, "cleaned up")
print("kept")
leave(7)
"""


@pytest.mark.parametrize(
    ("thread", "said"),
    [
        ("target=threading.Event().wait, daemon=True, name=CONNECT_THREAD", "kept\ncleaned up\n"),
        ("target=threading.Event().wait, daemon=True", "kept\ncleaned up\n"),
        # one that is no daemon ends before the process
        ("target=work", "kept\nworked\ncleaned up\n"),
    ],
)
def test_a_thread_that_connects_changes_only_how_the_process_exits(thread: str, said: str) -> None:
    argv = [sys.executable, "-c", PROGRAM.format(thread=thread)]
    ended = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, said, "")
