"""Warns if a valid plan cannot answer its question.

A plan with several arms asks which of them is better, and needs pairs. A plan with a single arm asks for a peak, the
latency at a rate, or the effect of phases; it needs points around a peak, and repeats for an interval.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pgdyno.effect import Effect
from pgdyno.errors import Problem, UsageError
from pgdyno.plan.checks.trial_conditions import compared_parameters
from pgdyno.plan.hosts import generators
from pgdyno.plan.known_settings import why_unknown
from pgdyno.plan.model import Plan
from pgdyno.plan.plan_document import Document, KeyPath
from pgdyno.plan.sweeps.ranges import expand_range, is_range
from pgdyno.plan.sweeps.spec import SESSION
from pgdyno.plan.targets import NetworkTarget, RentedTarget
from pgdyno.plan.workload import effect_of_plan, phases_s, script_files
from pgdyno.records import Point
from pgdyno.records.base import FEWEST_PAIRS
from pgdyno.units import MICROSECONDS, format_duration

FEWEST_TRIALS = 3
"""The minimum for a useful interval: with two trials, it extends 12.7 standard errors to each side."""
FEWEST_POINTS = 3
"""The minimum of client counts to locate a peak."""
SHORTEST_S = 1.0
MOST_VALUES_ONE_BY_ONE = 16
CHECKPOINT_TIMEOUT_S = 300.0
"""PostgreSQL's default."""
_PERIOD = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d)?")


def answer_warnings(plan: Plan, document: Document, folder: Path) -> Iterator[Problem]:
    """Yield why `plan` may not answer its question, each with its field and remedy."""
    points = plan.points()
    if compares_arms(plan, points):
        yield from _pairs(plan, document)
    elif plan.search is None:
        yield from _one_arm(plan, points, document)
    yield from _long_ranges(document)
    yield from _databases(plan, document)
    yield from _settings(plan, points, document)
    yield from settings_set_by_scripts(plan, document, folder)
    try:
        generators(plan.generators)
    except UsageError as error:
        yield document.problem(("generators",), error.message, error.hint)
    if plan.trial.duration is not None and plan.trial.duration < SHORTEST_S:
        message = f"{plan.trial.duration * 1000:g} ms are too short for any figure: pgdyno counts by the second"
        yield document.problem(("trial", "duration"), message, "use 10s or more")
    else:
        yield from _checkpoints(plan, points, document, folder)


def compares_arms(plan: Plan, points: Sequence[Point]) -> bool:
    """Tells whether `plan` at `points` has several arms, and so asks for a verdict between them."""
    return len(plan.target) > 1 or bool(compared_parameters(plan.sweep, points))


# ---- pairs, and trials ----


def _pairs(plan: Plan, document: Document) -> Iterator[Problem]:
    repeats = plan.trial.most_repeats
    if plan.search is None and repeats < FEWEST_PAIRS:
        pairs = "1 pair is" if repeats == 1 else f"{repeats} pairs are"
        message = f"{pairs} too few for a verdict, which needs at least {FEWEST_PAIRS}"
        yield document.problem(("trial", "repeats"), message, f"set trial.repeats = {FEWEST_PAIRS} or more")
    if plan.trial.order == "as-listed":
        message = (
            "runs all points of an arm before the next arm: drift of the machine is indistinguishable from a difference"
        )
        yield document.problem(("trial", "order"), message, 'leave it out, or set trial.order = "interleaved"')


def _one_arm(plan: Plan, points: list[Point], document: Document) -> Iterator[Problem]:
    if plan.trial.most_repeats < FEWEST_TRIALS:
        message = (
            "1 trial per point has no interval"
            if plan.trial.repeats == 1
            else "2 trials per point have a wide interval"
        )
        message += ": noise and effect are indistinguishable"
        yield document.problem(("trial", "repeats"), message, f"set trial.repeats = {FEWEST_TRIALS} or more")
    # a promise, a rate, phases, events and published figures give an answer with a single arm
    asks_more = (
        plan.phase or plan.event or plan.group or plan.published or all(point.rate is not None for point in points)
    )
    clients = len({point.clients for point in points})
    if not (asks_more or plan.trial.promise) and clients < FEWEST_POINTS:
        counted = "one number of clients" if clients == 1 else f"{clients} numbers of clients"
        message = f"one target at {counted}: there is nothing to compare, and no peak to find"
        hint = "add a second target or a list under sweep.settings for a verdict, more sweep.clients for a peak"
        yield document.problem(("target",), message, hint)


def _long_ranges(document: Document) -> Iterator[Problem]:
    """Yield ranges of many values one by one, which most who write them do not expect."""
    sweep = document.data.get("sweep")
    for name, text in sweep.items() if isinstance(sweep, Mapping) else ():
        if not isinstance(text, str) or not is_range(text) or "step" in text or "doubling" in text:
            continue
        values = expand_range(text)
        if len(values) > MOST_VALUES_ONE_BY_ONE:
            message = f"{text} is {len(values):,} values, one by one"
            yield document.problem(("sweep", name), message, f'write "{text} doubling", or "{text} step 8"')


# ---- databases without tables ----


def _databases(plan: Plan, document: Document) -> Iterator[Problem]:
    if plan.workload.dataset != "none" or plan.hooks.before_run or plan.hooks.before_trial:
        return
    for name, target in plan.target.items():
        if not isinstance(target, NetworkTarget) or isinstance(target, RentedTarget):
            continue
        if "database" not in target.model_fields_set:
            message = f"the load uses the database {target.database}, which pgdyno creates, without tables"
            hint = 'to use your own, set database = "app" and allow_existing = true'
            yield document.problem(("target", name), message, hint)


# ---- settings of other versions ----


def _settings(plan: Plan, points: list[Point], document: Document) -> Iterator[Problem]:
    majors = {name: major for name, target in plan.target.items() if (major := _major(target)) is not None}
    swept = dict.fromkeys(name for point in points for name in point.settings)
    per_session = plan.sweep.session_names
    for target, major in majors.items():
        for setting in swept:
            why = why_unknown(setting, major)
            if why is not None:
                hint = f"remove it, or target {target}"
                group = SESSION if setting in per_session else "settings"
                yield _unknown(document, ("sweep", group, setting), target, major, setting, why, hint)
        for setting in plan.target[target].settings:
            path = ("target", target, "settings", setting)
            why = why_unknown(setting, major)
            if why is not None:
                yield _unknown(document, path, target, major, setting, why, "remove it")
                continue
            for other, its in majors.items():
                why = why_unknown(setting, its)
                if why is not None and setting not in plan.target[other].settings:
                    message = f"target {other}, PostgreSQL {its}, has no {setting} ({why}): "
                    message += "a difference between the targets includes the effect of this setting"
                    hint = f"remove it to compare only versions, or add a target of version {major} without it"
                    yield document.problem(path, message, hint)
                    break


_SET = re.compile(
    r"(?:^|;)\s*set\s+(?:session\s+|local\s+)?([a-z_][\w.]*)\s*(?:=|\bto\b)|\bset_config\s*\(\s*'([^']+)'",
    re.IGNORECASE | re.MULTILINE,
)


def settings_set_by_scripts(plan: Plan, document: Document, folder: Path) -> Iterator[Problem]:
    """Yield the settings of the plan that have no effect, because a script sets them itself."""
    tables: list[tuple[KeyPath, Iterable[str]]] = [
        (("sweep", "settings"), plan.sweep.settings),
        (("sweep", SESSION), plan.sweep.session_settings),
    ]
    for target, spec in plan.target.items():
        tables += [
            (("target", target, "settings"), spec.settings),
            (("target", target, SESSION), spec.session_settings),
        ]
    places = {name.lower(): (*path, name) for path, names in reversed(tables) for name in names}
    for script in script_files(plan) if places else ():
        with suppress(OSError, UnicodeDecodeError):
            text = (folder / script).read_text(encoding="utf-8")
            for name in dict.fromkeys((set_ or configured).lower() for set_, configured in _SET.findall(text)):
                if name in places:
                    message = f"{script} sets {name} itself, which overrides this value"
                    yield document.problem(places[name], message, "remove the statement from the script")


def _unknown(
    document: Document, path: tuple[str, ...], target: str, major: int, setting: str, why: str, hint: str
) -> Problem:
    message = f"PostgreSQL {major} has no {setting} ({why}): trials of target {target} will fail"
    return document.problem(path, message, hint)


def _major(target: object) -> int | None:
    # also of kinds whose servers have the newest minor version of their provider
    found = re.match(r"\d+", getattr(target, "version", None) or "")
    return int(found[0]) if found is not None else None


# ---- checkpoints ----


def _checkpoints(plan: Plan, points: list[Point], document: Document, folder: Path) -> Iterator[Problem]:
    measured_s: float | None = phases_s(plan) if plan.phase else plan.trial.duration
    if measured_s is None or any(event.name == "checkpoint" for event in plan.event):
        return
    # a load that may only read gets no warning that it writes
    if effect_of_plan(plan, folder) is not Effect.WRITES:
        return
    cycles = [
        cycle
        for target in plan.target.values()
        for point in points
        if (cycle := _cycle_s({**target.settings, **point.settings}, known=not isinstance(target, NetworkTarget)))
    ]
    if cycles and measured_s < max(cycles):
        length = format_duration(max(cycles))
        message = f"trials of {format_duration(measured_s)} are shorter than a checkpoint cycle ({length}): "
        message += "they write without a checkpoint"
        hint = (
            f'measure {length} or longer, set a shorter checkpoint_timeout, or add an [[event]] with do = "checkpoint"'
        )
        yield document.problem(("phase",) if plan.phase else ("trial", "duration"), message, hint)


def _cycle_s(settings: Mapping[str, object], *, known: bool) -> float | None:
    """Return checkpoint_timeout in seconds, or None if only the server knows it."""
    text = next((str(value) for name, value in settings.items() if name.lower() == "checkpoint_timeout"), None)
    if text is None:
        return CHECKPOINT_TIMEOUT_S if known else None
    found = _PERIOD.fullmatch(text.strip())
    return float(found[1]) * MICROSECONDS[found[2] or "s"] / 1e6 if found is not None else None
