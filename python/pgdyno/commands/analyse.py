"""`pgdyno analyse`: steadiness, dips, scalability and price of a run."""

from __future__ import annotations

import json as json_module
import tomllib
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console

from pgdyno.analyse.price import PriceList
from pgdyno.errors import UsageError
from pgdyno.records.price import latency_limit
from pgdyno.report.analysis import analyse_run, analysis_json, analysis_lines
from pgdyno.report.digest import digest
from pgdyno.report.published_lines import published_lines
from pgdyno.store import find_run, load_run


def analyse_stored(run: str, runs: Path, price: Path | None, latency: str | None, *, json: bool) -> None:
    """Prints the analysis. Raises StoreError and UsageError."""
    prices = None if price is None else read_prices(price)
    try:
        limit = None if latency is None else latency_limit(latency)
    except ValueError as error:
        raise UsageError(f"--latency: {error}") from error
    data = load_run(find_run(run, runs))
    found = analyse_run(data, prices, limit)
    if json:
        print(json_module.dumps(analysis_json(found), indent=2))
        return
    console = Console(highlight=False)
    for line in [*analysis_lines(found), *published_lines(digest(data))]:
        console.print(line, markup=False)


def read_prices(path: Path) -> PriceList:
    """The price list in a TOML file. Raises UsageError with every mistake in it."""
    try:
        return PriceList.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no TOML: {error}") from error
    except ValidationError as error:
        mistakes = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise UsageError(f"{path}: {mistakes}", hint="docs/reference/price.md has an example") from error
