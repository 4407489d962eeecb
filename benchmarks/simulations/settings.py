"""A search for settings on simulated servers: false wins, and regret compared with random search."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from pgdyno.analyse.pairs import Metric
from pgdyno.experiment.search.settings.proposals import Proposals, value_text
from pgdyno.experiment.search.settings.server_space import Searched
from pgdyno.experiment.search.settings.stages import Best, Found, Rules, Seen, search
from pgdyno.plan.sweeps.settings_space import Span, read_choice

Surface = Callable[[Mapping[str, str]], float]
"""The logarithm of throughput at settings, relative to the best."""
NOISE = 0.03
"""Standard deviation of the logarithm of one trial's throughput."""
SPACE = [
    Searched("shared_buffers", read_choice("128MB..8GB log"), True, True),
    Searched("work_mem", read_choice("1MB..256MB log"), True, False),
    Searched("random_page_cost", read_choice("1..4"), False, False),
    Searched("max_wal_size", read_choice("1GB..16GB log"), True, False),
    Searched("jit", ("on", "off"), False, False),
    Searched("bgwriter_delay", read_choice("10ms..1000ms log"), True, False),
]
START = {
    "shared_buffers": "128MB",
    "work_mem": "4MB",
    "random_page_cost": "4",
    "max_wal_size": "1GB",
    "jit": "on",
    "bgwriter_delay": "200ms",
}


def place(of: Searched, value: str) -> float:
    """Returns where `value` is in its range, from 0 to 1."""
    if not isinstance(of.choice, Span):
        return of.choice.index(value) / (len(of.choice) - 1)
    span = of.choice
    number = float(value.rstrip("kMGBms"))
    low, high = float(span.low), float(span.high)
    if value.endswith("GB") and span.unit == "MB":
        number *= 1024
    if not span.is_log:
        return (number - low) / (high - low)
    return math.log(number / low) / math.log(high / low)


def places(settings: Mapping[str, str]) -> list[float]:
    return [place(each, (START | dict(settings))[each.name]) for each in SPACE]


def flat(settings: Mapping[str, str]) -> float:
    """Nothing matters."""
    return 0.0 * len(settings)


def hill(settings: Mapping[str, str]) -> float:
    """Two settings matter, each for itself; the best is inside of the range."""
    at = places(settings)
    return -0.4 * (at[0] - 0.7) ** 2 - 0.3 * (at[2] - 0.1) ** 2


def ridge(settings: Mapping[str, str]) -> float:
    """Two settings matter together."""
    at = places(settings)
    return -0.8 * (at[1] + at[3] - 1.1) ** 2 - 0.1 * (at[1] - 0.6) ** 2


def step(settings: Mapping[str, str]) -> float:
    """One choice and one threshold matter."""
    at = places(settings)
    return (0.0 if at[4] == 1 else -0.1) + (0.0 if at[3] > 0.5 else -0.15)


def simulate(surface: Surface, seed: int, trials: int = 40, pairs: int = 8) -> tuple[Found, int]:
    """Returns the result of a search on `surface`, and how many trials it took before the confirmation."""
    random = np.random.default_rng(seed)
    steps = search(Rules(Metric.TPS, pairs, trials), Proposals(SPACE, seed), list[Best]().append)
    asked, before = next(steps), 0
    while True:
        before += asked.pair == 0
        figure = 1000 * math.exp(surface(asked.settings) + random.normal(0, NOISE))
        try:
            asked = steps.send(Seen(figure, 0.0, 1.0))
        except StopIteration as end:
            return end.value, before


def random_search(surface: Surface, seed: int, trials: int) -> float:
    """Returns the surface at the best of `trials` random configurations, each measured once."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    random = np.random.default_rng(seed)
    best = (-math.inf, 0.0)
    for _ in range(trials):
        settings = {each.name: _drawn(each, random) for each in SPACE}
        true = surface(settings)
        best = max(best, (true + random.normal(0, NOISE), true))
    return best[1]


def _drawn(of: Searched, random: np.random.Generator) -> str:
    if not isinstance(of.choice, Span):
        return str(random.choice(of.choice))
    low, high = float(of.choice.low), float(of.choice.high)
    number = math.exp(random.uniform(math.log(low), math.log(high))) if of.choice.is_log else random.uniform(low, high)
    return value_text(of, round(number) if of.is_whole else number)


def false_wins(times: int = 200) -> Iterator[Sequence[object]]:
    """Yields how often a search claims a better configuration where no setting matters."""
    yield ("surface", "searches", "false wins")
    wins = sum(bool(simulate(flat, seed)[0].settings) for seed in range(times))
    yield ("no setting matters", times, f"{100 * wins / times:.1f} %")


def regret(times: int = 200) -> Iterator[Sequence[object]]:
    """Yields how far results are from the best: of the search, with as many trials as random search, and of what is
    left of it after lines were put back.
    """
    yield ("surface", "start", "random search", "winner", "lines put back", "lines kept", "of them irrelevant")
    matters = {"hill": {0, 2}, "ridge": {1, 3}, "step": {3, 4}}
    for surface in (hill, ridge, step):
        by_chance, winners, reduced, kept, irrelevant = [], [], [], 0, 0
        for seed in range(times):
            found, before = simulate(surface, seed)
            winners.append(-surface({line.name: line.value for line in found.lines}))
            reduced.append(-surface(found.settings))
            by_chance.append(-random_search(surface, seed, before))
            kept += len(found.settings)
            names = {SPACE[at].name for at in matters[surface.__name__]}
            irrelevant += len(found.settings.keys() - names)
        columns = ([-surface({})], by_chance, winners, reduced)
        shown = (f"{100 * math.expm1(float(np.mean(each))):.1f} %" for each in columns)
        yield (surface.__name__, *shown, f"{kept / times:.1f}", f"{irrelevant / times:.2f}")
