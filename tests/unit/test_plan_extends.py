"""Plans that extend others: merged and replaced keys, and the file and line in messages."""

from pathlib import Path

import pytest

from pgdyno.errors import PlanError, Problem, UsageError
from pgdyno.plan import Plan, load_plan
from pgdyno.targets.embedded.schema import EmbeddedTarget

BASE = """\
name = "base"
[target.pg18]
kind = "embedded"
version = "18"
settings = { work_mem = "4MB", jit = "off" }
[workload]
scripts = ["select-only"]
scale = 5
[sweep]
clients = [1, 2]
settings.work_mem = ["4MB", "8MB"]
[trial]
warmup = "1s"
duration = "10s"
repeats = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "base.toml").write_text(BASE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plan(folder: Path, text: str, *overrides: str) -> Plan:
    (folder / "mine.toml").write_text(text)
    return load_plan("mine.toml", overrides).plan


def problems(folder: Path, text: str, *overrides: str) -> list[Problem]:
    with pytest.raises(PlanError) as caught:
        plan(folder, text, *overrides)
    return caught.value.problems


def places(folder: Path, text: str, *overrides: str) -> list[tuple[str | None, int | None, str]]:
    return [(problem.source, problem.line, problem.path) for problem in problems(folder, text, *overrides)]


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("SELECT 1;")


def test_tables_are_merged_and_lists_replaced_in_a_chain_of_plans(folder: Path) -> None:
    for name in ("base", "base.toml", "./base.toml"):
        text = (
            f'extends = "{name}"\nname = "mine"\nsweep.clients = [4]\ntrial.repeats = 6\n'
            'target.pg18.settings.jit = "on"\ntarget.pg17 = { kind = "embedded", version = "17" }\n'
        )
        found = plan(folder, text)
        assert (found.name, found.sweep.clients, found.workload.scale) == ("mine", [4], 5)
        assert (found.trial.repeats, found.trial.duration) == (6, 10.0)
        assert list(found.target) == ["pg18", "pg17"]
        assert isinstance(found.target["pg18"], EmbeddedTarget)
        assert found.target["pg18"].settings == {"work_mem": "4MB", "jit": "on"}
        assert found.sweep.settings == {"work_mem": ["4MB", "8MB"]}
        assert "extends" not in found.as_resolved()
    # in a chain, overrides come last, and a file before the catalogue
    (folder / "middle.toml").write_text('extends = "base"\nname = "middle"\nworkload.scale = 7\ntrial.repeats = 4\n')
    found = plan(folder, 'extends = "middle"\ntrial.repeats = 9\n')
    assert (found.name, found.workload.scale, found.trial.repeats, found.sweep.clients) == ("middle", 7, 9, [1, 2])
    found = plan(folder, 'extends = "base"\nsweep.clients = [4]\n', "sweep.clients[0]=8", "workload.scale=2")
    assert (found.sweep.clients, found.workload.scale) == ([8], 2)
    found = plan(folder, 'extends = "quick"\nname = "mine"\nworkload.scale = 1\n')
    assert (found.name, found.workload.scale, found.workload.scripts) == ("mine", 1, ["select-only"])
    (folder / "quick.toml").write_text(BASE)
    assert plan(folder, 'extends = "quick"\n').name == "base"
    with pytest.raises(UsageError, match="cannot apply --set extends"):
        plan(folder, BASE, "extends=quick")


def test_settings_of_a_sweep_are_merged_and_what_excludes_inherited_keys_replaces_them(folder: Path) -> None:
    found = plan(folder, 'extends = "base"\n[sweep]\n"settings.work_mem" = "1MB"\nsettings.jit = "off"\n')
    assert found.sweep.settings == {"work_mem": ["1MB"], "jit": ["off"]}
    phased = BASE.replace('warmup = "1s"\nduration = "10s"\n', "") + '[[phase]]\nname = "a"\nduration = "1s"\n'
    (folder / "phased.toml").write_text(phased)
    # a duration takes the place of phases
    found = plan(folder, 'extends = "phased"\ntrial.duration = "5s"\nsweep.rate = 10\n')
    assert (found.phase, found.trial.duration, found.sweep.rate) == ([], 5.0, [10.0])
    # another kind of target inherits nothing
    missing = problems(folder, 'extends = "base"\ntarget.pg18 = { kind = "local", bin = "/nowhere" }\n')
    assert [problem.message for problem in missing] == ["there is no folder /nowhere"]
    for own, kept in (
        ("trial.transactions = 10", (None, 0.0, 10)),
        ('[[phase]]\nname = "a"\nduration = "1s"', (None, 0.0, None)),
        ('trial.duration = "1s"', (1.0, 1.0, None)),
    ):
        trial = plan(folder, f'extends = "base"\n{own}\n').trial
        assert (trial.duration, trial.warmup, trial.transactions) == kept


def test_missing_keys_are_those_of_the_extending_plan(folder: Path) -> None:
    (folder / "base.toml").write_text("[workload]\nscale = 2\n")
    assert ("base.toml", 1, "workload.scripts") in places(folder, 'extends = "base"\nname = "mine"\n')
    assert (None, 2, "workload.scripts") in places(folder, 'extends = "base"\nworkload.scale = 3\n')


def test_conflicts_are_reported_where_the_value_is_written(folder: Path) -> None:
    own, too_few = 'extends = "base"\n', "target.pg18.settings.max_connections=2"
    for found in (places(folder, f"{own}{too_few}\n"), places(folder, own, too_few)):
        assert found == [("base.toml", 10, "sweep.clients[1]")]
    (folder / "base.toml").write_text("name = x\n")
    with pytest.raises(PlanError) as caught:
        plan(folder, 'extends = "base"\n')
    assert (caught.value.source, caught.value.problems[0].line) == ("base.toml", 1)


def test_files_that_cannot_be_extended(folder: Path) -> None:
    for extends, message, hint in (
        ('"bsae"', "plan bsae does not exist", "did you mean base"),
        ('"no/base.toml"', "does not exist", None),
        ("5", "must be the name of a plan", 'extends = "quick"'),
        ('""', "must be the name of a plan", None),
        ('"mine"', "forms a cycle: mine.toml → mine.toml", None),
    ):
        (problem,) = problems(folder, f'name = "mine"\nextends = {extends}\n')
        assert (problem.path, problem.line) == ("extends", 2)
        assert message in problem.message
        assert (hint or "") in (problem.hint or "")
    (folder / "a.toml").write_text('extends = "b"\n')
    (folder / "b.toml").write_text('name = "b"\nextends = "./a.toml"\n')
    with pytest.raises(PlanError) as caught:
        load_plan("a.toml")
    (problem,) = caught.value.problems
    assert caught.value.source == "b.toml"
    assert (problem.line, problem.message) == (2, "forms a cycle: a.toml → b.toml → a.toml")


@pytest.mark.parametrize("own", [False, True], ids=["alone", "beside others of their names"])
def test_scripts_are_found_beside_the_plan_that_names_them(folder: Path, own: bool) -> None:
    touch(folder, "sub/a.sql", "sub/a.lua", "b.sql", *(["a.sql", "a.lua"] if own else []))
    base = folder / "sub" / "base.toml"
    base.write_text(
        BASE.replace('"select-only"', '"select-only", "a.sql@3"').replace('warmup = "1s"\nduration = "10s"\n', "")
        + '[[phase]]\nname = "a"\nduration = "1s"\nmix = { "a.sql" = 1 }\n'
    )
    found = plan(folder, 'extends = "sub/base.toml"\n')
    assert (found.workload.scripts, found.phase[0].mix) == (["select-only", "sub/a.sql@3"], {"sub/a.sql": 1})
    assert load_plan("mine.toml").folder == folder
    assert plan(folder, 'extends = "sub/base.toml"\nworkload.scripts = ["b.sql"]\nphase = []\ntrial.duration = "1s"\n')
    standbys = BASE.replace("[workload]", "replicas = { count = 1 }\n[workload]")
    base.write_text(standbys.replace("[sweep]", '[replica_load]\nscripts = ["a.sql@2"]\nclients = 1\n[sweep]'))
    (load_on_replicas,) = plan(folder, 'extends = "sub/base.toml"\n').group
    assert load_on_replicas.scripts == ["sub/a.sql@2"]
    base.write_text(BASE.replace('scripts = ["select-only"]\nscale = 5', 'lua = "a.lua"'))
    assert plan(folder, 'extends = "sub/base.toml"\n').workload.lua_script == "sub/a.lua"


def test_sources_are_relative_to_the_plan_that_names_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = folder / "below"
    touch(folder, "pg/configure", "below/bw/Makefile", "below/v1.patch")
    target = """[target.mine]
kind = "build"
source = "../pg"
patches = ["v1.patch"]
extensions = [{ source = "bw", patches = ["./v1.patch"] }]
"""
    (below / "base.toml").write_text(BASE + target)
    monkeypatch.chdir(folder.parent)
    (folder / "mine.toml").write_text('extends = "below/base"\nname = "mine"\n')
    for name in ("mine.toml", "below/base.toml"):
        mine = load_plan(folder / name).plan.target["mine"].model_dump()
        assert mine["source"] == str(folder / "pg")
        assert mine["patches"] == [str(below / "v1.patch")]
        (extension,) = mine["extensions"]
        assert (extension["source"], extension["patches"]) == (str(below / "bw"), [str(below / "v1.patch")])


def test_what_cannot_be_built_is_a_problem_of_its_line(folder: Path) -> None:
    touch(folder, "pg/configure", "bw/Makefile")
    for target, path in (
        ('kind = "build"\nsource = "pg"\npatches = ["gone.patch"]', "target.new.patches[0]"),
        ('kind = "build"\nsource = "gone"', "target.new.source"),
        ('kind = "build"\nsource = "pg"\nextensions = [{ source = "pg" }]', "target.new.extensions[0].source"),
        ('kind = "embedded"\nversion = "18"\nextensions = [{ source = "bw" }]', "target.new.extensions"),
    ):
        ((source, line, found),) = places(folder, f'extends = "base"\nname = "mine"\n[target.new]\n{target}\n')
        assert (source, found) == (None, path) or (Path(str(source)).name, found) == ("mine.toml", path)
        assert line is not None
