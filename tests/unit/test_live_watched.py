"""The page of a running experiment: the journal, the probe's lines, and requests."""

import asyncio
import fcntl
import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pgdyno.errors import UsageError
from pgdyno.live.control import CONTROL, Ask, ask
from pgdyno.live.probe_samples import Sampled
from pgdyno.live.run_journal import JOURNAL, JournalView
from pgdyno.live.run_reader import Tail, Watched
from pgdyno.live.server.request_guard import may_ask, owner_of
from pgdyno.live.server.start_background import IDLE_S, Idle
from pgdyno.live.viewers import Hub
from pgdyno.messages import Message
from pgdyno.records import Outcome
from pgdyno.report.run_events import (
    BestSeen,
    EngineReported,
    GridTrial,
    IntervalEnded,
    Looked,
    Noted,
    RunBegan,
    RunEnded,
    SetUp,
    TrialEnded,
    TrialStarted,
)
from pgdyno.report.terminal.progress import QuietView
from tests.present import present
from tests.unit.archive_sample import MARKUP
from tests.waiting import wait_until

TRIALS = [
    GridTrial(1, "0001-a-c2", "a", 2),
    GridTrial(2, "0002-b-c2", "b", 2),
    GridTrial(3, "0003-a-c4", "a", 4),
    GridTrial(4, "0004-b-c4", "b", 4),
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


def one_trial(view: JournalView, number: int, tps: float, outcome: Outcome = Outcome.FINISHED) -> None:
    view.event(SetUp("resetting"))
    view.event(TrialStarted(number, 4, f"trial {number}", 2.0, later=4 - number))
    view.event(IntervalEnded(tps, 2.5, "measuring"))
    view.event(
        EngineReported({"event": "interval", "scripts": [{"failed": 1}], "workers": [{"cpu_share": 0.5}], "clients": 2})
    )
    view.event(TrialEnded(outcome, tps, 2.5))


def test_the_journal_tells_all_to_who_comes_late(run: Path) -> None:
    with JournalView(QuietView()) as view:
        view.event(Noted("before there is a folder"))
        view.event(RunBegan(run, TRIALS))
        one_trial(view, 1, 100.0)
        one_trial(view, 2, 110.0)
        view.event(EngineReported({"event": "error", "consequence": "failed", "message": MARKUP}))
        view.event(RunEnded("came to its end", Outcome.FINISHED))
    seen = Watched(run).complete_state()
    assert [each["text"] for each in seen["feed"]] == [
        "before there is a folder",
        "1: trial 1  100 tps  p99 2.50 ms",
        "2: trial 2  110 tps  p99 2.50 ms",
        f"failed: {MARKUP}",
    ]
    assert seen["now"]["end"] == {"how": "came to its end", "outcome": "finished"}
    assert seen["now"]["health"]["busy"] == 0.5
    assert seen["now"]["base"] == {"tps": 100.0, "p99": 2.5, "n": 1, "of": "a"}
    assert [(cell["done"], cell["mean"]) for cell in seen["grid"]["cells"]] == [
        (1, {"tps": 100.0, "p99": 2.5, "n": 1}),
        (1, {"tps": 110.0, "p99": 2.5, "n": 1}),
        (0, None),
        (0, None),
    ]


def test_only_what_is_new_is_told_again(run: Path) -> None:
    watched = Watched(run)
    with JournalView(QuietView()) as view:
        view.event(RunBegan(run, TRIALS))
        view.event(TrialStarted(1, 4, "trial 1", 2.0, later=3))
        first = present(watched.poll())
        assert first["reset"]
        assert watched.poll() is None
        view.event(IntervalEnded(100.0, None, "warm-up"))
        second = present(watched.poll())
        assert not second["reset"]
        assert [each["tps"] for each in second["seconds"]] == [100.0]


def test_the_page_sees_how_the_interval_narrows(run: Path) -> None:
    watched = Watched(run)
    with JournalView(QuietView()) as view:
        view.event(RunBegan(run, TRIALS))
        for pairs, verdict in ((6, None), (7, None), (7, None), (8, "faster")):
            half = 0.3 / pairs
            view.event(Looked("b", "a", MARKUP, "throughput", pairs, 20, 0.05, 0.05 - half, 0.05 + half, 0.01, verdict))
    new = present(watched.poll())
    (seen,) = new["looks"]
    assert watched.complete_state()["looks"] == [seen]
    # a resumed run looks again at the pairs that it has
    assert [each["pairs"] for each in seen["looks"]] == [6, 7, 8]
    assert (seen["arm"], seen["base"], seen["point"], seen["most"], seen["verdict"]) == ("b", "a", MARKUP, 20, "faster")
    (run / JOURNAL).write_text('{"e":"look","t":1,"arm":"b","base":"a","point":"p","metric":"m","pairs":"x"}\n')
    assert Watched(run).complete_state()["looks"] == []


def test_the_best_configuration_is_that_of_the_last_line(run: Path) -> None:
    watched = Watched(run)
    with JournalView(QuietView()) as view:
        view.event(RunBegan(run, TRIALS))
        view.event(BestSeen(100.0, None, "tps", None, 1, {}))
        view.event(BestSeen(120.0, 100.0, "tps", 0.02, 2, {"jit": MARKUP}))
    new = present(watched.poll())
    seen = {"figure": 120.0, "start": 100.0, "unit": "tps", "noise": 0.02, "trials": 2, "settings": [["jit", MARKUP]]}
    assert new["now"]["best"] == seen
    line = '{"e":"best","t":1,"figure":1,"start":null,"unit":"tps","noise":null,"trials":1,"settings":SETTINGS}\n'
    (run / JOURNAL).write_text("".join(line.replace("SETTINGS", each) for each in ("7", "[1]", '"x"', "null")))
    assert Watched(run).complete_state()["now"]["best"] is None


def test_a_resumed_run_continues_its_journal(run: Path) -> None:
    for numbers in ((1,), (2, 3)):
        with JournalView(QuietView()) as view:
            view.event(RunBegan(run, TRIALS))
            for number in numbers:
                one_trial(view, number, 100.0, Outcome.FAILED if number == 3 else Outcome.FINISHED)
            view.event(RunEnded("was interrupted", Outcome.INTERRUPTED))
    grid = Watched(run).complete_state()["grid"]
    assert grid["done"] == 3
    assert [cell["failed"] for cell in grid["cells"]] == [0, 0, 1, 0]


def test_a_journal_that_cannot_be_written_is_no_harm(run: Path) -> None:
    (run / JOURNAL).mkdir()
    with JournalView(QuietView()) as view:
        view.event(RunBegan(run, TRIALS))
        one_trial(view, 1, 100.0)


def test_a_check_of_the_preflight_is_shown_by_its_severity(run: Path) -> None:
    values = {"verdict": "warning", "check": "cpu.steal", "found": "3 %", "means": "figures are too low"}
    check = Message("preflight-check", "{verdict}: {check}: {found}: {means}", **values)
    other = Message("target-note", "warning: {note}", note="x")
    with JournalView(QuietView()) as view:
        view.event(RunBegan(run, TRIALS))
        for each in (check, other):
            view.event(Noted(str(each), each))
    lines = [json.loads(line) for line in (run / JOURNAL).read_text().splitlines()]
    noted = [line for line in lines if line["e"] == "note"]
    assert [(line["id"], line["text"]) for line in noted] == [(each.id, str(each)) for each in (check, other)]
    assert noted[0]["parameters"] == values
    feed = Watched(run).complete_state()["feed"]
    assert [(each["kind"], each["text"]) for each in feed] == [
        ("warning", "cpu.steal: 3 %: figures are too low"),
        ("note", "warning: x"),
    ]


def test_lines_of_others_are_left_out(run: Path) -> None:
    lines = [
        '{"e":"run"}',
        '{"e":"later","t":1}',
        "no json",
        "[]",
        '{"e":"note","t":1,"text":"x"}',
        '{"e":"note","t":1,"text":"y","id":"preflight-check"}',
        '{"e":"note","t":1,"text":"y","id":"preflight-check","parameters":[]}',
        '{"e":"note","t":1',
    ]
    (run / JOURNAL).write_text("\n".join(lines))
    assert [each["text"] for each in Watched(run).complete_state()["feed"]] == ["x"]


def test_a_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
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
    found = [dict(zip(keys, ("client backend", *row), strict=True)) for row in rows]
    # which is no session's ID
    found.append(dict(zip(keys, ("checkpointer", "Timeout", "CheckpointWriteDelay", 1), strict=True)))
    return {"event": "waits", "wall_us": int(wall_s * 1e6), "rows": found}


def sample(wall_s: float, source: str, labels: dict[str, str], **values: float) -> dict[str, Any]:
    row = {"labels": labels, "values": values}
    return {"event": "sample", "wall_us": int(wall_s * 1e6), "source": source, "span_us": 1_000_000, "rows": [row]}


def test_what_a_silent_server_did_last_is_not_shown_for_ever() -> None:
    wait = {"backend_type": "client backend", "wait_type": "Lock", "wait": "tuple", "sessions": 3}
    process = {"labels": {"pid": "3", "kind": "checkpointer"}, "values": {"cpu": 5e5}}
    cpu = {"event": "sample", "source": "cpu", "span_us": 1e6, "rows": [{"labels": {}, "values": {"user": 0.1}}]}
    sampled = Sampled()
    sampled.add(
        [
            {"event": "waits", "wall_us": 10_000_000, "rows": [wait]},
            {"event": "blockers", "wall_us": 10_100_000, "rows": [{"blocked_by": 2, "state": "active"}]},
            {"event": "sample", "source": "process", "wall_us": 10_200_000, "span_us": 1e6, "rows": [process]},
            *({**cpu, "wall_us": at * 1_000_000} for at in range(11, 14)),
        ]
    )
    shown = {"wait": sampled.wait, "blocker": sampled.blocker, "process": sampled.process}
    assert shown == {
        "wait": "Lock tuple: 3.0 sessions",
        "blocker": "process 2 (active) blocks 1",
        "process": "checkpointer (3): 50 % of a core",
    }
    sampled.add([{**cpu, "wall_us": at * 1_000_000} for at in range(14, 20)])
    assert [sampled.wait, sampled.blocker, sampled.process] == [None] * 3


def test_samples_of_the_probe_by_second() -> None:
    sampled = Sampled()
    sampled.add(
        [
            waits(10.1, ("CPU", None, 2), ("Lock", "transactionid", 4)),
            waits(10.6, ("CPU", None, 1), ("IO", "WalSync", 1)),
            {"event": "blockers", "wall_us": 10_600_000, "rows": [{"blocked_by": 7, "state": MARKUP}] * 3},
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
    assert sampled.rows == [
        {
            "t": 10,
            "cpu": [0.5, 0.25, 0.05, 0.1, 0.0],
            "disk": [0.5, 2.0, 0.0],
            "wal": 1.0,
            "waits": {"CPU": 1.5, "Lock": 2.0, "WAL": 0.5},
            "marks": ["checkpoint (time)", "autovacuum"],
        }
    ]
    assert sampled.wait == "Lock transactionid: 2.0 sessions"
    assert sampled.blocker == f"process 7 ({MARKUP}) blocks 3"
    assert sampled.process == "client backend (7): 25 % of a core"


def test_the_time_between_two_attempts_costs_nothing(run: Path) -> None:
    lines = [("run", 100), ("note", 130), ("run", 1_000), ("end", 1_020), ("run", 5_000), ("note", 5_007)]
    said = [json.dumps({"e": kind, "t": t, "trials": [], "text": "x", "how": "", "outcome": ""}) for kind, t in lines]
    (run / JOURNAL).write_text("\n".join(said) + "\n")
    assert Watched(run).complete_state()["now"]["ran_s"] == 30 + 20 + 7


def test_a_failed_trial_that_is_repeated_counts_once(run: Path) -> None:
    with JournalView(QuietView()) as view:
        view.event(RunBegan(run, TRIALS[:1]))
        one_trial(view, 1, 100, Outcome.FAILED)
    with JournalView(QuietView()) as view:
        view.event(RunBegan(run, TRIALS[:1]))
        view.event(TrialStarted(1, 1, "trial 1", 2.0, later=0))
        grid = Watched(run).complete_state()["grid"]
    (cell,) = grid["cells"]
    assert (grid["done"], cell["done"], cell["failed"], cell["running"]) == (0, 0, 0, True)


def test_requests_reach_the_run(run: Path) -> None:
    with running(run), JournalView(QuietView(), controlled=True) as view:
        view.event(RunBegan(run, TRIALS))
        assert (run / CONTROL).stat().st_mode & 0o777 == 0o700
        ask(run, Ask.MARK, MARKUP)
        ask(run, Ask.STOP_AFTER)
        (run / CONTROL / "nonsense").write_text("[]")
        wait_until(lambda: view.stop_wanted() is not None and not any((run / CONTROL).iterdir()))
        (mark,) = view.marks()
        assert mark.text == MARKUP
        assert view.marks() == []
    with pytest.raises(UsageError, match="accepts no requests"):
        ask(run, Ask.STOP_NOW)


def test_stop_now_is_ctrl_c(run: Path) -> None:
    with running(run), JournalView(QuietView(), controlled=True) as view:
        view.event(RunBegan(run, TRIALS))
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - it comes while this waits
            ask(run, Ask.STOP_NOW)
            wait_until(lambda: False)


def test_a_run_without_live_takes_no_wishes(run: Path) -> None:
    with running(run), JournalView(QuietView()) as view:
        view.event(RunBegan(run, TRIALS))
        with pytest.raises(UsageError, match="accepts no requests"):
            ask(run, Ask.STOP_NOW)
    (run / CONTROL).mkdir()
    with pytest.raises(UsageError, match="accepts no requests"):
        # of a run that was killed
        ask(run, Ask.STOP_NOW)


def test_the_owner_of_a_connection_is_known() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        port = client.getsockname()[1]
        assert owner_of(port) == os.geteuid()
        assert may_ask("127.0.0.1", port)
    assert not may_ask("127.0.0.1", port)
    assert not may_ask("somebody", port)
    assert may_ask("192.0.2.7", port)


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
    idle.asked()
    assert not after(IDLE_S)
    assert after(1)


def test_one_reader_serves_all_watchers(run: Path) -> None:
    made = []

    def make(path: Path) -> Watched:
        made.append(Watched(path))
        return made[-1]

    async def watch(hub: Hub) -> list[bytes]:
        return [message async for message in hub.messages(run)]

    async def ten(hub: Hub) -> list[list[bytes]]:
        return await asyncio.gather(*(watch(hub) for _ in range(10)))

    with JournalView(QuietView()) as view:
        view.event(RunBegan(run, TRIALS))
        one_trial(view, 1, 100.0)
        view.event(RunEnded("came to its end", Outcome.FINISHED))
    hub = Hub(make)

    async def ten_and_one_later(hub: Hub) -> list[list[bytes]]:
        return [*await ten(hub), await watch(hub)]

    seen = asyncio.run(ten_and_one_later(hub))
    # who comes back finds what was read: the probe's file of a trial that ended is gone
    assert len(made) == 1
    assert hub.watching == 0
    for messages in seen:
        assert messages[0].startswith(b"event: all\n")
        assert json.loads(messages[0].split(b"data: ", 1)[1])["now"]["end"]
        assert messages[-1] == b"event: over\ndata: {}\n\n"


@pytest.fixture(autouse=True)
def _own_sigint() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
