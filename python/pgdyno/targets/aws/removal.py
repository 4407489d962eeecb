"""Removes resources at Amazon, and finds those that runs left there (`pgdyno reap`)."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgdyno.messages import Message
from pgdyno.targets.aws.boto3_clients import (
    AwsError,
    Cloud,
    CredentialsError,
    DeniedError,
    InUseError,
    NotThereError,
    Patience,
)
from pgdyno.targets.aws.inventory import APIS, LAST_WAVE, Search, in_order, is_free, remove
from pgdyno.targets.aws.schema import PROVIDER
from pgdyno.targets.rented import provider
from pgdyno.targets.rented.provider import Reaped, Wanted
from pgdyno.targets.rented.rental import Leftover, Resource
from pgdyno.targets.rented.rental_journal import Journal, journals
from pgdyno.units import duration_words

WITHIN_S = 3600.0
"""Time limit of a removal in seconds; that of a database server takes several minutes."""
USED_WITHIN_S = 300.0
"""How long, in seconds, pgdyno keeps trying to remove a resource that is in use when others cannot be removed.

The network interface of a removed server exists for some minutes longer than the server.
"""
TRIES = 4
"""Requests for one removal, or for the list of all, that may fail before pgdyno gives up."""
FRESH_WITHIN_S = 3600.0
"""How long, in seconds, a removal waits for fresh credentials."""
FIXED_WITHIN_S = 60.0
"""Likewise for credentials in environment variables, which only this process can change."""
GOING = ("deleting", "shutting-down")
"""States of a resource that is being removed."""


def _left(resource: Resource, why: Message | str) -> Leftover:
    """Return what remains with the reason; an error of Amazon's is a sentence."""
    return Leftover(
        resource,
        Message(
            "resource-left",
            "still there, at no cost: {resource}: {why}"
            if is_free(resource.kind)
            else "still there, and billed: {resource}: {why}",
            resource=resource.words,
            why=why,
        ),
    )


def remove_all(
    clouds: Mapping[str, Cloud],
    find: Callable[[], Sequence[Resource]],
    say: Callable[[str], None],
    within_s: float = WITHIN_S,
    known: Sequence[Resource] = (),
) -> list[Leftover]:
    """Remove what `find` returns until it returns nothing more; return what is left, with the reasons.

    A refusal of one resource does not stop the removal of the others, and is tried again. If the credentials are no
    longer valid, it waits for fresh ones. `clouds` are by region; `known` is what may exist if nobody can look.
    Repeated and concurrent calls do no harm. Raises AwsError if `find` does, and nothing is known.
    """
    work, failed = _Removal(clouds, find, say, known, Patience(within_s)), 0
    fresh: Patience | None = None
    while True:
        try:
            left = work.turn()
            if fresh is not None:
                say("the credentials are valid again")
                work.patience, fresh = Patience(within_s), None
            if left is not None:
                return left
            failed = 0
        except CredentialsError as error:
            fresh = fresh or _announce_wait(clouds, say, error)
            if fresh.is_over():
                return work.last_seen(error)
            fresh.pause()
            for each in clouds.values():
                # An error here is that of the next request.
                with suppress(AwsError):
                    each.renew()
            continue
        except AwsError as error:
            failed += 1
            if isinstance(error, DeniedError) or failed >= TRIES or work.patience.is_over():
                return work.last_seen(error)
        work.patience.pause()


def _announce_wait(clouds: Mapping[str, Cloud], say: Callable[[str], None], error: CredentialsError) -> Patience:
    """Return how long to wait for fresh credentials, after Amazon has stopped accepting those that pgdyno has."""
    within_s = FIXED_WITHIN_S if any(each.has_fixed_credentials for each in clouds.values()) else FRESH_WITHIN_S
    say(f"{error.message}; waiting up to {duration_words(within_s)} for others: {error.hint}")
    return Patience(within_s)


def begin_removal(cloud: Cloud, found: Sequence[Resource], say: Callable[[str], None]) -> None:
    """Request the removal of the first among `found`, in the order of removal; do not wait. Raises AwsError."""
    for each in _first_wave(found):
        if _ask(cloud, each):
            say(f"removing {each.words}")


@dataclass(slots=True)
class _Removal:
    """What is known of a removal, turn by turn."""

    clouds: Mapping[str, Cloud]
    find: Callable[[], Sequence[Resource]]
    say: Callable[[str], None]
    known: Sequence[Resource]
    """What existed when it was last seen."""
    patience: Patience
    _use_by_others: Patience | None = None
    _asked: set[str] = field(default_factory=set)
    _tries: Counter[str] = field(default_factory=Counter)
    _refused: dict[str, tuple[Resource, str]] = field(default_factory=dict)

    def turn(self) -> list[Leftover] | None:
        """Look, and request the removals that are next; return what is left once nothing more can be done.

        Raises AwsError if it cannot look, and CredentialsError.
        """
        found = self.known = self.find()
        open_ = [each for each in found if _key(each) not in self._refused]
        refused = [each for each, _ in self._refused.values()]
        stands = _may_be_in_use(open_, refused)
        self._use_by_others = (self._use_by_others or Patience(USED_WITHIN_S)) if stands else None
        if not open_ or self.patience.is_over() or (self._use_by_others is not None and self._use_by_others.is_over()):
            if self._use_by_others is None:
                why = Message("still-being-removed", "it is still being removed")
            else:
                why = Message("used-by-others", "resources that remain may use it")
            reasons = {key: reason for key, (_, reason) in self._refused.items()}
            return [_left(each, reasons.get(_key(each), why)) for each in found]
        for each in _first_wave(open_):
            self._request(each)
        return None

    def _request(self, each: Resource) -> None:
        key = _key(each)
        try:
            if _ask(self.clouds[each.region], each) and key not in self._asked:
                self._asked.add(key)
                self.say(f"removing {each.words}")
        except CredentialsError:
            raise
        except AwsError as error:
            self._tries[key] += 1
            if isinstance(error, DeniedError) or self._tries[key] >= TRIES:
                self._refused[key] = each, error.message

    def last_seen(self, error: AwsError) -> list[Leftover]:
        """Return what existed when it was last seen. Raises `error` if nothing did."""
        if not self.known:
            raise error
        why = Message("not-removed", "it was not removed: {error}", error=error.message)
        return [_left(each, why) for each in self.known]


def _key(resource: Resource) -> str:
    return f"{resource.kind} {resource.id}"


def _may_be_in_use(open_: Sequence[Resource], refused: Sequence[Resource]) -> bool:
    """Return whether something in `refused` may use all of `open_`, of which nothing is being removed."""
    first = min((_wave(each) for each in refused), default=LAST_WAVE)
    return all(_wave(each) > first and each.state not in GOING for each in open_)


def _wave(resource: Resource) -> int:
    return APIS[resource.kind].wave


def _first_wave(found: Sequence[Resource]) -> list[Resource]:
    first = min(map(_wave, found), default=0)
    return [each for each in found if _wave(each) == first]


def _ask(cloud: Cloud, resource: Resource) -> bool:
    if resource.state in GOING:
        return False
    try:
        remove(cloud, resource)
    except (InUseError, NotThereError):
        # The resource is changing, or is used by one that is being removed, or is gone.
        return False
    return True


class Reaper(provider.Reaper):
    """Finds and removes resources in the regions of journals, in those requested, and in the configured one."""

    def __init__(self, root: Path, regions: Iterable[str] = (), *, all_regions: bool = False) -> None:
        """Read the journals of the home `root`. Raises TargetError without credentials.

        With `all_regions`, it also searches every region that is enabled for the account.
        """
        self._journals = list(journals(root / PROVIDER))
        named = [*regions, *(each.region for journal in self._journals for each in journal.noted)]
        first = _first_cloud(named)
        self._who = first.identity()
        if all_regions:
            named += [each["RegionName"] for each in first.call("ec2", "describe_regions")["Regions"]]
        self.clouds = {region: first.in_region(region) for region in dict.fromkeys([first.region, *named])}
        self.places = list(self.clouds)

    def find(self, wanted: Wanted) -> list[Resource]:
        return self._find_wanted(self._search(wanted), wanted)

    def reap(self, wanted: Wanted, say: Callable[[str], None], within_s: float = WITHIN_S) -> Reaped:
        """Remove what `wanted` selects, and the journals of runs that have nothing left. Raises TargetError."""
        found: dict[str, Resource] = {}
        search = self._search(wanted)

        def find() -> Sequence[Resource]:
            now = self._find_wanted(search, wanted)
            found.update({_key(each): each for each in now})
            return now

        left = remove_all(self.clouds, find, say, within_s)
        runs_left = {each.resource.run for each in left}
        for journal in self._of_account():
            if wanted.means(journal.run, journal.expires) and journal.run not in runs_left and journal.hold():
                journal.close()
        return Reaped(in_order(found.values()), left)

    def _search(self, wanted: Wanted) -> Search:
        return Search(self.clouds, [each for each in self._of_account() if wanted.run in (None, each.run)])

    def _find_wanted(self, search: Search, wanted: Wanted) -> list[Resource]:
        until = {journal.run: journal.expires for journal in self._journals}
        found = [replace(each, expires=each.expires or until.get(each.run)) for each in search.find()]
        return [each for each in found if wanted.means(each.run, each.expires)]

    def of_others(self, found: Iterable[Resource]) -> list[Resource]:
        """Return those of `found` that another identity created, and this machine's journals do not name."""
        ours = {journal.run for journal in self._journals}
        return [each for each in found if each.owner not in ("", self._who.owner) and each.run not in ours]

    def strangers(self) -> list[Journal]:
        return [each for each in self._journals if each.account != self._who.account]

    def _of_account(self) -> list[Journal]:
        return [each for each in self._journals if each.account == self._who.account]


def _first_cloud(named: Sequence[str]) -> Cloud:
    """Return the configured region, which is always searched, or the first of `named` if none is configured."""
    try:
        return Cloud()
    except AwsError as error:
        if error.code != "NoRegion" or not named:
            raise
    return Cloud(named[0])
