"""`pgdyno plan new`: the plan is valid as written, and its comments explain the rest."""

import re
import tomllib
from pathlib import Path

import pytest

from pgdyno.errors import StoreError, UsageError
from pgdyno.plan import load_plan
from pgdyno.plan.output.new import new_plan, write_new_plan
from pgdyno.plan.reading.problems import SECTIONS


def test_the_new_plan_is_right_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "my first.toml"
    write_new_plan(path)
    plan = load_plan(path).plan
    assert (plan.name, list(plan.target)) == ("my-first", ["pg18"])
    with pytest.raises(UsageError, match="already exists"):
        write_new_plan(path)
    assert load_plan(path).plan == plan
    with pytest.raises(UsageError, match="already exists"):
        write_new_plan(tmp_path)
    with pytest.raises(UsageError, match="does not exist"):
        write_new_plan(tmp_path / "no" / "mine.toml")
    with pytest.raises(StoreError, match="cannot write"):
        write_new_plan(tmp_path / ("x" * 300))


def test_a_scenario_is_right_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "beside.toml"
    write_new_plan(path, template="scenario.toml")
    plan = load_plan(path).plan
    assert (plan.name, [group.name for group in plan.group]) == ("beside", ["orders", "reports", "sleepers"])
    assert len(plan.points()) == 3
    # its steps are valid, too
    lines = path.read_text().splitlines()
    begin = lines.index("# [[step]]")
    (tmp_path / "indexes.sql").write_text("SELECT 1;\n")
    steps = [line.removeprefix("# ") for line in lines[begin:]]
    kept = [line for line in lines[:begin] if not line.startswith(("warmup", "duration"))]
    path.write_text("\n".join([*kept, *steps]))
    assert [step.name for step in load_plan(path).plan.step] == ["fill", "index", "reports beside orders"]


def test_every_section_is_in_it() -> None:
    text = new_plan(Path("mine.toml"))
    for section in SECTIONS:
        assert f"[{section}]" in text
    assert max(map(len, text.splitlines())) <= 120


def test_commented_out_lines_are_valid(tmp_path: Path) -> None:
    """Each commented-out key is valid without its comment mark."""
    lines = new_plan(tmp_path / "mine.toml").splitlines()
    options = [at for at, line in enumerate(lines) if re.match(r"# [\w.]+ = ", line)]
    assert len(options) > 10
    for at in options:
        changed = list(lines)
        changed[at] = lines[at].removeprefix("# ")
        back = at - 1
        while lines[back].startswith("# ") and not lines[back].startswith("# ["):
            back -= 1
        if lines[back].startswith("# ["):
            # of a table that is commented out: all of it
            end = next(number for number in range(back, len(lines) + 1) if not "".join(lines[number : number + 1]))
            changed = [line.removeprefix("# ") if back <= number < end else line for number, line in enumerate(lines)]
        if "[[phase]]" in changed:
            changed = [line for line in changed if not line.startswith(("warmup", 'duration = "10s"'))]
        if "[[step]]" in changed:
            changed = [line for line in changed if not line.startswith(("warmup", 'duration = "10s"'))]
            changed += ["[[group]]", 'name = "orders"', 'scripts = ["select-only"]']
        if "[[group]]" in changed and "background = true" not in changed:
            changed = [line for line in changed if not line.startswith("clients = [")]
        (tmp_path / "mine.toml").write_text("\n".join(changed))
        assert load_plan(tmp_path / "mine.toml").plan.points(), lines[at]


def test_the_kind_of_target_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no plan for targets of kind embeded") as caught:
        new_plan(Path("x"), "embeded")
    assert caught.value.hint == "did you mean embedded?"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("pgdyno.plan.output.new._INSTALLED", str(tmp_path))
    with pytest.raises(UsageError, match="found no PostgreSQL"):
        new_plan(tmp_path / "mine.toml", "local")
    # the newest of Debian's, unless a pg_config is on the path
    for name in ("9.6/bin/initdb", "9.6/bin/postgres", "17/bin/initdb", "17/bin/postgres"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert str(tmp_path / "17" / "bin") in new_plan(tmp_path / "mine.toml", "local")
    for name in ("pg_config", "initdb", "postgres"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    write_new_plan(tmp_path / "mine.toml", "local")
    assert load_plan(tmp_path / "mine.toml").plan.target["local"].model_dump()["bin"] == str(tmp_path)


def test_a_plan_is_called_as_its_file() -> None:
    for file, name in (("a.toml", "a"), ("ä.toml", "plan"), ("-.toml", "plan"), ("x y.z", "x-y-z")):
        assert tomllib.loads(new_plan(Path(file)))["name"] == name
