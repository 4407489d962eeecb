"""Generators on hosts that were rented: reached over SSH, for as long as a run lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from pgdyno.cluster.cluster import Cluster, gathered
from pgdyno.cluster.ssh_generators import SshGenerator
from pgdyno.programs import Engine
from pgdyno.remote.there import There, through


@contextmanager
def ssh_cluster(
    engine: Engine, hosts: Sequence[There], folder: Path, notify: Callable[[str], None]
) -> Iterator[Cluster]:
    """`engine` on each of `hosts`, as one; what is kept about them for other programs lies in `folder`.

    `notify` is told who is waited for. Times of a load are the first host's: what else runs there beside it has them,
    too. Raises EngineError.
    """
    known = []
    for number, each in enumerate(hosts, start=1):
        file = folder / f"there-{number}.json"
        each.write(file)
        name = f"generator-{number}"
        known.append((name, partial(SshGenerator, name, each, replace(engine, through=through(file)))))
    # one that is lost is connected to anew; nobody else brings it back
    with gathered(Cluster(len(known), lambda: known, lambda: None, notify, by_first_clock=True)) as cluster:
        yield cluster
