"""Changes of a running server's settings: it reloads or restarts as they require, and only then."""

from collections.abc import Iterator

import pytest

from pgdyno.errors import TargetError
from pgdyno.targets import Home, Server
from pgdyno.targets.cluster.reconfigure import reconfigure
from tests.postgres.servers import embedded, execute, opened, value
from tests.present import present

BASE = {"fsync": "off", "shared_buffers": "16MB", "work_mem": "4MB"}
STARTED = "SELECT pg_postmaster_start_time()::text"


@pytest.fixture(scope="module")
def configured(home: Home) -> Iterator[Server]:
    with opened(home, embedded(settings=BASE), "configured") as server:
        yield server


@pytest.fixture
def own(configured: Server) -> Server:
    if not configured.alive():
        configured.restart()
    reconfigure(configured, BASE)
    return configured


def test_a_server_reloads_or_restarts_as_settings_require(own: Server) -> None:
    before = value(own, STARTED)
    assert reconfigure(own, {**BASE, "Work_Mem": "4MB"}) is None
    done = present(reconfigure(own, {**BASE, "work_mem": "8192kB", "random_page_cost": "1.1"}))
    assert (done.restarted, done.values) == (False, {"work_mem": "8MB", "random_page_cost": "1.1"})
    assert value(own, "SHOW work_mem") == "8MB"
    # what is left out returns to the server's own
    assert not present(reconfigure(own, {**BASE, "work_mem": "6MB"})).restarted
    assert value(own, "SHOW random_page_cost") == "4"
    assert value(own, STARTED) == before
    # also by others
    own.restart()
    assert value(own, "SHOW work_mem") == "6MB"
    before = value(own, STARTED)
    done = present(reconfigure(own, {**BASE, "work_mem": "6MB", "shared_buffers": "32MB"}))
    assert (done.restarted, done.values) == (True, {"shared_buffers": "32MB"})
    assert value(own, STARTED) != before
    assert value(own, "SHOW shared_buffers") == "32MB"


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("work_mem", "much", 'invalid value for parameter "work_mem": "much"'),
        ("shared_buffers", "much", 'invalid value for parameter "shared_buffers": "much"'),
        ("no_such_setting", "1", "the server has no such setting"),
        ("port", "1", "cannot set port"),
        # with which no session begins
        ("session_preload_libraries", "nowhere", "nowhere"),
    ],
)
def test_refused_settings_are_reported_and_withdrawn(own: Server, name: str, given: str, said: str) -> None:
    with pytest.raises(TargetError, match=said):
        reconfigure(own, {**BASE, name: given})
    if not own.alive():
        own.restart()
    assert (value(own, "SHOW work_mem"), value(own, "SHOW shared_buffers")) == ("4MB", "16MB")
    assert reconfigure(own, BASE) is None


def test_a_setting_that_something_else_overrides_is_not_taken_for_ours(own: Server) -> None:
    execute(own, "ALTER SYSTEM SET work_mem = '5MB'")
    try:
        with pytest.raises(TargetError, match=r"cannot set work_mem = 7MB: 5MB is in effect"):
            reconfigure(own, {**BASE, "work_mem": "7MB"})
    finally:
        execute(own, "ALTER SYSTEM RESET work_mem", "SELECT pg_reload_conf()")
