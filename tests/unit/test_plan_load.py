"""Finding and reading plans; overrides; `--on NAME`: other targets instead of the plan's."""

from pathlib import Path

import pytest

from pgdyno.commands.support.plan_budget import within_budget
from pgdyno.errors import ExitCode, PlanError, UsageError
from pgdyno.plan import load_plan
from pgdyno.targets.dsn.schema import DsnTarget
from pgdyno.targets.embedded.schema import EmbeddedTarget
from pgdyno.targets.pool.schema import PoolTarget
from tests.unprivileged import unprivileged

MINE = """\
name = "mine"
target.pg18 = { kind = "embedded", version = "18" }
workload.scripts = ["select-only"]
sweep.clients = [1, 2]
trial.duration = "10s"
[target.old]
kind = "embedded"
version = "17"
[workload.variables]
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    monkeypatch.chdir(tmp_path)
    return path


def problems(plan: Path, *overrides: str) -> list[str]:
    with pytest.raises(PlanError) as caught:
        load_plan(plan, overrides)
    return [each.message for each in caught.value.problems]


def test_a_file_comes_before_the_catalogue_and_a_folder_does_not(mine: Path) -> None:
    loaded = load_plan("mine.toml")
    assert (loaded.source, loaded.text, loaded.folder) == ("mine.toml", MINE, mine.parent)
    assert loaded.plan.trial.duration == 10.0
    (mine.parent / "quick").mkdir()
    assert load_plan("quick").plan.name == "quick"
    (mine.parent / "quick").rmdir()
    mine.rename("quick")
    assert load_plan("quick").plan.name == "mine"


@pytest.mark.usefixtures("mine")
def test_what_is_no_plan_that_can_be_read(mine: Path) -> None:
    # a TOML file that is no plan is not offered
    (mine.parent / "pyproject.toml").write_text("[project]\n")
    for source, hint in (
        ("quik", "did you mean quick?"),
        ("mnie.toml", "did you mean mine.toml?"),
        ("zzz", "files here: mine.toml"),
        ("./quick", "catalogue: "),
        ("mine.toml/x", "catalogue: "),
    ):
        with pytest.raises(UsageError) as caught:
            load_plan(source)
        assert f"plan {source} does not exist" in caught.value.message
        assert hint in (caught.value.hint or "")
        assert "pyproject" not in (caught.value.hint or "")
    with pytest.raises(UsageError, match="is a folder"):
        load_plan(mine.parent)
    mine.chmod(0)
    with unprivileged():
        (message,) = problems(mine)
    assert "permission denied" in message


def test_files_that_are_not_toml(mine: Path) -> None:
    for content, line, message in (
        (b"a = 1\nname = quick\nb = 2\n", 2, "invalid value"),
        (b'a = 1\n\nname = "quick\nb = 2\n', 3, "does not end on this line"),
        (b"a = 1\na = 2\n", 2, "the key has a value above"),
        (b"[target.a]\nb = 1\n[target.a]\nc = 1\n", 3, "the table is above already: target.a"),
        (b"a = 1\n\nb = [1,\n", 3, "invalid TOML"),
        (b"a = " + b"9" * 5_000, None, "invalid TOML: a number has too many digits"),
        (b"a = 1\nb = '\xff'\n", 2, "not UTF-8"),
        (b"a = " + b"[" * 5000, None, "too deeply"),
    ):
        mine.write_bytes(content)
        with pytest.raises(PlanError) as caught:
            load_plan(mine)
        (problem,) = caught.value.problems
        assert problem.line == line
        assert message.lower() in problem.message.lower()
        assert caught.value.exit_code is ExitCode.PLAN


@pytest.mark.usefixtures("mine")
def test_overrides_and_those_that_make_no_sense() -> None:
    plan = load_plan(
        "mine.toml",
        [
            "trial.duration=5s", 'trial.warmup="1s"', "sweep.clients[1]=8", "sweep.workers=[1]",
            "target.pg18.settings.work_mem=64MB", "target.pg18.settings.jit=false", "target.old.version=18",
            'workload.variables = { range = 7, "x" = "a=b" }', "workload.scripts=['tpcb-like@2', 'select-only']",
            "description=two words",
        ],
    ).plan  # fmt: skip
    assert (plan.trial.duration, plan.trial.warmup, plan.sweep.clients, plan.sweep.workers) == (5.0, 1.0, [1, 8], [1])
    assert plan.target["pg18"].settings == {"work_mem": "64MB", "jit": "off"}
    assert isinstance(plan.target["old"], EmbeddedTarget)
    assert plan.target["old"].version == "18"
    assert plan.workload.variables == {"range": "7", "x": "a=b"}
    assert (plan.workload.scripts, plan.description) == (["tpcb-like@2", "select-only"], "two words")
    # they do not leak into the next plan
    assert load_plan("mine.toml").plan.sweep.clients == [1, 2]
    for override, message in (
        ("trial.repeats", "expected KEY=VALUE"),
        ("=5", "expected a key"),
        ("sweep.clients=[1,2", "not valid TOML"),
        ("sweep.clients[2]=1", "has 2 elements"),
        ("sweep.clients.x=1", "is a list"),
        ("sweep[0]=1", "is a table, not a list"),
        ("name.x=1", "is one value, not a table"),
        ("name[0].x=1", "is one value, not a list"),
        ("trial.repeats=1\nseed=2", "not TOML|one value"),
        ('sweep.clients."²"=1', "its elements are"),
    ):
        with pytest.raises(UsageError, match=message):
            load_plan("mine.toml", [override])


def test_deep_keys_endless_numbers_and_passwords_are_refused(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep, digits = "a." * 3_000 + "b = 1", "9" * 5_000
    assert problems(mine, deep) == ["is nested too deeply"]
    load_plan(mine, [f'target.pg18.settings.max_connections="{digits}"'])
    weight = problems(mine, f'workload.scripts=["select-only@{digits}"]')
    assert weight == ["the weight of select-only must be at most 2147483647"]
    mine.write_text(f"{deep}\n{MINE}")
    assert problems(mine) == ["is nested too deeply"]
    # the plan in a manifest has no password
    monkeypatch.setenv("PGPASSWORD", "s3cret")
    loaded = load_plan("quick")
    assert "s3cret" not in repr(loaded) + str(loaded.plan.as_resolved())
    for place in ("target.pg18.password=s3cret", "workload.PGPASSWORD=s3cret", "password=s3cret"):
        with pytest.raises(PlanError) as caught:
            load_plan("quick", [place])
        assert [problem.message for problem in caught.value.problems] == ["unknown key"]
        assert "s3cret" not in str(caught.value.problems)


# ---- --on ----

RENTED = """\
name = "two"
[target.rds]
kind = "rds"
version = "17"
instance = "db.m7g.large"
[on.small.mine]
kind = "embedded"
version = "17"
settings = { work_mem = "8MB" }
[on.wrong.mine]
kind = "embedded"
vershun = "17"
[workload]
scripts = ["select-only"]
[sweep]
clients = 1
[trial]
duration = "5s"
"""


@pytest.fixture
def rented(tmp_path: Path) -> Path:
    file = tmp_path / "two.toml"
    file.write_text(RENTED)
    return file


def test_other_targets_have_overrides_of_their_own_and_mistakes_with_lines(rented: Path) -> None:
    loaded = load_plan(rented).plan
    assert list(loaded.target) == ["rds"]
    # the others are no part of what runs
    assert "on" not in loaded.as_resolved()
    chosen = load_plan(rented, ["target.mine.version=16"], "small").plan
    (target,) = chosen.target.values()
    assert isinstance(target, EmbeddedTarget)
    assert (list(chosen.target), target.version, target.settings) == (["mine"], "16", {"work_mem": "8MB"})
    with pytest.raises(PlanError) as caught:
        load_plan(rented, on="wrong")
    assert [(each.path, each.line) for each in caught.value.problems if "vershun" in each.path] == [
        ("target.mine.vershun", 12)
    ]
    with pytest.raises(UsageError) as usage:
        load_plan(rented, on="nowhere")
    assert usage.value.hint is not None
    assert "available: dsn, embedded, pool, small, wrong" in usage.value.hint


def test_every_plan_has_a_server_of_this_machine_and_one_that_libpq_finds(rented: Path) -> None:
    (here,) = load_plan(rented, on="embedded").plan.target.values()
    assert isinstance(here, EmbeddedTarget)
    (there,) = load_plan(rented, on="dsn").plan.target.values()
    assert isinstance(there, DsnTarget)
    assert there.dsn == ""
    hosts = """target.host.hosts=[{host="db1"}]"""
    (borrowed,) = load_plan(rented, [hosts], "pool").plan.target.values()
    assert isinstance(borrowed, PoolTarget)
    assert [each.host for each in borrowed.hosts] == ["db1"]
    with pytest.raises(PlanError) as caught:
        load_plan(rented, on="pool")
    assert [(each.path, each.hint) for each in caught.value.problems] == [
        ("target.host.hosts", 'such as hosts = [{ host = "db1.example.net", user = "root" }]')
    ]


@pytest.mark.parametrize("name", ["aurora-sysbench", "graviton-pgbench", "pgecons-queries", "pgecons-tprocc"])
def test_a_plan_of_the_catalogue_that_rents_can_be_small(name: str) -> None:
    here = load_plan(name, on="embedded")
    assert here.warnings == []
    small = within_budget(here, "5m").plan
    assert all(isinstance(each, EmbeddedTarget) for each in small.target.values())
    assert load_plan(name, on="dsn").plan.points()
    (host,) = load_plan(name, ['target.host.hosts=[{host="db1"}]'], "pool").plan.target.values()
    assert isinstance(host, PoolTarget)
    assert host.version == "17"
