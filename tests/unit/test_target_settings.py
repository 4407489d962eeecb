"""postgresql.conf, arguments of initdb, reasons found in a log, and which server counts as the captured one."""

import datetime
import socket
from pathlib import Path

import pytest

from pgdyno.errors import TargetError
from pgdyno.plan.known_settings import RESERVED_SETTINGS
from pgdyno.records.capture import ServerIdentity
from pgdyno.targets.cluster.initdb import check_arguments
from pgdyno.targets.cluster.postmaster import explain, explain_whole, read_log
from pgdyno.targets.cluster.settings import BEGIN, check_settings, own_settings, quote, write_settings
from pgdyno.targets.server_identity import normal_host


def test_settings_are_quoted_and_their_block_is_written_anew(tmp_path: Path) -> None:
    for value, quoted in (
        ("4MB", "'4MB'"),
        ("it's", "'it''s'"),
        ("a\\b", "'a\\\\b'"),
        ("", "''"),
        ("two\nlines", "'two\\nlines'"),
    ):
        assert quote(value) == quoted
    path = tmp_path / "postgresql.conf"
    path.write_text("shared_buffers = 128MB\n# end of what initdb wrote\n")
    write_settings(tmp_path, {"port": "1"}, {"work_mem": "4MB", "fsync": "off"})
    write_settings(tmp_path, {"port": "2"}, {"work_mem": "8MB"})
    assert path.read_text() == (
        f"shared_buffers = 128MB\n# end of what initdb wrote\n{BEGIN}\nport = '2'\n# of the plan\nwork_mem = '8MB'\n"
    )


def test_arguments_of_initdb_and_links_for_the_configuration_file_are_checked(tmp_path: Path) -> None:
    check_arguments(["--locale=C", "-E", "UTF8", "-k", "--wal-segsize=64", "--no-data-checksums", "-c", "a=b", "-"])
    check_arguments(["-EUTF8", "-kcDateStyle=ISO", "-LUs"])
    refused = "-D -D/x --pgdata=/x --pgd=/x -X/x --waldir -Ume --username=me -A --auth-host=trust --pwfile=x -W --show"
    for argument in f"{refused} --version -- -kX/x -NgD -kA".split():
        with pytest.raises(TargetError, match=f"cannot pass {argument} to initdb"):
            check_arguments(["--locale=C.UTF-8", argument])
    # a link is not written through
    precious = tmp_path / "precious"
    precious.write_text("as it was")
    (tmp_path / "postgresql.conf").symlink_to(precious)
    with pytest.raises(TargetError, match="cannot write"):
        write_settings(tmp_path, {}, {})
    assert precious.read_text() == "as it was"


def test_reserved_settings_say_why_and_names_of_no_setting_are_refused() -> None:
    for name, reason in RESERVED_SETTINGS.items():
        with pytest.raises(TargetError) as caught:
            check_settings({"work_mem": "4MB", name.upper(): "x"})
        assert caught.value.message == f"cannot set {name.upper()}: {reason}"
    # every place that pgdyno chooses is reserved
    chosen = {"log_line_prefix", "log_timezone", "log_checkpoints", "lc_messages"}
    assert set(own_settings(1, Path("/tmp"))) - chosen <= set(RESERVED_SETTINGS)
    check_settings({"pg_stat_statements.track": "all", "auto_explain.log_min_duration": "0", "DateStyle": "ISO"})
    for name in ("", "a b", "x = 1\ny", "1st", "include", "include_if_exists", "a.", ".a", "a;b"):
        with pytest.raises(TargetError, match="not a valid name of a setting"):
            check_settings({name: "1"})


PREFIX = "2026-01-01 00:00:00.000 UTC [17] "
WRONG_SETTINGS = (
    f'{PREFIX}LOG:  unrecognized configuration parameter "foo" in file "postgresql.conf" line 9\n'
    f'{PREFIX}LOG:  invalid value for parameter "work_mem": "x"\n'
    f'{PREFIX}HINT:  Valid units are "kB".\n'
    f'{PREFIX}FATAL:  configuration file "postgresql.conf" contains errors\n'
)


NO_MEMORY = (
    f"{PREFIX}LOG:  starting PostgreSQL\n"
    f"{PREFIX}FATAL:  could not map anonymous shared memory: Cannot allocate memory\n"
    f"{PREFIX}HINT:  Reduce shared_buffers.\n"
    f"{PREFIX}LOG:  database system is shut down\n"
)


def test_a_log_is_told_by_its_reason_or_its_end(tmp_path: Path) -> None:
    assert explain(WRONG_SETTINGS) == (
        'unrecognized configuration parameter "foo" in file "postgresql.conf" line 9; '
        'invalid value for parameter "work_mem": "x"; Valid units are "kB".'
    )
    assert (
        explain(NO_MEMORY) == "could not map anonymous shared memory: Cannot allocate memory (Reduce shared_buffers.)"
    )
    assert explain("".join(f"line {number}\n" for number in range(20))).startswith("line 10 | line 11")
    assert explain("") == "it printed nothing"
    # its end stands below the reason and does not repeat it
    said = [
        f"{PREFIX}LOG:  starting PostgreSQL",
        f'{PREFIX}LOG:  could not bind IPv4 address "127.0.0.1": Address already in use',
        f"{PREFIX}FATAL:  could not create any TCP/IP sockets",
    ]
    whole = f"could not create any TCP/IP sockets\n  the server's log:\n  {said[0]}\n  {said[1]}"
    assert explain_whole("\n".join(said)) == whole
    for text in (WRONG_SETTINGS, "only this\n", ""):
        assert explain_whole(text) == explain(text)
    # read from the middle
    path = tmp_path / "server.log"
    assert read_log(path) == ""
    path.write_text("before\nafter\n")
    assert read_log(path, 7) == "after\n"


START = datetime.datetime(2026, 3, 1, 8, 0, 0, 123456, tzinfo=datetime.UTC)
LATER = START + datetime.timedelta(hours=1)
CAPTURED = ServerIdentity(system_identifier="71", started_at=START, places=["10.0.0.5:5432", "db.example.net:5432"])


def test_a_server_is_the_captured_one_and_a_host_has_one_name() -> None:
    for case, identifier, start, places, is_same in (
        ("reached in another way", "71", START, ["10.9.0.1:6000"], True),
        ("after a restart, or a failover", "71", LATER, ["db.example.net:5432"], True),
        ("after a restart, by its address", "71", LATER, ["10.0.0.5:5432"], True),
        ("a promoted copy with another port", "71", LATER, ["10.0.0.5:5433"], False),
        ("a standby, or a restored backup, on another host", "71", LATER, ["10.0.0.6:5432"], False),
        ("another cluster in its place", "99", LATER, ["db.example.net:5432"], False),
        ("the same postmaster without an identifier", None, START, ["10.0.0.6:5432"], True),
        ("the same place without an identifier", None, LATER, ["10.0.0.5:5432"], True),
        ("another place without an identifier", None, LATER, ["10.0.0.6:5432"], False),
        ("nothing known", None, None, [], False),
    ):
        found = ServerIdentity(system_identifier=identifier, started_at=start, places=places)
        assert found.is_same(CAPTURED) is is_same, case
        assert CAPTURED.is_same(found) is is_same, case
    # a host has one name, however it is written
    here = normal_host("localhost")
    assert {normal_host(name) for name in ("", "/var/run/postgresql", "@socket", "127.0.0.1", "127.0.0.2", "::1")} == {
        here
    }
    assert normal_host("DB.Example.net.") == "db.example.net"
    # an address for documentation, which no machine has
    assert normal_host("192.0.2.7") == "192.0.2.7"
    assert socket.gethostname() not in here
