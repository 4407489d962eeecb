"""What a plan needs of the machine, the order of checks, their page in the docs, and their messages."""

import re
from pathlib import Path
from typing import cast

import pytest

from pgdyno.audit.rules.preflight import RULE
from pgdyno.audit.subject import Subject
from pgdyno.doctor import CHECKS, Needs, Place, generator, needs, not_fine, round_trips, storage, worst
from pgdyno.doctor.check import good, note, stop, unknown, warning
from pgdyno.doctor.generator import Ceiling
from pgdyno.doctor.needs import needs_of_plan, size_of
from pgdyno.doctor.storage import SyncTime
from pgdyno.messages import Message, message_json
from pgdyno.plan import load_plan
from pgdyno.records import Check, CheckVerdict
from pgdyno.report.translation import Language, translate, use_language
from pgdyno.targets import Home
from tests.unit.audit_sample import own
from tests.unit.plan_sample import loaded, small_plan

OF_B = """keep_data = true
connect = "tcp"
settings = {{ Shared_Buffers = 1000, max_wal_size = "3GB", huge_pages = "yes" }}"""
PLAN = (
    small_plan('scripts = ["{script}"]', "clients = [4, 32]\nscale = [1, 10]", a="17", b="18")
    .replace('"17"', '"17"\nsettings = {{ shared_buffers = "2GB", fsync = "{fsync}" }}')
    .replace('"18"', f'"18"\n{OF_B}')
    + '[reset]\nmethod = "{method}"\n'
)


def swept(folder: Path, sweep: str, more: str = "") -> Needs:
    plan = small_plan('scripts = ["tpcb-like"]', f"clients = 2\n{sweep}", 'duration = "1s"', a="18")
    return needs_of_plan(loaded(folder, plan + more), Home.locate(folder / "home"))


def asked(folder: Path, *, script: str = "tpcb-like", method: str = "vacuum", fsync: str = "on") -> Needs:
    path = folder / "two.toml"
    path.write_text(PLAN.format(script=script, method=method, fsync=fsync))
    return needs_of_plan(load_plan(path), Home.locate(folder / "home"))


def test_needs_of_a_plan(tmp_path: Path) -> None:
    found = asked(tmp_path)
    assert (found.clients, found.protocol, found.servers, found.statements) == (32, "simple", 2, 7)
    assert found.scripts == ("-b", "tpcb-like")
    assert found.shared_buffers == (2 << 30, 1000 * 8192)
    assert (found.huge_pages, found.tcp, found.writes, found.durable) == ("on", True, True, True)
    assert found.datasets == (15_000_000, 150_000_000)
    # room is a sum where servers share a folder
    (place,) = found.places
    assert place.roles == ("data and WAL of a", "data and WAL of b")
    assert place.bytes == 2 * (needs.CLUSTER_BYTES + 150_000_000) + (1 << 30) + (3 << 30)
    assert (place.kept, place.wal, place.path.is_dir()) == (True, True, True)
    # a template takes room twice
    assert asked(tmp_path, method="template").places[0].bytes - place.bytes == 2 * 150_000_000
    assert not asked(tmp_path, script="select-only").writes
    # a script file is assumed to write unless its text shows that it reads
    (tmp_path / "mine.sql").write_text("SELECT f();\n")
    found = asked(tmp_path, script="mine.sql")
    assert (found.scripts, found.writes) == ((), True)
    (tmp_path / "mine.sql").write_text("SELECT 1;\n")
    assert not asked(tmp_path, script="mine.sql").writes
    # loads on standbys
    replicas = "[target.a.replicas]\ncount = 2\n"
    load = '[replica_load]\nscripts = ["select-only"]\nclients = 10\n'
    for more, clients in ((replicas, 0), (replicas + load, 10)):
        of_standbys = swept(tmp_path, "", more)
        assert (of_standbys.servers, of_standbys.background_clients, of_standbys.sessions) == (3, clients, 2 + clients)


def test_the_most_demanding_value_of_a_sweep_counts(tmp_path: Path) -> None:
    found = swept(tmp_path, '"settings.shared_buffers" = ["1GB", "4GB", "512MB"]\nrate = [100, 2500]')
    assert (found.shared_buffers, found.rate_per_s) == ((4 << 30,), 2500)
    # and none that no point has
    own = '[target.a.settings]\nshared_buffers = "64GB"\n'
    assert swept(tmp_path, '"settings.shared_buffers" = ["1GB", "2GB"]', own).shared_buffers == (2 << 30,)
    assert not swept(tmp_path, '"settings.fsync" = ["off"]').durable
    assert swept(tmp_path, '"settings.fsync" = ["off", "on"]').durable
    assert not swept(tmp_path, "", '[target.a.session_settings]\nsynchronous_commit = "off"\n').durable
    for own_settings, sweep, huge_pages in (
        ('huge_pages = "TRY"', "", "try"),
        ('huge_pages = "Off"', "", "off"),
        ("", '"settings.huge_pages" = ["off", "on"]', "on"),
        ('huge_pages = "on"', '"settings.huge_pages" = ["off", "try"]', "try"),
    ):
        assert swept(tmp_path, sweep, f"[target.a.settings]\n{own_settings}\n").huge_pages == huge_pages


ENVIRONMENTS = """\
[target.memory.environment]
data = "tmpfs"
tmpfs_size = "2GB"
[target.disk.environment]
data = "{folder}/data"
wal = "{folder}/wal"
"""
AWAY = '[target.away]\nkind = "dsn"\ndsn = "host=db.example.net"\n'


def test_folders_elsewhere_and_servers_elsewhere(tmp_path: Path) -> None:
    for name in ("data", "wal"):
        (tmp_path / name).mkdir()
    load = 'scripts = ["select-only"]\nscale = 10'
    text = small_plan(load, memory="18", disk="18") + ENVIRONMENTS.format(folder=tmp_path) + AWAY
    found = needs_of_plan(loaded(tmp_path, text), Home.locate(tmp_path / "home"))
    assert (found.servers, found.targets_here, found.on_this_host) == (2, 2, True)
    memory, disk = sorted(found.places, key=lambda place: not place.in_memory)
    assert (str(memory.path), memory.roles, memory.limit_bytes) == ("/dev/shm", ("data and WAL of memory",), 2 << 30)
    # both on the same file system here
    assert (disk.roles, disk.in_memory, disk.wal) == (("data of disk", "WAL of disk"), False, True)
    assert disk.bytes == needs.CLUSTER_BYTES + 150_000_000 + (1 << 30)
    # a server elsewhere needs nothing here
    away = small_plan(load).replace('[target.pg18]\nkind = "embedded"\nversion = "18"\n', AWAY)
    found = needs_of_plan(loaded(tmp_path, away), Home.locate(tmp_path / "home"))
    assert (found.servers, found.on_this_host, found.places, found.shared_buffers) == (0, False, (), ())


@pytest.mark.parametrize(
    ("text", "count"),
    [("1GB", 1 << 30), ("16384", 128 << 20), ("1.5GB", 3 << 29), ("512kB", 1 << 19), ("", 128 << 20), ("x", 128 << 20)],
)
def test_sizes_of_settings(text: str, count: int) -> None:
    assert size_of({"shared_buffers": text}, "shared_buffers") == count


def test_the_worst_of_several_verdicts_counts() -> None:
    text = Message("text", "text")
    checks = [good("cpu.cores", text), unknown("cpu.turbo", text), note("cpu.steal", text, text)]
    assert worst(checks) == "note"
    assert worst([*checks, stop("storage.free", text, text, "change"), warning("machine.load", text, text)]) == "stop"
    assert worst([]) == "good"
    assert [check.id for check in not_fine(checks)] == ["cpu.steal"]


def test_checks_and_verdicts_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "doctor.md").read_text()
    table = page.partition("## Checks")[2].partition("## JSON")[0]
    assert dict(re.findall(r"^\| `([a-z.-]+)` \| ([^|]+) \|", table, re.MULTILINE)) == dict(CHECKS)
    assert [each for each in ("good", "unknown", "note", "warning", "stop") if f"| {each} |" not in page] == []


# ---- checks as messages ----

DATA_PLACE = Place(Path("/data"), ("data of pg18",), bytes=100 << 30)
LOADED = Needs(plan="p", servers=1, rate_per_s=90_000.0)
TOLD = [
    storage.free(DATA_PLACE, 50 << 30, 100 << 30),
    storage.sync_time(DATA_PLACE, LOADED, SyncTime(3_000, 90_000, 1_000)),
    generator.ceiling(LOADED, Ceiling(tps=100_000, p50_us=80, clients=1, workers=2, threads=1)),
    round_trips.round_trip(Needs(statements=7), 1_500, Message("path-over-loopback", "to pgnull over loopback")),
]


@pytest.mark.parametrize("check", TOLD, ids=[check.id for check in TOLD])
def test_a_check_is_stored_with_its_messages(check: Check) -> None:
    stored = Check.model_validate_json(check.model_dump_json())
    assert (str(stored.state), str(stored.consequence)) == (check.found, check.means)
    with use_language(Language.KOREAN):
        assert translate(stored.state) != check.found
        assert translate(stored.consequence) != check.means


def test_programs_read_ids_and_parameters() -> None:
    details = message_json(TOLD[0].state)
    assert (details["id"], details["message"]) == ("space-needed", TOLD[0].found)
    assert details["parameters"].items() >= {"space_id": "space-free", "place": "/data (data of pg18)"}.items()
    # in the audit, too
    (finding,) = RULE.findings(cast(Subject, own(preflight=[TOLD[2]])))
    assert finding.message == f"generator.ceiling: {TOLD[2].found}: {TOLD[2].means}"
    assert finding.parameters.items() >= {"found_id": "ceiling-and-rate", "means_id": "starts-late"}.items()
    # a check of an earlier version has only sentences
    check = Check(id="cpu.turbo", verdict=CheckVerdict.NOTE, found="on", means="few clients seem faster")
    assert (str(check.state), str(check.consequence)) == ("on", "few clients seem faster")
