"""postgresql.conf, arguments of initdb, and reasons found in a log."""

from pathlib import Path

import pytest

from pgdyno.errors import TargetError
from pgdyno.plan.known_settings import RESERVED_SETTINGS
from pgdyno.targets.cluster.initdb import check_arguments
from pgdyno.targets.cluster.postmaster import explain, explain_whole, read_log
from pgdyno.targets.cluster.settings import BEGIN, check_settings, own_settings, quote, write_settings


@pytest.mark.parametrize(
    ("value", "quoted"),
    [("4MB", "'4MB'"), ("it's", "'it''s'"), ("a\\b", "'a\\\\b'"), ("", "''"), ("two\nlines", "'two\\nlines'")],
)
def test_quoting(value: str, quoted: str) -> None:
    assert quote(value) == quoted


def test_the_block_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "postgresql.conf"
    path.write_text("shared_buffers = 128MB\n# end of what initdb wrote\n")
    write_settings(tmp_path, {"port": "1"}, {"work_mem": "4MB", "fsync": "off"})
    write_settings(tmp_path, {"port": "2"}, {"work_mem": "8MB"})
    assert path.read_text() == (
        f"shared_buffers = 128MB\n# end of what initdb wrote\n{BEGIN}\nport = '2'\n# of the plan\nwork_mem = '8MB'\n"
    )


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("as it was")
    (tmp_path / "postgresql.conf").symlink_to(precious)
    with pytest.raises(TargetError, match="cannot write"):
        write_settings(tmp_path, {}, {})
    assert precious.read_text() == "as it was"


@pytest.mark.parametrize("name", sorted(RESERVED_SETTINGS))
def test_reserved_settings_say_why(name: str) -> None:
    with pytest.raises(TargetError) as caught:
        check_settings({"work_mem": "4MB", name.upper(): "x"})
    assert caught.value.message == f"cannot set {name.upper()}: {RESERVED_SETTINGS[name]}"


def test_every_place_that_pgdyno_chooses_is_reserved() -> None:
    chosen = {"log_line_prefix", "log_timezone", "log_checkpoints", "lc_messages"}
    assert set(own_settings(1, Path("/tmp"))) - chosen <= set(RESERVED_SETTINGS)


@pytest.mark.parametrize("name", ["", "a b", "x = 1\ny", "1st", "include", "include_if_exists", "a.", ".a", "a;b"])
def test_names_that_are_no_settings(name: str) -> None:
    # those of extensions are
    check_settings({"pg_stat_statements.track": "all", "auto_explain.log_min_duration": "0", "DateStyle": "ISO"})
    with pytest.raises(TargetError, match="not a valid name of a setting"):
        check_settings({name: "1"})


def test_arguments_of_initdb() -> None:
    check_arguments(["--locale=C", "-E", "UTF8", "-k", "--wal-segsize=64", "--no-data-checksums", "-c", "a=b", "-"])
    check_arguments(["-EUTF8", "-kcDateStyle=ISO", "-LUs"])
    refused = "-D -D/x --pgdata=/x --pgd=/x -X/x --waldir -Ume --username=me -A --auth-host=trust --pwfile=x -W --show"
    for argument in f"{refused} --version -- -kX/x -NgD -kA".split():
        with pytest.raises(TargetError, match=f"cannot pass {argument} to initdb"):
            check_arguments(["--locale=C.UTF-8", argument])


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


def test_a_log_is_told_by_its_reason_or_its_end() -> None:
    assert explain(WRONG_SETTINGS) == (
        'unrecognized configuration parameter "foo" in file "postgresql.conf" line 9; '
        'invalid value for parameter "work_mem": "x"; Valid units are "kB".'
    )
    assert (
        explain(NO_MEMORY) == "could not map anonymous shared memory: Cannot allocate memory (Reduce shared_buffers.)"
    )
    assert explain("".join(f"line {number}\n" for number in range(20))).startswith("line 10 | line 11")
    assert explain("") == "it printed nothing"


def test_the_end_of_the_log_stands_below_the_reason_and_does_not_repeat_it() -> None:
    said = [
        f"{PREFIX}LOG:  starting PostgreSQL",
        f'{PREFIX}LOG:  could not bind IPv4 address "127.0.0.1": Address already in use',
        f"{PREFIX}FATAL:  could not create any TCP/IP sockets",
    ]
    whole = f"could not create any TCP/IP sockets\n  the server's log:\n  {said[0]}\n  {said[1]}"
    assert explain_whole("\n".join(said)) == whole
    for text in (WRONG_SETTINGS, "only this\n", ""):
        assert explain_whole(text) == explain(text)


def test_a_log_from_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    assert read_log(path) == ""
    path.write_text("before\nafter\n")
    assert read_log(path, 7) == "after\n"
