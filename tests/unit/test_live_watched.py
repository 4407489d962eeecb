"""The page of a running experiment: the journal, the probe's lines, requests, and malformed ones of each."""

import asyncio
import fcntl
import json
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pgdyno.errors import UsageError
from pgdyno.live.control import CONTROL, Ask, ask
from pgdyno.live.probe_samples import Sampled
from pgdyno.live.run_journal import JOURNAL, JournalView
from pgdyno.live.run_reader import MOST_ARMS, MOST_CLIENTS, Tail, Watched
from pgdyno.live.server.start_background import IDLE_S, Idle
from pgdyno.live.viewers import MOST_STREAMS, MOST_STREAMS_EACH, Hub, encode_event
from pgdyno.messages import Message
from pgdyno.records import Outcome
from pgdyno.report import run_events
from pgdyno.report.terminal.progress import QuietView
from tests.present import present
from tests.unit.archive_sample import MARKUP
from tests.waiting import wait_until

TRIALS = [
    run_events.GridTrial(number, f"{number:04}-{arm}-c{clients}", arm, clients)
    for number, (clients, arm) in enumerate(((2, "a"), (2, "b"), (4, "a"), (4, "b")), start=1)
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    path.mkdir()
    return path


@contextmanager
def running(run: Path) -> Iterator[None]:
    with (run / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def began(
    run: Path, trials: Sequence[run_events.GridTrial] = TRIALS, *, controlled: bool = False
) -> Iterator[JournalView]:
    with JournalView(QuietView(), controlled=controlled) as view:
        view.event(run_events.RunBegan(run, trials))
        yield view


def state(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = Watched(run).complete_state()
    return found


def one_trial(view: JournalView, number: int, tps: float = 100.0, outcome: Outcome = Outcome.FINISHED) -> None:
    view.event(run_events.SetUp("resetting"))
    view.event(run_events.TrialStarted(number, 4, f"trial {number}", 2.0, later=4 - number))
    view.event(run_events.IntervalEnded(tps, 2.5, "measuring"))
    health = {"scripts": [{"failed": 1}], "workers": [{"cpu_share": 0.5}], "clients": 2}
    view.event(run_events.EngineReported({"event": "interval", **health}))
    view.event(run_events.TrialEnded(outcome, tps, 2.5))


def test_the_journal_tells_all_to_who_comes_late(run: Path) -> None:
    with JournalView(QuietView()) as view:
        view.event(run_events.Noted("before there is a folder"))
        view.event(run_events.RunBegan(run, TRIALS))
        one_trial(view, 1, 100.0)
        one_trial(view, 2, 110.0)
        view.event(run_events.EngineReported({"event": "error", "consequence": "failed", "message": MARKUP}))
        view.event(run_events.RunEnded("came to its end", Outcome.FINISHED))
    seen = state(run)
    assert [each["text"] for each in seen["feed"]] == [
        "before there is a folder",
        "1: trial 1  100 tps  p99 2.50 ms",
        "2: trial 2  110 tps  p99 2.50 ms",
        f"failed: {MARKUP}",
    ]
    assert seen["now"]["end"] == {"how": "came to its end", "outcome": "finished"}
    assert seen["now"]["health"]["busy"] == 0.5
    assert seen["now"]["base"] == {"tps": 100.0, "p99": 2.5, "n": 1, "of": "a"}
    means = [{"tps": tps, "p99": 2.5, "n": 1} for tps in (100.0, 110.0)]
    assert [(cell["done"], cell["mean"]) for cell in seen["grid"]["cells"]] == [
        (1, means[0]), (1, means[1]), (0, None), (0, None),
    ]  # fmt: skip


def test_only_what_is_new_is_told_again(run: Path) -> None:
    watched = Watched(run)
    with began(run) as view:
        view.event(run_events.TrialStarted(1, 4, "trial 1", 2.0, later=3))
        assert present(watched.poll())["reset"]
        assert watched.poll() is None
        view.event(run_events.IntervalEnded(100.0, None, "warm-up"))
        second = present(watched.poll())
        assert not second["reset"]
        assert [each["tps"] for each in second["seconds"]] == [100.0]


def test_the_page_sees_how_the_interval_narrows(run: Path) -> None:
    watched = Watched(run)
    with began(run) as view:
        for pairs, verdict in ((6, None), (7, None), (7, None), (8, "faster")):
            low, high = 0.05 - 0.3 / pairs, 0.05 + 0.3 / pairs
            of = ("b", "a", MARKUP, "throughput")
            view.event(run_events.Looked(*of, pairs, 20, 0.05, low, high, 0.01, verdict))
    (seen,) = present(watched.poll())["looks"]
    assert watched.complete_state()["looks"] == [seen]
    # a resumed run looks again at the pairs that it has
    assert [each["pairs"] for each in seen["looks"]] == [6, 7, 8]
    assert (seen["arm"], seen["base"], seen["point"], seen["most"], seen["verdict"]) == ("b", "a", MARKUP, 20, "faster")
    (run / JOURNAL).write_text('{"e":"look","t":1,"arm":"b","base":"a","point":"p","metric":"m","pairs":"x"}\n')
    assert state(run)["looks"] == []


def test_the_best_configuration_is_that_of_the_last_line(run: Path) -> None:
    with began(run) as view:
        view.event(run_events.BestSeen(100.0, None, "tps", None, 1, {}))
        view.event(run_events.BestSeen(120.0, 100.0, "tps", 0.02, 2, {"jit": MARKUP}))
    seen = {"figure": 120.0, "start": 100.0, "unit": "tps", "noise": 0.02, "trials": 2, "settings": [["jit", MARKUP]]}
    assert present(Watched(run).poll())["now"]["best"] == seen
    line = '{"e":"best","t":1,"figure":1,"start":null,"unit":"tps","noise":null,"trials":1,"settings":SETTINGS}\n'
    (run / JOURNAL).write_text("".join(line.replace("SETTINGS", each) for each in ("7", "[1]", '"x"', "null")))
    assert state(run)["now"]["best"] is None


def test_a_resumed_run_continues_its_journal(run: Path) -> None:
    for numbers in ((1,), (2, 3)):
        with began(run) as view:
            for number in numbers:
                one_trial(view, number, outcome=Outcome.FAILED if number == 3 else Outcome.FINISHED)
            view.event(run_events.RunEnded("was interrupted", Outcome.INTERRUPTED))
    grid = state(run)["grid"]
    assert grid["done"] == 3
    assert [cell["failed"] for cell in grid["cells"]] == [0, 0, 1, 0]
    # a failed trial that is repeated counts once
    with began(run) as view:
        view.event(run_events.TrialStarted(3, 4, "trial 3", 2.0, later=1))
        grid = state(run)["grid"]
    cell = grid["cells"][2]
    assert (grid["done"], cell["done"], cell["failed"], cell["running"]) == (2, 0, 0, True)


def test_a_journal_that_cannot_be_written_is_no_harm(run: Path) -> None:
    (run / JOURNAL).mkdir()
    with began(run) as view:
        one_trial(view, 1)


def test_a_check_of_the_preflight_is_shown_by_its_severity(run: Path) -> None:
    values = {"verdict": "warning", "check": "cpu.steal", "found": "3 %", "means": "figures are too low"}
    check = Message("preflight-check", "{verdict}: {check}: {found}: {means}", **values)
    other = Message("target-note", "warning: {note}", note="x")
    with began(run) as view:
        for each in (check, other):
            view.event(run_events.Noted(str(each), each))
    lines = [json.loads(line) for line in (run / JOURNAL).read_text().splitlines()]
    noted = [line for line in lines if line["e"] == "note"]
    assert [(line["id"], line["text"]) for line in noted] == [(each.id, str(each)) for each in (check, other)]
    assert noted[0]["parameters"] == values
    assert [(each["kind"], each["text"]) for each in state(run)["feed"]] == [
        ("warning", "cpu.steal: 3 %: figures are too low"),
        ("note", "warning: x"),
    ]


HOSTILE_LINES = [
    '{"e":"run"}',
    '{"e":"later","t":1}',
    "no json",
    "[]",
    '{"e":"note","t":1,"text":"y","id":"preflight-check"}',
    '{"e":"note","t":1,"text":"y","id":"preflight-check","parameters":[]}',
    "[" * 100_000,
    '{"e":' * 100_000,
    '{"e":"note","t":1,"text":{"a":[]}}',
    '{"e":"second","t":1,"tps":NaN,"p99":null,"phase":""}',
    '{"e":"second","t":1,"tps":1e999,"p99":null,"phase":""}',
    '{"e":"second","t":"x","tps":"fast","p99":[],"phase":{}}',
    '{"e":"run","t":1,"trials":[[1,"../../x","a",4],[2,"b",["c"],"d"]]}',
    '{"e":"run","t":1,"trials":7}',
    '{"e":["run"],"t":1}',
    '{"e":"ended","t":1,"outcome":"finished","tps":"x","p99":"y"}',
    '{"e":"trial","t":1,"n":[1],"total":1,"label":"x","seconds":1,"left_s":1}',
    '{"e":"health","t":1,"busy":[[[]]]}',
    '{"e":"end","t":{},"how":[],"outcome":[]}',
    "\x00\xff",
]


@pytest.mark.parametrize("line", HOSTILE_LINES, ids=range(len(HOSTILE_LINES)))
def test_a_hostile_line_is_left_out(run: Path, line: str) -> None:
    def fail(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    good = '{"e":"run","t":1,"trials":[[1,"0001-a-c4","a",4]]}'
    half = '{"e":"note","t":1'
    (run / JOURNAL).write_text(f'{good}\n{line}\n{{"e":"note","t":2,"text":"still here"}}\n{half}', "latin-1")
    text = encode_event("all", state(run)).decode().partition("data: ")[2]
    feed = json.loads(text, parse_constant=fail)["feed"]
    assert feed[-1]["text"] == "still here"
    assert "y" not in [each["text"] for each in feed]


def write_lines(path: Path, *lines: dict[str, Any]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_path_of_a_trial_is_not_followed(tmp_path: Path, run: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / ".x.partial"
    elsewhere.mkdir(parents=True)
    look = {"event": "blockers", "wall_us": 1_000_000, "rows": [{"blocked_by": 7, "state": "secret"}]}
    write_lines(elsewhere / "probe.jsonl", look)
    (run / ".a").mkdir()
    trial = {"e": "trial", "t": 1, "n": 1, "total": 1, "label": "x", "seconds": 1, "left_s": 1}
    write_lines(run / JOURNAL, {"e": "run", "t": 1, "trials": [[1, "a/../../elsewhere/.x", "a", 4]]}, trial)
    assert "secret" not in json.dumps(state(run))


def test_a_grid_has_a_limit_and_the_time_between_two_attempts_costs_nothing(run: Path) -> None:
    trials = [[at + 1, f"{at}-x", f"arm {at % 3_000}", at] for at in range(9_000)]
    write_lines(run / JOURNAL, {"e": "run", "t": 1, "trials": trials})
    grid = state(run)["grid"]
    assert (len(grid["arms"]), len(grid["clients"])) == (MOST_ARMS, MOST_CLIENTS)
    lines = [("run", 100), ("note", 130), ("run", 1_000), ("end", 1_020), ("run", 5_000), ("note", 5_007)]
    any_event = {"trials": [], "text": "x", "how": "", "outcome": ""}
    write_lines(run / JOURNAL, *({**any_event, "e": kind, "t": t} for kind, t in lines))
    assert state(run)["now"]["ran_s"] == 30 + 20 + 7


def test_a_line_is_read_when_it_is_whole_and_a_pipe_is_no_journal(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / JOURNAL)
    assert Tail(tmp_path / JOURNAL).lines() == []
    tail = Tail(tmp_path / "lines")
    assert tail.lines() == []
    with (tmp_path / "lines").open("w") as file:
        file.write('{"a":1}\n{"a"')
        file.flush()
        assert tail.lines() == [{"a": 1}]
        file.write(":2}\n")
        file.flush()
        assert tail.lines() == [{"a": 2}]


def waits(wall_s: float, *rows: tuple[str | None, str | None, int]) -> dict[str, Any]:
    keys = ("backend_type", "wait_type", "wait", "sessions")
    # the last is no session's
    every = [("client backend", *row) for row in rows] + [("checkpointer", "Timeout", "CheckpointWriteDelay", 1)]
    found = [dict(zip(keys, row, strict=True)) for row in every]
    return {"event": "waits", "wall_us": int(wall_s * 1e6), "rows": found}


def sample(wall_s: float, source: str, labels: dict[str, str], **values: float) -> dict[str, Any]:
    row = {"labels": labels, "values": values}
    return {"event": "sample", "wall_us": int(wall_s * 1e6), "source": source, "span_us": 1_000_000, "rows": [row]}


def blockers(wall_s: float, blocked_by: int, state: str, number: int) -> dict[str, Any]:
    rows = [{"blocked_by": blocked_by, "state": state}] * number
    return {"event": "blockers", "wall_us": int(wall_s * 1e6), "rows": rows}


def test_samples_of_the_probe_by_second_and_no_longer_after_the_last() -> None:
    sampled = Sampled()
    sampled.add(
        [
            waits(10.1, ("CPU", None, 2), ("Lock", "transactionid", 4)),
            waits(10.6, ("CPU", None, 1), ("IO", "WalSync", 1)),
            blockers(10.6, 7, MARKUP, 3),
            sample(10.7, "cpu", {}, user=0.5, system=0.25, irq=0.05, iowait=0.1, steal=0.0),
            sample(10.7, "disk", {"device": "a", "holds": "data"}, utilisation=0.5, written=2_000_000, read=0),
            sample(10.7, "wal_position", {}, inserted=1_000_000),
            sample(10.7, "process", {"pid": "7", "kind": "client backend"}, cpu=250_000),
            sample(10.7, "checkpoints", {}, timed=1, requested=0, written=100),
            sample(10.8, "tables", {}, autovacuums=2, live_rows=7),
            {"event": "sample", "wall_us": 10_800_000, "source": "cpu", "rows": 7},
            {"event": "end"},
            waits(11.1),
        ]
    )
    (row,) = sampled.rows
    assert row == {
        "t": 10, "cpu": [0.5, 0.25, 0.05, 0.1, 0.0], "disk": [0.5, 2.0, 0.0], "wal": 1.0,
        "waits": {"CPU": 1.5, "Lock": 2.0, "WAL": 0.5}, "marks": ["checkpoint (time)", "autovacuum"],
    }  # fmt: skip
    assert sampled.wait == "Lock transactionid: 2.0 sessions"
    assert sampled.blocker == f"process 7 ({MARKUP}) blocks 3"
    assert sampled.process == "client backend (7): 25 % of a core"
    # what a silent server did last is not shown for ever
    sampled = Sampled()
    process = sample(10.2, "process", {"pid": "3", "kind": "checkpointer"}, cpu=5e5)
    cpu = [sample(at, "cpu", {}, user=0.1) for at in range(11, 20)]
    sampled.add([waits(10, ("Lock", "tuple", 3)), blockers(10.1, 2, "active", 1), process, *cpu[:3]])
    assert (sampled.wait, sampled.blocker, sampled.process) == (
        "Lock tuple: 3.0 sessions", "process 2 (active) blocks 1", "checkpointer (3): 50 % of a core",
    )  # fmt: skip
    sampled.add(cpu[3:])
    assert [sampled.wait, sampled.blocker, sampled.process] == [None] * 3


def test_requests_reach_the_run(run: Path) -> None:
    with running(run), began(run, controlled=True) as view:
        assert (run / CONTROL).stat().st_mode & 0o777 == 0o700
        ask(run, Ask.MARK, MARKUP)
        ask(run, Ask.STOP_AFTER)
        (run / CONTROL / "nonsense").write_text("[]")
        wait_until(lambda: view.stop_wanted() is not None and not any((run / CONTROL).iterdir()))
        (mark,) = view.marks()
        assert mark.text == MARKUP
        assert view.marks() == []
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - it comes while this waits
            ask(run, Ask.STOP_NOW)
            wait_until(lambda: False)


def test_a_run_without_live_takes_no_wishes(run: Path) -> None:
    with running(run), began(run), pytest.raises(UsageError, match="accepts no requests"):
        ask(run, Ask.STOP_NOW)
    # nor does one that was killed
    (run / CONTROL).mkdir()
    with pytest.raises(UsageError, match="accepts no requests"):
        ask(run, Ask.STOP_NOW)


def test_a_server_beside_a_run_ends_when_nobody_needs_it(run: Path) -> None:
    now, watching = [0.0], [0]
    idle = Idle(run, lambda: watching[0], lambda: now[0])

    def after(seconds: float) -> bool:
        now[0] += seconds
        return idle.may_end()

    with running(run):
        assert not after(10 * IDLE_S)
    watching[0] = 1
    assert not after(10 * IDLE_S)
    watching[0] = 0
    assert not after(IDLE_S / 2)
    idle.note_request()
    assert not after(IDLE_S)
    assert after(1)


def test_one_reader_serves_all_watchers(run: Path) -> None:
    made = []

    def make(path: Path) -> Watched:
        made.append(Watched(path))
        return made[-1]

    async def watch() -> list[bytes]:
        return [message async for message in hub.messages(run)]

    async def ten_and_one_later() -> list[list[bytes]]:
        return [*await asyncio.gather(*(watch() for _ in range(10))), await watch()]

    with began(run) as view:
        one_trial(view, 1)
        view.event(run_events.RunEnded("came to its end", Outcome.FINISHED))
    hub = Hub(make)
    seen = asyncio.run(ten_and_one_later())
    # who comes back finds what was read: the probe's file of a trial that ended is gone
    assert len(made) == 1
    assert hub.watching == 0
    for messages in seen:
        assert messages[0].startswith(b"event: all\n")
        assert json.loads(messages[0].split(b"data: ", 1)[1])["now"]["end"]
        assert messages[-1] == b"event: over\ndata: {}\n\n"


def test_streams_have_a_limit_by_address_and_runs_that_nobody_watches_make_room(tmp_path: Path, run: Path) -> None:
    write_lines(run / JOURNAL, {"e": "note", "t": 1, "text": "x"})

    async def watch() -> None:
        hub = Hub()
        streams = [hub.messages(run, "192.0.2.1") for _ in range(MOST_STREAMS_EACH)]
        for each in streams:
            assert not hub.is_full("192.0.2.1")
            await anext(each)
        assert hub.is_full("192.0.2.1")
        assert not hub.is_full("192.0.2.2")
        for each in streams:
            await each.aclose()  # type: ignore[attr-defined]
        assert not hub.is_full("192.0.2.1")
        for at in range(2 * MOST_STREAMS):
            (tmp_path / str(at)).mkdir()
            stream = hub.messages(tmp_path / str(at))
            await anext(stream)
            await stream.aclose()  # type: ignore[attr-defined]
        assert len(hub._channels) == MOST_STREAMS
        for channel in list(hub._channels.values()):
            channel.end()
        assert hub._channels == {}

    asyncio.run(watch())


@pytest.fixture(autouse=True)
def _own_sigint() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
