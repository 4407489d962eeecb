"""One question that options ask: its plan is run, and its answer ends the output or is a line of JSON."""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.text import Text

from pgdyno.commands.support.carry_out import How, carry_out, check_folder, check_reports, experiment_of
from pgdyno.console import Console
from pgdyno.errors import PlanError, StoreError, UsageError
from pgdyno.experiment import Finished
from pgdyno.mounts import exists, is_file
from pgdyno.plan import load_plan
from pgdyno.plan.ab_plan import in_options
from pgdyno.plan.loaded_plan import load_text
from pgdyno.report.terminal.text_drawing import printable
from pgdyno.safe_output import print_json
from pgdyno.targets import Use


def measure_plan(
    name: str, write: Callable[[Path], str], how: How, agree: Callable[[], None] | None = None
) -> Finished:
    """Run the plan that `write` makes for a folder, once `agree` does not refuse; keep it in the file of --save.

    Raises PgdynoError.
    """
    folder = Path.cwd() if how.save is None else how.save.resolve().parent
    text = write(folder)
    try:
        loaded = load_text(text, folder, name)
        check_folder(how.runs)
        check_reports(how.output)
        if agree is not None:
            agree()
        if how.save is not None:
            save_plan(how.save, text)
            loaded = load_plan(how.save)
        return carry_out(how.output, Use(loaded.plan.name, how.when_busy), experiment_of(loaded, how))
    except PlanError as error:
        raise in_options(error) or error from None


def save_plan(save: Path, text: str) -> None:
    """Write the plan of --save. Raises UsageError for a file with another plan, StoreError."""
    # the same question again, after a server that refused the connection
    if is_file(save) and not is_text(save, text):
        hint = f"run it: pgdyno run {shlex.quote(str(save))}; or give another name to --save"
        raise UsageError(f"{save} already exists, with another plan", hint=hint)
    if exists(save) and not is_file(save):
        raise UsageError(f"cannot write {save}: it is not a regular file", hint="give another name to --save")
    write_plan(save, text)


def is_text(file: Path, text: str) -> bool:
    try:
        return file.read_bytes() == text.encode()
    except OSError:
        return False


def write_plan(save: Path, text: str) -> None:
    """Write the plan. Raises StoreError."""
    try:
        save.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot write {save}: {(error.strerror or str(error)).lower()}") from error


def failures_of(finished: Finished) -> list[tuple[str, str | None]]:
    """Return message and hint of each different failure."""
    found = [record.failure for record in finished.failed if record.failure is not None]
    return list(dict.fromkeys((each.message, each.hint) for each in found))


def answer_json(finished: Finished, answer: Sequence[str], **details: object) -> None:
    """Print the answer as one line of JSON, with what every question has."""
    failures = [{"message": message, "hint": hint} for message, hint in failures_of(finished)]
    found = {"run": str(finished.folder.path), "trials": len(finished.records), "failed": len(finished.failed)}
    print_json({**found, "failures": failures, **details, "answer": answer})


def failure_lines(finished: Finished, hints: Sequence[str] | None = None) -> list[str]:
    """Return why trials failed, and what to do: `hints`, or those of the failures."""
    failures = failures_of(finished)
    remedies = [hint for _, hint in failures if hint] if hints is None else hints
    return [*(f"failed: {message}" for message, _ in failures), *(f"hint: {hint}" for hint in remedies)]


def print_end(before: Sequence[str], answer: Sequence[str], console: Console) -> None:
    """Print lines, and the answer in bold as the last ones."""
    for line in before:
        console.print(Text(printable(line)), soft_wrap=True)
    for line in answer:
        console.print(Text(printable(line), "bold"), soft_wrap=True)
