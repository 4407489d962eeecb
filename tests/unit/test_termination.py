"""Signals that arrive while Python drops exceptions, and the end of a process whose threads still work."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HEAD = """
import gc, os, signal, sys, threading, time, weakref
from pgdyno import __main__, cli

def strike():
    os.kill(os.getpid(), NUMBER)
    for _ in range(1000):
        pass

def wait():
    for _ in range(6000):
        time.sleep(0.01)
    print("went on")

def command():
    COMMAND

cli.app = lambda **_options: command()
__main__.main()
"""
SWALLOWED = {
    "a finalizer": """
    class Dying:
        def __del__(self):
            strike()
    Dying()""",
    "a weak reference's callback": """
    class Dying:
        pass
    dying = Dying()
    reference = weakref.ref(dying, lambda _: strike())
    del dying""",
    "a library that catches everything": """
    try:
        strike()
    except BaseException:
        pass""",
    "a library that makes it an error of its own": """
    try:
        try:
            strike()
        except BaseException:
            error = True
        if error:
            raise ValueError("query interrupted")
    except ValueError:
        pass""",
}


def run(command: str, number: signal.Signals, *before: str) -> subprocess.CompletedProcess[str]:
    code = command.replace("NUMBER", str(int(number)))
    argv = [*before, sys.executable, "-c", code]
    return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=Path("/"), timeout=120)


def run_command(body: str, number: signal.Signals, *before: str) -> subprocess.CompletedProcess[str]:
    return run(HEAD.replace("COMMAND", body.strip()), number, *before)


ALL = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda each: each.name)


@pytest.mark.long_cases(*(f"{name}-a {place}" for name in ("SIGINT", "SIGHUP") for place in ("weak", "library")))
@pytest.mark.parametrize("place", SWALLOWED)
@ALL
def test_a_swallowed_signal_is_sent_again(place: str, number: signal.Signals) -> None:
    done = run_command(f"{SWALLOWED[place]}\n    wait()", number)
    assert done.returncode == 128 + number, done.stderr
    assert "went on" not in done.stdout


IMPORTING = """
import os, signal, sys, time

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            try:
                os.kill(os.getpid(), NUMBER)
                for _ in range(1000):
                    pass
            except BaseException:
                pass
            for _ in range(6000):
                time.sleep(0.01)
            print("went on")

sys.meta_path.insert(0, Finder())
sys.argv = ["pgdyno", "--version"]
from importlib import metadata
(entry,) = metadata.entry_points(group="console_scripts", name="pgdyno")
entry.load()()
"""


@ALL
def test_a_signal_swallowed_during_imports_is_sent_again(number: signal.Signals) -> None:
    done = run(IMPORTING, number)
    assert (done.returncode, done.stdout) == (128 + number, "")
    assert "Traceback" not in done.stderr


SYNTAX_ERROR = """
    try:
        strike()
    except BaseException:
        error = True
    raise SyntaxError("can't load unicodedata module")"""
"""As of the compiler, when it imports unicodedata for a name in a string."""
SLOW_CLEAN_UP = """
    try:
        try:
            strike()
        finally:
            try:
                raise ValueError
            except ValueError:
                for _ in range(20):
                    time.sleep(0.1)
    finally:
        for _ in range(20):
            time.sleep(0.1)
        print("cleaned up")"""
DROPPED_IN_CLEAN_UP = """
    try:
        strike()
    finally:
        try:
            strike()
        except SystemExit:
            pass
        for _ in range(20):
            time.sleep(0.1)
        print("cleaned up")"""
SERVES = """
    try:
        strike()
    except KeyboardInterrupt:
        print("served")"""


@pytest.mark.parametrize(
    ("body", "number", "code", "output"),
    [
        pytest.param(SYNTAX_ERROR, signal.SIGINT, 130, "", id="an error caused by it is not reported"),
        pytest.param(SYNTAX_ERROR, signal.SIGTERM, 143, "", id="nor one caused by another"),
        pytest.param(SLOW_CLEAN_UP, signal.SIGTERM, 143, "cleaned up\n", id="a slow clean-up gets no second one"),
        pytest.param(DROPPED_IN_CLEAN_UP, signal.SIGTERM, 143, "cleaned up\n", id="a clean-up may drop another"),
        pytest.param(SERVES, signal.SIGINT, 0, "served\n", id="a command that ends by it as it should ends well"),
    ],
)
def test_a_signal_that_a_command_handles(body: str, number: signal.Signals, code: int, output: str) -> None:
    done = run_command(body, number)
    assert (done.returncode, done.stdout, done.stderr) == (code, output, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_that_is_ignored_stays_so(number: signal.Signals) -> None:
    ignoring = ("/bin/sh", "-c", f"trap '' {int(number)}; exec \"$@\"", "sh")
    done = run_command('strike(); print("went on")', number, *ignoring)
    assert (done.returncode, done.stdout) == (0, "went on\n")


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


def test_a_thread_that_connects_changes_only_how_the_process_exits() -> None:
    for thread, said in (
        ("target=threading.Event().wait, daemon=True, name=CONNECT_THREAD", "kept\ncleaned up\n"),
        ("target=threading.Event().wait, daemon=True", "kept\ncleaned up\n"),
        # one that is no daemon ends before the process
        ("target=work", "kept\nworked\ncleaned up\n"),
    ):
        argv = [sys.executable, "-c", PROGRAM.format(thread=thread)]
        ended = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=60)
        assert (ended.returncode, ended.stdout, ended.stderr) == (7, said, "")
