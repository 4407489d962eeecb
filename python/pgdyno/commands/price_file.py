"""`--price FILE`: reads the price of each target and reports all mistakes at once."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from pgdyno.errors import UsageError
from pgdyno.plan.lines import dotted, key_lines
from pgdyno.records.price import PriceList


def read_prices(path: Path) -> PriceList:
    """Reads a price list from a TOML file. Raises UsageError with all mistakes in it."""
    try:
        text = path.read_text(encoding="utf-8")
        return PriceList.model_validate(tomllib.loads(text))
    except OSError as error:
        raise UsageError(f"cannot read the prices in {path}: {(error.strerror or '').lower()}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from error
    except ValidationError as error:
        lines = key_lines(text)
        mistakes = "; ".join(_mistake(lines, each["loc"], each["type"], each["msg"]) for each in error.errors())
        raise UsageError(
            f"{path} is not a price list: {mistakes}", hint="see the example in docs/reference/price.md"
        ) from error


_SAID = {"missing": "is missing", "extra_forbidden": "unknown key"}


def _mistake(lines: Mapping[tuple[str | int, ...], int], at: tuple[str | int, ...], kind: str, message: str) -> str:
    where = f"line {lines[at]}: " if at in lines else ""
    message = message.removeprefix("Value error, ")
    return f"{where}{dotted(at)}: {_SAID.get(kind, message[:1].lower() + message[1:])}"
