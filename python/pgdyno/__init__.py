"""pgdyno: a dynamometer for PostgreSQL."""

__version__: str


def __getattr__(name: str) -> str:
    """Looks up `__version__` on demand, because the look-up takes longer than most commands."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("pgdyno")
    except PackageNotFoundError:  # in a checkout without an installed package
        return "0.0.0"
