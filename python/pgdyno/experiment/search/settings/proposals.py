"""Proposals of settings: Optuna's quasi-random points first, then its tree-structured Parzen estimator (TPE)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence, Set
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pgdyno.experiment.search.settings.server_space import Searched
from pgdyno.plan.sweeps.expressions import parse_expression
from pgdyno.plan.sweeps.settings_space import Span, value_in_conditions
from pgdyno.units import BYTES

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import Trial

QUASI_RANDOM = 12
"""Points that cover the space evenly before results guide the choice."""
RESTART_GROUP = 4
"""Proposals in a row with the same values of settings that need a restart."""
_DIGITS = 2
"""Significant digits of a number."""
_WIDE = 4
"""From this ratio of its ends on, a range of sizes has enough powers of two."""
_LARGER = list(BYTES)


class Proposals:
    """An Optuna study in memory. The same seed and the same results give the same proposals.

    Optuna gets a value of each setting for each trial. Those whose condition in `when` does not hold are not in the
    proposal, so that they stay as they are at the start.
    """

    def __init__(self, space: Sequence[Searched], seed: int, when: Mapping[str, str] | None = None) -> None:
        # optuna takes half a second to load, and only this search needs it
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._space = space
        self._when = {name: parse_expression(text) for name, text in (when or {}).items()}
        self._distributions = {each.name: _distribution(each) for each in space}
        restarts = {each.name for each in space if each.needs_restart}
        self._grouped = restarts if len(restarts) < len(space) else set[str]()
        """The settings that keep their values for a group of proposals."""
        # a sequence for the groups and one for the other settings: each fourth point of one sequence for all would lie
        # in the same quarter of a range
        self._of_groups = _EvenPoints(self._distributions, self._grouped, seed)
        self._of_others = _EvenPoints(self._distributions, self._distributions.keys() - self._grouped, seed + 1)
        with warnings.catch_warnings():
            # it has been experimental in Optuna for years
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            guided = optuna.samplers.TPESampler(seed=seed, n_startup_trials=0, multivariate=True)
        self._study = optuna.create_study(direction="maximize", sampler=guided)
        self._asked: list[Trial] = []
        self._held: dict[str, Any] = {}
        """The values of `_grouped` for the rest of a group."""

    def ask(self) -> dict[str, str]:
        """Return the settings of the next trial, whose result `tell` reports."""
        is_first = len(self._asked) % RESTART_GROUP == 0
        if len(self._asked) < QUASI_RANDOM:
            if is_first:
                self._held = self._of_groups.next()
            self._study.enqueue_trial(self._held | self._of_others.next())
        elif self._grouped and not is_first:
            self._study.enqueue_trial(self._held)
        trial = self._study.ask(self._distributions)
        self._asked.append(trial)
        self._held = {name: trial.params[name] for name in self._grouped}
        proposed = {each.name: value_text(each, trial.params[each.name]) for each in self._space}
        values = {each.name: value_in_conditions(each.choice, proposed[each.name]) for each in self._space}
        left_out = {name for name, condition in self._when.items() if not condition.holds(values)}
        return {name: text for name, text in proposed.items() if name not in left_out}

    def tell(self, gain: float | None, violation: float) -> None:
        """Report the result of the last proposal: a higher `gain` is better, None if the trial failed; `violation` is
        more than 0 if a promise was broken, and by how much.
        """
        self._asked[-1].set_constraint("promise", violation)
        self._study.tell(self._asked[-1], gain if gain is not None else 0.0)

    def importance(self) -> dict[str, float]:
        """Return how much of the difference between good and ordinary results each setting explains, by PED-ANOVA.

        Good is the better half of the results. The shares add up to 1. Empty if there are too few results.
        """
        import optuna

        feasible = [trial for trial in self._study.trials if not trial.constraints["promise"] > 0]
        if len(feasible) < QUASI_RANDOM:
            return {}
        study = optuna.create_study(direction="maximize")
        study.add_trials(feasible)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            # of some dozens of noisy trials, the best tenth, Optuna's default, is mostly chance: with half of them, the
            # setting that matters most is first twice as often (docs/concepts/settings-search.md)
            evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=0.5)
        found = optuna.importance.get_param_importances(study, evaluator=evaluator)
        return {name: round(share, 3) for name, share in found.items()}


class _EvenPoints:
    """A quasi-random sequence of the values of some settings."""

    def __init__(self, distributions: Mapping[str, BaseDistribution], names: Set[str], seed: int) -> None:
        import optuna

        self._distributions = {name: each for name, each in distributions.items() if name in names}
        with warnings.catch_warnings():
            # as TPE's
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            even = optuna.samplers.QMCSampler(seed=seed, scramble=True, warn_independent_sampling=False)
        self._study = optuna.create_study(sampler=even)
        # the first point is not of the sequence, but at random
        self.next()

    def next(self) -> dict[str, Any]:
        """Return the next point; empty without settings."""
        if not self._distributions:
            return {}
        point = self._study.ask(self._distributions)
        # the sampler counts finished trials, whatever their results
        self._study.tell(point, 0.0)
        return dict(point.params)


def _distribution(of: Searched) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if not isinstance(of.choice, Span):
        return CategoricalDistribution(of.choice)
    low, high, is_log = of.choice.low, of.choice.high, of.choice.is_log
    if of.is_whole:
        return IntDistribution(int(low), int(high), log=is_log)
    return FloatDistribution(float(low), float(high), log=is_log)


def value_text(of: Searched, value: float | str) -> str:
    """Return a proposed value as in postgresql.conf, rounded so that people can read it: to two digits; a size in a
    wide range to 1 or 1.5 times a power of two.
    """
    span = of.choice
    if not isinstance(span, Span):
        return str(value)
    rounded = Decimal(f"{float(value):.{_DIGITS}g}")
    is_size = span.unit in BYTES and of.is_whole
    if is_size and span.low > 0 and span.high >= _WIDE * span.low:
        power = Decimal(2) ** math.floor(math.log2(float(value)))
        rounded = min((power, power * Decimal("1.5"), power * 2), key=lambda each: abs(float(each) - float(value)))
    kept = min(max(rounded, span.low), span.high)
    if of.is_whole:
        kept = kept.to_integral_value()
    unit = span.unit
    for larger in _LARGER[_LARGER.index(unit) + 1 :] if is_size else ():
        if kept % 1024:
            break
        kept, unit = kept / 1024, larger
    return f"{kept.normalize():f}{unit}"
