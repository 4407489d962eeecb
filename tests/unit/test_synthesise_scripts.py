"""Scripts of captures whose transactions, values and times are known, distributions of values, and the command."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pgdyno.errors import UsageError
from pgdyno.plan import load_plan
from pgdyno.programs import find_engine
from pgdyno.records.capture import CAPTURE_FILE, STATEMENTS_FILE, Capture, Source
from pgdyno.synthesise.distributions import Constant, Distribution, Histogram, ScatteredZipf, Uniform, Weighted, Zipf
from pgdyno.synthesise.fit_values import MOST_LISTED, fit, tolerance
from pgdyno.synthesise.model_folder import plan_text
from pgdyno.synthesise.modelled_load import Model, model_log
from pgdyno.synthesise.scripts import has_command
from pgdyno.synthesise.transactions import Left
from tests.captured_load import CapturedLoad
from tests.forked import run_pgdyno

pytestmark = pytest.mark.slow

RNG_SEED = 20261123
TPCB = (
    "BEGIN;",
    "UPDATE pgbench_accounts SET abalance = abalance + {delta} WHERE aid = {aid};",
    "SELECT abalance FROM pgbench_accounts WHERE aid = {aid};",
    "UPDATE pgbench_tellers SET tbalance = tbalance + {delta} WHERE tid = {tid};",
    "UPDATE pgbench_branches SET bbalance = bbalance + {delta} WHERE bid = {bid};",
    "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ({tid}, {bid}, {aid}, {delta}, now());",
    "END;",
)


def modelled(load: CapturedLoad, tmp_path: Path, least: float = 0.001) -> Model:
    """The model of `load`, whose scripts pgdrive accepts."""
    folder = load.write(tmp_path / "load")
    model = model_log(folder, load.capture(), least)
    for script in model.scripts:
        path = tmp_path / script.name
        path.write_text(script.text)
        command = [str(find_engine().path), "--check", f"--protocol={model.protocol}", f"--file={path}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stderr}\n{script.text}"
        assert len(script.commands) == sum(
            line.endswith(";") or " \\gset " in line for line in script.text.splitlines()
        )
    return model


def of_one(statement: Callable[[np.random.Generator, int], str], tmp_path: Path, count: int = 600) -> str:
    """The script of a load of one statement, 100 ms apart, without its head."""
    rng, load = np.random.default_rng(RNG_SEED), CapturedLoad()
    for number in range(count):
        load.add(0, number * 100_000, statement(rng, number))
    (script,) = modelled(load, tmp_path).scripts
    return script.text.split("\n\n", 1)[1]


def tpcb(count: int = 1_000) -> CapturedLoad:
    rng, load = np.random.default_rng(RNG_SEED), CapturedLoad()
    at = [0] * 4
    for number in range(count):
        values = {
            "aid": rng.integers(1, 1_000_001),
            "bid": rng.integers(1, 11),
            "tid": rng.integers(1, 101),
            "delta": rng.integers(-5_000, 5_001),
        }
        session = number % 4
        at[session] = 100 + load.add(session, at[session], *(each.format(**values) for each in TPCB))
    return load


def test_tpcb_comes_back_as_one_script_of_four_variables(tmp_path: Path) -> None:
    model = modelled(tpcb(), tmp_path)
    (script,) = model.scripts
    drawn = dict(re.findall(r"^\\set (\w+) (.*)$", script.text, re.MULTILINE))
    assert drawn == {
        "abalance": "random(-5000, 5000)", "aid": "random(1, 1000000)", "tid": "random(1, 100)", "bid": "random(1, 10)",
    }  # fmt: skip
    statements = [line for line in script.text.splitlines() if line and not line.startswith(("\\", "--"))]
    written = {name: f":{name}" for name in ("aid", "bid", "tid")} | {"delta": ":abalance"}
    assert statements == [each.format(**written) for each in TPCB]
    assert script.weight == 1_000
    assert script.commands == list(range(7))
    assert (model.arrivals.clients, model.arrivals.rate, model.modelled) == (4, None, 1.0)
    assert model_log(tmp_path / "load", tpcb().capture(), 0.001) == model


@pytest.mark.parametrize(("pause_us", "is_kept"), [(100, True), (50_000, False)], ids=["closed loop", "open loop"])
def test_each_client_keeps_the_number_that_its_session_kept(pause_us: int, is_kept: bool, tmp_path: Path) -> None:
    rng, load = np.random.default_rng(RNG_SEED), CapturedLoad()
    homes, at = [3, 1, 7, 3], [0] * 4
    for number in range(400):
        session = number % 4
        update = f"UPDATE district SET n = n + 1 WHERE w_id = {homes[session]} AND d_id = {rng.integers(1, 11)}"
        at[session] = pause_us + load.add(session, at[session], update)
    (script,) = modelled(load, tmp_path).scripts
    whens = " ".join(f"when :client_id % 4 = {place} then {home}" for place, home in enumerate(homes[:-1]))
    assert (f"\\set w_id case {whens} else 3 end\n" in script.text) is is_kept
    assert (":client_id" in script.text) is is_kept


def test_repeats_are_a_loop_and_those_that_ran_once_belong_to_it(tmp_path: Path) -> None:
    rng, load = np.random.default_rng(RNG_SEED), CapturedLoad()
    for number in range(600):
        lines = [
            each
            for _ in range(rng.integers(1, 6))
            for item in [rng.integers(1, 1_000)]
            for each in (f"SELECT price FROM item WHERE id = {item}", f"UPDATE stock SET n = n - 1 WHERE id = {item}")
        ]
        load.add(
            0, number * 10_000, "BEGIN", f"SELECT * FROM customer WHERE id = {rng.integers(1, 99)}", *lines, "COMMIT"
        )
    (script,) = modelled(load, tmp_path).scripts
    assert "\\set repeats random(1, 5)\n" in script.text
    assert script.text.count("SELECT price FROM item WHERE id = :id_2;") == 5
    assert script.text.count("UPDATE stock SET n = n - 1 WHERE id = :id_2;") == 5
    assert [int(each) for each in re.findall(r"^\\if :repeats >= (\d)$", script.text, re.MULTILINE)] == [2, 3, 4, 5]


@pytest.mark.long
def test_long_loops_are_written_as_often_as_they_ran_on_average(tmp_path: Path) -> None:
    load = CapturedLoad()
    for number in range(100):
        inserts = [f"INSERT INTO t (a) VALUES ({each % 7})" for each in range(10 + 1_000 * (number % 2))]
        load.add(0, number * 1_000_000, "BEGIN", *inserts, "COMMIT")
    (script,) = modelled(load, tmp_path).scripts
    assert script.text.count("INSERT INTO t") == 510


def with_a_session_that_waits() -> CapturedLoad:
    load = tpcb(400)
    last = max(int(str(row["at_us"])) for row in load.rows)
    load.add(9, 0, "SELECT count(*) FROM pgbench_branches")
    load.add(9, last, "SELECT count(*) FROM pgbench_branches")
    return load


def with_rounded_times() -> CapturedLoad:
    rng, load = np.random.default_rng(RNG_SEED), CapturedLoad()
    for session in range(4):
        now_us = 0.0
        for _ in range(500):
            us = int(rng.integers(300, 800))
            now_us += 20 + us
            # the line is of the end, in milliseconds
            load.add(session, int(now_us // 1_000) * 1_000 - us, "SELECT count(*) FROM pgbench_branches", us=us)
    return load


def with_commits_that_the_log_does_not_show() -> CapturedLoad:
    rng, load = np.random.default_rng(RNG_SEED), CapturedLoad()
    for session in range(4):
        now_us = 0
        for _ in range(300):
            values = [str(rng.integers(1, 100))]
            load.add(session, now_us, "UPDATE t SET a = a + 1 WHERE id = $1", parameters=[values], name="s1", us=400)
            now_us += 400 + int(rng.integers(2_000, 6_000))
    return load


@pytest.mark.parametrize(
    "load_of", [with_a_session_that_waits, with_rounded_times, with_commits_that_the_log_does_not_show]
)
def test_a_closed_loop_stays_one(load_of: Callable[[], CapturedLoad], tmp_path: Path) -> None:
    arrivals = modelled(load_of(), tmp_path).arrivals
    assert (arrivals.clients, arrivals.rate) == (4, None)


def test_parameters_are_sent_as_such_in_the_protocol_of_statements_that_can_have_them(tmp_path: Path) -> None:
    rng, load = np.random.default_rng(RNG_SEED), CapturedLoad()
    sql = "SELECT * FROM t WHERE id = $1 AND name = $2 LIMIT $3"
    for number in range(500):
        values = [str(rng.integers(1, 1_001)), f"n{rng.integers(10, 99)}", "10"]
        load.add(0, number * 50_000, sql, parameters=[values], name="s1")
    model = modelled(load, tmp_path)
    assert model.protocol == "prepared"
    text = model.scripts[0].text
    assert "\\set limit 10\n" in text
    assert text.endswith("WHERE id = :id AND name = ('n' || :name) LIMIT :limit;\n")
    rng, load = np.random.default_rng(RNG_SEED), CapturedLoad()
    at_us = 0
    for _ in range(300):
        # as drivers do: BEGIN and COMMIT are simple queries, and outnumber the statements in between
        load.add(0, at_us, "BEGIN", "SELECT a FROM t WHERE id = $1", "COMMIT", parameters=[[], ["1"], []])
        for row in load.rows[-3:]:
            row["kind"] = "extended" if row["parameters"] else "simple"
        load.rows[-2]["parameters"] = [str(rng.integers(1, 1_001))]
        load.add(0, at_us + 10_000, "SET application_name = 'x'")
        at_us += 50_000
    assert modelled(load, tmp_path).protocol == "extended"


def test_a_transaction_without_a_statement_is_not_covered(tmp_path: Path) -> None:
    load = tpcb(100)
    for number in range(20):
        for session, reason in ((9, "copy-data"), (10, "no-parameters")):
            load.add(session, number * 10_000, "BEGIN", "COMMIT", us=5_000, left_out=reason)
    model = modelled(load, tmp_path)
    assert {(each.reason, each.count) for each in model.left} == {(Left.COPY, 20), (Left.CUT, 20)}
    assert model.modelled < 1
    assert len(model.scripts) == 1


def test_pauses_within_transactions_are_kept_and_others_are_an_open_load(tmp_path: Path) -> None:
    load = CapturedLoad()
    for number in range(100):
        load.add(0, number * 1_000_000, "BEGIN", "SELECT 1", "COMMIT", us=500, apart_us=20_500)
    (script,) = modelled(load, tmp_path).scripts
    assert script.text.count("\\sleep 20000 us\n") == 2
    load = CapturedLoad()
    for number in range(1_000):
        load.add(number % 5, number * 20_000, f"SELECT {number}", us=2_000)
    model = modelled(load, tmp_path)
    assert (model.arrivals.clients, model.arrivals.rate) == (5, 50.05)
    assert "\nrate = 50.05\n" in plan_text("x", model)


LEFT_OUT = {
    Left.CUT: ["BEGIN|SELECT 2", "COMMIT", "COMMIT PREPARED 'a'", "BEGIN|SELECT 2|COMMIT AND CHAIN",
               "BEGIN|SELECT 2|COMMIT; BEGIN"],
    Left.SESSION_STATE: ["EXECUTE q(1)", "PREPARE q AS SELECT 1"],
    Left.COPY: ["COPY t FROM STDIN"],
    Left.DEFINES: ["CREATE TABLE t ()", "BEGIN|/* x */ vacuum|COMMIT"],
    Left.FAILED: ["BEGIN|SELECT 1|ROLLBACK"],
    Left.RARE: ["SELECT 2"],
}  # fmt: skip
"""Transactions that no script can have, by the reason."""


@pytest.mark.parametrize("reason", LEFT_OUT)
def test_what_no_script_can_have_is_left_out(reason: Left, tmp_path: Path) -> None:
    load = tpcb(100)
    for session, statements in enumerate(LEFT_OUT[reason], 9):
        load.add(session, 0, *statements.split("|"), us=1, failed=1 if reason is Left.FAILED else None)
    model = modelled(load, tmp_path)
    assert [(each.reason, each.count) for each in model.left] == [(reason, len(LEFT_OUT[reason]))]
    said = plan_text("model", model).replace("\n# ", " ")
    assert f"Left out: {len(LEFT_OUT[reason])} transactions, " in said
    assert f": {reason.value}." in said


def test_thousands_of_statements_are_named_at_once_and_at_most_forty_scripts_written(tmp_path: Path) -> None:
    load = CapturedLoad()
    load.add(9, 0, ";".join(["SELECT 1"] * 20_000))
    assert [script.name for script in modelled(load, tmp_path).scripts] == ["01-select-1-select.sql"]
    load = CapturedLoad()
    for number in range(50):
        load.add(0, number * 10_000, f"SELECT c{number} FROM t", us=1_000 + number)
    model = modelled(load, tmp_path)
    assert len(model.scripts) == 40
    assert [(each.reason, each.count) for each in model.left] == [(Left.MANY, 10)]
    assert "SELECT c49 FROM t;" in model.scripts[0].text


def test_a_capture_without_a_script_says_each_reason_once(tmp_path: Path) -> None:
    load = CapturedLoad()
    for number in range(3):
        load.add(9, 0, "BEGIN", f"SELECT {number} FROM t{number}", "ROLLBACK", failed=1)
    with pytest.raises(UsageError, match="can be in a script") as caught:
        modelled(load, tmp_path)
    assert caught.value.hint == f"3: {Left.FAILED.value}"


def test_commands_of_pgdrive_are_found_and_a_forged_capture_runs_none(tmp_path: Path) -> None:
    for sql, runs in (
        ("SELECT 1 \\shell touch x", True),
        ("SELECT ' $1 '\n\\setshell v touch x", True),
        ("SELECT '\\shell', E'\\'\\shell', $$\\shell$$, \"\\x\" -- \\shell\n /* \\shell */", False),
        ("SELECT 1 \\; SELECT 2", False),
    ):
        assert has_command(sql) is runs
    load = tpcb(100)
    sql = "SELECT ' '\\shell touch x' '"
    load.add(9, 0, sql)
    folder = load.write(tmp_path / "load")
    # a text that no parser makes: what is quoted in the capture is not in the script
    capture = load.capture()
    classes = [each.model_copy(update={"text": each.text.replace(sql, "SELECT ' $1 '")}) for each in capture.statements]
    model = model_log(folder, capture.model_copy(update={"statements": classes}), 0.0)
    assert not any("shell" in script.text for script in model.scripts)
    assert [each.reason for each in model.left] == [Left.UNREADABLE]
    # texts in comments stay on their line
    text = of_one(lambda rng, _: f"SELECT 'a\n\\shell touch x {rng.integers(1, 900)}'", tmp_path)
    assert not any(line.startswith("\\shell") for line in re.sub("'[^']*'", "", text).splitlines())


def test_a_log_without_exact_times_shows_no_pauses_and_counts_statements(tmp_path: Path) -> None:
    load = CapturedLoad()
    for number in range(400):
        load.add(0, number // 10 * 1_000_000, "SELECT 1", us=0)
    folder = load.write(tmp_path / "load")
    assert model_log(folder, load.capture(), 0).arrivals.rate is None
    arrivals = model_log(folder, load.capture().model_copy(update={"has_whole_seconds": True}), 0).arrivals
    assert arrivals.rate == pytest.approx(10, rel=0.05)
    assert "whole seconds" in arrivals.reason
    load = CapturedLoad()
    for number in range(200):
        load.add(0, number * 20_000, f"SELECT {number} FROM t", us=None)
    model = modelled(load, tmp_path)
    assert model.modelled == 1.0
    assert len(model.scripts) == 1


def synthesise(*words: str, at: Path) -> subprocess.CompletedProcess[str]:
    return run_pgdyno(["synthesise", *words], cwd=at, env=dict(os.environ))


def test_the_command_writes_a_plan(tmp_path: Path) -> None:
    tpcb(200).write(tmp_path / "shop")
    done = synthesise("shop", at=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "01-update-pgbench_accounts.sql  200 of 200 transactions (100.0 %)" in done.stdout
    made = tmp_path / "shop-model"
    assert {each.name for each in made.iterdir()} == {*("plan.toml", CAPTURE_FILE), "01-update-pgbench_accounts.sql"}
    capture = Capture.model_validate_json((made / CAPTURE_FILE).read_text())
    assert capture.commands == {"01-update-pgbench_accounts.sql": list(range(7))}
    # an ordinary role may not run CHECKPOINT
    assert not load_plan(made / "plan.toml").plan.reset.checkpoint


def change(**changes: Any) -> Callable[[Path], object]:  # noqa: ANN401 - fields of Capture
    def rewrite(folder: Path) -> None:
        capture = Capture.model_validate_json((folder / CAPTURE_FILE).read_text())
        if "statements" in changes:
            changes["statements"] = capture.statements[: changes["statements"]]
        (folder / CAPTURE_FILE).write_text(capture.model_copy(update=changes).model_dump_json())

    return rewrite


@pytest.mark.parametrize(
    ("damage", "code", "message"),
    [
        (lambda folder: (folder / CAPTURE_FILE).unlink(), 2, "is not a capture"),
        (lambda folder: (folder / STATEMENTS_FILE).unlink(), 6, STATEMENTS_FILE),
        (lambda folder: (folder / STATEMENTS_FILE).write_bytes(b"x" * 100), 6, "cannot read"),
        (lambda of: (of / STATEMENTS_FILE).write_bytes((of / STATEMENTS_FILE).read_bytes()[:-9]), 6, "cannot read"),
        (change(statements=2), 6, "a class that capture.json does not have"),
        (change(calls=0), 2, "has no statements"),
        (change(source=Source.STATEMENTS), 2, "--dsn"),
        (lambda folder: (folder.parent / "shop-model" / "x").mkdir(parents=True), 2, "exists and is not empty"),
    ],
)
def test_bad_folders_are_refused(damage: Callable[[Path], object], code: int, message: str, tmp_path: Path) -> None:
    damage(tpcb(50).write(tmp_path / "shop"))
    done = synthesise("shop", at=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert message in done.stderr
    assert not (tmp_path / "shop-model" / "plan.toml").exists()


SEEDS = st.integers(0, 2**32 - 1)
COUNT = 4_000


def sample(of: Distribution, seed: int, count: int = COUNT) -> NDArray[np.int64]:
    return of.draw(np.random.default_rng(seed), count)


def fit_sample(of: Distribution, seed: int) -> Distribution:
    found = fit(sample(of, seed))
    assert found.distance <= tolerance(COUNT)
    return found.distribution


@given(st.integers(-(10**9), 10**9), st.integers(1, 10**12), SEEDS)
@settings(max_examples=30, deadline=None)
def test_a_uniform_range_is_recovered(low: int, width: int, seed: int) -> None:
    found = fit_sample(Uniform(low, low + width), seed)
    assert isinstance(found, Uniform)
    assert abs(found.low - low) <= width * 8 / COUNT + 1
    assert abs(found.high - (low + width)) <= width * 8 / COUNT + 1


@given(st.floats(0.4, 2.0), st.sampled_from([1_000, 100_000, 50_000_000]), st.booleans(), SEEDS)
@settings(max_examples=40, deadline=None)
def test_the_exponent_of_zipf_is_recovered(exponent: float, size: int, falling: bool, seed: int) -> None:
    found = fit_sample(Zipf(1, size, exponent, falling), seed)
    assert isinstance(found, Zipf)
    assert found.falling is falling
    assert abs(found.exponent - exponent) < 0.05


@pytest.mark.long
@given(st.floats(0.8, 2.0), st.sampled_from([1_000, 100_000]), SEEDS)
@settings(max_examples=25, deadline=None)
@example(exponent=0.84375, size=100_000, seed=0)
def test_hot_keys_anywhere_in_the_range_are_recovered(exponent: float, size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys = sample(ScatteredZipf(1, size, size, exponent), seed)
    places = rng.permutation(size) + 1
    # a hot first key would be Zipf by value
    assume(100 < places[0] < size - 100)
    found = fit(places[keys - 1])
    assert isinstance(found.distribution, ScatteredZipf)
    assert found.distance <= tolerance(COUNT)
    assert abs(found.distribution.exponent - exponent) < 0.1


# of a few hundred values, one sample in forty misses the tolerance by chance
@pytest.mark.long
@given(st.floats(2.5, 6.0), st.integers(10**4, 10**9), SEEDS)
@settings(max_examples=30, deadline=None)
def test_values_around_a_middle_are_a_histogram(deviations: float, size: int, seed: int) -> None:
    drawn = np.random.default_rng(seed).normal(size / 2, size / 2 / deviations, COUNT)
    found = fit(np.clip(np.rint(drawn), 0, size).astype(np.int64))
    assert isinstance(found.distribution, Histogram)
    assert found.distance <= tolerance(COUNT)


@given(st.dictionaries(st.integers(-(10**6), 10**6), st.integers(1, 9), min_size=2, max_size=MOST_LISTED), SEEDS)
@settings(max_examples=40, deadline=None)
def test_a_list_is_recovered(counts: dict[int, int], seed: int) -> None:
    found = fit(sample(Weighted(tuple(counts), tuple(counts.values())), seed)).distribution
    if isinstance(found, Uniform):
        # neighbours with nearly the same weight
        assert found.high - found.low < 3 * len(counts)
    else:
        assert isinstance(found, Weighted)
        assert set(found.values) <= set(counts)


@given(st.lists(st.integers(-(10**17), 10**17), min_size=1, max_size=300), SEEDS)
@settings(max_examples=50, deadline=None)
def test_any_sample_is_fitted_by_something_within_its_range(values: list[int], seed: int) -> None:
    found = fit(np.array(values, dtype=np.int64)).distribution
    drawn = sample(found, seed, 200)
    width = max(values) - min(values) + 1
    assert min(values) - 8 * width <= drawn.min() <= drawn.max() <= max(values) + 8 * width
    assert found.lines("v")[-1].startswith("\\set v ")
    assert found.describe()


def test_two_separate_ranges_are_a_histogram_and_a_constant_is_one() -> None:
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.integers(1, 1_000, COUNT), rng.integers(500_000, 510_000, COUNT)])
    found = fit(values)
    assert isinstance(found.distribution, Histogram)
    assert found.distance <= tolerance(len(values))
    assert fit(np.array([7, 7, 7])).distribution == Constant(7)


def test_the_script_draws_as_pgbench_does() -> None:
    for drawn, divisor, lines in (
        (Uniform(1, 10), 1, ["\\set v random(1, 10)"]),
        (Zipf(1, 10, 1.5), 1, ["\\set v random_zipfian(1, 10, 1.5000)"]),
        (Zipf(1, 10, 1.5, falling=False), 1, ["\\set v 11 - random_zipfian(1, 10, 1.5000)"]),
        (ScatteredZipf(1, 10, 5, 1.5), 1, ["\\set v 1 + permute(random_zipfian(1, 5, 1.5000) - 1, 10, 42)"]),
        (Weighted((5, 7), (3, 1)), 1, ["\\set v_of random(1, 4)", "\\set v case when :v_of <= 3 then 5 else 7 end"]),
        (Uniform(100, 999), 100, ["\\set v (random(100, 999)) / 100.0"]),
        (Weighted((150, 275), (1, 1)), 100, ["\\set v_of random(1, 2)",
                                             "\\set v case when :v_of <= 1 then 1.5 else 2.75 end"]),
    ):  # fmt: skip
        assert drawn.lines("v", divisor) == lines
