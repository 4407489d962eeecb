"""Formats the help texts of commands."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand


class Command(TyperCommand):
    """Formats arguments as manual pages do, `PLAN` and `[RUN]...`; Typer would show Python types."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401 - of click, or of Typer's copy of it
        return ["[OPTIONS]", *(_in_usage(each) for each in self.get_params(ctx) if _is_argument(each))]

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - likewise
        for title, rows in self.tables(ctx):
            with formatter.section(title):
                formatter.write_dl(rows)

    def tables(self, ctx: Any) -> list[tuple[str, list[tuple[str, str]]]]:  # noqa: ANN401 - likewise
        arguments, options = [], []
        for each in self.get_params(ctx):
            shown = each.get_help_record(ctx)
            if shown is None:
                continue
            if _is_argument(each):
                arguments.append((str(each.metavar), shown[1].replace("  [required]", "")))
            else:
                options.append(shown)
        return [(title, rows) for title, rows in (("Arguments", arguments), ("Options", options)) if rows]


def _is_argument(each: Any) -> bool:  # noqa: ANN401 - a parameter of click's
    return bool(each.param_type_name == "argument")


def _in_usage(each: Any) -> str:  # noqa: ANN401 - likewise
    name = each.metavar if each.required else f"[{each.metavar}]"
    return name if each.nargs == 1 else f"{name}..."


def group(text: str) -> typer.Typer:
    return typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=text)
