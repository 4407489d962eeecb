"""pgdyno: a dynamometer for PostgreSQL."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("pgdyno")
except PackageNotFoundError:  # run from a checkout that is not installed
    __version__ = "0.0.0"
