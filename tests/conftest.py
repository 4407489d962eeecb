"""Fixtures and options for all tests."""

import atexit
import contextlib
import gc
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from pgdyno.__main__ import COLLECT_AFTER
from pgdyno.targets import Home
from pgdyno.targets.home import ensure_folder
from tests.forked import share_servers
from tests.known_versions import ask_once

# its assertions tell what they compared, too
pytest.register_assert_rewrite("tests.load_recount")

# on a busy machine, an example takes longer than Hypothesis allows it, and so does making one
settings.register_profile("any-machine", parent=settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")

# a job in the background is started with SIGINT ignored, and all its children inherit that: then no test could
# press Ctrl-C; a handler of ours is reset to the default in programs that tests start
signal.signal(signal.SIGINT, signal.default_int_handler)
# and under nohup they are started with SIGHUP ignored
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# containers often forbid Python to keep what it compiles: then every process that a test starts compiles pgdyno and
# all of its imports, which take longer than most tests
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def _temporary_folder(use: str) -> str:
    folder = tempfile.mkdtemp(prefix=f"pgdyno-{use}-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


# an import ends with sync(2), which would wait for what all others on this machine have written
os.sync = lambda: None

ask_once()

# a test neither waits for who measures on this host, nor holds anybody off
os.environ["PGDYNO_LOCKS"] = _temporary_folder("locks")


def _leave_the_user() -> None:
    # servers that were downloaded once stay; nothing else that the user of this machine has set or left changes a test
    users = Home.locate()
    own = Home.locate(users.path / "tests")
    ensure_folder(users.postgres)
    with contextlib.suppress(FileExistsError):
        own.postgres.symlink_to(users.postgres)
    for name in [each for each in os.environ if each.startswith(("PG", "XDG_")) and not each.startswith("PGDYNO_")]:
        del os.environ[name]
    for name, folder in (("CARGO_HOME", "~/.cargo"), ("RUSTUP_HOME", "~/.rustup")):
        os.environ.setdefault(name, str(Path(folder).expanduser()))
    os.environ |= {"PGDYNO_HOME": str(own.path), "HOME": _temporary_folder("home")}
    share_servers(_temporary_folder("forks"))


# workers inherit what the first process has set
if "PYTEST_XDIST_WORKER" not in os.environ:
    _leave_the_user()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle-files", metavar="SEED", help="run the files of tests in a random order")


@pytest.fixture(scope="session", autouse=True)
def _empty_folder() -> Iterator[None]:
    # a plan check or a list would read the runs of a user who measured in the checkout
    before = Path.cwd()
    os.chdir(_temporary_folder("cwd"))
    yield
    os.chdir(before)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Looks for no garbage in what is imported and collected: it stays, and looking takes a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        # as in pgdyno: with Python's 700, a thirtieth of the CPU time of all tests goes into looking
        gc.set_threshold(COLLECT_AFTER)
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the tests that only some targets of the Makefile run, and puts their files in the order asked for."""
    if seed := config.getoption("--shuffle-files"):
        places: dict[Path, float] = {}
        chance = random.Random(seed)
        items.sort(key=lambda item: places.setdefault(item.path, chance.random()))
    for item in items:
        for name in ("long", "slow"):
            texts = [text for mark in item.iter_markers(f"{name}_cases") for text in mark.args]
            if any(text in "[" + item.name.partition("[")[2] for text in texts):
                item.add_marker(name)
