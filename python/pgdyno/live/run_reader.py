"""A running experiment as its watchers see it: the journal and the probe's lines folded into one state."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pgdyno.errors import StoreError
from pgdyno.live.control import can_ask
from pgdyno.live.probe_samples import Sampled
from pgdyno.live.run_journal import JOURNAL
from pgdyno.records import Outcome
from pgdyno.report.run_events import TrialEnded
from pgdyno.report.terminal.progress import result
from pgdyno.store.run_folder import partial_path
from pgdyno.store.safe_files import open_regular, parse_json


class RunDuration:
    """The duration of a run, without the time between two attempts."""

    def __init__(self) -> None:
        self._before_s = 0.0
        self._since: float | None = None
        self._last = 0.0

    def handle(self, kind: str, wall_s: float) -> None:
        """Process a line of the journal: `run` begins an attempt, `end` ends it; a killed one ends with its last."""
        if kind == "run" and self._since is not None:
            self._before_s += self._last - self._since
        if kind == "run":
            self._since = wall_s
        self._last = wall_s
        if kind == "end" and self._since is not None:
            self._before_s += wall_s - self._since
            self._since = None

    @property
    def seconds(self) -> float:
        """Return the duration up to the last line."""
        return self._before_s + (self._last - self._since if self._since is not None else 0.0)


LARGEST = 32 << 20
"""Bytes of existing content that are read at once; of a larger file, the end."""
LONGEST_LINE = 4 << 20
"""Maximum length of a line in bytes; longer lines are skipped."""


class Tail:
    """Reads one file from its beginning, or from near its end if it is large."""

    def __init__(self, path: Path) -> None:
        """The file at `path` may not exist yet."""
        self.path = path
        self._at: int | None = None
        self._rest = b""

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines since the last call; lines that are not JSON are left out."""
        try:
            with open_regular(self.path) as file:
                if self._at is None:
                    size = file.seek(0, 2)
                    self._at = max(size - LARGEST, 0)
                file.seek(self._at)
                content = file.read(LARGEST)
        except (OSError, StoreError):
            return []
        self._at += len(content)
        *whole, self._rest = (self._rest + content).split(b"\n")
        # discard a line that exceeds the limit: it is then not JSON
        self._rest = self._rest[: LONGEST_LINE + 1]
        return [line for line in map(_parse_line, whole) if line is not None]


def _parse_line(line: bytes) -> dict[str, Any] | None:
    if len(line) > LONGEST_LINE:
        return None
    try:
        found = parse_json(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


FEED = 200
SECONDS = 3_600
"""Seconds of a trial that are kept for the charts; of a longer one, the last ones."""
FED = {"note", "mark", "engine"}
PREFLIGHT_CHECK = "preflight-check"
"""The id of a note whose severity is shown in place of its kind."""
MOST_TRIALS, MOST_ARMS, MOST_CLIENTS = 10_000, 100, 100
"""Limits: trials of a run, and rows and columns of its grid."""
MOST_LOOKED, MOST_LOOKS = 100, 1_000
"""Limits: comparisons whose intervals are drawn, and looks at each."""
MOST_SETTINGS = 100
"""The limit for settings of the best configuration."""
LONGEST_TEXT = 1_000
"""Characters of a message or a name."""

Json = dict[str, Any]
Baseline = Callable[[str, str, int], Json | None]
"""Figures of an earlier run at a trial's point, by its slug, arm and clients."""


class Watched:
    """One run; `poll` reads new data. A lock serialises threads."""

    def __init__(self, run: Path, baseline: Baseline = lambda _slug, _arm, _clients: None) -> None:
        """`baseline` supplies figures if the run itself has none."""
        self.run = run
        self._baseline = baseline
        self._lock = threading.Lock()
        self._journal = Tail(run / JOURNAL)
        self._probe: Tail | None = None
        self._sampled = Sampled()
        self._planned: dict[int, tuple[str, str, int]] = {}
        self._results: dict[int, Json] = {}
        self._seconds: deque[Json] = deque(maxlen=SECONDS)
        self._feed: deque[Json] = deque(maxlen=FEED)
        self._looks: dict[tuple[str, str], Json] = {}
        self._fed = 0
        self._now: Json = {"trial": None, "prepare": None, "progress": None, "health": None, "best": None, "end": None}
        self._base: Json | None = None
        self._duration = RunDuration()
        self._new: Json = _empty_answer()

    def poll(self) -> Json | None:
        """Return the changes since the last call; None without any."""
        with self._lock:
            return self._poll()

    def complete_state(self) -> Json:
        """Return the complete state, for a new viewer."""
        with self._lock:
            # other viewers still need the pending changes
            rest = self._poll()
            if rest is not None:
                self._new = {**rest, "changed": True}
            return {
                "reset": True,
                "grid": self._grid(),
                "seconds": list(self._seconds),
                "samples": self._sampled.rows[-SECONDS:],
                "feed": list(self._feed),
                "looks": list(self._looks.values()),
                "now": self._moment(),
            }

    @property
    def has_ended(self) -> bool:
        return self._now["end"] is not None

    def _poll(self) -> Json | None:
        for line in self._journal.lines():
            try:
                self._take(line)
            except (LookupError, TypeError, ValueError, ArithmeticError):
                # from another version
                continue
        samples = self._sampled.add(self._probe.lines()) if self._probe is not None else []
        new, self._new = self._new, _empty_answer()
        new["samples"] += samples
        if not (new.pop("changed") or new["samples"]):
            return None
        new["now"] = self._moment()
        if new["grid"]:
            new["grid"] = self._grid()
        if new["looks"]:
            new["looks"] = list(self._looks.values())
        return new

    def _take(self, line: Mapping[str, Any]) -> None:
        kind = line["e"]
        self._new["changed"] = True
        self._duration.handle(kind, _require_number(line["t"]))
        if kind == "note" and line.get("id") == PREFLIGHT_CHECK:
            found = line["parameters"]
            text = ": ".join(str(found[name]) for name in ("check", "found", "means"))
            self._add_event(line["t"], _text(found["verdict"]), _text(text))
        elif kind in FED:
            self._add_event(line["t"], _text(line.get("what", kind)), _text(line["text"]))
        elif kind in _TAKEN:
            _TAKEN[kind](self, line)

    def _add_event(self, wall_s: float, kind: str, text: str) -> None:
        self._fed += 1
        said = {"i": self._fed, "t": wall_s, "kind": kind, "text": text}
        self._feed.append(said)
        self._new["feed"].append(said)

    def _run(self, line: Mapping[str, Any]) -> None:
        every = line["trials"][:MOST_TRIALS]
        self._planned = {int(number): (_slug(slug), _text(arm), int(clients)) for number, slug, arm, clients in every}
        self._now |= {"trial": None, "end": None}
        self._new["grid"] = True

    def _prepare(self, line: Mapping[str, Any]) -> None:
        self._now |= {"prepare": _text(line["text"]), "progress": None}
        if self._now["trial"]:
            self._now["trial"]["over"] = True

    def _progress(self, line: Mapping[str, Any]) -> None:
        self._now["progress"] = {name: _figure(line.get(name)) for name in ("done", "total", "per_s", "left_s")}

    def _trial(self, line: Mapping[str, Any]) -> None:
        number = int(line["n"])
        slug, arm, clients = self._planned.get(number) or (None, _text(line["label"]), 0)
        fields: Json = {name: _figure(line[name]) for name in ("n", "total", "seconds", "left_s", "t")}
        fields["label"] = _text(line["label"])
        self._now |= {"trial": {**fields, "over": False}, "prepare": None, "progress": None, "health": None}
        # a resumed run repeats trials that failed
        self._results.pop(number, None)
        self._seconds.clear()
        self._sampled = Sampled()
        self._probe = Tail(partial_path(self.run, slug) / "probe.jsonl") if slug else None
        self._base = self._base_of(number, slug, arm, clients)
        self._new |= {"reset": True, "grid": True, "seconds": [], "samples": []}

    def _second(self, line: Mapping[str, Any]) -> None:
        second = {name: _figure(line[name]) for name in ("t", "tps", "p99")} | {"phase": _text(line["phase"])}
        self._seconds.append(second)
        self._new["seconds"].append(second)

    def _health(self, line: Mapping[str, Any]) -> None:
        self._now["health"] = {name: _figure(value) for name, value in line.items() if name not in ("e", "t")}

    def _add_end(self, line: Mapping[str, Any]) -> None:
        trial = self._now["trial"]
        if trial:
            outcome, tps, p99 = Outcome(line["outcome"]), _figure(line["tps"]), _figure(line["p99"])
            self._results[trial["n"]] = {"outcome": outcome.value, "tps": tps, "p99": p99}
            trial["over"] = True
            came_to = result(TrialEnded(outcome, tps, p99, _figure(line.get("composite"))))
            self._add_event(line["t"], "trial", f"{trial['n']}: {trial['label']}  {came_to}")
        self._new["grid"] = True

    def _look(self, line: Mapping[str, Any]) -> None:
        place = _text(line["arm"]), _text(line["point"])
        if place not in self._looks and len(self._looks) == MOST_LOOKED:
            return
        words = {name: _text(line[name]) for name in ("arm", "base", "point", "metric")}
        look = {name: _require_number(line[name]) for name in ("pairs", "change", "low", "high")}
        most, margin = _require_number(line["most"]), _require_number(line["margin"])
        earlier = self._looks.get(place, {"looks": []})["looks"]
        kept = [each for each in earlier if each["pairs"] < look["pairs"]][-MOST_LOOKS:]
        verdict = None if line["verdict"] is None else _text(line["verdict"])
        self._looks[place] = {**words, "most": most, "margin": margin, "verdict": verdict, "looks": [*kept, look]}
        self._new["looks"] = True

    def _add_best(self, line: Mapping[str, Any]) -> None:
        """Keep the best configuration so far of a search for settings."""
        figures: Json = {name: _require_number(line[name]) for name in ("figure", "trials")}
        figures |= {name: _figure(line[name]) for name in ("start", "noise")}
        settings = [[_text(name), _text(value)] for name, value in dict(line["settings"]).items()]
        self._now["best"] = {**figures, "unit": _text(line["unit"]), "settings": settings[:MOST_SETTINGS]}

    def _end(self, line: Mapping[str, Any]) -> None:
        self._now |= {"end": {"how": _text(line["how"]), "outcome": _text(line["outcome"])}, "prepare": None}

    def _moment(self) -> Json:
        top = {"wait": self._sampled.wait, "blocker": self._sampled.blocker, "process": self._sampled.process}
        ran_s, wall_s = round(self._duration.seconds, 1), round(time.time(), 3)
        return {
            **self._now,
            "ran_s": ran_s,
            "wall_s": wall_s,
            "base": self._base,
            "top": top,
            "control": can_ask(self.run),
        }

    def _base_of(self, number: int, slug: str | None, arm: str, clients: int) -> Json | None:
        """Return the figure of this run's first arm, if this is another one; otherwise that of an earlier run."""
        first = next((each[1] for each in self._planned.values()), arm)
        if arm != first:
            at = [n for n, each in self._planned.items() if each[1:] == (first, clients) and n != number]
            found = mean_of([self._results[n] for n in at if n in self._results])
            return found and {**found, "of": first}
        return self._baseline(slug, arm, clients) if slug else None

    def _grid(self) -> Json:
        """Return arms, clients, and a cell for each pair: trials planned, those that finished, their mean."""
        arms = list(dict.fromkeys(arm for _, arm, _ in self._planned.values()))[:MOST_ARMS]
        clients = sorted({each for _, _, each in self._planned.values()})[:MOST_CLIENTS]
        rows, columns = ({name: place for place, name in enumerate(names)} for names in (arms, clients))
        planned: dict[tuple[str, int], list[int]] = {}
        for n, (_, arm, each) in self._planned.items():
            if arm in rows and each in columns:
                planned.setdefault((arm, each), []).append(n)
        now = self._now["trial"]
        cells = []
        for (arm, each), at in planned.items():
            done = [self._results[n] for n in at if n in self._results]
            cells.append(
                {
                    "arm": rows[arm],
                    "x": columns[each],
                    "planned": len(at),
                    "done": len(done),
                    "failed": sum(each["outcome"] != "finished" for each in done),
                    "running": bool(now and not now["over"] and now["n"] in at),
                    "mean": mean_of(done),
                }
            )
        return {"arms": arms, "clients": clients, "cells": cells, "done": len(self._results)}


_TAKEN = {
    "run": Watched._run,
    "prepare": Watched._prepare,
    "progress": Watched._progress,
    "trial": Watched._trial,
    "second": Watched._second,
    "health": Watched._health,
    "ended": Watched._add_end,
    "look": Watched._look,
    "best": Watched._add_best,
    "end": Watched._end,
}


def mean_of(results: Sequence[Mapping[str, Any]]) -> Json | None:
    """Return the mean throughput of finished trials, and their median p99: percentiles are not averaged."""
    rates = [each["tps"] for each in results if each["outcome"] == "finished" and each["tps"] is not None]
    tails = sorted(each["p99"] for each in results if each["outcome"] == "finished" and each["p99"] is not None)
    if not rates:
        return None
    return {"tps": sum(rates) / len(rates), "p99": tails[(len(tails) - 1) // 2] if tails else None, "n": len(rates)}


def _figure(value: object) -> float | None:
    """Return a number of a line, or None. Raises TypeError for other values."""
    return None if value is None else _require_number(value)


def _require_number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("no number")
    return value


def _text(value: object) -> str:
    return str(value)[:LONGEST_TEXT]


def _slug(value: object) -> str:
    """Return the name of a trial's folder. Raises ValueError for a path."""
    slug = str(value)
    if "/" in slug or "\0" in slug or len(slug) > LONGEST_TEXT:
        raise ValueError("no name of a folder")
    return slug


def _empty_answer() -> Json:
    return {"reset": False, "changed": False, "grid": None, "seconds": [], "samples": [], "feed": [], "looks": None}
