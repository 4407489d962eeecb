"""pgdyno: a dynamometer for PostgreSQL."""

__version__: str


def __getattr__(name: str) -> str:
    """`__version__`, looked up when it is asked for: that takes longer than to start most commands."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("pgdyno")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "0.0.0"
