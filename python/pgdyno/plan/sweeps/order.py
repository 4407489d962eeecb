"""The order of trials, fixed before the first trial.

An arm is a target with the settings, and the keys of groups of clients, that the sweep gives it. A block is one point
under every arm, one after the other, so that drift over time affects the arms equally.
"""

import random
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Literal, NamedTuple

from pgdyno.records import Point

Order = Literal["interleaved", "randomised", "as-listed", "duet"]
ArmKey = tuple[str, tuple[tuple[str, str], ...]]
Group = list[tuple[str, Point]]
"""One point under every arm that has it."""


class Place(NamedTuple):
    target: str
    point: Point
    repeat: int
    """Counted from 1."""
    block: int
    """Counted from 1."""
    control: bool = False
    """Whether it is the second trial of the baseline in its block."""


def arm(target: str, point: Point) -> ArmKey:
    """Return the arm of `point` at `target`: equal for all points of one arm."""
    return target, tuple(sorted((point.settings | point.groups).items()))


def arms(targets: Sequence[str], points: Sequence[Point]) -> list[ArmKey]:
    """Return every arm, targets outermost."""
    return list(dict.fromkeys(arm(target, point) for target in targets for point in points))


def resolved_order(order: Order | None, targets: Sequence[str], points: Sequence[Point]) -> Order:
    """Return `order`, or the default: interleaved if there are several arms."""
    if order is not None:
        return order
    return "interleaved" if _has_several(_groups(targets, points)) else "as-listed"


def by_chance(order: Order, targets: Sequence[str], points: Sequence[Point]) -> bool:
    return order == "randomised" or (order == "interleaved" and _has_several(_groups(targets, points)))


def _has_several(groups: Sequence[Group]) -> bool:
    return any(len(group) > 1 for group in groups)


def in_order(
    order: Order,
    targets: Sequence[str],
    points: Sequence[Point],
    repeats: int,
    seed: int,
    data_at: Callable[[Point], Hashable] = lambda point: point.scale,
    *,
    control: bool = False,
) -> list[Place]:
    """Return every repeat of every point at every target in `order`; `seed` determines random orders.

    Trials with the same dataset, by `data_at`, follow each other. With `control`, for which the order is interleaved,
    each block has its baseline twice.
    """
    groups = _groups(targets, points)
    if order == "duet":
        return list(_duet(_by_dataset(groups, data_at), repeats))
    if order == "as-listed" or (order == "interleaved" and not _has_several(groups)):
        return list(_as_listed(targets, points, repeats))
    chance = random.Random(seed)  # noqa: S311 - an order is no secret
    if order == "interleaved":
        return list(_interleave(_by_dataset(groups, data_at), repeats, chance, control=control))
    return list(_randomise(_by_dataset(groups, data_at), repeats, chance))


def controlled_blocks(targets: Sequence[str], points: Sequence[Point]) -> int:
    """Return the number of blocks of a repeat that a control adds a trial to: those with an arm to compare."""
    return sum(len(group) > 1 for group in _groups(targets, points))


def _as_listed(targets: Sequence[str], points: Sequence[Point], repeats: int) -> Iterator[Place]:
    for repeat in range(1, repeats + 1):
        for target in targets:
            for point in points:
                yield Place(target, point, repeat, repeat)


def _groups(targets: Sequence[str], points: Sequence[Point]) -> list[Group]:
    groups: dict[str, Group] = {}
    groups_and_clients = {(*sorted(point.groups.items()), point.clients) for point in points}
    arm_only = {"settings", "groups"}
    if len(groups_and_clients) == len({each[:-1] for each in groups_and_clients}):
        # those of groups that are trials follow from their swept keys
        arm_only.add("clients")
    place = {each: number for number, each in enumerate(arms(targets, points))}
    for target in targets:
        for point in points:
            groups.setdefault(point.model_dump_json(exclude=arm_only), []).append((target, point))
    return [sorted(group, key=lambda each: place[arm(*each)]) for group in groups.values()]


def _by_dataset(groups: Sequence[Group], data_at: Callable[[Point], Hashable]) -> list[list[Group]]:
    """Group `groups` by dataset, because loading another one takes the most time."""
    by_dataset: dict[Hashable, list[Group]] = {}
    for group in groups:
        by_dataset.setdefault(data_at(group[0][1]), []).append(group)
    return list(by_dataset.values())


def _interleave(
    by_dataset: Sequence[list[Group]], repeats: int, chance: random.Random, *, control: bool
) -> Iterator[Place]:
    """A block per point and repeat, with its arms in an order that is drawn.

    A fixed order such as A B B A is in step with disturbances of its period, and more repeats only make a wrong answer
    more certain.
    """
    block = 0
    for groups in by_dataset:
        rounds = [_balanced(group, chance) for group in groups]
        for repeat in range(1, repeats + 1):
            for group, balanced in zip(groups, rounds, strict=True):
                block += 1
                if control and len(group) > 1:
                    trials = next(balanced)
                    twice = [at for at, each in enumerate(trials) if each is group[0]]
                    yield from (Place(*each, repeat, block, at == twice[1]) for at, each in enumerate(trials))
                    continue
                for target, point in chance.sample(group, len(group)):
                    yield Place(target, point, repeat, block)


def _balanced(group: Group, chance: random.Random) -> Iterator[Group]:
    """Yield rounds of the arms with the baseline twice: of as many rounds as a round has trials, each trial has each
    place in one, so that steady drift cancels; which in which is drawn.
    """
    while True:
        drawn = chance.sample([*group, group[0]], len(group) + 1)
        for first in chance.sample(range(len(drawn)), len(drawn)):
            yield drawn[first:] + drawn[:first]


def _duet(by_dataset: Sequence[list[Group]], repeats: int) -> Iterator[Place]:
    block = 0
    for groups in by_dataset:
        for repeat in range(1, repeats + 1):
            for group in groups:
                block += 1
                arms_of = group if repeat % 2 else group[::-1]
                yield from (Place(target, point, repeat, block) for target, point in arms_of)


def _randomise(by_dataset: Sequence[list[Group]], repeats: int, chance: random.Random) -> Iterator[Place]:
    block = 0
    for groups in chance.sample(by_dataset, len(by_dataset)):
        blocks = [(repeat, group) for repeat in range(1, repeats + 1) for group in groups]
        for repeat, group in chance.sample(blocks, len(blocks)):
            block += 1
            for target, point in chance.sample(group, len(group)):
                yield Place(target, point, repeat, block)
