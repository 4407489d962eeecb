"""The package's own price list, for machines that cannot ask Amazon: dated figures with their public sources."""

from __future__ import annotations

import tomllib
from datetime import date
from functools import cache
from importlib.resources import files

from pgdyno.targets.estimate import Origin, Rate

FILE = "list_prices.toml"


@cache
def list_prices() -> dict[str, Rate]:
    """All of it, by `Usage.key`; amounts in USD."""
    read = tomllib.loads((files("pgdyno.targets.aws") / FILE).read_text(encoding="utf-8"))
    found: dict[str, Rate] = {}
    for each in read["list"]:
        known: date = each["known"]
        for kind, amount in each["usd"].items():
            found[f"{each['region']} {each['engine']} {kind}"] = Rate(float(amount), known, Origin.PACKAGE)
    return found
