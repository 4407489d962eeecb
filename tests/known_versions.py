"""The repository's list of servers, asked for once: each run of a plan asks, which takes 50 ms of CPU and a network."""

from functools import cache

from pgdyno.targets import Home
from pgdyno.targets.cluster.installation import classifier
from pgdyno.targets.embedded.maven_repository import Mirror


def ask_once() -> None:
    """Lets this process ask the usual repository once; other repositories, which tests run, each time."""
    fetch, usual = Mirror.fetch_list, Mirror.from_environment(classifier())
    fetch_once = cache(fetch)
    Mirror.fetch_list = lambda mirror: fetch_once(usual) if mirror == usual else fetch(mirror)  # type: ignore[assignment,method-assign]


def ask_never() -> None:
    """Lets this process and those that it forks read what the tests' process has asked for, once it has."""
    fetch, usual = Mirror.fetch_list, Mirror.from_environment(classifier())
    known = Home.locate().downloads / f"versions-{usual.classifier}.xml"

    def read_or_fetch(mirror: Mirror) -> str:
        return known.read_text() if mirror == usual and known.exists() else fetch(mirror)

    Mirror.fetch_list = read_or_fetch  # type: ignore[assignment,method-assign]
