"""`pgdyno compare` and `pgdyno gate` over stored runs: output, files, exit codes."""

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pgdyno.audit import Finding, Severity
from pgdyno.audit.pairing import of_single_trials
from pgdyno.errors import ExitCode
from pgdyno.records import Fingerprint, Point, TargetRecord
from pgdyno.store import RunFolder
from tests.cli.conftest import Run
from tests.json_schema import validated
from tests.present import present
from tests.unit.events_sample import sample_events
from tests.unit.store_sample import SETTINGS, sample_manifest, sample_record
from tests.unit.test_fingerprint import BASE as FINGERPRINT
from tests.unit.test_fingerprint import SERVER, changed


def stored(
    parent: Path,
    tps: dict[str, float],
    repeats: int = 6,
    busy: float = 1.0,
    decline: float = 0.0,
    *,
    idle: Sequence[int] = (),
    points: Sequence[Point] = (Point(clients=4),),
    control: float | None = None,
    **manifest: object,
) -> str:
    """A run with a target for each of `tps`; its figures vary by about one in a thousand. Its path.

    By its latency, `busy` of its clients are at work, and half of those of trials `idle`: anything but all of them
    cannot be. Each trial is slower than the one before by `decline`. With `control`, the first target is measured again
    in each repeat, at that part of its rate. `manifest` are fields of the manifest.
    """
    arms = [(target, rate, False) for target, rate in tps.items()]
    if control is not None:
        arms.append((arms[0][0], control * arms[0][1], True))
    trials = len(tps) * repeats * len(points)
    folder = RunFolder.create(parent, sample_manifest(trials_planned=trials, **manifest))
    number = 0
    for repeat in range(1, repeats + 1):
        for point, (target, rate, is_control) in product(points, arms):
            number += 1
            share = 0.5 if number in idle else busy
            events = sample_events(4, 2, rate, 0.9 * 4e6 / rate, seed=number)
            record = sample_record(number, events, target=target, repeat=repeat)
            reached = rate * (1 + 0.001 * (number % 3)) * (1 - decline) ** number
            latency = present(present(record.summary).latency_ns).model_copy(
                update={"mean": share * point.planned_clients * 1e9 / reached}
            )
            summary = present(record.summary).model_copy(update={"tps": reached, "latency_ns": latency})
            slug = f"{number:04d}-{target}"
            record = record.model_copy(update={"summary": summary, "point": point, "slug": slug, "control": is_control})
            folder.begin_trial(record.slug).commit(record, events=events, settings=SETTINGS)
    return str(folder.path)


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> str:
    return stored(tmp_path_factory.mktemp("runs"), {"pg17": 500.0, "pg18": 600.0})


def test_targets_within_a_run(run: Run, versions: str) -> None:
    done = run("pgdyno", "compare", versions)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("pg18 is faster than pg17 by throughput: +20")
    # a sentence is one line in a pipe; the rows of the table are of a terminal's width
    assert max(map(len, done.stdout.splitlines()[1:])) <= 80


def test_two_runs_and_json(run: Run, tmp_path: Path) -> None:
    before, after = (stored(tmp_path / "runs", {"pg18": rate}) for rate in (600.0, 500.0))
    done = run("pgdyno", "compare", before, after, "--json")
    answer = validated("compare", done.stdout)
    (found,) = answer["comparisons"]
    assert (found["paired"], found["points"][0]["verdict"]) == (False, "slower")
    assert any("not recorded" in note for note in answer["notes"])
    assert [each["id"] for each in found["warning_details"]] == ["different-times"]
    assert [each["message"] for each in found["warning_details"]] == found["warnings"]


@pytest.mark.parametrize("command", ["compare", "gate"])
def test_a_metric_that_no_trial_has_is_refused(run: Run, tmp_path: Path, command: str) -> None:
    stored_run = stored(tmp_path / "runs", {"pg17": 500.0, "pg18": 600.0})
    done = run("pgdyno", command, stored_run, "--metric", "composite")
    assert done.returncode == ExitCode.USAGE
    assert done.stderr == "error: the trials have no composite figure\nhint: use --metric tps\n"


def test_a_run_is_not_compared_with_itself(run: Run, tmp_path: Path) -> None:
    once = stored(tmp_path / "runs", {"pg18": 600.0})
    for command in (("compare",), ("gate", "--max-regression", "3%")):
        done = run("pgdyno", command[0], once, f"{once}/", *command[1:])
        assert done.returncode == ExitCode.USAGE
        assert "are the same run" in done.stderr


def two_runs(parent: Path, before: Fingerprint, after: Fingerprint, rate: float = 600.0) -> list[str]:
    runs = ((500.0, before), (rate, after))
    return [stored(parent / "runs", {"pg18": tps}, fingerprint=of) for tps, of in runs]


@pytest.mark.parametrize(
    ("after", "field"),
    [
        (changed(workload={"scripts": ["tpcb-like"], "scale": 10}), "workload.scripts: select-only vs tpcb-like"),
        (changed(server_dataset_marks=["pgbench scale 20"]), "servers.pg18.dataset_marks: pgbench scale 10 vs"),
        (changed(reset={"method": "template"}), "reset.method: vacuum vs template"),
    ],
)
def test_runs_that_measured_other_things_are_refused(run: Run, tmp_path: Path, after: Fingerprint, field: str) -> None:
    refused = run("pgdyno", "compare", *two_runs(tmp_path, FINGERPRINT, after))
    assert refused.returncode == ExitCode.INVALID, refused.stdout
    assert refused.stdout.startswith("No comparison: the two runs measured different things\ninvalid: ")
    assert field in refused.stdout


def test_every_form_says_why_runs_are_refused(run: Run, tmp_path: Path) -> None:
    runs = two_runs(tmp_path, FINGERPRINT, changed(reset={"method": "template"}))
    field = "reset.method: vacuum vs template"
    for command in ("compare", "gate"):
        refused = run("pgdyno", command, *runs)
        assert refused.returncode == ExitCode.INVALID, refused.stdout
        assert refused.stdout.startswith("No comparison: the two runs measured different things\ninvalid: ")
        answer = validated(command, run("pgdyno", command, *runs, "--json").stdout)
        assert [each["grounds"] for each in answer["invalid"]] == ["pair"]
        forced = run("pgdyno", command, *runs, "--force")
        assert forced.returncode == ExitCode.OK, forced.stderr
        assert field in forced.stdout
    files = {kind: tmp_path / f"gate.{kind}" for kind in ("md", "junit")}
    run("pgdyno", "gate", *runs, "--force", *(f"--{kind}={path}" for kind, path in files.items()))
    assert all(field in path.read_text() for path in files.values())


def of_tpcc(profile: str) -> Fingerprint:
    return changed(workload={"name": "tpcc", "profile": profile, "variant": "functions"})


def test_releases_of_hammerdb_that_do_different_work_are_refused_with_a_remedy(run: Run, tmp_path: Path) -> None:
    runs = two_runs(tmp_path, of_tpcc("hammerdb"), of_tpcc("hammerdb-6.1.1"))
    refused = run("pgdyno", "compare", *runs)
    assert refused.returncode == ExitCode.INVALID
    said = " ".join(refused.stdout.split())
    assert "workload.profile: hammerdb vs hammerdb-6.1.1: different TPC-C profiles" in said
    assert "in earlier runs, hammerdb means hammerdb-6.1" in said
    assert "remedy: repeat one of the runs with the profile of the other" in said
    same = two_runs(tmp_path / "same", of_tpcc("hammerdb"), of_tpcc("hammerdb-6.1"))
    assert run("pgdyno", "compare", *same).returncode == ExitCode.OK


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
    before = stored(tmp_path / "runs", {"pg18": 500.0})
    after = stored(tmp_path / "runs", {"pg18": 600.0}, points=[point])
    refused = run("pgdyno", "gate", before, after)
    assert refused.returncode == ExitCode.INVALID, refused.stderr
    assert field in refused.stdout
    assert f"--by {by}" in refused.stdout
    compared = run("pgdyno", "compare", before, after, "--by", by)
    assert compared.returncode == ExitCode.OK, compared.stderr
    assert "is faster than" in compared.stdout
    assert f"compared: {field}" in " ".join(compared.stdout.split())


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
    files = ["--junit", str(tmp_path / "gate.xml"), "--md", str(tmp_path / "gate.md")]
    judged = run("pgdyno", "gate", *runs, *files)
    assert judged.returncode == ExitCode.OK, judged.stderr
    assert judged.stdout.splitlines()[0] == "gate: ok, confounded by processor"
    assert (tmp_path / "gate.md").read_text().startswith("### pgdyno gate: ok, confounded by processor\n")
    suite = ElementTree.parse(tmp_path / "gate.xml").getroot()
    (shown,) = [each.get("value", "") for each in suite.iter("property")]
    answer = validated("gate", run("pgdyno", "gate", *runs, "--json").stdout)
    assert [(each["topic"], each["message"]) for each in answer["confounders"]] == [("processor", shown)]


def test_the_audits_rules_about_pairs_see_both_runs(run: Run, tmp_path: Path) -> None:
    """A socket and TCP differ in no fingerprint, and a single run has no other to differ from."""
    runs = [
        stored(tmp_path / "runs", {"pg18": 500.0}, fingerprint=FINGERPRINT, targets=[target])
        for way in ("unix", "tcp")
        for target in [TargetRecord(name="pg18", kind="embedded", asked={"version": "18", "connect": way})]
    ]
    assert run("pgdyno", "compare", *runs).stdout.startswith("Confounded by placement: ")
    assert not run("pgdyno", "compare", runs[0], runs[0]).stdout.startswith("Confounded")


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
    judged = run("pgdyno", "gate", *runs, "--md", "gate.md", "--junit", "gate.xml")
    forms = [judged.stdout, (tmp_path / "gate.md").read_text(), (tmp_path / "gate.xml").read_text()]
    assert [text.count(note) for text in forms] == [2, 2, 2]
    own = stored(tmp_path / "runs", {"pg18": 500.0})
    assert run("pgdyno", "compare", own, runs[0]).returncode == ExitCode.OK


def test_a_finding_about_some_trials_leaves_these_out(run: Run, tmp_path: Path) -> None:
    """Trials 1 and 2 are the first pair at 4 clients; all trials of pg18 at 8 clients are invalid."""
    arms, points = {"pg17": 500.0, "pg18": 600.0}, [Point(clients=4), Point(clients=8)]
    last = [number for number in range(1, 33) if number % 4 == 0]
    some = stored(tmp_path / "runs", arms, 8, idle=[1, *last], points=points)
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
    judged = run("pgdyno", "gate", some, "--md", str(tmp_path / "gate.md"), "--junit", str(tmp_path / "gate.xml"))
    assert judged.returncode == ExitCode.INCONCLUSIVE
    for text in (judged.stdout, (tmp_path / "gate.md").read_text(), (tmp_path / "gate.xml").read_text()):
        assert "no verdict: all trials of pg18 are left out" in text
        assert "nan" not in text


def test_invalid_trials_are_not_compared(run: Run, tmp_path: Path) -> None:
    wrong = stored(tmp_path / "runs", {"pg17": 500.0, "pg18": 600.0}, busy=0.5)
    refused = run("pgdyno", "compare", wrong)
    assert refused.returncode == ExitCode.INVALID
    assert refused.stdout.startswith("No comparison: the audit found figures invalid\ninvalid: ")
    assert "littles-law: " in refused.stdout
    assert "faster" not in refused.stdout
    answer = validated("compare", run("pgdyno", "compare", wrong, "--json").stdout)
    assert (answer["comparisons"], [each["rule"] for each in answer["invalid"]]) == ([], ["littles-law"])

    forced = run("pgdyno", "compare", wrong, "--force")
    assert forced.returncode == ExitCode.OK
    first, reason, _, sentence, *_ = forced.stdout.splitlines()
    assert first == "not a claim: the audit found figures invalid:"
    assert "littles-law" in reason
    assert sentence.startswith("pg18 is faster than pg17")
    answer = validated("compare", run("pgdyno", "compare", wrong, "--force", "--json").stdout)
    assert (len(answer["comparisons"]), len(answer["invalid"])) == (1, 1)
    # an A/A run that is invalid is no measure of noise
    right = stored(tmp_path / "runs", {"pg17": 500.0, "pg18": 600.0})
    assert run("pgdyno", "compare", right, "--floor-from", wrong).returncode == ExitCode.INVALID


def test_findings_are_of_the_run_that_they_were_found_in(run: Run, tmp_path: Path) -> None:
    """The manifest holds the run's name: two runs of one name keep their own findings."""
    paths = [Path(stored(tmp_path / f"runs-{busy}", {"pg18": 500.0}, busy=busy)) for busy in (0.5, 1.0)]
    for path in paths:
        manifest = json.loads((path / "manifest.json").read_text())
        (path / "manifest.json").write_text(json.dumps(manifest | {"run": "the same"}))
    wrong, right = map(str, paths)
    for first, second in ((wrong, right), (right, wrong)):
        assert run("pgdyno", "compare", first, second).returncode == ExitCode.INVALID
    again = stored(tmp_path / "again", {"pg18": 500.0})
    assert run("pgdyno", "compare", right, again).returncode == ExitCode.OK


def test_a_finding_about_arms_is_about_the_whole_run() -> None:
    found = [
        Finding(rule=rule, severity=Severity.INVALID, trials=trials, message="", evidence=[], advice="", source="")
        for rule, trials in (("drift", [1, 3]), ("durability", [2]), ("littles-law", [4]), ("arithmetic", []))
    ]
    whole, some = of_single_trials(found)
    assert [each.rule for each in whole] == ["drift", "durability", "arithmetic"]
    assert [each.rule for each in some] == ["littles-law"]


def test_a_decline_from_trial_to_trial_is_no_slower_arm(run: Run, tmp_path: Path) -> None:
    equal = stored(tmp_path / "runs", {"a": 500.0, "b": 500.0}, decline=0.03)
    refused = run("pgdyno", "compare", equal)
    assert refused.returncode == ExitCode.INVALID
    assert "drift: throughput changes by -3.0 % from one trial to the next" in refused.stdout
    # what it would have said
    assert "b is slower than a by throughput" in run("pgdyno", "compare", equal, "--force").stdout


def test_a_gate_does_not_judge_what_is_invalid(run: Run, tmp_path: Path) -> None:
    wrong = stored(tmp_path / "runs", {"pg17": 500.0, "pg18": 500.0}, busy=0.5)
    refused = run("pgdyno", "gate", wrong, "--junit", "gate.xml", "--md", "gate.md")
    assert refused.returncode == ExitCode.INVALID
    suite = ElementTree.parse(tmp_path / "gate.xml").getroot()
    assert (suite.get("tests"), suite.get("errors")) == ("1", "1")
    assert "not judged" in (tmp_path / "gate.md").read_text()
    forced = run("pgdyno", "gate", wrong, "--force")
    assert forced.returncode == ExitCode.OK
    assert "littles-law" in forced.stdout


def test_the_noise_floor_of_a_run(run: Run, tmp_path: Path) -> None:
    equal = stored(tmp_path / "runs", {"a": 500.0, "b": 500.0})
    done = run("pgdyno", "compare", equal, "--noise-floor")
    assert done.stdout.startswith("Noise floor: two equal arms differ by at most 0."), done.stderr
    assert (
        "pg18 is faster"
        in run("pgdyno", "compare", stored(tmp_path, {"pg17": 500, "pg18": 600}), "--floor-from", equal).stdout
    )


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
    floor = stored(tmp_path / "runs", arms, repeats)
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
    files = ["--junit", str(tmp_path / "gate.xml"), "--md", str(tmp_path / "gate.md")]
    good = run("pgdyno", "gate", versions, "--by", "target", "--max-regression", "3%", *files)
    assert good.returncode == ExitCode.OK, good.stderr
    assert ElementTree.parse(tmp_path / "gate.xml").getroot().get("failures") == "0"
    assert (tmp_path / "gate.md").read_text().startswith("### pgdyno gate: ok")
    worse = run("pgdyno", "gate", versions, "--by", "target", "--base", "pg18", *files)
    assert worse.returncode == ExitCode.REGRESSION
    assert ElementTree.parse(tmp_path / "gate.xml").getroot().get("failures") == "1"
    few = stored(tmp_path / "runs", {"pg17": 500.0, "pg18": 500.0}, repeats=3)
    assert run("pgdyno", "gate", few).returncode == ExitCode.INCONCLUSIVE


def test_a_gate_with_a_baseline_that_differs_from_itself_says_so_first(run: Run, tmp_path: Path) -> None:
    files = ["--junit", str(tmp_path / "gate.xml"), "--md", str(tmp_path / "gate.md")]
    codes = []
    for control in (1.0, 0.9):
        name = stored(tmp_path / "runs", {"pg17": 500.0, "pg18": 400.0}, control=control)
        codes.append(run("pgdyno", "gate", name, "--require", "tps >= 900", *files).returncode)
    assert codes == [ExitCode.REGRESSION, ExitCode.UNDECIDABLE]
    said = run("pgdyno", "gate", name).stdout.splitlines()
    assert said[0].startswith("gate: cannot decide")
    assert said[1].startswith("This machine cannot decide: ")
    assert "new run of about" in said[2]
    document = (tmp_path / "gate.md").read_text()
    assert document.startswith("### pgdyno gate: cannot decide")
    assert document.index("machine cannot decide: ") < document.index("```text") < document.index(": control")
    assert ElementTree.parse(tmp_path / "gate.xml").getroot().get("errors") == "1"
    answer = validated("gate", run("pgdyno", "gate", name, "--json").stdout)
    assert (answer["gate"], answer["points"][0]["gate"]) == ("cannot decide", "inconclusive")
    assert answer["control_pairs"] > 0
    assert answer["control"][0]["change"] == pytest.approx(-0.1, abs=0.01)
    compared = run("pgdyno", "compare", name)
    assert compared.returncode == ExitCode.OK
    assert compared.stdout.startswith("This machine cannot decide: ")


@pytest.mark.parametrize(
    ("promises", "verdicts", "code"),
    [
        (["tps >= 400", "errors < 1%"], {"held"}, ExitCode.OK),
        (["tps >= 900", "tps >= 400"], {"broken", "held"}, ExitCode.PROMISE_BROKEN),
        (["tps >= 600.5"], {"cannot tell"}, ExitCode.INCONCLUSIVE),
        # nothing is due without a rate
        (["rate >= 95%"], {"cannot tell"}, ExitCode.INCONCLUSIVE),
        (["lag < 5s"], {"cannot tell"}, ExitCode.INCONCLUSIVE),
    ],
)
def test_a_gate_judges_promises_of_the_candidate(
    run: Run, versions: str, tmp_path: Path, promises: list[str], verdicts: set[str], code: ExitCode
) -> None:
    required = [f"--require={each}" for each in promises]
    files = ["--junit", str(tmp_path / "gate.xml"), "--md", str(tmp_path / "gate.md")]
    done = run("pgdyno", "gate", versions, *required, "--allow-inconclusive", *files)
    assert done.returncode == code, done.stdout
    found = validated("gate", run("pgdyno", "gate", versions, *required, "--json").stdout)
    assert {each["verdict"] for each in found["promises"]} == verdicts
    assert {each["target"] for each in found["promises"]} == {"pg18"}
    assert all(" at pg18" in line for line in done.stdout.splitlines() if "tps >=" in line)
    suite = ElementTree.parse(tmp_path / "gate.xml").getroot()
    assert len(suite.findall("testcase")) == 1 + len(promises)
    assert all(verdict in (tmp_path / "gate.md").read_text() for verdict in verdicts)


def test_promises_of_a_second_run_are_those_of_all_its_trials(run: Run, tmp_path: Path) -> None:
    runs = [stored(tmp_path / "runs", {"pg18": rate}) for rate in (500.0, 600.0)]
    assert run("pgdyno", "gate", *runs, "--require", "tps >= 550").returncode == ExitCode.OK
    assert run("pgdyno", "gate", *reversed(runs), "--require", "tps >= 550").returncode == ExitCode.REGRESSION


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["gate", "{}", "--require", "p99 < 20"], "--require: '20' is not a duration"),
        (["gate", "{}", "--require", "p98 < 20ms"], "--require: 'p98 < 20ms' is on an unknown figure, p98"),
        (["compare", "{}", "--by", "clients"], "cannot compare by clients: no such parameter"),
        (["compare", "{}", "{other}", "--by", "target"], "two runs cannot be compared by target"),
        (["compare", "{}", "{other}", "--base", "pg17"], "--base applies to one run"),
        (["compare", "{}", "--base", "pg9"], "is not in run"),
        (["gate", "{}", "--max-regression", "0.03"], "is not a limit"),
    ],
)
def test_wrong_options_are_refused(
    run: Run, versions: str, tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    other = stored(tmp_path / "other", {"pg18": 500.0})
    done = run("pgdyno", *(each.format(versions, other=other) for each in arguments))
    assert done.returncode == ExitCode.USAGE
    assert complaint in done.stderr


def test_prices_of_a_file_are_audited_as_those_of_the_plan(run: Run, tmp_path: Path) -> None:
    name = stored(tmp_path / "runs", {"pg17": 500.0, "pg18": 600.0}, repeats=8, idle=[1, 2])
    prices = tmp_path / "prices.toml"
    each = "[target.{}]\nhourly = [{{ amount = 1.0 }}]\n"
    prices.write_text('currency = "EUR"\ndate = "2026-11-01"\nyears = 3\n' + each.format("pg17") + each.format("pg18"))

    def rules(*options: str) -> list[str]:
        return [
            each["rule"]
            for each in validated("compare", run("pgdyno", "compare", name, "--json", *options).stdout)["removed"]
        ]

    assert "price-unsound" not in rules()
    assert rules("--price", str(prices)).count("price-unsound") == 2
    page = tmp_path / "page.html"
    run("pgdyno", "report", name, "--html", str(page), "--price", str(prices))
    assert "computed from 500.5 transactions a second" in page.read_text()
