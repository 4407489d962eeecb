"""What `pgdyno target selftest` tries, one line a check: docs/guides/aws.md has the same list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg

from pgdyno.errors import PgdynoError

DATABASES, HOST = ("rds", "aurora"), ("ec2",)
ALL = (*DATABASES, *HOST)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that is tried."""

    key: str
    what: str
    kinds: Sequence[str] = ALL
    """Of targets that it is about."""


CHECKS = (
    Check("prices", "the Pricing API has a line for each thing that is paid for"),
    Check("up", "the policy is enough; the server and the generator come up, and the generator reaches the server"),
    Check("tls", "the connection is encrypted, and the certificate is what it should be (Amazon's bundle is fetched)"),
    Check("version", "PostgreSQL has the version that was asked for"),
    Check("parameters", "a value of the parameter group, on EC2 of the settings, is that of the server"),
    Check("ssh", "the host's key is the one that was given to it", HOST),
    Check("volumes", "volumes are found by their device names, and have their file systems", HOST),
    Check("expiry", "what ends the host at its expiry runs", HOST),
    Check("tags", "everything is found by its tags alone, as from another machine"),
    Check("trial", "data are loaded, and a trial's load comes from the generator"),
    Check("generator", "round trips and the clock are measured there, in the server's zone"),
    Check("cloudwatch", "its figures have the names that are known here, and come within 5 minutes"),
    Check("insights", "Performance Insights has a point for each second", DATABASES),
    Check("log", "the server's log is read, and its lines have a time", DATABASES),
    Check("restore", "with `--snapshot`: the server is made anew from it, and takes its new password", DATABASES),
    Check("removed", "all of it is removed"),
    Check("gone", "nothing of it is found any more, by the journal or by tags"),
)


def checks_of(kind: str) -> list[Check]:
    """Those of targets of `kind`, in their order."""
    return [each for each in CHECKS if kind in each.kinds]


@dataclass(slots=True)
class Tally:
    """What was said of each check of one kind of target."""

    kind: str
    notify: Callable[[str], None]
    said: dict[str, bool] = field(default_factory=dict)
    """Whether it is as it should be, by key; without those that were left out."""
    done: set[str] = field(default_factory=set)

    @property
    def wrong(self) -> list[str]:
        """Keys of what is not as it should be."""
        return [key for key, good in self.said.items() if not good]

    def tell(self, key: str, good: bool, text: str) -> None:
        """Says a verdict with its reason."""
        self.said[key] = good
        self.done.add(key)
        self.notify(f"{'ok' if good else 'WRONG'}: {key}: {text}")

    def leave_out(self, key: str, why: str) -> None:
        """Says that nobody knows, and why."""
        self.done.add(key)
        self.notify(f"left out: {key}: {why}")

    def leave_out_the_rest(self, why: str, but: Sequence[str]) -> None:
        """Of those that nothing was said of; without `but`."""
        for each in checks_of(self.kind):
            if each.key not in self.done and each.key not in but:
                self.leave_out(each.key, why)

    @contextmanager
    def trying(self, *keys: str) -> Iterator[None]:
        """What goes wrong within is the verdict of the first of `keys` that has none; the rest is left out."""
        try:
            yield
        except (PgdynoError, psycopg.Error) as error:
            known = {each.key for each in checks_of(self.kind)}
            first, *rest = [key for key in keys if key in known and key not in self.done]
            self.tell(first, False, _words(error))
            for key in rest:
                self.leave_out(key, f"{first} is wrong")


def _words(error: PgdynoError | psycopg.Error) -> str:
    if isinstance(error, PgdynoError):
        return f"{error.message}{f' ({error.hint})' if error.hint else ''}"
    return str(error).strip().replace("\n", "; ")
