"""A metric over the runs of a folder, in a browser."""

import re
import shutil
from collections.abc import Iterator
from datetime import timedelta
from html import escape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from pgdyno.analyse.history import History, HistoryPoint, change_points
from pgdyno.analyse.pairs import Metric
from pgdyno.live.app import make_app
from pgdyno.report.charts.history import history_chart
from pgdyno.report.charts.layout import Layout
from tests.unit.archive_sample import MARKUP, fingerprint, many_runs, run_of
from tests.unit.store_sample import STARTED


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


@pytest.fixture
def client(runs: Path) -> Iterator[TestClient]:
    with TestClient(make_app(runs), base_url="http://localhost:8432") as client:
        yield client


def test_the_history_shows_changes_of_level_and_fingerprint(runs: Path, client: TestClient) -> None:
    apart = runs / ".patterns"
    many_runs(runs, 7, like=run_of(apart, workload=MARKUP))
    faster = run_of(apart, tps=600, workload=MARKUP, fingerprint=fingerprint("Faster CPU"))
    *_, changed = many_runs(runs, 7, first=7, like=faster)
    text = client.get("/history").text
    assert "Throughput over 14 runs" in text
    assert "2 fingerprints" in text
    assert f"{escape(MARKUP)}, pg" in text.replace("&#34;", "&quot;").replace("&#39;", "&#x27;")
    assert MARKUP not in text
    (row,) = re.findall(r"<tbody>(<tr>.*?</tr>)", text, re.DOTALL)
    assert f'href="/runs/{changed}/index.html"' in row
    assert re.search(r"<b>\+(19\.\d|20\.0) %", row)
    assert "Fast CPU before, Faster CPU after" in row
    # a copy's manifest still has the name of the original
    shutil.copytree(runs / changed, runs / f"{changed}-copy")
    shutil.rmtree(runs / changed)
    assert f'href="/runs/{changed}-copy/index.html"' in client.get("/history").text
    assert text.count("<circle") == 2 * 14
    assert 'aria-labelledby="history-0-wide-title' in text
    assert "p99 latency over 14 runs" in client.get("/history?metric=p99").text.replace("P99", "p99")


def test_a_group_of_the_index_leads_to_its_history(runs: Path, client: TestClient) -> None:
    many_runs(runs, 4, like=run_of(runs / ".patterns", fingerprint=fingerprint("Slow CPU")))
    many_runs(runs, 14, first=4)
    links = re.findall(r'href="(/history\?[^"]*)"', client.get("/").text)
    large, small = (client.get(each.replace("&amp;", "&")).text for each in links)
    assert "over 14 runs" in large
    assert "its level did not change" in large
    assert "over 4 runs" in small
    assert "too few for change points" in small
    assert "over 18 runs" in client.get("/history").text


def test_single_runs_and_unknown_metrics_have_no_history(runs: Path, client: TestClient) -> None:
    assert "No point was measured by two" in client.get("/history").text
    run_of(runs)
    assert "No point was measured by two" in client.get("/history").text
    assert client.get("/history?metric=x").status_code == 409


@pytest.mark.parametrize("layout", [Layout.WIDE, Layout.NARROW])
def test_levels_changes_and_days_are_drawn(layout: Layout) -> None:
    figures = [1_000.0] * 10 + [900.0] * 10
    points = tuple(HistoryPoint(f"run {at}", STARTED + timedelta(days=at), each, 1) for at, each in enumerate(figures))
    drawing = history_chart(History("pg", "w", Metric.TPS, points, change_points(figures)), Metric.TPS, "title", layout)
    drawn = str(drawing.render("x"))
    assert drawn.count("<circle") == 20
    assert drawn.count('class="s t0"') == 2
    assert "-10.0 %" in drawn.replace("\u2212", "-")
    for day in ("2026-11-20", "2026-12-09"):
        assert day in drawn
