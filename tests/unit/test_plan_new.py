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


def test_an_existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("mine")
    with pytest.raises(UsageError, match="already exists"):
        write_new_plan(path)
    assert path.read_text() == "mine"
    with pytest.raises(UsageError, match="already exists"):
        write_new_plan(tmp_path)


def test_a_folder_without_write_permission(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        write_new_plan(tmp_path / "no" / "mine.toml")
    with pytest.raises(StoreError, match="cannot write"):
        write_new_plan(tmp_path / ("x" * 300))


def test_a_kind_that_there_is_not() -> None:
    with pytest.raises(UsageError, match="no plan for targets of kind embeded") as caught:
        new_plan(Path("x"), "embeded")
    assert caught.value.hint == "did you mean embedded?"


def test_a_local_target_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("pg_config", "initdb", "postgres"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    text = new_plan(tmp_path / "mine.toml", "local")
    assert tomllib.loads(text)["target"] == {"local": {"kind": "local", "bin": str(programs)}}
    (tmp_path / "mine.toml").write_text(text)
    assert load_plan(tmp_path / "mine.toml").plan.target["local"].kind == "local"


def test_no_installation_to_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("pgdyno.plan.output.new._INSTALLED", str(tmp_path))
    with pytest.raises(UsageError, match="found no PostgreSQL"):
        new_plan(tmp_path / "mine.toml", "local")


@pytest.mark.parametrize(
    ("file", "name"), [("a.toml", "a"), ("ä.toml", "plan"), ("-.toml", "plan"), ("x y.z", "x-y-z")]
)
def test_a_plan_is_called_as_its_file(file: str, name: str) -> None:
    assert tomllib.loads(new_plan(Path(file)))["name"] == name
