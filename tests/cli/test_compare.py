"""`pgdyno compare` and `pgdyno gate` over stored runs: output, files, exit codes."""

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pgdyno.audit import Finding, Severity
from pgdyno.audit.pairing import of_single_trials
from pgdyno.errors import ExitCode
from pgdyno.records import Fingerprint, Point
from pgdyno.store import RunFolder
from tests.cli.conftest import Run
from tests.json_schema import validated
from tests.present import present
from tests.unit.events_sample import sample_events
from tests.unit.store_sample import SETTINGS, sample_manifest, sample_record
from tests.unit.test_fingerprint import BASE as FINGERPRINT
from tests.unit.test_fingerprint import SERVER, changed

VERSIONS = {"pg17": 500.0, "pg18": 600.0}


def store_run(parent: Path, tps: Mapping[str, float], repeats: int = 6, **more: Any) -> str:  # noqa: ANN401
    """A run with a target for each of `tps`; its figures vary by about one in a thousand. Its path.

    `more` are arguments of `_trials`, and fields of the manifest.
    """
    points = tuple(more.pop("points", (Point(clients=4),)))
    of_trials = {name: more.pop(name) for name in ("busy", "idle", "control") if name in more}
    planned = len(tps) * repeats * len(points)
    folder = RunFolder.create(parent, sample_manifest(trials_planned=planned, **more))
    key = tuple(point.model_dump_json() for point in points)
    shutil.copytree(_trials(tuple(tps.items()), repeats, key, **of_trials), folder.trials_path, dirs_exist_ok=True)
    return str(folder.path)


@cache
def _trials(
    tps: Sequence[tuple[str, float]],
    repeats: int,
    points: Sequence[str],
    busy: float = 1.0,
    idle: Sequence[int] = (),
    control: float | None = None,
) -> Path:
    """The trials of a run, which many tests use.

    By its latency, `busy` of its clients are at work, and half of those of trials `idle`: anything but all of them
    cannot be. With `control`, the first target is measured again in each repeat, at that part of its rate.
    """
    arms = [(target, rate, False) for target, rate in tps]
    if control is not None:
        arms.append((arms[0][0], control * arms[0][1], True))
    folder = RunFolder.create(Path(tempfile.mkdtemp()), sample_manifest())
    trials = product(range(1, repeats + 1), map(Point.model_validate_json, points), arms)
    for number, (repeat, point, (target, rate, is_control)) in enumerate(trials, start=1):
        share = 0.5 if number in idle else busy
        events = sample_events(4, 2, rate, 0.9 * 4e6 / rate, seed=number)
        record = sample_record(number, events, target=target, repeat=repeat)
        reached = rate * (1 + 0.001 * (number % 3))
        mean = {"mean": share * point.planned_clients * 1e9 / reached}
        latency = present(present(record.summary).latency_ns).model_copy(update=mean)
        summary = present(record.summary).model_copy(update={"tps": reached, "latency_ns": latency})
        slug = f"{number:04d}-{target}"
        record = record.model_copy(update={"summary": summary, "point": point, "slug": slug, "control": is_control})
        folder.begin_trial(record.slug).commit(record, events=events, settings=SETTINGS)
    return folder.trials_path


@pytest.fixture
def versions(tmp_path: Path) -> str:
    return store_run(tmp_path / "versions", VERSIONS)


def test_two_runs_and_json(run: Run, tmp_path: Path) -> None:
    before, after = (store_run(tmp_path / "runs", {"pg18": rate}) for rate in (600.0, 500.0))
    done = run("pgdyno", "compare", before, after, "--json")
    answer = validated("compare", done.stdout)
    (found,) = answer["comparisons"]
    assert (found["paired"], found["points"][0]["verdict"]) == (False, "slower")
    assert any("not recorded" in note for note in answer["notes"])
    assert [each["id"] for each in found["warning_details"]] == ["different-times"]
    assert [each["message"] for each in found["warning_details"]] == found["warnings"]
    # promises of a second run are those of all its trials
    for runs, code in (((after, before), ExitCode.OK), ((before, after), ExitCode.REGRESSION)):
        assert run("pgdyno", "gate", *runs, "--require", "tps >= 550").returncode == code


def test_a_metric_that_no_trial_has_and_a_run_with_itself_are_refused(run: Run, versions: str) -> None:
    for command in ("compare", "gate"):
        done = run("pgdyno", command, versions, "--metric", "composite")
        assert done.returncode == ExitCode.USAGE
        assert done.stderr == "error: the trials have no composite figure\nhint: use --metric tps\n"
        done = run("pgdyno", command, versions, f"{versions}/")
        assert done.returncode == ExitCode.USAGE
        assert "are the same run" in done.stderr


def two_runs(parent: Path, before: Fingerprint, after: Fingerprint, rate: float = 600.0) -> list[str]:
    runs = ((500.0, before), (rate, after))
    return [store_run(parent / "runs", {"pg18": tps}, fingerprint=of) for tps, of in runs]


def test_runs_that_measured_other_things_are_refused_in_every_form(run: Run, tmp_path: Path) -> None:
    for after, field in (
        (changed(workload={"scripts": ["tpcb-like"], "scale": 10}), "workload.scripts: select-only vs tpcb-like"),
        (changed(server_dataset_marks=["pgbench scale 20"]), "servers.pg18.dataset_marks: pgbench scale 10 vs"),
        (changed(reset={"method": "template"}), "reset.method: vacuum vs template"),
    ):
        runs = two_runs(tmp_path, FINGERPRINT, after)
        refused = run("pgdyno", "compare", *runs)
        assert refused.returncode == ExitCode.INVALID, refused.stdout
        assert refused.stdout.startswith("No comparison: the two runs measured different things\ninvalid: ")
        assert field in refused.stdout
    judged = run("pgdyno", "gate", *runs)
    assert judged.returncode == ExitCode.INVALID, judged.stdout
    assert judged.stdout.startswith("No comparison: the two runs measured different things\ninvalid: ")
    for command in ("compare", "gate"):
        answer = validated(command, run("pgdyno", command, *runs, "--json").stdout)
        assert [each["grounds"] for each in answer["invalid"]] == ["pair"]
    forms = [run("pgdyno", "compare", *runs, "--force"), run("pgdyno", "gate", *runs, "--force", *FILES)]
    assert [each.returncode for each in forms] == [ExitCode.OK] * 2
    texts = [*(each.stdout for each in forms), *((tmp_path / name).read_text() for name in ("gate.md", "gate.xml"))]
    assert [text for text in texts if field not in text] == []


FILES = ("--md", "gate.md", "--junit", "gate.xml")


def test_releases_of_hammerdb_that_do_different_work_are_refused_with_a_remedy(run: Run, tmp_path: Path) -> None:
    tpcc = {"name": "tpcc", "variant": "functions"}
    before, after = (changed(workload=tpcc | {"profile": profile}) for profile in ("hammerdb", "hammerdb-6.1.1"))
    runs = two_runs(tmp_path, before, after)
    refused = run("pgdyno", "compare", *runs)
    assert refused.returncode == ExitCode.INVALID
    said = " ".join(refused.stdout.split())
    assert "workload.profile: hammerdb vs hammerdb-6.1.1: different TPC-C profiles" in said
    assert "in earlier runs, hammerdb means hammerdb-6.1" in said
    assert "remedy: repeat one of the runs with the profile of the other" in said


@pytest.mark.long_cases("scale: none", "variables.n")
@pytest.mark.parametrize(
    ("point", "field", "by"),
    [
        (Point(clients=4, protocol="prepared"), "protocol: simple vs prepared", "protocol"),
        (Point(clients=4, scale=20), "scale: none vs 20", "scale"),
        (Point(clients=4, rate=400.0), "rate: closed loop vs rate 400", "rate"),
        (Point(clients=4, variables={"n": "2"}), "variables.n: none vs 2", "variables.n"),
    ],
)
def test_another_load_is_refused_unless_it_is_compared(
    run: Run, tmp_path: Path, point: Point, field: str, by: str
) -> None:
    before = store_run(tmp_path / "runs", {"pg18": 500.0})
    after = store_run(tmp_path / "runs", {"pg18": 600.0}, points=[point])
    refused = run("pgdyno", "gate", before, after)
    assert refused.returncode == ExitCode.INVALID, refused.stderr
    assert field in refused.stdout
    assert f"--by {by}" in refused.stdout
    compared = run("pgdyno", "compare", before, after, "--by", by)
    assert compared.returncode == ExitCode.OK, compared.stderr
    assert "is faster than" in compared.stdout
    assert f"compared: {field}" in " ".join(compared.stdout.split())


@pytest.mark.long_cases("storage", "placement")
@pytest.mark.parametrize(
    ("after", "topic", "by"),
    [
        (changed(host_cpu_model="Y"), "processor", "hardware"),
        (changed(host_disks={"data of pg18": "xfs"}), "storage", "storage"),
        (changed(generator="another machine"), "placement", "placement"),
        (changed(server_settings_changed=SERVER.settings_changed | {"fsync": "off"}), "fsync", "settings.fsync"),
        (changed(server_data_checksums=True), "data checksums", None),
    ],
)
def test_a_confounder_comes_first(run: Run, tmp_path: Path, after: Fingerprint, topic: str, by: str | None) -> None:
    runs = two_runs(tmp_path, FINGERPRINT, after)
    compared = run("pgdyno", "compare", *runs)
    assert compared.returncode == ExitCode.OK, compared.stderr
    assert compared.stdout.splitlines()[0] == f"Confounded by {topic}: the difference may be caused by that"
    if by is not None:
        named = run("pgdyno", "compare", *runs, "--by", by)
        assert "onfounded" not in named.stdout
        assert "note: compared: " in named.stdout


def test_a_confounder_is_in_every_form_of_a_gate(run: Run, tmp_path: Path) -> None:
    runs = two_runs(tmp_path, FINGERPRINT, changed(host_cpu_model="Y"))
    judged = run("pgdyno", "gate", *runs, *FILES)
    assert judged.returncode == ExitCode.OK, judged.stderr
    assert judged.stdout.splitlines()[0] == "gate: ok, confounded by processor"
    assert (tmp_path / "gate.md").read_text().startswith("### pgdyno gate: ok, confounded by processor\n")
    (shown,) = [each.get("value", "") for each in suite_of(tmp_path).iter("property")]
    answer = validated("gate", run("pgdyno", "gate", *runs, "--json").stdout)
    assert [(each["topic"], each["message"]) for each in answer["confounders"]] == [("processor", shown)]


def suite_of(folder: Path) -> ElementTree.Element:
    return ElementTree.parse(folder / "gate.xml").getroot()


def test_facts_that_an_import_lacks_refuse_no_comparison(run: Run, tmp_path: Path) -> None:
    for name, tps in (("a", 100), ("b", 200)):
        rows = "".join(f"x,4,{tps + at}\n" for at in range(6))
        (tmp_path / f"{name}.csv").write_text(f"target,clients,tps\n{rows}")
        assert run("pgdyno", "import", f"{name}.csv", "--into", f"runs-{name}").returncode == ExitCode.OK
    runs = [str(next((tmp_path / f"runs-{name}").iterdir())) for name in "ab"]
    done = run("pgdyno", "compare", *runs)
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    assert not done.stdout.startswith("Confounded")
    note = "so a difference cannot be excluded: hardware, settings, storage"
    assert note in " ".join(done.stdout.split())
    judged = run("pgdyno", "gate", *runs, *FILES)
    forms = [judged.stdout, (tmp_path / "gate.md").read_text(), (tmp_path / "gate.xml").read_text()]
    assert [text.count(note) for text in forms] == [2, 2, 2]
    own = store_run(tmp_path / "runs", {"pg18": 500.0})
    assert run("pgdyno", "compare", own, runs[0]).returncode == ExitCode.OK


def test_a_finding_about_some_trials_leaves_these_out(run: Run, tmp_path: Path) -> None:
    """Trials 1 and 2 are the first pair at 4 clients; all trials of pg18 at 8 clients are invalid."""
    points = [Point(clients=4), Point(clients=8)]
    last = [number for number in range(1, 33) if number % 4 == 0]
    some = store_run(tmp_path / "runs", VERSIONS, 8, idle=(1, *last), points=points)
    done = run("pgdyno", "compare", some)
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    assert done.stdout.startswith("pg18 is faster than pg17 by throughput: ")
    words = " ".join(done.stdout.split())
    assert "at 4 clients, 7 pairs" in words
    assert "note: 9 of 32 trials of" in words
    assert "littles-law (trials 1, 4, 8" in words
    assert "8 clients: no verdict: all trials of pg18 are left out, because the audit found them invalid" in words
    answer = validated("compare", run("pgdyno", "compare", some, "--json").stdout)
    assert [each["rule"] for each in answer["removed"]] == ["littles-law"]
    assert [point["removed"] for point in answer["comparisons"][0]["points"]] == [1, 8]
    # a point without a verdict is no pass
    judged = run("pgdyno", "gate", some, *FILES)
    assert judged.returncode == ExitCode.INCONCLUSIVE
    for text in (judged.stdout, (tmp_path / "gate.md").read_text(), (tmp_path / "gate.xml").read_text()):
        assert "no verdict: all trials of pg18 are left out" in text
        assert "nan" not in text


def test_invalid_trials_are_neither_compared_nor_judged(run: Run, tmp_path: Path, versions: str) -> None:
    wrong = store_run(tmp_path / "runs", VERSIONS, busy=0.5)
    refused = run("pgdyno", "compare", wrong)
    assert refused.returncode == ExitCode.INVALID
    assert refused.stdout.startswith("No comparison: the audit found figures invalid\ninvalid: ")
    assert "littles-law: " in refused.stdout
    assert "faster" not in refused.stdout
    forced = run("pgdyno", "compare", wrong, "--force")
    assert forced.returncode == ExitCode.OK
    first, reason, _, sentence, *_ = forced.stdout.splitlines()
    assert first == "not a claim: the audit found figures invalid:"
    assert "littles-law" in reason
    assert sentence.startswith("pg18 is faster than pg17")
    for force in ([], ["--force"]):
        answer = validated("compare", run("pgdyno", "compare", wrong, *force, "--json").stdout)
        assert len(answer["comparisons"]) == len(force)
        assert [each["rule"] for each in answer["invalid"]] == ["littles-law"]
    # an A/A run that is invalid is no measure of noise
    assert run("pgdyno", "compare", versions, "--floor-from", wrong).returncode == ExitCode.INVALID
    assert run("pgdyno", "gate", wrong, *FILES).returncode == ExitCode.INVALID
    assert (suite_of(tmp_path).get("tests"), suite_of(tmp_path).get("errors")) == ("1", "1")
    assert "not judged" in (tmp_path / "gate.md").read_text()
    forced = run("pgdyno", "gate", wrong, "--force")
    assert forced.returncode == ExitCode.OK
    assert "littles-law" in forced.stdout


def test_findings_are_of_the_run_that_they_were_found_in(run: Run, tmp_path: Path) -> None:
    """The manifest holds the run's name: two runs of one name keep their own findings."""
    paths = [Path(store_run(tmp_path / f"runs-{busy}", {"pg18": 500.0}, busy=busy)) for busy in (0.5, 1.0)]
    for path in paths:
        manifest = json.loads((path / "manifest.json").read_text())
        (path / "manifest.json").write_text(json.dumps(manifest | {"run": "the same"}))
    wrong, right = map(str, paths)
    for first, second in ((wrong, right), (right, wrong)):
        assert run("pgdyno", "compare", first, second).returncode == ExitCode.INVALID
    again = store_run(tmp_path / "again", {"pg18": 500.0})
    assert run("pgdyno", "compare", right, again).returncode == ExitCode.OK


def test_a_finding_about_arms_is_about_the_whole_run() -> None:
    found = [
        Finding(rule=rule, severity=Severity.INVALID, trials=trials, message="", evidence=[], advice="", source="")
        for rule, trials in (("drift", [1, 3]), ("durability", [2]), ("littles-law", [4]), ("arithmetic", []))
    ]
    whole, some = of_single_trials(found)
    assert [each.rule for each in whole] == ["drift", "durability", "arithmetic"]
    assert [each.rule for each in some] == ["littles-law"]


def test_targets_within_a_run_are_compared_also_with_a_noise_floor(run: Run, tmp_path: Path, versions: str) -> None:
    equal = store_run(tmp_path / "runs", {"a": 500.0, "b": 500.0})
    done = run("pgdyno", "compare", equal, "--noise-floor")
    assert done.stdout.startswith("Noise floor: two equal arms differ by at most 0."), done.stderr
    assert "pg18 is faster" in run("pgdyno", "compare", versions, "--floor-from", equal).stdout
    # without one
    done = run("pgdyno", "compare", versions)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("pg18 is faster than pg17 by throughput: +20")
    # a sentence is one line in a pipe; the rows of the table are of a terminal's width
    assert max(map(len, done.stdout.splitlines()[1:])) <= 80


@pytest.mark.long_cases("3-")
@pytest.mark.parametrize(
    ("arms", "repeats", "why"),
    [
        # geometric means apart by 60 %: with such a floor, everything would be the same
        ({"a": 500.0, "b": 800.0}, 6, "wider than 10 %"),
        ({"a": 500.0, "b": 500.0}, 3, "needs at least 6 at every point"),
    ],
)
def test_a_floor_that_is_none_is_refused(
    run: Run, tmp_path: Path, versions: str, arms: dict[str, float], repeats: int, why: str
) -> None:
    floor = store_run(tmp_path / "runs", arms, repeats)
    for command in ("compare", "gate"):
        refused = run("pgdyno", command, versions, "--floor-from", floor)
        assert refused.returncode == ExitCode.INVALID, refused.stdout
        assert refused.stdout.startswith("No comparison: the noise floor cannot be used\ninvalid: ")
        assert why in refused.stdout
        assert "\nremedy: " in refused.stdout
        answer = validated(command, run("pgdyno", command, versions, "--floor-from", floor, "--json").stdout)
        assert [each["rule"] for each in answer["invalid"]] == ["noise-floor"]
    # no force makes a floor of it: the difference of 20 % is not called the same
    forced = run("pgdyno", "compare", versions, "--floor-from", floor, "--force")
    assert "pg18 is faster than pg17" in forced.stdout
    shown = run("pgdyno", "compare", floor, "--noise-floor")
    assert shown.returncode == ExitCode.INVALID
    assert shown.stdout.startswith("Not usable as a noise floor: ")
    (told_json,) = validated("noise-floor", run("pgdyno", "compare", floor, "--noise-floor", "--json").stdout)
    assert why in told_json["refused"]["why"]


def test_gate_exits_by_what_it_finds_and_writes_its_files(run: Run, tmp_path: Path, versions: str) -> None:
    good = run("pgdyno", "gate", versions, "--by", "target", "--max-regression", "3%", *FILES)
    assert good.returncode == ExitCode.OK, good.stderr
    assert suite_of(tmp_path).get("failures") == "0"
    assert (tmp_path / "gate.md").read_text().startswith("### pgdyno gate: ok")
    worse = run("pgdyno", "gate", versions, "--by", "target", "--base", "pg18", *FILES)
    assert worse.returncode == ExitCode.REGRESSION
    assert suite_of(tmp_path).get("failures") == "1"
    few = store_run(tmp_path / "runs", {"pg17": 500.0, "pg18": 500.0}, repeats=3)
    assert run("pgdyno", "gate", few).returncode == ExitCode.INCONCLUSIVE


def test_a_gate_with_a_baseline_that_differs_from_itself_says_so_first(run: Run, tmp_path: Path) -> None:
    arms = {"pg17": 500.0, "pg18": 400.0}
    right, name = (store_run(tmp_path / "runs", arms, control=control) for control in (1.0, 0.9))
    assert run("pgdyno", "gate", right, "--require", "tps >= 900").returncode == ExitCode.REGRESSION
    done = run("pgdyno", "gate", name, "--require", "tps >= 900", *FILES)
    assert done.returncode == ExitCode.UNDECIDABLE
    said = done.stdout.splitlines()
    assert said[0].startswith("gate: cannot decide")
    assert said[1].startswith("This machine cannot decide: ")
    assert "new run of about" in said[2]
    document = (tmp_path / "gate.md").read_text()
    assert document.startswith("### pgdyno gate: cannot decide")
    assert document.index("machine cannot decide: ") < document.index("```text") < document.index(": control")
    assert suite_of(tmp_path).get("errors") == "1"
    answer = validated("gate", run("pgdyno", "gate", name, "--json").stdout)
    assert (answer["gate"], answer["points"][0]["gate"]) == ("cannot decide", "inconclusive")
    assert answer["control_pairs"] > 0
    assert answer["control"][0]["change"] == pytest.approx(-0.1, abs=0.01)
    compared = run("pgdyno", "compare", name)
    assert compared.returncode == ExitCode.OK
    assert compared.stdout.startswith("This machine cannot decide: ")


def test_a_gate_judges_promises_of_the_candidate(run: Run, versions: str, tmp_path: Path) -> None:
    for promises, verdicts, code in (
        (["tps >= 400", "errors < 1%"], {"held"}, ExitCode.OK),
        (["tps >= 900", "tps >= 400"], {"broken", "held"}, ExitCode.PROMISE_BROKEN),
        # nothing is due without a rate
        (["tps >= 600.5", "rate >= 95%", "lag < 5s"], {"cannot tell"}, ExitCode.INCONCLUSIVE),
    ):
        required = [f"--require={each}" for each in promises]
        done = run("pgdyno", "gate", versions, *required, "--allow-inconclusive", *FILES)
        assert done.returncode == code, done.stdout
        found = validated("gate", run("pgdyno", "gate", versions, *required, "--json").stdout)
        assert {each["verdict"] for each in found["promises"]} == verdicts
        assert {each["target"] for each in found["promises"]} == {"pg18"}
        assert all(" at pg18" in line for line in done.stdout.splitlines() if "tps >=" in line)
        assert len(suite_of(tmp_path).findall("testcase")) == 1 + len(promises)
        assert all(verdict in (tmp_path / "gate.md").read_text() for verdict in verdicts)


def test_wrong_options_are_refused(run: Run, versions: str, tmp_path: Path) -> None:
    other = store_run(tmp_path / "other", {"pg18": 500.0})
    for arguments, complaint in (
        (["gate", versions, "--require", "p99 < 20"], "--require: '20' is not a duration"),
        (["gate", versions, "--require", "p98 < 20ms"], "--require: 'p98 < 20ms' is on an unknown figure, p98"),
        (["compare", versions, "--by", "clients"], "cannot compare by clients: no such parameter"),
        (["compare", versions, other, "--by", "target"], "two runs cannot be compared by target"),
        (["compare", versions, other, "--base", "pg17"], "--base applies to one run"),
        (["compare", versions, "--base", "pg9"], "is not in run"),
        (["gate", versions, "--max-regression", "0.03"], "is not a limit"),
    ):
        done = run("pgdyno", *arguments)
        assert done.returncode == ExitCode.USAGE
        assert complaint in done.stderr


def test_prices_of_a_file_are_audited_as_those_of_the_plan(run: Run, tmp_path: Path) -> None:
    name = store_run(tmp_path / "runs", VERSIONS, repeats=8, idle=(1, 2))
    each = "[target.{}]\nhourly = [{{ amount = 1.0 }}]\n"
    prices = 'currency = "EUR"\ndate = "2026-11-01"\nyears = 3\n' + each.format("pg17") + each.format("pg18")
    (tmp_path / "prices.toml").write_text(prices)
    for options, count in (([], 0), (["--price", "prices.toml"], 2)):
        found = validated("compare", run("pgdyno", "compare", name, "--json", *options).stdout)["removed"]
        assert [each["rule"] for each in found].count("price-unsound") == count
    run("pgdyno", "report", name, "--html", "page.html", "--price", "prices.toml")
    assert "computed from 500.5 transactions a second" in (tmp_path / "page.html").read_text()


def priced(parent: Path, date: str, amount: float, left_out: Sequence[str] = (), currency: str = "USD") -> str:
    target = {"pg18": {"purchase": [{"amount": amount}]}}
    prices = {"currency": currency, "date": date, "years": 3, "left_out": list(left_out), "target": target}
    return store_run(parent, {"pg18": 500.0}, plan={"name": "quick", "trial": {"seed": 1}, "price": prices})


def test_prices_are_compared_if_their_lists_are_alike(run: Run, tmp_path: Path) -> None:
    """Printed with their dates and what they leave out."""
    first = priced(tmp_path, "2016-01-01", 1000)
    for left_out, currency, why in (
        (["storage", "licences"], "USD", "left out: nothing vs licences, storage"),
        ([], "EUR", "currency: USD vs EUR"),
    ):
        runs = [first, priced(tmp_path, "2026-01-01", 600, left_out, currency)]
        shown = " ".join(run("pgdyno", "compare", *runs).stdout.split())
        assert f"price per tps: not compared, because the price lists differ; {why}" in shown
        assert "cheaper" not in shown
        (found,) = validated("compare", run("pgdyno", "compare", *runs, "--json").stdout)["comparisons"]
        assert (found["prices"], [each["left_out"] for each in found["price_lists"]]) == ([], [[], left_out])
    runs = [priced(tmp_path, date, amount, ["power"]) for date, amount in (("2016-01-01", 1000), ("2026-01-01", 600))]
    shown = " ".join(run("pgdyno", "compare", *runs).stdout.split())
    assert " is cheaper than " in shown
    assert "prices in USD over 3 years, as of 2016-01-01 vs 2026-01-01; left out: power" in shown
