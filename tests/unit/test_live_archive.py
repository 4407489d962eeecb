"""The archive: listing, searching, comparing and downloading runs over HTTP."""

import fcntl
import re
from collections.abc import Iterator
from html import escape, unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from pgdyno.fingerprint import fingerprint_of
from pgdyno.live import archive_index
from pgdyno.live.app import make_app
from pgdyno.live.archive_index import Index
from pgdyno.report.full_report import report_html
from pgdyno.store import RunFolder, load_run
from tests.present import present
from tests.unit.archive_sample import MARKUP, fingerprint, many_runs, run_of


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


@pytest.fixture
def client(runs: Path) -> Iterator[TestClient]:
    with TestClient(make_app(runs), base_url="http://localhost:8432") as client:
        yield client


def listed(text: str) -> list[str]:
    return re.findall(r'name="run" value="([^"]*)"', text)


@pytest.mark.slow
def test_a_thousand_runs_are_read_only_once(runs: Path, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    names = many_runs(runs, 1_000)
    assert listed(client.get("/").text) == names

    def fail(*_: object) -> None:
        raise AssertionError("a run that has not changed is read again")

    with monkeypatch.context() as patch:
        patch.setattr(archive_index, "read_entry", fail)
        assert listed(client.get("/").text) == names
        # another server uses the index that this one wrote
        assert [each.name for each in Index(runs).runs()] == names
    assert listed(client.get("/?version=12").text) == [name for name in names if int(name[-4:], 16) % 9 == 2]
    assert len(listed(client.get("/?since=2026-11-21&until=2026-11-21").text)) == 24


def test_a_run_that_changes_is_read_again(runs: Path, client: TestClient) -> None:
    folder = run_of(runs)
    assert "finished" in client.get("/").text
    folder.update_manifest(outcome="failed")
    assert '<td class="words bad">failed' in client.get("/").text


def test_the_list_has_the_answer_of_the_report_and_the_mean_of_the_best_point(runs: Path, client: TestClient) -> None:
    folder = run_of(runs, tps=500)
    assert 'class="answer"' not in client.get("/").text
    best = [trial.summary.tps for trial in folder.trials() if trial.summary]
    (entry,) = Index(runs).runs()
    assert entry.answer == ""
    assert entry.peak_tps == pytest.approx(sum(best) / len(best))
    assert present(entry.peak_tps) < max(best)
    (folder.path / "report.html").write_text(report_html([load_run(folder.path)]))
    assert "PostgreSQL 18.6 reaches" in client.get("/").text
    # a report from elsewhere is served as text, and a link is not followed
    validity = f'<meta name="validity" content="{escape(MARKUP)}">'
    (folder.path / "report.html").write_text(f'<meta name="description" content="{escape(MARKUP)}">{validity}')
    assert f"<p>Validity: {MARKUP}" in unescape(client.get(f"/run/{folder.name}").text)
    assert MARKUP not in client.get("/").text
    assert Index(runs).runs()[0].answer == MARKUP
    (folder.path / "report.html").unlink()
    (folder.path / "report.html").symlink_to("/etc/passwd")
    assert Index(runs).runs()[0].answer == ""


def test_search(runs: Path, client: TestClient) -> None:
    first = run_of(runs, version="17.5", notes=["the fan was loud"])
    second = run_of(runs, hours=30, workload="tpcb-like", fingerprint=fingerprint("Slow CPU"))
    print_of_first = fingerprint_of(first.manifest.fingerprint)
    for query, found in (
        ("q=fan+loud", [first]),
        ("q=FAN+quiet", []),
        ("q=shared_buffers=16384", [second, first]),
        ("workload=tpcb-like", [second]),
        ("version=17", [first]),
        ("version=1", []),
        (f"fingerprint={print_of_first}", [first]),
        (f"fingerprint={print_of_first[:4].upper()}", [first]),
        ("since=2026-11-21", [second]),
        ("until=2026-11-20", [first]),
    ):
        assert listed(client.get(f"/?{query}").text) == [each.name for each in found], query
    assert "is not a date" in client.get("/?since=soon").text


def test_a_fingerprint_leaves_out_what_is_compared(runs: Path) -> None:
    one = run_of(runs, version="17.5", fingerprint=fingerprint(seed=1)).manifest.fingerprint
    other = run_of(runs, version="18.6", fingerprint=fingerprint(seed=2)).manifest.fingerprint
    assert fingerprint_of(one) == fingerprint_of(other) != fingerprint_of(fingerprint("Slow CPU"))


def test_unreadable_runs_have_a_reason(runs: Path, client: TestClient) -> None:
    folder = run_of(runs)
    (folder.path / "manifest.json").write_text("{")
    assert "it is not JSON" in client.get("/").text
    assert client.get(f"/run/{folder.name}").status_code == 409


def test_a_damaged_cache_is_no_harm(runs: Path, tmp_path: Path) -> None:
    run_of(runs)
    kept = tmp_path / "index.json"
    for damaged in ("", "[]", '{"made_by": [1, "0.1.0"], "runs": [{}]}', '{"made_by": [1, "0.1.0"], "runs": [7]}'):
        kept.write_text(damaged)
        assert len(Index(runs, kept).runs()) == 1


def test_a_run_its_report_and_its_files(runs: Path, client: TestClient) -> None:
    folder = run_of(runs)
    text = client.get(f"/run/{folder.name}").text
    assert text.count('id="trial-') == 2
    for path in re.findall(rf'href="(/run/{folder.name}/files/[^"]*)"', text):
        assert client.get(path).status_code == 200, path
    got = client.get(f"/run/{folder.name}/files/manifest.json")
    assert got.content == (folder.path / "manifest.json").read_bytes()
    assert got.headers["content-disposition"].startswith("attachment")
    report = client.get(f"/run/{folder.name}/report")
    assert "<h1>" in report.text
    assert report.headers["content-security-policy"].startswith("sandbox ")
    assert client.get(f"/run/{folder.name}/trials.csv").text.count("\n") == 3


@pytest.mark.parametrize(
    "path",
    [
        "../other/manifest.json",
        "..%2fother%2fmanifest.json",
        "trials/../../other/manifest.json",
        ".lock",
        "trials/.hidden/secret",
        "%2fetc%2fpasswd",
        "link",
        "trials",
        "none",
        "%00",
    ],
)
def test_only_files_of_the_run(runs: Path, client: TestClient, path: str) -> None:
    folder = run_of(runs)
    (runs / "other").mkdir()
    for at in (runs / "other" / "manifest.json", folder.path / ".lock", folder.path / "trials/.hidden/secret"):
        at.parent.mkdir(exist_ok=True)
        at.write_text("{}")
    (folder.path / "link").symlink_to("/etc/passwd")
    assert client.get(f"/run/{folder.name}/files/{path}").status_code == 404


def test_two_runs_are_compared(runs: Path, client: TestClient) -> None:
    before, after = run_of(runs, tps=500), run_of(runs, hours=1, tps=1_000, fingerprint=fingerprint("Slow CPU"))
    text = client.get(f"/compare?run={after.name}&run={before.name}").text
    assert f"{after.name} vs {before.name}" in text  # the older one is the baseline
    assert "different processors" in text
    assert re.search(r"<b>\+1\d\d %", text)
    turned = client.get(f"/compare?base={after.name}&other={before.name}&metric=p99").text
    assert f"{before.name} vs {after.name} by p99 latency" in turned
    assert client.get(f"/compare?run={after.name}").status_code == 409
    assert client.get(f"/compare?run={after.name}&run=none").status_code == 404
    assert client.get(f"/compare?base={after.name}&other={before.name}&metric=beauty").status_code == 409


def test_names_of_others_are_text(runs: Path, client: TestClient) -> None:
    folder = run_of(runs, workload=MARKUP, notes=[MARKUP], plan_source=MARKUP, plan={"name": "x", "trial": {}})
    named = folder.path.rename(runs / "20261120T101500Z-<b>'\"&-3f9a")
    for path in ("/", f"/?q={MARKUP}&workload={MARKUP}&fingerprint={MARKUP}&since={MARKUP}", f"/run/{named.name}"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert MARKUP not in answer.text
        assert "<b>'" not in answer.text
        assert "<script>" not in answer.text
        assert "script-src 'self';" in answer.headers["content-security-policy"]


def test_a_run_goes_on_while_its_folder_is_locked(runs: Path, client: TestClient) -> None:
    folder = RunFolder.open(run_of(runs).path)
    folder.update_manifest(ended_at=None, outcome=None)
    assert "Running now" not in client.get("/").text
    with (folder.path / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert f'<a href="/live/{folder.name}">' in client.get("/").text
    assert "not ended" in client.get("/").text


def test_a_plan_with_prices_says_what_it_costs_while_it_runs(runs: Path, client: TestClient) -> None:
    costs = {"hourly": [{"amount": 1.2, "count": 2}]}
    price = {"currency": "EUR", "date": "2026-11-01", "years": 1, "target": {"pg": costs, "other": costs}}
    priced, free = run_of(runs, plan={"name": "dear", "price": price}), run_of(runs, hours=1)
    for each in (priced, free):
        (each.path / "journal.jsonl").touch()
    assert 'data-rate="4.8" data-currency="EUR"' in client.get(f"/live/{priced.name}").text
    assert "data-rate" not in client.get(f"/live/{free.name}").text
    assert "of 2026-11-01" in client.get(f"/run/{priced.name}/report").text
