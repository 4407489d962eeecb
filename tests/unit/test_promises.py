"""Promises of a plan: how they are read, checked and judged, and where reports say whether they were held."""

import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pgdyno.audit import Finding, Severity
from pgdyno.errors import StoreError
from pgdyno.plan import planned_trials
from pgdyno.plan.output.plan_output import in_each_trial
from pgdyno.records import ErrorCount, Point
from pgdyno.records.promise import FIGURES, parse_promise
from pgdyno.report.answers.answer import Answer, Kind, answer
from pgdyno.report.answers.promises import Judgement, Verdict, judged_promises, promises_at
from pgdyno.report.export import markdown_of, to_json
from pgdyno.report.report_content import NO_EXTRAS, Extras, digest
from pgdyno.report.several_runs import arms_of, comparisons_of, unite_runs
from pgdyno.report.terminal.run_report import print_report
from pgdyno.report.translation import Language, use_language
from tests.present import present
from tests.unit.plan_sample import load, refuse, small_plan, the_problem
from tests.unit.report_sample import SampleRun, add_failure, add_trial, manifest, render_html

PLAN = small_plan(
    'scripts = ["tpcb-like"]', "clients = [16]\nrate = [500]", 'duration = "10s"\nrepeats = 3\npromise = "p99 < 20ms"'
)


def test_a_promise_is_a_figure_and_its_limit() -> None:
    for text, limit, words in (
        ("p99 < 20ms", 20e6, "p99 < 20 ms"),
        (" p99.9<=1.5 s ", 1.5e9, "p99.9 <= 1.5 s"),
        ("mean < 400us", 400e3, "mean < 400 us"),
        ("max < 1m 30s", 90e9, "max < 1 m 30 s"),
        ("rate >= 95%", 0.95, "rate >= 95 %"),
        ("errors < 0.1 %", 0.001, "errors < 0.1 %"),
        ("errors <= 0%", 0.0, "errors <= 0 %"),
        ("tps > 500", 500.0, "tps > 500"),
        ("lag < 1s", 1e9, "lag < 1 s"),
        ("archive <= 64MB", 64 * 2**20, "archive <= 64 MB"),
        ("archive  keeps up", 2 * 16 * 2**20, "archive keeps up"),
    ):
        found = parse_promise(text)
        assert found.limit == pytest.approx(limit)
        assert found.words == words
        assert found.allows(limit * 0.9) is (found.is_ceiling and limit > 0) or limit == 0
        assert found.allows(limit) is found.sign.endswith("=")
        for figure in FIGURES:
            unit = {"tps": "", "rate": "%", "errors": "%", "archive": "MB"}.get(figure, "ms")
            assert parse_promise(f"{figure} < 10{unit}").figure == figure


def test_a_mistake_in_a_promise_names_its_line_and_the_remedy(tmp_path: Path) -> None:
    for promise, message, hint in (
        ("fast", "is not a promise", 'write "p99 < 20ms"'),
        ("p99 = 20ms", "is not a promise", 'write "p99 < 20ms"'),
        ("p999 < 20ms", "is on an unknown figure, p999", "did you mean p99.9?"),
        ("error < 1%", "is on an unknown figure, error", "did you mean errors?"),
        ("iops > 5", "is on an unknown figure, iops", "figures: p50, p75"),
        ("p99 < 20", "'20' is not a duration", "500ms"),
        ("p99 < 95%", "'95%' is not a duration", "500ms"),
        ("p99 < 0ms", "a limit of 0ms is no time", "more than 0ms"),
        ("rate >= 95", "'95' is not a share", "rate >= 95%"),
        ("rate >= 0.95", "'0.95' is not a share", "rate >= 95%"),
        ("rate >= 120%", "'120%' is not a share", "rate >= 95%"),
        ("errors < 1ms", "'1ms' is not a share", "errors < 0.1%"),
        ("tps >= 500/s", "'500/s' is not a throughput", "tps >= 500"),
        ("tps >= -5", "'-5' is not a throughput", "tps >= 500"),
        ("errors < 0%", "can never be kept", "write errors <= 0%"),
        ("rate > 100%", "can never be kept", "write rate >= 100%"),
    ):
        for written, path in ((f'"{promise}"', "trial.promise"), (f'["p50 < 1s", "{promise}"]', "trial.promise[1]")):
            refuse(tmp_path, PLAN.replace('"p99 < 20ms"', written), path, message, hint, 13)


RATE = "rate = [500]\n"
PHASE = '[[phase]]\nname = "a"\nduration = "9s"\n[trial]'


def test_a_promise_is_about_what_is_measured_and_kept_by_the_plan(tmp_path: Path) -> None:
    for changes, path, message in (
        ({RATE: "", "p99 < 20ms": "rate >= 95%"}, "trial.promise", "the load is a closed loop"),
        (
            {RATE: "", "p99 < 20ms": "rate >= 95%", 'duration = "10s"': "", "[trial]": PHASE},
            "trial.promise",
            "the load is a closed loop",
        ),
        (
            {RATE: "", 'scripts = ["tpcb-like"]': 'name = "tpch"', 'duration = "10s"\n': ""},
            "trial.promise",
            "runs each query once",
        ),
        ({RATE: "", "[trial]": '[search]\nfind = "peak"\n[trial]', "[16]": "[1, 16]"}, "trial.promise", "search"),
        ({"p99 < 20ms": "lag < 1s"}, "trial.promise", "target pg18 has no replicas"),
        ({"p99 < 20ms": "archive keeps up"}, "trial.promise", "target pg18 has no archive"),
        ({'"p99 < 20ms"': "7"}, "trial.promise", "must be a list"),
        ({'"p99 < 20ms"': "[7]"}, "trial.promise[0]", "must be text"),
    ):
        text = PLAN
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new)
        refuse(tmp_path, text, path, message)
    # a plan keeps its promises, and needs none
    plan = load(tmp_path, PLAN.replace('"p99 < 20ms"', '["p99 < 20ms", "rate >= 95%"]'))
    resolved = plan.as_resolved()
    assert resolved["trial"]["promise"] == ["p99 < 20ms", "rate >= 95%"]
    assert [each.figure for each in promises_at(resolved, plan.points()[0])] == ["p99", "rate"]
    assert [each.figure for each in promises_at(resolved, Point(clients=16))] == ["p99"]
    assert "promises at every point: p99 < 20ms, rate >= 95%" in in_each_trial(plan)
    without = load(tmp_path, PLAN.replace('promise = "p99 < 20ms"\n', "")).as_resolved()
    assert "promise" not in without["trial"]
    assert promises_at(without, plan.points()[0]) == promises_at({}, plan.points()[0]) == []


GROUPS = (
    PLAN.replace("[sweep]\nclients = [16]\nrate = [500]\n", "").replace('scripts = ["tpcb-like"]\n', "scale = 1\n")
    + """
[[group]]
name = "orders"
scripts = ["tpcb-like"]
rate = 200
[[group]]
name = "reports"
scripts = ["select-only"]
"""
)


@pytest.mark.parametrize("by", ["its plan", "its sweep"])
def test_a_promise_on_the_rate_is_about_the_groups_that_have_one(by: str, tmp_path: Path) -> None:
    text = GROUPS.replace("p99 < 20ms", "rate >= 95%")
    swept = text.replace("rate = 200\n", "") + "[sweep]\ngroup.orders.rate = [100, 200]\n"
    plan = load(tmp_path, text if by == "its plan" else swept)
    promised = {trial.point.group: len(promises_at(plan.as_resolved(), trial.point)) for trial in planned_trials(plan)}
    assert promised == {"orders": 1, "reports": 0}
    the_problem(tmp_path, text.replace("rate = 200\n", ""))


def promising(*promises: str, targets: Sequence[str] = ("pg18",)) -> SampleRun:
    made = manifest(targets)
    return SampleRun(made.model_copy(update={"plan": made.plan | {"trial": {"promise": list(promises)}}}))


def add(
    run: SampleRun,
    *,
    target: str = "pg18",
    rate: float | None = None,
    tps: float = 500,
    p99: float | None = None,
    largest: float | None = None,
    failed: int = 0,
    refused: int = 0,
    skipped: int = 0,
    with_latency: bool = True,
) -> None:
    """Adds a trial of 10 s with these latencies in milliseconds."""
    repeat = 1 + sum(trial.target == target for trial in run.trials)
    point = Point(clients=16, rate=rate)
    others: dict[str, Any] = {"failed": failed + refused, "skipped": skipped, "with_latency": with_latency}
    trial = add_trial(run, target, 16, tps, 900, repeat=repeat, point=point, **others)
    summary = present(trial.summary)
    if refused:
        errors = [ErrorCount(sqlstate="53300", message="sorry, too many clients", count=refused, refused=True)]
        summary = summary.model_copy(update={"errors": errors})
    if summary.latency_ns is not None:
        given = {name: round(ms * 1e6) for name, ms in (("p99", p99), ("max", largest)) if ms is not None}
        summary = summary.model_copy(update={"latency_ns": summary.latency_ns.model_copy(update={**given})})
    run.trials[-1] = trial.model_copy(update={"summary": summary})


def judged(run: SampleRun) -> Judgement:
    (found,) = judged_promises(digest(run), NO_EXTRAS)
    return found


def answer_of(run: SampleRun, extras: Extras = NO_EXTRAS) -> Answer:
    return answer(digest(run), extras)


H, B, U = Verdict.HELD, Verdict.BROKEN, Verdict.UNKNOWN
TABLE: dict[str, tuple[str, Sequence[dict[str, Any]], Verdict, str]] = {
    "within": ("p99 < 20ms", [{"p99": 18}, {"p99": 18.1}, {"p99": 18.2}], H, "held (18.1 ms, 17.85 to 18.35)"),
    "outside": ("p99 < 20ms", [{"p99": 28}, {"p99": 29}, {"p99": 30}], B, "broken (29.0 ms, 26.6 to 31.6)"),
    "straddles": ("p99 < 20ms", [{"p99": 17}, {"p99": 19}, {"p99": 21}], U, "(18.9 ms, 15 to 25, a new run of about"),
    "one trial": ("p99 < 20ms", [{"p99": 2}], U, "cannot tell (2.00 ms, 1 trial: use repeats = 3)"),
    "two trials": ("p99 < 20ms", [{"p99": 17}, {"p99": 19}], U, "2 trials: use repeats = 3)"),
    "equal trials": ("p99 < 20ms", [{"p99": 18}] * 3, H, "held (18.0 ms)"),
    "at the limit, excluded": ("p99 < 18ms", [{"p99": 18}] * 3, B, "broken (18.0 ms)"),
    "at the limit, included": ("p99 <= 18ms", [{"p99": 18}] * 3, H, "held"),
    "no latency": ("p99 < 20ms", [{"p99": 18}, {"p99": 18}, {"with_latency": False}], U, "cannot tell"),
    "one transaction is over": ("max < 1s", [{"largest": 20}, {"largest": 1500}], B, "broken (1,500 ms)"),
    "one trial breaks": ("max < 1s", [{"largest": 1500}], B, "broken (1,500 ms)"),
    "none is over": ("max < 1s", [{"largest": 20}, {"largest": 500}], H, "held (500 ms)"),
    "throughput": ("tps >= 500", [{"tps": 510}, {"tps": 511}, {"tps": 512}], H, "held (511 tps, 508.5 to 513.5)"),
    "too slow": ("tps >= 500", [{"tps": 400}, {"tps": 401}, {"tps": 402}], B, "broken (401 tps"),
    "few errors": ("errors < 0.1%", [{"failed": 1}, {"failed": 0}, {"failed": 1}], H, "held (0.0133 %"),
    "too few transactions": ("errors < 0.01%", [{"failed": 0}] * 3, U, "cannot tell (0 %, 0.000 to 0.026)"),
    "many errors": ("errors < 0.1%", [{"failed": 90}, {"failed": 95}, {"failed": 100}], B, "broken (1.86 %"),
    "no error": ("errors <= 0%", [{"failed": 0}], H, "held (0 %)"),
    "one error": ("errors <= 0%", [{"failed": 0}, {"failed": 1}], B, "broken (0.0200 %)"),
    "rate served": ("rate >= 95%", [{"rate": 500}] * 3, H, "held (100 %)"),
    "rate missed": (
        "rate >= 95%", [{"rate": 500, "skipped": 500 + n} for n in range(3)], B, "broken (90.9 %",
    ),
    "errors do not serve a rate": (
        "rate >= 95%", [{"rate": 500, "failed": 500 + n} for n in range(3)], B, "broken (90.9 %",
    ),
    "latency of an overloaded server": (
        "p99 < 20ms", [{"p99": 18, "rate": 500, "skipped": 500 + n} for n in range(3)], B,
        "broken (18.0 ms, 90.9 % of the rate served)",
    ),
    "latency of a rate that is hardly kept": (
        "p99 < 20ms", [{"p99": 18, "rate": 500, "skipped": n} for n in (0, 0, 120)], U,
        "cannot tell (18.0 ms, 99.2 % of the rate served)",
    ),
    "errors are answers": ("p99 < 20ms", [{"p99": 18, "rate": 500, "failed": 300}] * 3, H, "held (18.0 ms)"),
    "refusals are not": (
        "p99 < 20ms", [{"p99": 18, "rate": 500, "refused": 300 + n} for n in range(3)], B,
        "broken (18.0 ms, 94.3 % of the rate served)",
    ),
    "a floor of a latency": ("p50 > 10ms", [{}] * 3, B, "broken"),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_a_promise_is_judged_by_the_interval_over_trials(name: str) -> None:
    promise, trials, verdict, words = TABLE[name]
    run = promising(promise)
    for each in trials:
        add(run, **each)
    found = judged(run)
    assert found.verdict is verdict
    assert found.trials == len(trials)
    text = answer_of(run).text
    assert text.startswith(f"{parse_promise(promise).words} at 16 clients: {verdict.value}")
    assert words in text


def test_the_interval_of_a_latency_is_students_of_its_logarithm_and_none_without_a_trial() -> None:
    run = promising("p99 < 20ms")
    for p99 in (10, 20, 40):
        add(run, p99=p99)
    found = judged(run)
    assert found.figure == pytest.approx(20e6)
    assert found.ends is not None
    half = 4.302653 * math.log(2) / math.sqrt(3)
    assert found.ends == pytest.approx((20e6 * math.exp(-half), 20e6 * math.exp(half)))
    # without a finished trial nothing is told
    run = promising("p99 < 20ms")
    add_failure(run, "pg18", 16)
    assert judged(run).verdict is Verdict.UNKNOWN
    assert answer_of(run).kind is Kind.NOTHING
    assert "p99" not in answer_of(run).text


def test_invalid_trials_do_not_count() -> None:
    run = promising("p99 < 20ms", targets=("pg18", "pg17"))
    for target in ("pg18", "pg17"):
        for p99 in (18, 18.1, 18.2, 90):
            add(run, p99=p99, target=target)
    why = Finding(
        rule="errors", severity=Severity.INVALID, trials=[4, 8], message="m", evidence=[], advice="a", source="x"
    )
    of = digest(run)
    without = Extras(findings=[why], left_out={4, 8}, comparisons=comparisons_of(of), arms=arms_of(of))
    assert [each.verdict for each in judged_promises(of, without)] == [Verdict.HELD] * 2
    assert [each.verdict for each in judged_promises(of, NO_EXTRAS)] == [Verdict.UNKNOWN] * 2
    # late trials are left out of comparisons of latency, but break the promise
    late = Extras(left_out={4, 8})
    assert [each.trials for each in judged_promises(of, late)] == [4, 4]


def shown(run: SampleRun, extras: Extras = NO_EXTRAS) -> str:
    to = Console(file=io.StringIO(), width=200, color_system=None)
    print_report(digest(run), to, extras)
    assert isinstance(to.file, io.StringIO)
    return to.file.getvalue()


def test_every_report_says_whether_each_promise_was_held() -> None:
    run = promising("p99 < 20ms", "tps >= 600", "errors < 1%")
    for p99 in (18, 18.1, 18.2):
        add(run, p99=p99)
    lines = ("p99 < 20 ms at 16 clients: held (18.1 ms, 17.85 to 18.35)", "600 at 16 clients: broken (500 tps)")
    for text in (shown(run), render_html(run, "here"), markdown_of(digest(run), NO_EXTRAS)):
        flat = text.replace("&lt;", "<").replace("&gt;", ">").replace("\\", "").replace("\xa0", " ")
        assert "Promises: 2 held and 1 broken" in flat
        assert all(line in flat for line in lines)
    found = answer_of(run)
    assert found.details[0].startswith("tps >= 600 at 16 clients: broken")
    assert found.details[3].startswith("PostgreSQL 18.6 reaches 500")
    document = json.loads(to_json(digest(run), NO_EXTRAS))["answer"]["promises"]
    assert document[0] | {"low": 0, "high": 0, "figure": 0} == {
        "promise": "p99 < 20ms", "target": "pg18", "protocol": "simple", "clients": 16, "verdict": "held", "figure": 0,
        "low": 0, "high": 0, "confidence": 0.95, "trials": 3, "new_run_trials": None,
    }  # fmt: skip
    assert document[0]["figure"] == pytest.approx(18.1e6, rel=1e-3)
    assert [each["verdict"] for each in document] == ["held", "broken", "held"]


def test_arms_are_compared_first_and_many_promises_become_a_table() -> None:
    run = promising("p99 < 20ms", targets=("pg18", "pg17"))
    for target, p99 in (("pg18", 10.0), ("pg17", 30.0)):
        for _ in range(3):
            add(run, target=target, p99=p99)
    of = digest(run)
    found = answer_of(run, Extras(comparisons=comparisons_of(of), arms=arms_of(of)))
    assert found.kind is Kind.COMPARISON
    assert not found.text.startswith("p99")
    assert [each.partition(" (")[0] for each in found.details[:2]] == [
        "p99 < 20 ms at pg17, 16 clients: broken",
        "p99 < 20 ms at pg18, 16 clients: held",
    ]
    run = promising(*(f"p99 < {limit}ms" for limit in range(10, 20)))
    for _ in range(3):
        add(run, p99=15)
    found = answer_of(run)
    assert found.text == "Promises: 4 held and 6 broken"
    assert [each.partition(": ")[2][:6] for each in found.details[:8]] == ["broken"] * 6 + ["held ("] * 2
    assert found.details[8] == "and 2 more"
    assert "Promises of the plan" in shown(run)
    assert "Promises of the plan" in render_html(run, "here")


def test_several_runs_show_no_promise_of_the_first_and_other_languages_name_the_verdict() -> None:
    runs = [promising("p99 < 20ms"), promising()]
    for at, run in enumerate(runs):
        run.manifest = run.manifest.model_copy(update={"run": f"run-{at}"})
        add(run, p99=18)
    assert judged_promises(digest(unite_runs(runs)), NO_EXTRAS) == []
    with use_language(Language.JAPANESE):
        text = answer_of(runs[0]).text
    assert text.isascii() is False
    assert "p99 < 20 ms" in text
    assert "cannot tell" not in text


def test_a_damaged_promise_of_a_stored_plan_is_an_error() -> None:
    for damage in ("p99 <", 7, [7], ["p1 < 1ms"]):
        run = promising()
        add(run)
        run.manifest = run.manifest.model_copy(update={"plan": run.manifest.plan | {"trial": {"promise": damage}}})
        with pytest.raises(StoreError, match="promises of its plan"):
            judged_promises(digest(run), NO_EXTRAS)
