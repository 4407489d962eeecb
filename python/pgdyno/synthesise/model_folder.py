"""The folder of a model: an ordinary plan, its scripts, the capture's facts, and a README."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path

from pgdyno.capture.folder import PLAN_FILE, README_FILE, cell, copy_target, new_folder, toml_text, when
from pgdyno.plan.new import plan_name
from pgdyno.records.capture import CAPTURE_FILE, Capture, Values
from pgdyno.store.safe_files import replace_durably, storing
from pgdyno.synthesise.modelled_load import Model
from pgdyno.synthesise.transactions import LeftTransactions

MOST_ERRORS = 1_000
WARMUP_S, DURATION_S = 5, 60


def write_model(folder: Path, model: Model, source: Path) -> None:
    """Writes the model of the capture in `source`; capture.json last: a folder with it is whole.

    Raises UsageError if `folder` exists and is not empty, StoreError.
    """
    new_folder(folder)
    files = {script.name: script.text for script in model.scripts}
    files[PLAN_FILE] = plan_text(folder.resolve().name, model)
    files[README_FILE] = readme_text(model, source)
    files[CAPTURE_FILE] = model.capture.model_dump_json(indent=2)
    for name, text in files.items():
        with storing("write", folder / name):
            replace_durably(folder / name, text.encode("utf-8", "replace"))


def plan_text(name: str, model: Model) -> str:
    """Returns the plan that runs the model."""
    capture, arrivals = model.capture, model.arrivals
    scripts = "\n".join(
        f"    {json.dumps(f'{script.name}@{script.weight}')},  # {script.summary}" for script in model.scripts
    )
    if arrivals.rate is None:
        rate = "# rate = 100                   # in place of a closed loop: so many transactions a second"
    else:
        rate = f"rate = {arrivals.rate:g}"
    return f"""\
format = 1
name = {json.dumps(plan_name(name, "model"))}
description = {toml_text(f"A load like that of {_database(capture)} on {when(capture.began)}")}

# A server with a database like the captured one: the model writes. Never name the server that was captured.
{copy_target(capture)}

# The weight of each script is how often its transactions occurred in the capture.
[workload]
scripts = [
{scripts}
]
dataset = "none"
captured = "{CAPTURE_FILE}"        # reports compare the load with it

{_comment(arrivals.reason)}
# For a larger load, raise clients and rate together, or sweep them: rate = [100, 200, 400].
[sweep]
clients = {arrivals.clients}
protocol = "{model.protocol}"
{rate}

[trial]
warmup = "{WARMUP_S}s"
duration = "{DURATION_S}s"
# Drawn values may violate a constraint; more errors than this stop the trial:
max_errors = {MOST_ERRORS}

[reset]
method = "none"                  # restore the copy before each run: the model changes it
"""


def readme_text(model: Model, source: Path) -> str:
    """Returns what the model has, and what it leaves out."""
    return "\n".join([*_head(model, source), *_scripts(model), *_left_out(model), *_limits(model), ""])


def _head(model: Model, source: Path) -> Iterator[str]:
    capture = model.capture
    yield f"# Model of the load of {cell(_database(capture))}"
    yield ""
    of = "time on the server" if _has_times(capture) else "statements"
    yield (
        f"`pgdyno synthesise` made this plan from the capture {cell(source.name)} of {when(capture.began)}. Its "
        f"scripts stand for {model.modelled:.1%} of the {of}."
    )
    yield ""
    yield f"1. Name a server with a database like the captured one in `{PLAN_FILE}`: `dsn`. The model writes."
    yield f"2. `pgdyno run {PLAN_FILE}`"
    yield ""
    yield "The report begins with how like the capture the load was. Plan and scripts are ordinary ones: edit them."
    yield ""
    yield "## Arrivals"
    yield ""
    loop = "Closed loop" if model.arrivals.rate is None else "Open loop"
    yield f"{loop}: {model.arrivals.reason}."


def _scripts(model: Model) -> Iterator[str]:
    yield from ("", "## Scripts", "", "| script | captured |", "|---|---|")
    yield from (f"| [{script.name}]({script.name}) | {script.summary} |" for script in model.scripts)
    if model.notes:
        yield ""
        yield from (f"- {cell(note)}" for note in model.notes)


def _left_out(model: Model) -> Iterator[str]:
    if model.left:
        yield from ("", "## Left out", "", "| transactions | share of the time | why |", "|--:|--:|---|")
        yield from (
            f"| {each.count:,} | {left_share(each, model.capture):.2%} | {cell(each.reason.value)} |"
            for each in model.left
        )


def _limits(model: Model) -> Iterator[str]:
    yield from ("", "## What a model does not keep", "")
    yield "- The order of transactions, and what one transaction has to do with another."
    yield "- Which rows are hot: how unevenly they are used is kept where a comment says Zipf."
    yield "- Changes of the load over time: the rate is the mean of the capture."
    if model.capture.values is Values.ANONYMISED:
        yield "- Texts: the capture replaced them, so statements that look for text find no rows."


def left_share(each: LeftTransactions, capture: Capture) -> float:
    """Returns the part of the time that `each` has; 0 if the capture has no times."""
    total_us = sum(of.total_us or 0.0 for of in capture.statements)
    return each.us / total_us if total_us else 0.0


def _has_times(capture: Capture) -> bool:
    return any(each.total_us for each in capture.statements)


def _database(capture: Capture) -> str:
    return capture.database or "a server"


def _comment(text: str) -> str:
    sentence = f"{text[0].upper()}{text[1:]}."
    return "\n".join(textwrap.wrap(sentence, 100, initial_indent="# ", subsequent_indent="# "))
