"""Real servers for tests.

Downloads go to `PGDYNO_HOME`, or else to the user's cache, and stay there: later test runs need the network only to ask
for the newest version.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import pgdyno.targets
from pgdyno.targets import Home, Server, SilentProgress, sweep_leftovers
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.embedded.kind import find_embedded
from pgdyno.targets.home import ensure_folder
from tests.postgres.far_server import theirs
from tests.postgres.local_mirror import mirror
from tests.postgres.own_servers import remove_templates
from tests.postgres.servers import embedded, opened
from tests.scratch import scratch_folder, spread

__all__ = ["mirror", "theirs"]
MAJOR = "18"
FAST = {"fsync": "off", "full_page_writes": "off", "shared_buffers": "16MB", "max_connections": "40"}


@pytest.fixture(scope="session")
def home() -> Home:
    """The cache that all tests share, and that remains after them."""
    home = Home.locate()
    sweep_leftovers(home)
    ensure_folder(home.instances)
    spread(home.instances)
    return home


@pytest.fixture(scope="session")
def server(home: Home) -> Iterator[Server]:
    """One PostgreSQL 18 for many tests; each test must create and drop its own tables."""
    with opened(home, embedded(MAJOR, settings={**FAST, "max_connections": "100"}), "tests") as server:
        yield server


@pytest.fixture(scope="session")
def installed(home: Home) -> Iterator[Installation]:
    """PostgreSQL 18, unpacked in the shared home."""
    yield find_embedded(embedded(MAJOR), home, SilentProgress())
    remove_templates()


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder with a short path that every user can access."""
    folder = scratch_folder()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def fresh_home(scratch: Path) -> Home:
    return Home.locate(scratch / "home")


@pytest.fixture
def warm_home(fresh_home: Home, home: Home, installed: Installation) -> Home:
    """A home for one test with an unpacked PostgreSQL 18 and its version list."""
    fresh_home.postgres.symlink_to(installed.bin.parent.parent)
    # clusters of tests are copies of one that initdb made
    home.templates.mkdir(exist_ok=True)
    fresh_home.templates.symlink_to(home.templates)
    return fresh_home


@pytest.fixture
def child_environment() -> dict[str, str]:
    package = Path(pgdyno.targets.__file__).parent.parent
    return {**os.environ, "PYTHONPATH": str(package.parent)}
