"""The plan of a bisection: that of the user, or one with the scripts of the command line."""

from __future__ import annotations

from pathlib import Path

from pgdyno.bisection.journal import Asked
from pgdyno.commands.comparison.count_plan import FIXED
from pgdyno.errors import PlanError, UsageError
from pgdyno.plan import LoadedPlan, load_plan
from pgdyno.plan.ab_plan import (
    Question,
    check_encoding,
    in_options,
    number_of_pairs,
    script_entries,
    server_tables,
    setting_values,
    setup_line,
    table_lines,
    toml_key,
    toml_list,
    toml_text,
)
from pgdyno.plan.loaded_plan import load_text


def load_asked(asked: Asked, good: str, *, is_server: bool) -> LoadedPlan:
    """Return the plan, whose target stands for any commit, such as `good`. Raises UsageError or PlanError."""
    number_of_pairs(Question(pairs=asked.pairs))
    if asked.plan is not None:
        return load_plan(asked.plan, asked.overrides)
    folder = Path.cwd()
    try:
        return load_text(_text(asked, good, folder, is_server=is_server), folder, "bisect")
    except PlanError as error:
        raise in_options(error) or error from None


def _text(asked: Asked, good: str, folder: Path, *, is_server: bool) -> str:
    counts = asked.by == "instructions"
    question = Question(
        versions=[asked.version] if asked.version else [],
        bins=[asked.bin] if asked.bin else [],
        settings=asked.settings,
        scripts=asked.scripts,
    )
    check_encoding(question)
    if asked.build is not None:
        table: dict[str, object] = {"kind": "embedded", "version": "18"}
    elif is_server:
        table = {"kind": "build", "source": asked.repo, "commit": good, "configure": asked.configure}
    elif not (asked.bin or asked.version):
        raise UsageError(
            f"{asked.repo} is not PostgreSQL's source, and no server is named for which to build it",
            hint="an extension needs --bin FOLDER with pg_config; any other repository --build COMMAND",
        )
    else:
        (table,) = server_tables(question).values()
    settings = setting_values(asked.settings)
    several = [name for name, values in settings.items() if len(values) > 1]
    if several:
        raise UsageError(f"--set {several[0]} has several values", hint="every commit is measured with one")
    if counts:
        settings = {name: [value] for name, value in FIXED.items()} | settings
    lines = ["# written by pgdyno bisect", 'name = "bisect"', "", "[target.server]", *table_lines(table)]
    lines += ["", "[target.server.settings]"] if settings else []
    lines += [f"{toml_key(name)} = {toml_text(value)}" for name, (value,) in settings.items()]
    lines += ["", "[workload]", f"scripts = {toml_list(script_entries(question, folder))}"]
    if asked.setup is not None:
        lines.append(setup_line(question, [asked.setup], folder))
    else:
        lines.append(f"scale = {asked.scale or (1 if counts else 10)}")
    if counts:
        lines += ["", "[sweep]", "clients = 1", "", "[trial]", 'measure = "instructions"', "transactions = 40"]
        lines += ["", "[reset]", 'method = "snapshot"', "", "[probe]", "host = false", "waits_hz = 0"]
        return "\n".join(lines) + "\n"
    lines += ["", "[sweep]", f"clients = {asked.clients}"]
    lines += [] if asked.rate is None else [f"rate = {asked.rate!r}"]
    lines += ["", "[trial]", f"warmup = {toml_text(asked.warmup)}", f"duration = {toml_text(asked.duration)}"]
    return "\n".join(lines) + "\n"
