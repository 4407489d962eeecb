"""Replay files for tests: `docs/reference/replay-file.md`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pgdyno.targets import Server
from tests.postgres.test_pgdrive import drive

Statement = dict[str, Any]

MS = 1000
"""Microseconds of a millisecond."""


def simple(at_ms: float, sql: str, **keys: object) -> Statement:
    return {"at_us": int(at_ms * MS), "sql": sql, "of": 0, **keys}


def prepared(at_ms: float, sql: str, *params: str | None, name: str = "", **keys: object) -> Statement:
    return {"at_us": int(at_ms * MS), "sql": sql, "of": 0, "name": name, "params": list(params), **keys}


@dataclass
class Sample:
    sessions: list[tuple[int, int, list[Statement]]] = field(default_factory=list)
    classes: list[str] = field(default_factory=lambda: ["statement"])
    texts: list[tuple[int, str]] = field(default_factory=list)

    def session(self, from_ms: float, until_ms: float, *statements: Statement) -> None:
        self.sessions.append((int(from_ms * MS), int(until_ms * MS), list(statements)))

    def write(self, path: Path) -> Path:
        header = {
            "format": "pgdyno-replay", "version": 1, "sessions": len(self.sessions),
            "most_sessions": len(self.sessions),
            "statements": sum(len(statements) for _, _, statements in self.sessions),
            "span_us": max((until for _, until, _ in self.sessions), default=0),
        }  # fmt: skip
        lines: list[dict[str, object]] = [header]
        lines += [{"class": number, "sql": sql} for number, sql in enumerate(self.classes)]
        lines += [{"text": number, "of": of, "sql": sql} for number, (of, sql) in enumerate(self.texts)]
        texts = [json.dumps(line) for line in lines]
        for number, (at_us, until_us, statements) in enumerate(self.sessions):
            # json puts a blank after the colon, which the prefixes do not contain
            texts.append(f'{{"session":{number}, "at_us": {at_us}, "until_us": {until_us}}}')
            texts += [json.dumps(statement) for statement in statements]
            texts.append(f'{{"end":{until_us}}}')
        path.write_text("".join(f"{text}\n" for text in texts))
        return path


@dataclass(frozen=True)
class Replayed:
    code: int
    output: str
    errors: str
    events: list[dict[str, Any]]

    @property
    def end(self) -> dict[str, Any]:
        return self.events[-1]

    @property
    def replay(self) -> dict[str, Any]:
        found: dict[str, Any] = self.end["replay"]
        return found

    @property
    def disagreements(self) -> dict[str, int]:
        return {kind: count for kind, count in self.replay["disagreements"].items() if count}


def replay(server: Server, folder: Path, sample: Sample, *args: str) -> Replayed:
    file = sample.write(folder / "replay.jsonl")
    events = folder / "events.jsonl"
    done = drive(server, f"--replay={file}", f"--events={events}", *args)
    lines = events.read_text().splitlines() if events.exists() else []
    return Replayed(done.returncode, done.stdout, done.stderr, [json.loads(line) for line in lines])


def replay_one(server: Server, folder: Path, *statements: Statement, options: Sequence[str] = ()) -> Replayed:
    """Replays one session of 10 ms."""
    sample = Sample()
    sample.session(0, 10, *statements)
    return replay(server, folder, sample, *options)
