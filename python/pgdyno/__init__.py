"""pgdyno: a dynamometer for PostgreSQL.

`pgdyno.open("latest")` reads a run: its trials, seconds, histograms and series (`pgdyno.api`).
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgdyno.api import open_run

    open = open_run  # noqa: A001 - as zipfile and PIL call theirs

__version__: str


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a text or a function
    """Look up `__version__` and `open` on demand, because importing either takes longer than most commands."""
    if name == "open":
        from pgdyno.api import open_run

        return open_run
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("pgdyno")
    except PackageNotFoundError:  # in a checkout without an installed package
        return "0.0.0"
