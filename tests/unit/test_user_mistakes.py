"""Mistakes of new users: each gets a message that names the remedy."""

import json
import os
import pwd
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest
import typer
from typer.core import TyperCommand
from typer.testing import CliRunner

from commands_page import commands
from pgdyno.cli import app, configured_defaults
from pgdyno.commands.comparison.compare import compare, gate
from pgdyno.commands.comparison.print_comparisons import print_comparisons
from pgdyno.commands.plan import check
from pgdyno.commands.rented.selftest import keys_of
from pgdyno.commands.serve import serve
from pgdyno.commands.support.carry_out import check_folder
from pgdyno.commands.support.options import PLAN_KEYS, complete_plans
from pgdyno.commands.support.report_files import read_prices, write_report_file
from pgdyno.console import Console
from pgdyno.errors import ExitCode, PgdynoError, PlanError, StoreError, UsageError
from pgdyno.plan import load_plan
from pgdyno.report.translation import Language
from pgdyno.store import RunFolder
from pgdyno.targets.connection import Address, connecting_hint
from pgdyno.user_config import LANGUAGES, config_path, read_config
from tests.unit.plan_sample import load, problems, small_plan
from tests.unit.store_sample import sample_manifest
from tests.unprivileged import unprivileged


def plan(*, version: str = "18", script: str = "select-only", clients: int = 1, repeats: int = 3) -> str:
    text = small_plan(
        f'scripts = ["{script}"]', f"clients = {clients}", f'duration = "1s"\nrepeats = {repeats}', pg=version
    )
    return text.replace("[workload]", "[target.pg.settings]\nmax_connections = 300\n[workload]")


def problem(folder: Path, text: str) -> tuple[str, str, str | None]:
    first = problems(folder, text)[0]
    return first.path, first.message, first.hint


def test_numbers_that_are_too_large_and_byte_order_marks_of_scripts_are_refused(tmp_path: Path) -> None:
    trials = "the plan has 1,800,000,000 trials; the maximum is 100,000"
    clients = "1,000,000 clients are more than PostgreSQL accepts; the maximum is 262,043"
    versions = "use a version from 10 to 19"
    for text, found in (
        (plan(repeats=1_800_000_000), ("trial.repeats", trials, "reduce repeats, or the sweep")),
        (plan(clients=1_000_000), ("sweep.clients", clients, "use fewer clients")),
        (plan(version="9.6"), ("target.pg.version", "there is no PostgreSQL 9.6 to download", versions)),
        (plan(version="99"), ("target.pg.version", "there is no PostgreSQL 99 to download", versions)),
    ):
        assert problem(tmp_path, text) == found
    # a byte order mark is skipped in a plan, and refused in a script
    (tmp_path / "q.sql").write_text("SELECT 1;\n")
    assert load(tmp_path, "\ufeff" + plan(script="q.sql")).name == "mine"
    (tmp_path / "q.sql").write_text("\ufeffSELECT 1;\n", encoding="utf-8")
    _, message, hint = problem(tmp_path, plan(script="q.sql"))
    assert message.endswith("q.sql begins with a byte order mark, which the server would read")
    assert hint == "save it as UTF-8 without a byte order mark"


def test_a_loop_and_a_file_without_an_end_are_no_plans(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises((PlanError, UsageError)):
        load_plan(tmp_path / "a")
    (tmp_path / "plan.toml").write_text('extends = "/dev/zero"\n')
    for source in ("/dev/zero", str(tmp_path / "plan.toml")):
        with pytest.raises(PlanError) as caught:
            load_plan(source)
        (found,) = caught.value.problems
        assert found.message == "cannot be read: file too large"


def fails(words: list[str], message: str, error: type[PgdynoError] = UsageError) -> None:
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, error), result.output
    assert str(result.exception) == message


def test_commands_name_what_they_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.toml").write_text("")
    (tmp_path / "folder").mkdir()
    for words in (["serve"], ["history"], ["list", "--runs"]):
        fails([*words, "plan.toml"], "plan.toml is not a folder", StoreError)
    for option in (["--set", "trial.repeats=3"], ["--on", "dsn"], ["--budget", "1m"]):
        fails(["doctor", *option], f"{option[0]} needs a plan")
    fails(["reap"], "no resources selected")
    fails(["reap", "--all", "--run", "x"], "--run, --all and --expired exclude each other")
    # a gate checks its files before it measures again
    for option in (["--md"], ["--junit"]):
        fails(["gate", "latest", *option, "no/gate"], "cannot write no/gate: folder no does not exist", StoreError)
    for path in (".", "/", "folder"):
        with pytest.raises(StoreError, match=f"^cannot write {path}: is a directory$"):
            write_report_file(Path(path), "report")
    assert {each.name for each in tmp_path.iterdir()} == {"plan.toml", "folder"}
    with pytest.raises(StoreError, match="nosuch does not exist"):
        serve(tmp_path / "nosuch")
    # a command that is printed can be pasted
    assert "pgdyno run 'my plan.toml'" in CliRunner().invoke(app, ["plan", "new", "my plan.toml"]).stdout


def test_runs_without_trials_and_twice_the_same_are_mistakes(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, sample_manifest(trials_planned=40))
    name = folder.path.name
    for command in (compare, gate):
        with pytest.raises(UsageError, match=rf"run {name} has no finished trials to compare \(0 of 40 ran\)"):
            command(str(folder.path))
    twice = ["report", name, name, "--runs", str(tmp_path), "--html", str(tmp_path / "x")]
    fails(twice, f"{name} and {name} are the same run: {folder.path}")
    result = CliRunner().invoke(app, ["report", str(folder.path), "--html", "/dev/full"])
    assert str(result.exception) == "cannot write /dev/full: no space left on device"
    # which is no folder of runs
    assert getattr(result.exception, "hint", "") is None


def test_a_note_about_both_runs_is_printed_once_and_json_has_problems_and_the_exit_code(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    print_comparisons([], [], ["not recorded in the run: storage"] * 2, Console())
    assert capsys.readouterr().out.count("not recorded") == 1
    (tmp_path / "plan.toml").write_text(plan(version="99"))
    assert check(str(tmp_path / "plan.toml"), json=True) is ExitCode.PLAN
    found = json.loads(capsys.readouterr().out)
    (told,) = found["problems"]
    assert (found["valid"], told["path"], told["line"]) == (False, "target.pg.version", 4)
    assert check(str(tmp_path / "plan.toml"), ["target.pg.version=18"], json=True) is ExitCode.OK
    assert json.loads(capsys.readouterr().out)["valid"]


def test_a_price_list_that_is_no_text_and_prices_without_their_keys(tmp_path: Path) -> None:
    path = tmp_path / "price.toml"
    for content, message in ((b"\xe4", "is not UTF-8"), (b"\xef\xbb\xbfa = 1", "is not a price list")):
        path.write_bytes(content)
        with pytest.raises(UsageError, match=message):
            read_prices(path)
    with pytest.raises(UsageError, match="file too large"):
        read_prices(Path("/dev/zero"))
    hints = {each.path: each.hint or "" for each in problems(tmp_path, plan() + "[price]\n")}
    assert hints.keys() == {"price.currency", "price.date", "price.years", "price.target"}
    assert hints["price.target"].startswith("such as [price.target.NAME]")
    assert all(hints.values())


def test_a_port_without_a_server() -> None:
    with pytest.raises(Exception, match="cannot connect") as caught:
        Address({"host": "127.0.0.1", "port": "1"}).connect("postgres")
    assert caught.value.hint == "check host and port, and whether the server runs and listens on TCP"  # type: ignore[attr-defined]
    assert str(caught.value).count("refused") == 1


def test_an_option_of_pgbench_is_answered_with_the_plan_s_key() -> None:
    for option in ("-c", "--client", "--clients", "-j", "-T", "--time", "--rate", "-s", "-M"):
        message = f"Error: No such option: {option}; the plan sets this: --set {PLAN_KEYS[option]}"
        for command in ("run quick", "tune plan.toml", "plan check quick"):
            done = CliRunner().invoke(app, [*command.split(), option, "4"])
            assert (done.exit_code, done.stderr.splitlines()[-1]) == (2, message)
        without_a_plan = CliRunner().invoke(app, ["show", "latest", option, "4"])
        assert "the plan" not in without_a_plan.stderr
    # the keys are a plan's
    sweep = load_plan("quick", sorted(set(PLAN_KEYS.values()))).plan.sweep
    assert (sweep.clients, sweep.workers, sweep.protocol) == ([4], [2], ["prepared"])


def test_completes_plans_files_and_runs_wherever_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queue.toml").touch()
    (tmp_path / "quotes").mkdir()
    (tmp_path / "queries.sql").touch()
    assert complete_plans("qu") == ["quick", "queue.toml", "quotes/"]
    monkeypatch.setenv("PGDYNO_RUNS", str(tmp_path))
    folder = RunFolder.create(tmp_path, sample_manifest())
    completed = 0
    for words, command in commands(typer.main.get_command(app), ()):
        for each in command.params:
            if each.metavar in ("RUN", "OTHER", "BASELINE", "CANDIDATE"):
                context = typer.Context(TyperCommand(" ".join(words)))
                assert [run.value for run in each.shell_complete(context, "2")] == [folder.name], words
                completed += 1
    assert completed > 10


def test_the_configuration_file_has_defaults_for_every_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert configured_defaults() == {}
    (tmp_path / "pgdyno").mkdir()
    file = tmp_path / "pgdyno" / "config.toml"
    file.write_text('runs = "/srv/runs"\nlanguage = "ja"\n')
    assert configured_defaults()["show"] == {"runs": "/srv/runs", "language": "ja"}
    assert configured_defaults()["import"]["into"] == "/srv/runs"
    # the folder of a model is no folder of runs
    assert "into" not in configured_defaults()["synthesise"]
    for text, message in [
        ("runs = 1", "must be a string"),
        ("colour = 1", "unknown key colour"),
        ("runs", "cannot read"),
        ("runs = " + "9" * 5_000, "cannot read"),
        ("runs = " + "[" * 5_000, "cannot read"),
        ('language = "xx"', "config.toml: there is no language 'xx'"),
        ('language = "\xe4"', "it is not UTF-8"),
    ]:
        file.write_bytes(text.encode("latin-1"))
        with pytest.raises(UsageError, match=message):
            read_config(file)
    assert tuple(Language) == LANGUAGES
    # an account without a home directory has none
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)

    def unknown(number: int) -> NoReturn:
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert read_config(config_path()) == {}


@pytest.mark.parametrize("value", ["9" * 5_000, "[" * 5_000], ids=["digits", "nested"])
def test_no_price_and_no_option_has_a_value_without_an_end(tmp_path: Path, value: str) -> None:
    (tmp_path / "price.toml").write_text(f"years = {value}")
    with pytest.raises(UsageError, match=r"price\.toml is not valid TOML"):
        read_prices(tmp_path / "price.toml")
    with pytest.raises((PlanError, UsageError)):
        load_plan("quick", [f"workload.scale={value}"])
    assert keys_of([f"region={value}"]) == {"region": value}


def run_in_a_pipe(*words: str, **environment: str) -> bytes:
    command = [sys.executable, "-m", "pgdyno", *words]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def test_output_has_whole_names_in_any_encoding() -> None:
    for encoding in ("latin-1", "ascii"):
        assert b"quick" in run_in_a_pipe("plan", "list", PYTHONIOENCODING=encoding)
    lines = run_in_a_pipe("plan", "list", PYTHONIOENCODING="utf-8").decode().splitlines()
    assert all(line == line.rstrip() for line in lines)
    assert any(line.startswith("aurora-sysbench") and len(line) > 80 for line in lines)


LONG, NOBODY = "x" * 300, "~nobody-has-this-name/x"


@pytest.mark.parametrize("path", [LONG, f"/{LONG}", NOBODY])
def test_a_path_that_cannot_exist_in_a_plan_is_reported_with_its_line(tmp_path: Path, path: str) -> None:
    others = {"known_hosts": path, "config": path}
    targets = {
        "bin": f'kind = "local"\nbin = "{path}"',
        "source": f'kind = "build"\nsource = "{path}"',
        "data": f'kind = "embedded"\nversion = "18"\nenvironment = {{ data = "{path}" }}',
        **{
            key: f'kind = "dsn"\ndsn = "host=db"\ndatabase = "d"\nssh = {{ host = "db", {key} = "{value}" }}'
            for key, value in others.items()
        },
    }
    for key, target in targets.items():
        text = small_plan().replace('kind = "embedded"\nversion = "18"', target)
        assert any(each.path.endswith(key) for each in problems(tmp_path, text)), key
    problems(tmp_path, small_plan(f'scripts = ["{path}"]'))
    problems(tmp_path, f'extends = "{path}"\n[workload]\nscripts = ["{path}"]\n')
    (tmp_path / "plan.toml").write_text(f'extends = "quick"\n[workload]\nscripts = ["{path}"]\n')
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "plan.toml").write_text('extends = "../plan"\n')
    with pytest.raises(PlanError):
        load_plan(tmp_path / "below" / "plan.toml")
    problems(tmp_path, 'extends = "."\n')


@pytest.mark.parametrize("path", [LONG, f"{LONG}/y", NOBODY])
def test_a_path_that_cannot_exist_is_a_mistake_for_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (
        "run", "plan check", "plan new", "show", "history", "list --runs", "serve", "show latest --runs",
        "compare latest", "run quick --runs /dev/null --html", "synthesise",
    ):  # fmt: skip
        result = CliRunner().invoke(app, [*words.split(), path])
        assert result.exit_code == 0 or isinstance(result.exception, (PgdynoError, SystemExit)), result.exception


def test_folders_that_may_not_be_used_are_a_mistake_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "closed").mkdir(mode=0)
    for words in (["show", "closed/run"], ["history", "closed/runs"], ["list", "--runs", "closed/runs"]):
        CliRunner().invoke(app, words)
        with unprivileged():
            result = CliRunner().invoke(app, words)
        assert isinstance(result.exception, PgdynoError), result.exception
    # a folder for runs is checked before anything is measured
    (tmp_path / "plan.toml").write_text("")
    check_folder(tmp_path / "a" / "b")
    with pytest.raises(StoreError, match="toml is not a folder"):
        check_folder(tmp_path / "plan.toml" / "runs")
    tmp_path.chmod(0o555)
    with unprivileged(), pytest.raises(StoreError, match="permission denied"):
        check_folder(tmp_path / "runs")


def test_a_password_file_that_others_may_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for mode, hint in ((None, "set PGPASSWORD"), (0o600, "set PGPASSWORD"), (0o644, "chmod 600 ")):
        file = tmp_path / "pgpass"
        monkeypatch.setenv("PGPASSFILE", str(file))
        if mode is not None:
            file.touch(mode)
            file.chmod(mode)
        found = connecting_hint("fe_sendauth: no password supplied")
        assert found is not None
        assert found.startswith(hint)
