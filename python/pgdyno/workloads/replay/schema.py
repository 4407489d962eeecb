"""Plans that replay a capture, from which they take their clients, their rate, and the length of a trial."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

from pgdyno.effect import Effect
from pgdyno.errors import InvalidValueError, Problem
from pgdyno.plan.optional_sections import share_of
from pgdyno.plan.plan_document import Document, KeyPath
from pgdyno.plan.reading.replayed_capture import TOLERANCE_S, full_length_s, read_replayed
from pgdyno.plan.values import read_by
from pgdyno.plan.workload_schema import AnyDataset, Excluded, Workload
from pgdyno.units import format_duration, parse_duration_s

if TYPE_CHECKING:
    from pgdyno.records.capture import Capture

T = TypeVar("T")
_FASTER = "remove it; workload.pace makes the load faster or slower"
_SIZE = "remove it; workload.scale is the size of a dataset"
_BEGINNING = "remove it; trial.duration replays the beginning only"
MAX_PACE = "max"
"""The pace at which a replay waits for no captured start."""
FASTEST = 1e6


def _pace(value: object) -> float | str:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= FASTEST:
        return float(value)
    if value == MAX_PACE:
        return MAX_PACE
    raise InvalidValueError("is invalid", 'write a number above 0, such as 2 for twice as fast, or "max"')


Pace = Annotated[
    float | str,
    BeforeValidator(_pace, json_schema_input_type=Annotated[float, Field(gt=0, le=FASTEST)] | Literal["max"]),
]


class Replay(Workload):
    """The statements of a capture."""

    kind: ClassVar[str] = "replay"
    naming_files: ClassVar = ("replay",)
    excluded: ClassVar = (
        Excluded("workload.scripts workload.variables workload.captured", "it sends the statements of its capture"),
        Excluded("workload.connect", "its capture says when sessions begin and end", values=["each"]),
        Excluded("sweep.connect", "its capture says when sessions begin and end"),
        Excluded("sweep.protocol", "each statement is sent by the protocol with which it was captured"),
        Excluded("sweep.rate phase", "it has the times of its capture", _FASTER),
        Excluded("sweep.scale", "it uses the data in the database", _SIZE),
        Excluded("sweep.variables", "it has no script with variables"),
        Excluded("sweep.points", "it has one number of clients", "sweep settings, or session_settings"),
        Excluded("trial.transactions", "it has the times of its capture", _BEGINNING),
        Excluded("trial.warmup", "a warm-up would leave out the beginning of the capture"),
        Excluded("trial.max_errors", "errors that were captured happen again, and are no failures"),
        Excluded("trial.ledger", "it needs a script that writes the ledger's rows"),
        Excluded("search", "it has one number of clients and no rate"),
        Excluded("replica_load group", "its times would not be those of the replay"),
        Excluded("probe.profile", "a profile samples a short load of its own, which a replay cannot have"),
        Excluded("generators", "one engine replays all sessions of a capture"),
        Excluded("generator", "the capture is on this machine", "remove it: the load then starts from here"),
    )
    replays: ClassVar[bool] = True
    own_end: ClassVar = ("whole capture", "the last statement of its capture")

    replay: str
    """Folder of a capture whose statements every trial repeats; `dataset` is then "none" unless given."""
    pace: Pace = 1.0
    """Speed of a replay: 2 is twice as fast as captured, "max" waits for no captured start."""
    order: Literal["sessions", "captured"] = "sessions"
    """Whether statements that make keys of one table also wait for each other, and sessions for those before them."""
    true_to: Annotated[str, AfterValidator(read_by(share_of))] = "95%"
    """The least share of the statements that must have the captured result: with fewer, no figure stands."""
    # reports show it as the workload
    scripts: list[str] = Field(default=["replay"])
    dataset: AnyDataset = "none"

    @classmethod
    def complete(cls, document: Document, folder: Path) -> tuple[Document, Sequence[Problem]]:
        named = document.value_at(("workload", "replay"))
        if not isinstance(named, str):
            return document, []
        try:
            capture = read_replayed(folder / named)
        except InvalidValueError as error:
            # what it would fill in is not missing, too
            problem = document.problem(("workload", "replay"), error.message, error.hint)
            return _fill_sections(document, 1, 1.0, None), [problem]
        length_s = full_length_s(capture, _parse(_pace, document.value_at(("workload", "pace"))) or 1.0)
        problems = []
        clients, most = document.value_at(("sweep", "clients")), capture.most_sessions
        if clients not in (None, most, [most]):
            message = f"a replay has as many clients as the capture had sessions at its busiest moment, {most}"
            problems.append(document.problem(("sweep", "clients"), message, "remove it: it comes from the capture"))
        duration_s = _parse(parse_duration_s, document.value_at(("trial", "duration")))
        if duration_s is not None and length_s is not None and duration_s > length_s + TOLERANCE_S:
            message = f"is longer than the capture at this pace, {format_duration(length_s)}"
            problems.append(document.problem(("trial", "duration"), message, "remove it, or make it shorter"))
        rate = None if length_s is None or not capture.transactions else capture.transactions / length_s
        return _fill_sections(document, most, length_s, rate), problems

    @property
    def capture(self) -> str | None:
        return self.replay

    @property
    def least_agreement(self) -> float:
        return share_of(self.true_to)

    @property
    def keeps_order(self) -> bool:
        return self.order == "captured"

    @property
    def pace_words(self) -> str:
        """The pace as in the plan and on the engine's command line: 1, 2.5, max."""
        return self.pace if isinstance(self.pace, str) else f"{self.pace:.10g}"

    def replay_options(
        self, capture: Capture, file: Path, seed: int, workers: int | None, duration_s: float | None
    ) -> list[str] | None:
        options = ["--events=-", "--parent-lease", f"--replay={file}", f"--pace={self.pace_words}"]
        options += [f"--random-seed={seed}", *([f"--jobs={workers}"] if workers is not None else [])]
        whole_s = full_length_s(capture, self.pace)
        # without a limit, a slow server gets the time that it needs for the last statements
        is_cut = duration_s is not None and (whole_s is None or duration_s < whole_s - TOLERANCE_S)
        return [*options, f"--time={duration_s:g}"] if is_cut else options

    def describe(self) -> str:
        return f"replay of {self.replay} at pace {self.pace_words}, on {self.dataset_words}"

    def executes(self) -> Iterator[tuple[KeyPath, str]]:
        yield ("replay",), "the statements of a capture, which may change or drop what they find"

    def text_effect(self, name: str, folder: Path) -> Effect | None:
        del name
        try:
            return read_replayed(folder / self.replay).effect
        except InvalidValueError:
            return Effect.UNKNOWN


def _parse(parse: Callable[[Any], T], given: object) -> T | None:
    # the schema reports what is invalid
    with suppress(ValueError, TypeError):
        return None if given is None else parse(given)
    return None


def _fill_sections(document: Document, clients: int, length_s: float | None, rate: float | None) -> Document:
    data: dict[str, Any] = copy.deepcopy(dict(document.data))
    sweep, trial = data.setdefault("sweep", {}), data.setdefault("trial", {})
    if isinstance(sweep, dict):
        sweep.setdefault("clients", [clients])
        if rate is not None:
            # the captured times make it an open loop: reports compare latencies, not throughput
            sweep.setdefault("rate", [float(f"{rate:.4g}")])
    is_limited = isinstance(trial, dict) and bool({"duration", "transactions"} & trial.keys())
    if isinstance(trial, dict) and length_s is not None and not is_limited and not data.get("phase"):
        trial["duration"] = f"{max(length_s, TOLERANCE_S):.6f}s"
    return replace(document, data=data)
