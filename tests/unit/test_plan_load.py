"""Finding and reading plans; overrides."""

import os
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode, PlanError, UsageError
from pgdyno.plan import catalogue, load_plan
from pgdyno.targets.embedded.schema import EmbeddedTarget

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


def test_every_plan_of_the_catalogue_is_right_and_described() -> None:
    entries = catalogue()
    assert "quick" in [entry.name for entry in entries]
    for entry in entries:
        assert load_plan(entry.name).plan.name == entry.name
        assert entry.description


def test_a_file_by_path(mine: Path) -> None:
    loaded = load_plan("mine.toml")
    assert (loaded.source, loaded.text, loaded.folder) == ("mine.toml", MINE, mine.parent)
    assert loaded.plan.trial.duration == 10.0


def test_a_file_comes_before_the_catalogue(mine: Path) -> None:
    mine.rename("quick")
    assert load_plan("quick").plan.name == "mine"


def test_a_folder_of_the_name_does_not_hide_the_catalogue(mine: Path) -> None:
    (mine.parent / "quick").mkdir()
    assert load_plan("quick").plan.name == "quick"


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("quik", "did you mean quick?"),
        ("mnie.toml", "did you mean mine.toml?"),
        ("zzz", "files here: mine.toml"),
        ("./quick", "catalogue: "),
        ("mine.toml/x", "catalogue: "),
    ],
)
@pytest.mark.usefixtures("mine")
def test_no_such_plan(source: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_plan(source)
    assert f"plan {source} does not exist" in caught.value.message
    assert hint in (caught.value.hint or "")


def test_a_toml_file_that_is_no_plan_is_not_offered(mine: Path) -> None:
    (mine.parent / "pyproject.toml").write_text("[project]\n")
    with pytest.raises(UsageError) as caught:
        load_plan("zzz")
    assert "pyproject" not in (caught.value.hint or "")


def test_a_folder_is_no_plan(mine: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        load_plan(mine.parent)


def test_a_file_that_cannot_be_read(mine: Path) -> None:
    mine.chmod(0)
    before = os.geteuid()
    if before == 0:  # whom a mode does not stop
        os.seteuid(65534)
    try:
        with pytest.raises(PlanError) as caught:
            load_plan(mine)
    finally:
        os.seteuid(before)
    assert "permission denied" in caught.value.problems[0].message


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (b"a = 1\nname = quick\nb = 2\n", 2, "invalid value"),
        (b'a = 1\n\nname = "quick\nb = 2\n', 3, "does not end on this line"),
        (b"a = 1\na = 2\n", 2, "the key has a value above"),
        (b"[target.a]\nb = 1\n[target.a]\nc = 1\n", 3, "the table is above already: target.a"),
        (b"a = 1\n\nb = [1,\n", 3, "invalid TOML"),
        (b"a = " + b"9" * 5_000, None, "invalid TOML: a number has too many digits"),
        (b"a = 1\nb = '\xff'\n", 2, "not UTF-8"),
        (b"a = " + b"[" * 5000, None, "too deeply"),
    ],
)
def test_files_that_are_not_toml(mine: Path, content: bytes, line: int | None, message: str) -> None:
    mine.write_bytes(content)
    with pytest.raises(PlanError) as caught:
        load_plan(mine)
    (problem,) = caught.value.problems
    assert problem.line == line
    assert message.lower() in problem.message.lower()
    assert caught.value.exit_code is ExitCode.PLAN


@pytest.mark.usefixtures("mine")
def test_overrides() -> None:
    plan = load_plan(
        "mine.toml",
        [
            "trial.duration=5s",
            'trial.warmup="1s"',
            "sweep.clients[1]=8",
            "sweep.workers=[1]",
            "target.pg18.settings.work_mem=64MB",
            "target.pg18.settings.jit=false",
            "target.old.version=18",
            'workload.variables = { range = 7, "x" = "a=b" }',
            "workload.scripts=['tpcb-like@2', 'select-only']",
            "description=two words",
        ],
    ).plan
    assert (plan.trial.duration, plan.trial.warmup, plan.sweep.clients, plan.sweep.workers) == (5.0, 1.0, [1, 8], [1])
    assert plan.target["pg18"].settings == {"work_mem": "64MB", "jit": "off"}
    assert isinstance(plan.target["old"], EmbeddedTarget)
    assert plan.target["old"].version == "18"
    assert plan.workload.variables == {"range": "7", "x": "a=b"}
    assert plan.workload.scripts == ["tpcb-like@2", "select-only"]
    assert plan.description == "two words"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("trial.repeats", "expected KEY=VALUE"),
        ("=5", "expected a key"),
        ("sweep.clients=[1,2", "not valid TOML"),
        ("sweep.clients[2]=1", "has 2 elements"),
        ("sweep.clients.x=1", "is a list"),
        ("sweep[0]=1", "is a table, not a list"),
        ("name.x=1", "is one value, not a table"),
        ("name[0].x=1", "is one value, not a list"),
        ("trial.repeats=1\nseed=2", "not TOML|one value"),
    ],
)
@pytest.mark.usefixtures("mine")
def test_overrides_that_make_no_sense(override: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_plan("mine.toml", [override])


@pytest.mark.usefixtures("mine")
def test_overrides_do_not_leak_into_the_next_plan() -> None:
    load_plan("mine.toml", ["sweep.clients[0]=9"])
    assert load_plan("mine.toml").plan.sweep.clients == [1, 2]


def test_the_plan_in_a_manifest_has_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "s3cret")
    loaded = load_plan("quick")
    assert "s3cret" not in repr(loaded) + str(loaded.plan.as_resolved())
    for place in ("target.pg18.password=s3cret", "workload.PGPASSWORD=s3cret", "password=s3cret"):
        with pytest.raises(PlanError) as caught:
            load_plan("quick", [place])
        assert [problem.message for problem in caught.value.problems] == ["unknown key"]
        assert "s3cret" not in str(caught.value.problems)


@pytest.mark.parametrize("in_file", [True, False], ids=["file", "override"])
def test_dotted_keys_that_nest_too_deeply(mine: Path, in_file: bool) -> None:
    deep = "a." * 3_000 + "b = 1"
    if in_file:
        mine.write_text(f"{deep}\n{MINE}")
    with pytest.raises(PlanError) as caught:
        load_plan(str(mine), [] if in_file else [deep])
    assert [problem.message for problem in caught.value.problems] == ["is nested too deeply"]


def test_numbers_without_an_end_in_texts(mine: Path) -> None:
    digits = "9" * 5_000
    load_plan(str(mine), [f'target.pg18.settings.max_connections="{digits}"'])
    with pytest.raises(PlanError) as caught:
        load_plan(str(mine), [f'workload.scripts=["select-only@{digits}"]'])
    assert [problem.message for problem in caught.value.problems] == [
        "the weight of select-only must be at most 2147483647"
    ]
    with pytest.raises(UsageError, match="its elements are"):
        load_plan(str(mine), ['sweep.clients."²"=1'])
