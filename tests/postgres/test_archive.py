"""The archive of a target during a trial: its rate, its backlog, and what it leaves."""

from pathlib import Path

import pytest

from pgdyno.errors import TargetError
from pgdyno.plan.targets import Archive
from pgdyno.targets import ArchiveWatch, Home, Server
from tests.postgres.servers import embedded, opened, value
from tests.present import present
from tests.waiting import wait_until

FILES = 4


def finish_files(server: Server) -> None:
    with server.connect() as connection:
        for _ in range(FILES):
            connection.execute("SELECT pg_logical_emit_message(false, 'a', 'b')")
            connection.execute("SELECT pg_switch_wal()")


def archive_of(**keys: str) -> Archive:
    return present(embedded(archive=keys).archive)


@pytest.mark.long_cases("[10]")
@pytest.mark.parametrize("version", ["18", "10"])
def test_a_folder_gets_the_files_at_its_rate_and_is_left_as_it_was(home: Home, scratch: Path, version: str) -> None:
    paced = {"folder": str(scratch), "rate": "32MB"}
    with opened(home, embedded(version, archive=paced)) as server:
        with ArchiveWatch(archive_of(**paced), server, home.account) as watch:
            finish_files(server)
            wait_until(lambda: len(list(scratch.glob("pgdyno-archive-*/*"))) >= FILES)
            wait_until(lambda: watch.backlog().archived >= FILES)
        backlog = watch.backlog()
        assert backlog.waiting_max >= 1
        assert (backlog.failed, backlog.segment_bytes) == (0, 1 << 24)
        assert list(scratch.iterdir()) == []
        assert value(server, "SHOW archive_command") == "true"
        # an archive that fails does not keep up
        failing = archive_of(command="false")
        with ArchiveWatch(failing, server, home.account) as watch:
            finish_files(server)
            wait_until(lambda: watch.backlog().failed > 0 and watch.backlog().waiting_last >= FILES)
        # between trials files are discarded, so that none waits for the next one
        with ArchiveWatch(failing, server, home.account) as watch:
            assert watch.backlog().waiting_max == 0
        absent = archive_of(folder=str(scratch / "absent"))
        with pytest.raises(TargetError, match="cannot archive in"), ArchiveWatch(absent, server, home.account):
            pass
