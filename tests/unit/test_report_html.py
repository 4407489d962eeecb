"""The page: one file that requests no other, escapes its input, and contains every section."""

import base64
import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

import pgdyno.report
from pgdyno.analyse.over_time.timeline import latency_heatmap
from pgdyno.plan.model import Plan
from pgdyno.records import ErrorCount, Outcome
from pgdyno.records.probe import WAIT_CLASSES
from pgdyno.report.plan_toml import plan_toml
from pgdyno.store.seconds import MEASURE
from tests.present import present
from tests.unit.report_sample import SampleRun, add_failure, add_repeats, add_trial, manifest, render_html, sweep

EVIL = "<script>alert(1)</script>"
VOID = {"meta", "br", "link", "input", "img", "hr"}


class Page(HTMLParser):
    """Parses a page; fails on tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = text
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self._open):
            self.texts.setdefault(tag, []).append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def text(self, tag: str = "body") -> str:
        return " ".join(" ".join(self.texts.get(tag, [])).replace("\u00a0", " ").split())


def page(run: SampleRun, location: str = "runs/one") -> Page:
    return Page(render_html(run, location))


def failures() -> SampleRun:
    run = sweep(clients=(1, 4))
    add_failure(run, "pg18", 64, message="too many clients already")
    add_failure(run, "pg18", 64, repeat=2, outcome=Outcome.INTERRUPTED)
    error = ErrorCount(sqlstate="40001", message="could not serialize access", count=321)
    add_trial(run, "pg18", 64, 50_000, 2500, repeat=3, failed=321, errors=[error])
    return run


def all_failed() -> SampleRun:
    run = SampleRun(manifest())
    for clients in (1, 2, 4):
        add_failure(run, "pg18", clients)
    return run


def no_latency() -> SampleRun:
    run = SampleRun(manifest())
    for clients in (1, 2):
        add_trial(run, "pg18", clients, 0, with_latency=False)
    return run


def never_started() -> SampleRun:
    run = all_failed()
    targets = [target.model_copy(update={"facts": None}) for target in run.manifest.targets]
    run.manifest = run.manifest.model_copy(update={"targets": targets, "plan": {}, "outcome": None})
    return run


RUNS: dict[str, Callable[[], SampleRun]] = {
    "one target": sweep,
    "three targets": lambda: sweep(("pg18", "pg17", "pg16"), clients=(1, 4, 16)),
    "one point": lambda: sweep(clients=(8,), repeats=1),
    "some failed": failures,
    "all failed": all_failed,
    "no latency": no_latency,
    "never started": never_started,
    "no trial yet": lambda: SampleRun(manifest(outcome=None, trials_planned=3)),
    "many clients": lambda: sweep(clients=range(1, 81), repeats=1, seconds=3),
    "hostile": lambda: sweep((EVIL, "b"), clients=(1, 4), repeats=1),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_page_is_whole_asks_for_nothing_and_can_be_heard(name: str) -> None:
    made = page(RUNS[name]())
    ids = Counter(attributes["id"] for _, attributes in made.tags if "id" in attributes)
    assert [each for each, count in ids.items() if count > 1] == []
    for _, attributes in made.tags:
        assert not {"src", "srcset", "style", "action", "data", "poster"} & attributes.keys()
        assert not any(attribute.startswith("on") for attribute in attributes)
        assert attributes.get("href", "#").startswith("#")
        referred = attributes.get("aria-labelledby", "").split()
        if "href" in attributes:
            referred.append(attributes["href"].removeprefix("#"))
        assert set(referred) <= ids.keys()
    assert "url(" not in made.source
    assert "@import" not in made.source
    assert set(re.findall(r"https?://[^\s\"'<]+", made.source)) <= {"http://www.w3.org/2000/svg"}
    assert not made.all("link")
    levels = [int(tag[1]) for tag, _ in made.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels.count(1) == 1
    assert all(deeper <= level + 1 for level, deeper in pairwise(levels))
    assert len(made.all("table")) == len(made.all("caption"))
    assert all("scope" in attributes for attributes in made.all("th"))
    for attributes in made.all("svg"):
        assert attributes.get("aria-hidden") == "true" or attributes.get("role") == "img"
    # what scrolls must be reachable by key
    for attributes in made.all("div"):
        if attributes.get("class") == "box":
            assert attributes.get("tabindex") == "0"
            assert attributes.get("aria-label")
    sections = [each["aria-labelledby"] for each in made.all("section")]
    links = [each["href"].removeprefix("#") for each in made.all("a")]
    assert 1 <= len(sections) <= 8
    assert [each for each in links if each in sections][: len(sections)] == sections


def test_the_first_screen_has_validity_noise_and_the_picture_and_the_map_no_warm_up() -> None:
    made = page(sweep(clients=(1, 2, 4, 8), repeats=3))
    places = [made.source.index(text) for text in ('id="scaling"', 'id="latency"', 'class="four"', "<section")]
    assert places == sorted(places)
    assert made.source.count('id="scaling"') == 1
    assert "noise grade" in made.text("dl")
    assert "Not in this report" in made.text("p")
    assert "price of a million" not in made.text("dl")
    # the heat map leaves out the warm-up
    run = sweep(clients=(4,), repeats=1)
    (blob,) = run.blobs[1]
    run.blobs[1] += [replace(blob, second=row.second) for row in run.rows[1]]
    heat = present(latency_heatmap(run, 1))
    measured = [row for row in run.rows[1] if row.phase == MEASURE]
    assert len(measured) < len(run.rows[1])
    assert heat.seconds[0] == measured[0].from_us / 1e6
    assert len(heat.steps) == len(measured)


def test_the_policy_allows_the_page_s_own_style_and_script_by_hash_and_nothing_else() -> None:
    made = page(sweep(clients=(1,)))
    (policy,) = [each for each in made.all("meta") if each.get("http-equiv") == "Content-Security-Policy"]
    hashes = []
    for tag in ("style", "script"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", made.source, re.DOTALL)
        hashes.append(base64.b64encode(hashlib.sha256(text.encode()).digest()).decode())
    assert policy["content"] == (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; "
        "base-uri 'none'; form-action 'none'"
    )


def test_names_and_messages_are_text_wherever_they_come_from() -> None:
    run = sweep((EVIL, "b"), clients=(1, 4), repeats=1)
    add_failure(run, EVIL, 8, message=EVIL, hint=EVIL)
    add_trial(run, "b", 8, 100, errors=[ErrorCount(sqlstate=EVIL, message=EVIL, count=1)])
    host = present(run.manifest.host).model_copy(update={"cpu_model": EVIL, "os": EVIL})
    changes = {"host": host, "workload": EVIL, "plan_source": EVIL, "run": EVIL, "notes": [EVIL], "pgdyno": EVIL}
    run.manifest = run.manifest.model_copy(update={**changes, "plan": {"name": EVIL, "description": EVIL, EVIL: EVIL}})
    made = page(run, EVIL)
    assert EVIL not in made.source
    # the page's own, and the timeline's data, which no browser runs
    assert [each.get("type", "") for each in made.all("script")] == ["application/json", ""]
    assert made.source.count("&lt;script&gt;alert(1)") > 10


def test_twenty_one_trials_are_a_small_file() -> None:
    run = sweep(repeats=3, seconds=600)
    assert len(run.trials) == 21
    assert len(render_html(run, "here").encode()) <= 400_000


def test_the_headline_is_computed_from_the_data_and_failures_have_reasons() -> None:
    run = SampleRun(manifest())
    for clients, tps in ((1, 1000.0), (16, 71_300.0), (64, 60_000.0)):
        add_repeats(run, clients, [tps * 0.995, tps, tps * 1.005])
    made = page(run)
    assert "Throughput peaks at 16 clients with 71,300 transactions a second" in made.text("h2")
    assert "peak throughput 71,300 tps at 16 clients, ± 890" in made.text("dl")
    # failures are named with their reasons
    made = page(all_failed())
    assert "3 of 3 trials" in made.text("a")
    assert "too many clients already" in made.text("table")
    made = page(failures())
    assert "2 of 9 trials" in made.text("a")
    for reason in ("interrupted", "raise max_connections", "could not serialize access"):
        assert reason in made.text("table")
    assert "Only one trial: no interval : 64 clients" in made.text("li")


def test_settings_that_differ_are_named_and_each_class_of_waits_has_a_colour() -> None:
    run = sweep(("a", "b"), clients=(1,), repeats=1)
    run.manifest = manifest(("a", "b"), [{"jit": "off", "work_mem": "4096"}, {"work_mem": "4096"}])
    text = page(run).text("table")
    assert "Settings that differ between targets setting a b jit off default" in text
    assert "Settings that are not the default setting a b jit off default work_mem 4096 4096" in text
    script = (Path(pgdyno.report.__file__).parent / "page" / "strips.js").read_text()
    table = present(re.search(r"COLOUR = \{(.*?)\}", script, re.DOTALL))
    assert re.findall(r'"([^"]+)": "[^"]+"', table[1])[: len(WAIT_CLASSES)] == list(WAIT_CLASSES)


def test_the_plan_on_the_page_can_be_run_again_and_its_raw_data_found() -> None:
    plan = Plan.model_validate(
        {
            "name": "quick",
            "description": 'with "quotes" and \\ and\na line',
            "target": {"pg18": {"kind": "embedded", "version": "18", "settings": {"log_line_prefix": "%m\t[%p] "}}},
            "workload": {"scripts": ["select-only"], "variables": {"range": 100}},
            "sweep": {"clients": [1, 4]},
            "trial": {"warmup": "1m30s", "duration": "2.5s", "repeats": 3, "seed": 7},
        }
    )
    text = plan_toml(plan.as_resolved())
    assert Plan.model_validate(tomllib.loads(text)).as_resolved() == plan.as_resolved()
    run = sweep(clients=(1,), repeats=1)
    run.manifest = manifest(plan=plan.as_resolved())
    made = page(run, "runs/it's")
    assert 'duration = "2.5s"' in made.text("pre")
    assert "runs/it's" in made.text("code")
    assert "FROM 'runs/it''s/trials/*/intervals.parquet'" in made.text("pre")
