"""The folder of a model: an ordinary plan, its scripts, and the capture's facts."""

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path

from pgdyno.capture.folder import PLAN_FILE, copy_reset, copy_target, format_time, new_folder, toml_text, write_files
from pgdyno.plan.output.new import plan_name
from pgdyno.records.capture import CAPTURE_FILE, Capture
from pgdyno.safe_output import visible
from pgdyno.synthesise.modelled_load import Model
from pgdyno.synthesise.transactions import LeftTransactions

MOST_ERRORS = 1_000
WARMUP_S, DURATION_S = 5, 60


def write_model(folder: Path, model: Model) -> None:
    """Write a model; capture.json last: a folder with it is whole.

    Raises UsageError if `folder` exists and is not empty, StoreError.
    """
    new_folder(folder)
    files = {script.name: script.text for script in model.scripts}
    files[PLAN_FILE] = plan_text(folder.resolve().name, model)
    write_files(folder, files, model.capture)


def plan_text(name: str, model: Model) -> str:
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
description = {toml_text(f"A load like that of {_database(capture)} on {format_time(capture.began)}")}

# A server with a database like the captured one: the model writes. pgdyno refuses the database that was captured, if
# the capture knows its server: capture.json, server.
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

{copy_reset("the model")}

{"".join(_comment(text) + chr(10) for text in _left_out(model))}"""


def _left_out(model: Model) -> Iterator[str]:
    of = "time on the server" if any(each.total_us for each in model.capture.statements) else "statements"
    yield f"the scripts cover {100 * model.modelled:.1f} % of the {of}"
    for each in model.left:
        share = left_share(each, model.capture)
        yield f"left out: {each.count:,} transactions, {100 * share:.2f} % of the time: {each.reason.value}"
    yield from model.notes


def left_share(each: LeftTransactions, capture: Capture) -> float:
    """Return the part of the time that `each` has; 0 if the capture has no times."""
    total_us = sum(of.total_us or 0.0 for of in capture.statements)
    return each.us / total_us if total_us else 0.0


def _database(capture: Capture) -> str:
    return capture.database or "a server"


def _comment(text: str) -> str:
    sentence = f"{text[0].upper()}{text[1:]}."
    return "\n".join(textwrap.wrap(visible(sentence), 100, initial_indent="# ", subsequent_indent="# "))
