"""[[event]], [[phase]], [probe], [hooks], [reset] and limits of trials in a plan: mistakes, lines and options."""

import tomllib
from pathlib import Path

import pytest
from pydantic import ValidationError

import pgdyno.plan.checks.reset
from pgdyno.errors import PlanError
from pgdyno.plan import Plan, time_needed_s
from pgdyno.plan.checks.reset import check_found
from pgdyno.plan.optional_sections import ProbeSpec
from pgdyno.plan.output.plan_output import around_each_trial, before_each_trial, in_each_trial
from pgdyno.plan.output.show_plan import show_json
from pgdyno.probe import LocalProbe, ProbeOutput, StandbyProbes
from pgdyno.records import Point, ProbeRecord
from pgdyno.run.engine import phases_toml, trial_options
from tests.unit.plan_sample import load, loaded, problems, refuse, small_plan, the_problem

PLAN = small_plan('scripts = ["tpcb-like"]', new="18")
LAST = PLAN.count("\n")
RECONNECT = PLAN.replace("[trial]", "[trial]\nreconnect = {}")


@pytest.fixture(autouse=True)
def sql_files(tmp_path: Path) -> None:
    (tmp_path / "plain.sql").write_text("INSERT INTO t VALUES (1);\n")
    (tmp_path / "books.sql").write_text("INSERT INTO pgdyno_ledger (client, seq) VALUES (:client_id, :ledger_seq);\n")


def event(at: str, do: str, more: str = "") -> str:
    return f'[[event]]\n{more}\nat = "{at}"\ndo = {do}\n'


def options(plan: Plan) -> list[str]:
    return trial_options(plan, Point(clients=1), 1, Path("phases.toml"))


def test_mistakes_in_events_have_their_lines(tmp_path: Path) -> None:
    for text, field, message in (
        ('at = "3s"\ndo = "restrat"', "event[0].do", "is not known"),
        ('at = "3s"\ndo = { comand = "true" }', "event[0].do", "is not known"),
        ('at = "3s"\ndo = { command = " " }', "event[0].do", "write the command as text"),
        ('at = 3\ndo = "kill"', "event[0].at", "give the duration a unit"),
        ('do = "kill"', "event[0].at", "is missing"),
        ('at = "10s"\ndo = "kill"', "event[0].at", "is after the trial's end at 10s"),
        ('at = "8s"\ndo = "pause"\nfor = "3s"', "event[0].for", "ends after the trial's end at 10s"),
        ('at = "8s"\ndo = "pause"', "event[0]", "lacks the duration of the pause"),
        ('at = "8s"\ndo = "kill"\nfor = "1s"', "event[0].for", "applies to a pause, not to a kill"),
        ('at = "8s"\ndo = "promote"', "event[0].do", "is not possible at target new: it has no replica"),
        ('at = "8s"\ndo = "kill"\nfro = "1s"', "event[0].fro", "unknown key"),
    ):
        refuse(tmp_path, f"{PLAN}[[event]]\n{text}\n", field, message)
    # no event may follow a promote
    for before, after, wrong in (
        (("1s", '"kill"'), ("3s", '"promote"'), None),
        (("1s", '"promote"'), ("3s", '"checkpoint"'), None),
        (("1s", '"promote"'), ("3s", '"kill"'), "event[1].do"),
        (("1s", '"promote"'), ("3s", '"promote"'), "event[1].do"),
        (("3s", '"restart"'), ("1s", '"promote"'), "event[0].do"),
        (("1s", '"pause"', 'for = "3s"'), ("2s", '"promote"'), "event[0].do"),
    ):
        text = FOLLOWED + event(*before) + event(*after)
        if wrong is None:
            assert len(load(tmp_path, text).event) == 2
        else:
            refuse(tmp_path, text, wrong, "is after the promote at ")


DSN = PLAN.replace('kind = "embedded"\nversion = "18"', 'kind = "dsn"\ndsn = "host=db.example.net user=bench"')
FOLLOWED = PLAN.replace("[workload]", "[target.new.replicas]\ncount = 1\n[workload]")


def test_events_over_the_network_need_only_a_connection(tmp_path: Path) -> None:
    message = "is not possible at target new: pgdyno does not run that server"
    hint = 'use a command of your own: do = { command = "..." }'
    for do in ("restart", "kill", "pause", "promote"):
        text = DSN + event("1s", f'"{do}"', 'for = "1s"' if do == "pause" else "")
        assert refuse(tmp_path, text, "event[0].do", message, line=LAST + 4).hint == hint
    for do in ('"checkpoint"', '"vacuum"', '{ command = "true" }'):
        assert load(tmp_path, DSN + event("1s", do)).event[0].at == 1


def test_clients_come_back_where_events_drop_connections_or_connect_for_each_transaction(tmp_path: Path) -> None:
    plan = load(tmp_path, PLAN + event("3s", '"kill"'))
    assert plan.reconnect() == plan.as_resolved()["trial"]["reconnect"] == "always"
    assert "--reconnect" in options(plan)
    assert in_each_trial(plan) == ["in each trial: kill at 3s", "clients that lose their connection reconnect"]
    quiet = load(tmp_path, PLAN + event("3s", '"checkpoint"'))
    assert quiet.reconnect() == "off"
    assert not any(option.startswith("--reconnect") for option in options(quiet))
    limited = load(tmp_path, RECONNECT.format('"30s"') + event("3s", '{ command = "true" }'))
    assert limited.as_resolved()["trial"]["reconnect"] == 30
    assert "--reconnect=30s" in options(limited)
    assert "or give up after 30 s" in in_each_trial(limited)[1]
    plan = load(tmp_path, PLAN + event("3s", '"pause"', 'for = "2s"') + event("6s", '{ command = "sync" }'))
    assert plan.as_resolved()["event"][0] == {"at": 3.0, "do": "pause", "for": 2.0}
    # one that connects for each transaction counts refusals unless its clients reconnect, and may have more clients
    each = PLAN.replace("[sweep]", 'connect = "each"\n[sweep]')
    assert {"--connect", "--count-refusals"} <= set(options(load(tmp_path, each)))
    killed = options(load(tmp_path, each + event("3s", '"kill"')))
    assert {"--connect", "--reconnect"} <= set(killed)
    assert "--count-refusals" not in killed
    small = PLAN.replace("[workload]", "settings = { max_connections = 10 }\n[workload]").replace(
        "clients = 1", "clients = 40"
    )
    assert "40 clients are too many" in problems(tmp_path, small)[0].message
    assert load(tmp_path, small.replace("[sweep]", 'connect = "each"\n[sweep]')).workload.connect == "each"


def test_wrong_times_for_reconnecting_and_ledgers_that_nobody_writes_into_are_refused(tmp_path: Path) -> None:
    for value, more, message in (
        ("30", "", 'write "off"'),
        ('"soon"', "", "not a duration"),
        ('"0s"', "", "more"),
        ('"off"', event("3s", '"restart"'), "remove it: clients then reconnect"),
    ):
        problem = the_problem(tmp_path, RECONNECT.format(value) + more)
        assert (problem.path, problem.line) == ("trial.reconnect", LAST)
        assert message in problem.message + (problem.hint or "")
    for scripts, writes in (
        ('["tpcb-like"]', True), ('["select-only@9", "simple-update"]', True), ('["books.sql"]', True),
        ('["select-only"]', False), ('["plain.sql"]', False),
    ):  # fmt: skip
        text = PLAN.replace('["tpcb-like"]', scripts) + "ledger = true\n"
        if writes:
            assert "--ledger" in options(load(tmp_path, text))
        else:
            refuse(tmp_path, text, "trial.ledger", "", ":ledger_seq", LAST + 1)


PHASED = """\
name = "spike"
[target.pg]
kind = "embedded"
version = "18"
[workload]
scripts = ["tpcb-like", "select-only@9"]
[sweep]
clients = [8, 16]
workers = 2
[trial]
repeats = 2
[[phase]]
name = "warm"
duration = "1m30s"
rate = 500
result = false
[[phase]]
name = "up"
duration = "10s"
rate = { from = 500, to = 5000.5 }
clients = { from = 2, to = 8 }
mix = { "select-only" = 1, 1 = 3 }
"""


def test_phases_are_the_length_of_a_trial_and_mistakes_have_their_lines(tmp_path: Path) -> None:
    whole = loaded(tmp_path, PHASED)
    assert time_needed_s(whole.plan) == 4 * 100
    assert '"measuring_s": 400' in show_json(whole)
    plan = load(tmp_path, PHASED)
    with_defaults = [{"result": True, **phase} for phase in tomllib.loads(PHASED)["phase"]]
    assert tomllib.loads(phases_toml(plan.phase)) == {"phase": with_defaults}
    given = trial_options(plan, Point(clients=8, workers=2, protocol="simple", scale=1), 1, Path("/f/phases.toml"))
    assert "--phases=/f/phases.toml" in given
    assert not any(option.startswith(("--time", "--warmup", "--transactions")) for option in given)
    for old, new, path, line, message in (
        ("repeats = 2", 'duration = "10s"', "trial.duration", 11, "cannot be combined with phases"),
        ("repeats = 2", 'warmup = "10s"', "trial.warmup", 11, "cannot be combined with phases"),
        ("repeats = 2", "transactions = 10", "trial.transactions", 11, "cannot be combined with phases"),
        ('name = "up"', 'name = "warm"', "phase[1].name", 18, "two phases"),
        ('duration = "10s"', "duration = 10", "phase[1].duration", 19, "must be text"),
        ('duration = "10s"', 'duration = "0s"', "phase[1].duration", 19, "more than 0s"),
        ("rate = 500\n", "", "phase[0]", 12, "has no rate"),
        ("rate = 500\n", "rate = -1\n", "phase[0].rate", 15, "is invalid"),
        ("{ from = 500, to = 5000.5 }", "{ from = 500 }", "phase[1].rate", 20, "is invalid"),
        ("from = 2, to = 8", "from = 2, to = 9", "phase[1].clients", 21, "more than the 8 of sweep.clients"),
        ("from = 2, to = 8", "from = 1, to = 8", "phase[1].clients", 21, "fewer than the 2 workers"),
        ("from = 2, to = 8", "from = 2.5, to = 8", "phase[1].clients", 21, "is invalid"),
        ("1 = 3", "3 = 3", "phase[1].mix.3", 22, "is not a script of this plan"),
        ('"select-only" = 1, 1 = 3', '"select-only" = 0', "phase[1].mix", 22, "no weight above 0"),
        ("result = false", "result = 0", "phase[0].result", 16, "must be true or false"),
        ("result = false", "speed = 3", "phase[0].speed", 16, "unknown key"),
    ):
        refuse(tmp_path, PHASED.replace(old, new, 1), path, message, line=line)


def probe_options(folder: Path, text: str, data: Path | None = Path("/d")) -> set[str]:
    probe = load(folder, f"{PLAN}[probe]\n{text}").probe
    return set(LocalProbe(probe, {}, data, Path("lines"), Path("log")).options or [])


def test_keys_of_the_probe_become_options_and_mistakes_have_their_lines(tmp_path: Path) -> None:
    for text, expected in (
        ("", {"--data=/d", "--waits-hz=10", "--statements=20"}),
        ("log = false\nstatements = 0", {"--no-log", "--statements=0"}),
        ('log = "/var/log/pg/main.csv"', {"--log=/var/log/pg/main.csv"}),
        ("server = false", {"--data=/d", "--no-server"}),
    ):
        given = probe_options(tmp_path, text)
        assert expected <= given
        assert any(each.startswith(("--log", "--no-log")) for each in given) == ("log" in text)
        # over the network there is no log to read
        far = probe_options(tmp_path, text, None)
        assert {"--no-host", "--waits-hz=1"} <= far or "server" in text
        assert "--log=/var/log/pg/main.csv" not in far
    for text, message in (
        ('log = "main.log"', "write the whole path of the log"),
        ("log = 1", "write the whole path of the log"),
        ('log = "/l"\nhost = false', "the log is on the server's host"),
        ("statements = -1", "must be at least 0"),
    ):
        problem = the_problem(tmp_path, f"{PLAN}[probe]\n{text}")
        assert message in problem.message
        assert problem.path.startswith("probe")
        assert problem.line is not None
    for section, message in WRONG_QUERIES:
        with pytest.raises(ValidationError, match=message):
            ProbeSpec.model_validate(section)


def test_a_missing_probe_is_what_a_standby_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDYNO_PGPROBE", str(tmp_path / "none"))
    with StandbyProbes(ProbeSpec(), ["replica-1"], [{}], tmp_path / "probe.jsonl", tmp_path) as probes:
        pass
    said = probes.add_output(ProbeOutput(ProbeRecord()), [])
    (standby,) = said.record.standbys
    assert (standby.name, standby.active, standby.waits) == ("replica-1", None, {})
    assert "is not executable" in str(standby.message)


QUERY = {"name": "queue", "sql": "SELECT count(*) FROM jobs"}
WRONG_QUERIES: list[tuple[dict[str, object], str]] = [
    ({"query": [QUERY, QUERY]}, "queue is the name of two queries"),
    ({"query": [QUERY], "server": False}, "query needs the probe of the server"),
    ({"query": [QUERY], "enabled": False}, "query needs the probe of the server"),
    ({"query": [QUERY | {"sql": "DELETE FROM jobs"}]}, "writes, and the probe's sessions only read"),
    ({"query": [QUERY | {"sql": " "}]}, "is empty"),
    ({"query": [QUERY | {"every": "10ms"}]}, "is below 0.1 s"),
    ({"query": [QUERY | {"name": "a:b"}]}, "is not a name"),
    ({"query": [QUERY | {"name": f"q{number}"} for number in range(9)]}, "at most 8"),
]


def test_mistakes_in_limits_and_hooks_have_their_lines(tmp_path: Path) -> None:
    for line, said in (
        ('pause = "-1s"', "'-1s' is not a duration"), ("pause = 5", "give the duration a unit"),
        ("max_errors = -1", "must be at least 0"), ('min_free_disk = "5 gigs"', "'5 gigs' is not a size"),
        ("min_free_disk = 5", "must be text"), ('[hooks]\nbefore_trial = ""', "write a line for the shell"),
        ("[hooks]\nbefore_trial = [1]", "write a line for the shell"),
        ('[hooks]\ntimeout = "0s"', "must be more than 0s"), ('[hooks]\nbefore_trail = "sync"', "unknown key"),
    ):  # fmt: skip
        problem = the_problem(tmp_path, PLAN + line)
        assert said in problem.message, problem
        assert problem.line == LAST + 1 + line.count("\n")


RESET = small_plan(old="14", new="18.1") + "[reset]\n"
NEW = RESET.replace('"14"', '"18"')
FIRST = RESET.count("\n") + 1
"""Line of the first key of [reset]."""
NO_DATASET = RESET.replace('scripts = ["select-only"]', 'scripts = ["x.sql"]\ndataset = "none"')


@pytest.fixture(autouse=True)
def script(tmp_path: Path) -> None:
    (tmp_path / "x.sql").write_text("SELECT 1;\n")


def programs(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text("")
        (folder / name).chmod(0o755)


def test_the_default_and_the_steps_of_a_reset(tmp_path: Path) -> None:
    nothing = dict.fromkeys(("strategy", "file_copy_method", "snapshot"))
    assert load(tmp_path, RESET).as_resolved()["reset"] == {"method": "vacuum", **nothing, "consistency": "auto"} | {
        "checkpoint": True, "restart": False, "drop_cache": "none", "prewarm": "none", "analyze": False,
        "statistics": False,
    }  # fmt: skip
    for lines, words in (
        (
            'method = "reload"\ndrop_cache = "files"\nprewarm = "pg_prewarm"\nanalyze = true\ncheckpoint = false',
            "reload the dataset; drop the page cache of the cluster's files; prewarm with pg_prewarm; analyze",
        ),
        ("", "vacuum tellers and branches, empty the history; checkpoint"),
        ('method = "none"\ncheckpoint = false', "the dataset stays as the previous trial left it"),
        (
            'method = "snapshot"\nrestart = true\nprewarm = "read"\nstatistics = true',
            f"{COPY}; checkpoint; restart the server; prewarm by reading every table; reset statistics",
        ),
        ('method = "snapshot"\nsnapshot = "copy"\ncheckpoint = false', f"{COPY} (copy)"),
        (
            'method = "template"\nstrategy = "file_copy"\nfile_copy_method = "clone"',
            "copy the template database (file_copy, clone); checkpoint",
        ),
    ):
        assert before_each_trial(load(tmp_path, NEW + lines)) == f"before each trial: {words}"
        without = load(tmp_path, NO_DATASET + "checkpoint = false")
        assert before_each_trial(without) == "before each trial: nothing"
        assert "checks" not in around_each_trial(without)


def test_impossible_resets_are_refused_with_their_line(tmp_path: Path) -> None:
    for lines, field, line, said, hint in (
        # lines of [reset], field, line counted from its first key, part of the message, part of the hint
        ('method = "templat"', "method", 0, '"template", "snapshot" or "reload", not "templat"', 'mean "template"?'),
        ("methd = 1", "methd", 0, "unknown key", "did you mean method?"),
        ('strategy = "wal_log"', "strategy", 0, 'is valid only with method = "template"', "remove it"),
        ('method = "snapshot"\nstrategy = "wal_log"', "strategy", 1, "is valid only with", "remove it"),
        ('method = "template"\nstrategy = "wal_log"', "strategy", 1, "needs PostgreSQL 15 or later", "later version"),
        ('snapshot = "copy"', "snapshot", 0, 'is valid only with method = "snapshot"', "remove it"),
        ('method = "snapshot"\nsnapshot = "lvm"', "snapshot", 1, "LVM restores a whole volume", None),
        ('method = "snapshot"\nsnapshot = "btrfss"', "snapshot", 1, '"zfs", not "btrfss"', 'mean "btrfs"?'),
        ("prewarm = true", "prewarm", 0, '"none", "pg_prewarm" or "read", not true', None),
        ('checkpoint = "yes"', "checkpoint", 0, "must be true or false", None),
    ):
        refuse(tmp_path, RESET + lines, f"reset.{field}", said, hint or "", FIRST + line)
    # a method needs what it restores
    text = NEW + 'method = "template"\nfile_copy_method = "clone"'
    assert the_problem(tmp_path, text).message == 'is valid only with strategy = "file_copy"'
    for method in ("template", "snapshot", "reload"):
        found = the_problem(tmp_path, NO_DATASET + f'method = "{method}"')
        assert found.message == f'"{method}" restores a dataset, and the workload has none'
    assert the_problem(tmp_path, NO_DATASET + 'consistency = "full"').path == "reset.consistency"


def test_all_problems_are_reported_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pgdyno.plan.checks.reset, "DROP_CACHES", tmp_path / "not there")
    text = RESET + 'method = "template"\nstrategy = "file_copy"\nfile_copy_method = "clone"\ndrop_cache = "machine"\n'
    found = problems(tmp_path, text)
    assert [(problem.path, problem.line) for problem in found] == [
        ("reset.strategy", FIRST + 1),
        ("reset.file_copy_method", FIRST + 2),
        ("reset.drop_cache", FIRST + 3),
    ]
    assert "target old (14)" in found[0].message
    assert "needs PostgreSQL 18 or later" in found[1].message
    assert found[2].hint == 'run as root, or set drop_cache = "files"'
    assert the_problem(tmp_path, RESET, "reset.strategy=wal_log").hint == "given by --set; remove it"


def test_versions_that_are_known_only_when_the_run_starts(tmp_path: Path) -> None:
    programs(tmp_path, "initdb", "postgres")
    text = RESET.replace('kind = "embedded"\nversion = "14"', f'kind = "local"\nbin = "{tmp_path}"')
    read = loaded(tmp_path, text + 'method = "template"\nstrategy = "wal_log"\n')
    check_found(read.plan, {"old": 15, "new": 18}, {}, read.source, read.document, read.folder)
    with pytest.raises(PlanError) as caught:
        check_found(read.plan, {"old": 13, "new": 18}, {}, read.source, read.document, read.folder)
    (found,) = caught.value.problems
    assert (found.path, found.line) == ("reset.strategy", FIRST + 1)
    assert "target old (13)" in found.message


MEMORY = "/dev/shm"
ELSEWHERE = RESET.replace('version = "18.1"', f'version = "18.1"\nenvironment = {{ data = "{MEMORY}" }}')
KEPT = RESET.replace('version = "18.1"', 'version = "18.1"\nkeep_data = true')
IN_MEMORY = ELSEWHERE.replace(MEMORY, "tmpfs")


def test_a_snapshot_that_a_file_system_cannot_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = the_problem(tmp_path, RESET + 'method = "snapshot"\nsnapshot = "btrfs"')
    assert missing.message == "program btrfs is not on the PATH"
    programs(tmp_path, "btrfs", "zfs")
    for plan, way, said in (
        (ELSEWHERE, "btrfs", "/dev/shm is on tmpfs"),
        (ELSEWHERE, "reflink", "/dev/shm is on tmpfs, where files cannot share blocks"),
        (IN_MEMORY, "btrfs", "its cluster is in memory"),
        (KEPT, "zfs", "its cluster is kept (keep_data)"),
    ):
        message = f'"{way}" is not possible for target new: {said}'
        refuse(tmp_path, plan + f'method = "snapshot"\nsnapshot = "{way}"', "reset.snapshot", message)
        load(tmp_path, plan + 'method = "snapshot"\nsnapshot = "copy"')


COPY = "restore the cluster from a stopped copy"
