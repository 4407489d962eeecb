"""Targets on a pool of hosts: keys of the plan, and cost."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pgdyno.commands.plan import cost
from pgdyno.commands.support.rental_cost import Consent, agree_for_run
from pgdyno.errors import TargetError
from pgdyno.plan.hosts import SshSpec
from pgdyno.targets.pool import provider, rental
from pgdyno.targets.pool.host_script import _quote_value
from pgdyno.targets.pool.schema import PoolTarget
from pgdyno.targets.rented.provider import Wanted, provider_of
from pgdyno.targets.rented.rental_journal import Journal, Place
from tests.unit.plan_sample import load, problems, small_plan

PLAN = small_plan(db="17").replace(
    '"embedded"\nversion = "17"', '"pool"\nversion = "17"\nhosts = [{ host = "db1" }, { host = "db2" }]'
)


def plan_with(more: str) -> str:
    return PLAN.replace("[workload]", f"{more}\n[workload]")


def test_impossible_keys_of_a_host_are_refused(tmp_path: Path) -> None:
    for more, said in (
        ('folder = "pgdyno"', "target.db.folder: pgdyno is not an absolute path"),
        ('allow = ["192.0.2.1/24"]', "target.db.allow[0]: 192.0.2.1/24 has host bits set"),
        ('parameters = { port = "5433" }', "target.db.parameters.port: cannot be set: use the target's key port"),
        ('parameters = { include_dir = "x" }', "target.db.parameters.include_dir: is not the name of a setting"),
        ('ready_within = "0s"', "target.db.ready_within: must be more than 0s"),
        ('settings = { shared_buffers = "1GB" }', "put it under parameters"),
        ('[target.b]\nkind = "pool"\nversion = "17.2"\nhosts = [{ host = "a" }]', "come in their newest minor version"),
        (
            "".join(f'[target.{each}]\nkind = "pool"\nversion = "16"\nhosts = [{{ host = "db1" }}]\n' for each in "ab"),
            "3 targets need as many hosts, but the plan names 2",
        ),
        ("instances = 3", "3 servers, instances included, need as many hosts"),
    ):
        found = [f"{each.path}: {each.message}; {each.hint}" for each in problems(tmp_path, plan_with(more))]
        assert said.replace("[0]", "") in "\n".join(found).replace("[0]", "").replace(".0:", ":")


def test_initdb_makes_nothing_that_the_clean_up_would_not_find(tmp_path: Path) -> None:
    for argument in ("--waldir=/nvme/wal", "-D", "-kX/x", "--auth=trust"):
        plan = load(tmp_path, plan_with(f'initdb = ["--wal-segsize=64", "{argument}"]'))
        with pytest.raises(TargetError, match=f"target db: cannot pass {argument} to initdb"):
            provider.PROVIDER.preflight(plan, tmp_path, print, 60)
        assert list(provider.PROVIDER.journals(tmp_path)) == []


def test_your_host_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))
    plan = load(tmp_path, PLAN)
    assert provider_of(plan) is provider.PROVIDER
    # nothing is asked, though standard input is no terminal
    assert agree_for_run(plan, Consent()) == (None, None)
    cost(str(tmp_path / "mine.toml"))
    assert capsys.readouterr().out.startswith("the pool of hosts has no prices")


def borrowed(home: Path, *hosts: str) -> Journal:
    """The journal of a run that has these hosts, each for a target of the same name."""
    expires = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    journal = Journal.begin(home / "pool", "rack", "digest", expires)
    for host in hosts:
        journal.note_intent("host", host, "", host, ssh=SshSpec(host=host).model_dump(mode="json"))
        journal.is_ready(host, Place(host, 5432, "pgdyno", "the pool", host, "17"))
    return journal


def test_a_host_that_is_given_back_is_neither_taken_for_up_nor_given_back_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = borrowed(tmp_path, "db1", "db2")
    asked = []
    monkeypatch.setattr(rental, "on_host", lambda ssh, command, *_, **__: asked.append((ssh.host, command)))
    rental.Rental(load(tmp_path, PLAN), journal, print).release("db1")
    assert asked == [("db1", "give-back")]
    # the run still records what it was
    assert list(journal.ready) == ["db1", "db2"]
    (read,) = provider.PROVIDER.journals(tmp_path)
    assert (read.run, read.plan, read.digest, read.expires) == (journal.run, "rack", "digest", journal.expires)
    assert (read.noted, read.ready) == (journal.noted, {"db2": journal.ready["db2"]})
    assert [rental.ssh_of(each) for each in read.noted] == [SshSpec(host="db2")]
    assert abs(read.begun - datetime.now(UTC)) < timedelta(minutes=1)
    assert not read.hold()
    reaper = provider.PROVIDER.reaper(tmp_path, [])
    said: list[str] = []
    assert reaper.places == ["db2"]
    assert reaper.reap(Wanted(journal.run), said.append).found == []
    assert said == [f"another pgdyno process uses run {journal.run}"]
    journal.close()
    assert list(provider.PROVIDER.journals(tmp_path)) == []
    assert not read.hold()


def test_texts_reach_the_host_as_they_are() -> None:
    spec = PoolTarget(kind="pool", version="17", hosts=[SshSpec(host="a")], parameters={"search_path": "a'b, \\c"})
    assert "search_path = 'a''b, \\\\c'\n" in rental._settings(spec, "/srv/x")
    assert _quote_value(["--a b", "$(x)"]) == "('--a b' '$(x)')"
    assert _quote_value([]) == "()"
    assert _quote_value("it's") == "'it'\"'\"'s'"


def test_a_host_that_has_returned_itself_is_not_prolonged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = load(tmp_path, PLAN)
    journal = borrowed(tmp_path, "db1", "db2", "db3")
    expires = journal.expires
    asked = []

    def answer(ssh: SshSpec, command: str, *_: str) -> str:
        asked.append((ssh.host, command))
        return "borrowed\n" if ssh.host == "db1" else "free\n"

    monkeypatch.setattr(rental, "on_host", answer)
    said = f"the run {journal.run} no longer has db2 and db3: it expired there"
    with pytest.raises(TargetError, match=said):
        rental.Rental(plan, journal, lambda _: None).prolong(expires + timedelta(hours=8))
    assert asked == [("db1", "prolong"), ("db2", "prolong"), ("db3", "prolong")]
    assert journal.expires == expires
