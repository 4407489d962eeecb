"""Signals that arrive while Python drops exceptions: none is lost."""

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
    Dying()
    wait()""",
    "a weak reference's callback": """
    class Dying:
        pass
    dying = Dying()
    reference = weakref.ref(dying, lambda _: strike())
    del dying
    wait()""",
    "a library that catches everything": """
    try:
        strike()
    except BaseException:
        pass
    wait()""",
    "a library that makes it an error of its own": """
    try:
        try:
            strike()
        except BaseException:
            error = True
        if error:
            raise ValueError("query interrupted")
    except ValueError:
        wait()""",
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("place", SWALLOWED)
def test_a_swallowed_signal_is_sent_again(place: str, number: signal.Signals) -> None:
    done = run(SWALLOWED[place].strip(), number)
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_swallowed_during_imports_is_sent_again(number: signal.Signals) -> None:
    argv = [sys.executable, "-c", IMPORTING.replace("NUMBER", str(int(number)))]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=Path("/"), timeout=120)
    assert (done.returncode, done.stdout) == (128 + number, "")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_errors_caused_by_a_signal_are_not_reported(number: signal.Signals) -> None:
    # as the compiler does, when it imports unicodedata for a name in a string
    command = """
    try:
        strike()
    except BaseException:
        error = True
    raise SyntaxError("can't load unicodedata module")"""
    done = run(command.strip(), number)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "")


def test_a_slow_clean_up_gets_no_second_signal() -> None:
    command = """
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
    done = run(command.strip(), signal.SIGTERM)
    assert (done.returncode, done.stdout) == (143, "cleaned up\n")


def test_a_signal_during_the_clean_up_may_be_dropped() -> None:
    command = """
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
    done = run(command.strip(), signal.SIGTERM)
    assert (done.returncode, done.stdout) == (143, "cleaned up\n")


def test_a_command_that_ends_by_a_signal_as_it_should_ends_well() -> None:
    command = """
    try:
        strike()
    except KeyboardInterrupt:
        print("served")"""
    done = run(command.strip(), signal.SIGINT)
    assert (done.returncode, done.stdout) == (0, "served\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_that_is_ignored_stays_so(number: signal.Signals) -> None:
    code = HEAD.replace("COMMAND", 'strike(); print("went on")').replace("NUMBER", str(int(number)))
    line = f"trap '' {int(number)}; exec {sys.executable} -c \"$0\""
    done = subprocess.run(["/bin/sh", "-c", line, code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "went on\n")


def run(command: str, number: signal.Signals) -> subprocess.CompletedProcess[str]:
    code = HEAD.replace("COMMAND", command).replace("NUMBER", str(int(number)))
    argv = [sys.executable, "-c", code]
    return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=Path("/"), timeout=120)
