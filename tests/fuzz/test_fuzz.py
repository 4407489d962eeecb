"""Inputs from outside, broken at random: every reader ends with a result or with an error of pgdyno's own.

`[short]` is part of every test run, with the same few inputs each time. `[long]` tries other inputs for FUZZ_SECONDS,
which `make fuzz` sets; `make test-long` takes an hour for each. A failure prints the smallest case that hypothesis
found.
"""

import copy
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from importlib import resources
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from pgdyno.audit import audit
from pgdyno.cli import app
from pgdyno.errors import PgdynoError
from pgdyno.importers.sources import read_source
from pgdyno.live.app import make_app
from pgdyno.live.run_journal import JOURNAL
from pgdyno.live.run_reader import Watched
from pgdyno.plan import load_plan
from pgdyno.report.full_report import whole_report
from pgdyno.store import RunFolder, list_runs, load_run
from pgdyno.store.duckdb_session import quote_text
from pgdyno.store.parquet import write_tables
from pgdyno.store.trial_tables import SeriesRow, WaitRow
from tests.unit.archive_sample import fingerprint
from tests.unit.events_sample import sample_events
from tests.unit.store_sample import SETTINGS, add_trial, sample_manifest, sample_record
from tests.unit.test_event_spool import tried

LONG_S = float(os.environ.get("FUZZ_SECONDS", "3600"))
"""Of each target."""
FIRST = int(os.environ.get("FUZZ_SEED", "0"))
"""Where the seeds begin: what `[long]` tries depends on it alone."""
NUMBERS = st.one_of(
    st.sampled_from([0, -1, 1, 2**31, 2**63 - 1, -(2**63), 2**64, 10**30, 1e308, -1e308, 5e-324, 1e18]),
    st.floats(),
    st.integers(),
)
TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["", "[/nope]", "\x1b[2J", "\u202e", "../../x", "nan", "9999-12-31T23:59:59-23:59", "0", "\ud800", "a" * 5_000]
    ),
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(TEXTS, below, max_size=3),
    max_leaves=6,
)

Case = Callable[[st.DataObject], None]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))


def fuzz(case: Case, examples: int, seconds: float) -> None:
    """Runs `case` on so many examples; where there are `seconds`, on others for as long as that."""
    end = time.monotonic() + seconds
    tried = 0

    def counted(data: st.DataObject) -> None:
        nonlocal tried
        tried += 1
        case(data)

    number = FIRST if seconds else 0
    while tried == 0 or time.monotonic() < end:
        wrapped = given(st.data())(counted)
        configured = settings(
            max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink), report_multiple_bugs=False,
        )(seed(number)(wrapped))  # fmt: skip
        try:
            configured()
        except BaseException:
            print(f" a finding after {tried:,} inputs; to see it again at once: FUZZ_SEED={number}")
            raise
        number += 1
    # -s shows it, and `make fuzz`
    print(f" {tried:,} inputs from seeds {FIRST if seconds else 0} to {number - 1}")


def short_and_long(test: Callable[..., None]) -> Callable[..., None]:
    seconds = [pytest.param(0, id="short"), pytest.param(LONG_S, id="long")]
    marked: Callable[..., None] = pytest.mark.long_cases("long")(pytest.mark.parametrize("seconds", seconds)(test))
    return marked


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401 - JSON of any shape
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, below in steps:
        yield (*at, name)
        yield from places(below, (*at, name))


def broken(data: st.DataObject, value: Any) -> Any:  # noqa: ANN401 - likewise
    """Returns a copy of `value` in which some values are changed or missing."""
    made = copy.deepcopy(value)
    for _ in range(data.draw(st.integers(1, 3))):
        every = list(places(made))
        if not every:
            return made
        *to, last = data.draw(st.sampled_from(every))
        at = made
        for name in to:
            at = at[name]
        if isinstance(at, dict) and data.draw(st.integers(0, 5)) == 0:
            del at[last]
        else:
            at[last] = data.draw(VALUES)
    return made


class Uses:
    """Commands and pages on a folder of runs, one of which is fuzzed."""

    def __init__(self, run: Path) -> None:
        """`run` is the fuzzed run; a sound one is created next to it."""
        self._run, self._runs = run, run.parent
        good = sample_run(self._runs).name
        name = run.name
        self._pages = [
            "/", "/history", f"/runs/{name}/index.html", f"/runs/{name}/raw.tar", f"/runs/{name}/trials.csv",
            f"/compare?run={name}&run={good}", "/history?metric=p99", f"/live/{name}",
        ]  # fmt: skip
        self._commands = [
            ["list"], ["list", "--json"], ["show", name], ["show", name, "--json"], ["show", name, "--csv"],
            ["show", name, "--timeline"], ["show", name, "--layout", "sysbench"], ["audit", name],
            ["audit", name, "--json"], ["analyse", name], ["analyse", name, "--json"],
            ["analyse", name, "--latency", "p99 < 10ms"], ["compare", good, name, "--force"],
            ["compare", name, good, "--json", "--force"], ["gate", good, name, "--force"],
            ["export", name, "--openmetrics"], ["compare", name, "--noise-floor"],
            ["history"], ["report", name, "--md", str(run.parent.parent / "report.md")],
            ["publish", name, good, "--into", str(run.parent.parent / "site")],
        ]  # fmt: skip
        self._client = TestClient(make_app(self._runs), base_url="http://localhost:8432", follow_redirects=False)

    def some(self, data: st.DataObject) -> None:
        """Uses the run in several ways. Fails for an answer of 500, and for exceptions other than pgdyno's own."""
        for each in data.draw(st.lists(st.sampled_from([*self._pages, *self._commands]), min_size=1, max_size=3)):
            if isinstance(each, str):
                assert self._client.get(each).status_code < 500, each
                continue
            runs = [str(self._runs)] if each == ["history"] else ["--runs", str(self._runs)]
            with suppress(PgdynoError, SystemExit), redirect_stdout(nowhere()), redirect_stderr(nowhere()):
                app([*each, *runs], standalone_mode=False)
        assert len(list_runs(self._runs)) == 2


def nowhere() -> TextIOWrapper:
    return TextIOWrapper(BytesIO(), "utf-8", "replace")


def sample_run(runs: Path) -> Path:
    folder = RunFolder.create(runs, sample_manifest(fingerprint=fingerprint(), notes=["a note"]))
    for number in (1, 2):
        path = add_trial(folder, number, sample_events(4, 2, 500, 900, seed=number))
        write_tables(path, {"series": series(number), "waits": waits(number)})
        record = json.loads((path / "trial.json").read_text())
        record["probe"] = {"version": "0.1.0", "waits_hz": 10, "host": True, "server": True, "late": 0}
        (path / "trial.json").write_text(json.dumps(record))
    return folder.path


def series(trial: int) -> list[SeriesRow]:
    """Samples of a probe, twice a second."""
    metrics = [
        ("cpu", "user", "{}", 0.5), ("cpu", "steal", "{}", 0.0), ("wal_position", "inserted", "{}", 1e6),
        ("disk", "utilisation", '{"device": "vda", "holds": "data"}', 0.5), ("database", "active_time", "{}", 9),
        ("relations", "size", '{"table": "t"}', 8192.0), ("processes", "cpu", '{"kind": "client"}', 1e5),
    ]  # fmt: skip
    return [
        SeriesRow(trial, at * 500_000, at * 500_000, 500_000, source, metric, labels, value)
        for at in range(8)
        for source, metric, labels, value in metrics
    ]


def waits(trial: int) -> list[WaitRow]:
    return [WaitRow(trial, at * 100_000, 0, "client backend", "IO", "DataFileRead", 7, 2) for at in range(40)]


def fuzz_files(
    folder: Path,
    patterns: Sequence[str],
    change: Callable[[st.DataObject, bytes], bytes],
    examples: int,
    seconds: float,
) -> None:
    """Uses a run in which `change` has changed a file of these patterns."""
    run = sample_run(folder / "runs")
    uses = Uses(run)
    good = {path: path.read_bytes() for pattern in patterns for path in sorted(run.glob(pattern))}

    def case(data: st.DataObject) -> None:
        path = data.draw(st.sampled_from([*good]))
        path.write_bytes(change(data, good[path]))
        try:
            uses.some(data)
        finally:
            path.write_bytes(good[path])

    fuzz(case, examples, seconds)


@short_and_long
def test_records(tmp_path: Path, seconds: float) -> None:
    def change(data: st.DataObject, content: bytes) -> bytes:
        return json.dumps(broken(data, json.loads(content))).encode()

    fuzz_files(tmp_path, ["manifest.json", "trials/*/trial.json"], change, 20, seconds)


@short_and_long
def test_tables(tmp_path: Path, seconds: float) -> None:
    run = sample_run(tmp_path / "runs")
    uses = Uses(run)
    files = [path for path in sorted(run.glob("trials/0001*/*.parquet")) if path.stat().st_size > 0]
    kept = {path: Path(shutil.copy(path, tmp_path / path.name)) for path in files}
    columns = {path: duckdb.read_parquet(str(path)).columns for path in files}

    def case(data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(files))
        column = data.draw(st.sampled_from(columns[path]))
        value = data.draw(
            st.sampled_from(
                ["NULL", "'nan'::DOUBLE", "'-inf'::DOUBLE", "1e308", "1e19", "-1", "0", "9223372036854775807",
                 "(-9223372036854775808)::BIGINT", "'text'", "''", "[1]", "'\\xff'::BLOB", "true", "{'a': 1}",
                 "'{}'", "'[[['", "'{\"origin_us\": \"x\", \"epoch_us\": -1e300}'", "TIMESTAMP '2000-01-01'"]
            )
        )  # fmt: skip
        which = data.draw(st.sampled_from(["true", "file_row_number = 0", "file_row_number % 2 = 0"]))
        every = f"read_parquet({quote_text(str(kept[path]))}, file_row_number = true)"
        typed = data.draw(st.booleans())
        new = value if typed else f"CASE WHEN {which} THEN {value} ELSE {column} END"
        with suppress(duckdb.Error):
            duckdb.sql(
                f"COPY (SELECT * EXCLUDE (file_row_number) REPLACE ({new} AS {column}) FROM {every})"
                f" TO {quote_text(str(path))} (FORMAT parquet)"
            )
        try:
            uses.some(data)
        finally:
            shutil.copy(kept[path], path)

    fuzz(case, 15, seconds)


@short_and_long
def test_bytes_of_a_run(tmp_path: Path, seconds: float) -> None:
    fuzz_files(tmp_path, ["trials/0001*/*.parquet", "trials/0001*/*.json", "manifest.json"], cut, 12, seconds)


def cut(data: st.DataObject, content: bytes) -> bytes:
    begin = data.draw(st.integers(0, len(content)))
    length = data.draw(st.integers(0, 40))
    return content[:begin] + data.draw(st.binary(max_size=40)) + content[begin + length :]


@short_and_long
def test_imports(tmp_path: Path, seconds: float) -> None:
    golden = Path(__file__).parents[1] / "golden" / "published-outputs"
    files = sorted(path for path in golden.iterdir() if path.is_file() and path.stat().st_size < 100_000)

    def case(data: st.DataObject) -> None:
        source = data.draw(st.sampled_from(files))
        content = source.read_bytes()
        for _ in range(data.draw(st.integers(1, 4))):
            content = cut(data, content)
        copied = tmp_path / source.name
        copied.write_bytes(content)
        with suppress(PgdynoError):
            read_source(None, {}, str(copied))

    fuzz(case, 150, seconds)


@short_and_long
def test_plans(tmp_path: Path, seconds: float) -> None:
    # those of the catalogue have all other sections and every kind of target
    catalogue = sorted(Path(str(resources.files("pgdyno.plans"))).glob("*.toml"))
    known = [PLAN.splitlines(), *(each.read_text("utf-8").splitlines() for each in catalogue)]
    path = tmp_path / "plan.toml"

    def case(data: st.DataObject) -> None:
        made = list(data.draw(st.sampled_from(known)))
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(0, len(made) - 1))
            name = made[at].partition("=")[0]
            made[at] = f"{name}= {toml(data.draw(VALUES))}" if "=" in made[at] else data.draw(TEXTS)
        path.write_text("\n".join(made), "utf-8", "replace")
        with suppress(PgdynoError):
            load_plan(path)

    fuzz(case, 150, seconds)


PLAN = """\
name = "x"
[target.pg18]
kind = "embedded"
version = "18"
[workload]
scripts = ["select-only", "tpcb-like@2"]
[sweep]
clients = [1, 2, "4..16 doubling"]
session_settings.jit = "off"
[trial]
duration = "10s"
seed = 1
[[event]]
at = "3s"
do = "restart"
[hooks]
before_trial = ["sync"]
[probe]
waits_hz = 10
[price]
currency = "EUR"
date = "2026-03-01"
years = 3
[price.target.pg18]
purchase = [{ name = "server", amount = 12000 }]
"""
"""What no plan of the catalogue has."""


def toml(value: Any) -> str:  # noqa: ANN401 - JSON of any shape
    """Returns `value` as TOML, in JSON's form where both are the same."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {toml(below)}" for name, below in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value)


@short_and_long
def test_events(tmp_path: Path, seconds: float) -> None:
    events = sample_events(4, 2, 500, 900, seed=1)
    record = sample_record(1, events)

    def case(data: st.DataObject) -> None:
        folder = RunFolder.create(tmp_path / "runs", sample_manifest())
        try:
            with suppress(PgdynoError):
                result = tried(tmp_path, broken(data, events))
                folder.begin_trial(record.slug).commit(record, events=result.events, settings=SETTINGS)
                loaded = load_run(folder.path)
                audit(loaded)
                whole_report([loaded]).html()
        finally:
            shutil.rmtree(folder.path)

    fuzz(case, 25, seconds)


@short_and_long
def test_journals(tmp_path: Path, seconds: float) -> None:
    good = [
        {"e": "run", "t": 1, "trials": [[1, "0001-a-c4", "a", 4], [2, "0002-b-c4", "b", 4]], "control": False},
        {"e": "prepare", "t": 1, "text": "x"},
        {"e": "progress", "t": 1, "done": 1, "total": 2, "per_s": 1.0, "left_s": 1.0},
        {"e": "trial", "t": 2, "n": 1, "total": 2, "label": "x", "seconds": 1, "left_s": 1},
        {"e": "second", "t": 3, "tps": 1.5, "p99": 1.0, "phase": "measure"},
        {"e": "health", "t": 3, "busy": 0.5, "workers": 1},
        {"e": "ended", "t": 4, "outcome": "finished", "tps": 1.0, "p99": 2.0},
        {"e": "note", "t": 5, "text": "warning: x"},
        {"e": "end", "t": 6, "how": "came to its end", "outcome": "finished"},
    ]
    probe = [
        {"event": "waits", "wall_us": 10**6, "rows": [{"backend_type": None, "wait_type": "IO", "wait": "x",
                                                       "sessions": 2}]},
        {"event": "sample", "wall_us": 10**6, "source": "cpu", "span_us": 10**6, "rows": [{"values": {"user": 0.5}}]},
        {"event": "sample", "wall_us": 2 * 10**6, "source": "disk", "span_us": 10**6,
         "rows": [{"labels": {"holds": "data"}, "values": {"utilisation": 0.5, "read": 1}}]},
        {"event": "blockers", "wall_us": 3 * 10**6, "rows": [{"blocked_by": 1, "state": "x"}]},
        {"event": "waits", "wall_us": 4 * 10**6, "rows": []},
    ]  # fmt: skip
    (tmp_path / ".0001-a-c4.partial").mkdir()

    def case(data: st.DataObject) -> None:
        said = broken(data, {"journal": good, "probe": probe})
        for name, path in (("journal", JOURNAL), ("probe", ".0001-a-c4.partial/probe.jsonl")):
            lines = said.get(name) if isinstance(said, dict) else None
            text = "".join(json.dumps(line) + "\n" for line in lines) if isinstance(lines, list) else json.dumps(lines)
            (tmp_path / path).write_text(text)
        watched = Watched(tmp_path)
        watched.poll()
        json.loads(json.dumps(watched.complete_state()), parse_constant=refuse)

    fuzz(case, 150, seconds)


def refuse(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


@short_and_long
def test_requests(tmp_path: Path, seconds: float) -> None:
    run = sample_run(tmp_path / "runs")
    (run / JOURNAL).write_text('{"e":"note","t":1,"text":"x"}\n')
    header = st.text(st.characters(min_codepoint=33, max_codepoint=255), max_size=30)
    names = ["host", "origin", "cookie", "x-pgdyno-form", "sec-fetch-site", "sec-fetch-dest", "content-type", "range"]
    of_run = [f"/runs/{run.name}/{name}" for name in ("index.html", "raw.tar", "trials.csv")]
    pages = ["/", "/compare", "/history", *of_run, f"/live/{run.name}", f"/live/{run.name}/ask", "/enter",
             "/static/live.js"]  # fmt: skip
    asked = ["workload", "fingerprint", "metric", "base", "other", "run"]

    with TestClient(make_app(tmp_path / "runs"), base_url="http://localhost:8432", follow_redirects=False) as client:

        def case(data: st.DataObject) -> None:
            page = data.draw(st.sampled_from(pages))
            if data.draw(st.booleans()):
                page += quote(data.draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=20)), safe="/%")
            sent = {name: data.draw(header).encode("latin-1") for name in data.draw(st.lists(st.sampled_from(names)))}
            given_to = [(data.draw(st.sampled_from([*asked, "x"])), draw_text(data)) for _ in range(2)]
            method = data.draw(st.sampled_from(["GET", "GET", "HEAD", "POST", "PUT", "DELETE"]))
            body = data.draw(st.binary(max_size=50)) if method == "POST" else None
            if page.startswith(f"/live/{run.name}/stream"):
                return  # it has no end
            answer = client.request(method, page, params=given_to, headers=sent, content=body)  # type: ignore[arg-type]
            assert answer.status_code < 500

        fuzz(case, 150, seconds)


def draw_text(data: st.DataObject) -> str:
    return data.draw(TEXTS).encode("utf-8", "replace").decode()
