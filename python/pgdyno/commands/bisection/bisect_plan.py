"""The plan of a bisection: that of the user, or one with the scripts of the command line."""

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
    setup_dataset,
)
from pgdyno.plan.loaded_plan import load_text
from pgdyno.plan.plan_text import Table, plan_text


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
        table: Table = {"kind": "embedded", "version": "18"}
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
    workload: Table = {"scripts": script_entries(question, folder)}
    if asked.setup is not None:
        workload |= setup_dataset(question, [asked.setup], folder)
    else:
        workload["scale"] = asked.scale or (1 if counts else 10)
    tables: dict[str, Table] = {"target.server": table, "workload": workload}
    tables["target.server.settings"] = {name: value for name, (value,) in settings.items()}
    if counts:
        tables["sweep"] = {"clients": 1}
        tables["trial"] = {"measure": "instructions", "transactions": 40}
        tables |= {"reset": {"method": "snapshot"}, "probe": {"host": False, "waits_hz": 0}}
    else:
        tables["sweep"] = {"clients": asked.clients, **({} if asked.rate is None else {"rate": asked.rate})}
        tables["trial"] = {"warmup": asked.warmup, "duration": asked.duration}
    return plan_text("bisect", {"name": "bisect"}, tables)
