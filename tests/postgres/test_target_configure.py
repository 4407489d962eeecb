"""Changes of a running server's settings: it reloads or restarts as they require, and only then."""

from collections.abc import Iterator

import pytest

from pgdyno.errors import TargetError
from pgdyno.targets import Home, Server
from pgdyno.targets.cluster.reconfigure import reconfigure
from tests.postgres.servers import embedded, opened, value

BASE = {"fsync": "off", "shared_buffers": "16MB", "work_mem": "4MB"}
STARTED = "SELECT pg_postmaster_start_time()::text"


@pytest.fixture(scope="module")
def own(home: Home) -> Iterator[Server]:
    with opened(home, embedded(settings=BASE), "configured") as server:
        yield server


def test_nothing_is_done_for_settings_that_are_in_force(own: Server) -> None:
    reconfigure(own, BASE)
    before = value(own, STARTED)
    assert reconfigure(own, {**BASE, "Work_Mem": "4MB"}) is None
    assert value(own, STARTED) == before


def test_reloadable_settings_are_reloaded(own: Server) -> None:
    reconfigure(own, BASE)
    before = value(own, STARTED)
    done = reconfigure(own, {**BASE, "work_mem": "8192kB", "checkpoint_timeout": "7min"})
    assert done is not None
    assert (done.restarted, done.values) == (False, {"work_mem": "8MB", "checkpoint_timeout": "7min"})
    assert value(own, STARTED) == before
    assert value(own, "SHOW work_mem") == "8MB"


def test_settings_that_need_a_restart_get_one(own: Server) -> None:
    reconfigure(own, BASE)
    before = value(own, STARTED)
    done = reconfigure(own, {**BASE, "shared_buffers": "32MB"})
    assert done is not None
    assert (done.restarted, done.values) == (True, {"shared_buffers": "32MB"})
    assert value(own, STARTED) != before
    assert value(own, "SHOW shared_buffers") == "32MB"


def test_settings_that_are_left_out_return_to_the_server_s_own(own: Server) -> None:
    reconfigure(own, {**BASE, "random_page_cost": "1.1"})
    done = reconfigure(own, BASE)
    assert done is not None
    assert (done.restarted, value(own, "SHOW random_page_cost")) == (False, "4")


def test_a_restart_by_others_keeps_them(own: Server) -> None:
    reconfigure(own, {**BASE, "work_mem": "6MB"})
    own.restart()
    assert value(own, "SHOW work_mem") == "6MB"


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("work_mem", "much", 'invalid value for parameter "work_mem": "much"'),
        ("shared_buffers", "much", 'invalid value for parameter "shared_buffers": "much"'),
        ("no_such_setting", "1", "the server has no such setting"),
        ("port", "1", "cannot set port"),
    ],
)
def test_refused_settings_are_reported_and_withdrawn(own: Server, name: str, given: str, said: str) -> None:
    reconfigure(own, BASE)
    with pytest.raises(TargetError) as caught:
        reconfigure(own, {**BASE, name: given})
    assert said in caught.value.message
    if not own.alive():
        own.restart()
    assert (value(own, "SHOW work_mem"), value(own, "SHOW shared_buffers")) == ("4MB", "16MB")
    assert reconfigure(own, BASE) is None


def test_settings_with_which_no_session_begins_are_withdrawn(own: Server) -> None:
    reconfigure(own, BASE)
    with pytest.raises(TargetError, match="nowhere"):
        reconfigure(own, {**BASE, "session_preload_libraries": "nowhere"})
    assert value(own, "SHOW work_mem") == "4MB"
    assert reconfigure(own, BASE) is None


def test_a_setting_that_something_else_overrides_is_not_taken_for_ours(own: Server) -> None:
    reconfigure(own, BASE)
    with own.connect() as connection:
        connection.execute("ALTER SYSTEM SET work_mem = '5MB'")
    try:
        with pytest.raises(TargetError, match=r"cannot set work_mem = 7MB: 5MB is in effect"):
            reconfigure(own, {**BASE, "work_mem": "7MB"})
    finally:
        with own.connect() as connection:
            connection.execute("ALTER SYSTEM RESET work_mem")
            connection.execute("SELECT pg_reload_conf()")
