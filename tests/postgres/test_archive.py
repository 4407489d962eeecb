"""The archive of a target during a trial: its rate, its backlog, and what it leaves."""

from pathlib import Path

import pytest

from pgdyno.errors import TargetError
from pgdyno.plan.targets import Archive
from pgdyno.targets import ArchiveWatch, Home, Server
from pgdyno.targets.embedded.schema import EmbeddedTarget
from tests.postgres.servers import embedded, opened, value
from tests.waiting import wait_until

FILES = 4


def finish_files(server: Server) -> None:
    with server.connect() as connection:
        for _ in range(FILES):
            connection.execute("SELECT pg_logical_emit_message(false, 'a', 'b')")
            connection.execute("SELECT pg_switch_wal()")


def archived(version: str, **archive: str) -> tuple[Archive, EmbeddedTarget]:
    spec = embedded(version, archive=archive)
    assert spec.archive is not None
    return spec.archive, spec


@pytest.mark.long_cases("[10]")
@pytest.mark.parametrize("version", ["18", "10"])
def test_a_folder_gets_the_files_at_its_rate_and_is_left_as_it_was(home: Home, scratch: Path, version: str) -> None:
    archive, spec = archived(version, folder=str(scratch), rate="32MB")
    with opened(home, spec) as server:
        with ArchiveWatch(archive, server, home.account) as watch:
            finish_files(server)
            wait_until(lambda: len(list(scratch.glob("pgdyno-archive-*/*"))) >= FILES)
            wait_until(lambda: watch.backlog().archived >= FILES)
        backlog = watch.backlog()
        assert backlog.waiting_max >= 1
        assert (backlog.failed, backlog.segment_bytes) == (0, 1 << 24)
        assert list(scratch.iterdir()) == []
        assert value(server, "SHOW archive_command") == "true"


def test_an_archive_that_fails_does_not_keep_up(home: Home) -> None:
    archive, spec = archived("18", command="false")
    with opened(home, spec) as server:
        with ArchiveWatch(archive, server, home.account) as watch:
            finish_files(server)
            wait_until(lambda: watch.backlog().failed > 0 and watch.backlog().waiting_last >= FILES)
        # between trials files are discarded, so that none waits for the next one
        with ArchiveWatch(archive, server, home.account) as watch:
            assert watch.backlog().waiting_max == 0


def test_a_folder_that_the_server_cannot_have_is_an_error(home: Home, tmp_path: Path) -> None:
    archive, spec = archived("18", folder=str(tmp_path / "absent"))
    with (
        opened(home, spec) as server,
        pytest.raises(TargetError, match="cannot archive in"),
        ArchiveWatch(archive, server, home.account),
    ):
        pass
