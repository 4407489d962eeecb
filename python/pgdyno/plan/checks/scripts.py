"""Checks of a workload: its dataset and its scripts, and the scripts of groups of clients."""

from collections.abc import Iterator, Sequence

from pgdyno.effect import BUILTIN_SCRIPTS
from pgdyno.errors import InvalidValueError, Problem
from pgdyno.mounts import exists, is_file, is_folder
from pgdyno.plan.checks.sections import Sections
from pgdyno.plan.checks.sweep import check_variables
from pgdyno.plan.own_data.psql_reader import SqlFileError
from pgdyno.plan.own_data.sql_dataset import SqlDataset, read_contents
from pgdyno.plan.plan_document import KeyPath, suggestion
from pgdyno.plan.reading.replayed_capture import read_captured
from pgdyno.plan.scenario.groups import has_trials
from pgdyno.plan.workload import ScriptChoice, parse_script
from pgdyno.plan.workload_schema import MOST_ROWS, SBTEST, Workload

DATASET = ("workload", "dataset")


def check_workload(plan: Sections) -> Iterator[Problem]:
    workload = plan.workload
    if workload is None:
        return
    yield from check_variables(("workload", "variables"), workload.variables, plan)
    yield from _size(workload, plan)
    if workload.own_data is not None:
        yield from _own_data(workload.own_data, plan)
    captured = plan.value_at(("workload", "captured"))
    try:
        if isinstance(captured, str):
            read_captured(plan.folder / captured)
    except InvalidValueError as error:
        yield plan.problem(("workload", "captured"), error.message, error.hint)
    yield from workload.check(plan.document)
    if workload.written_scripts:
        own = plan.value_at(("workload", "scripts"))
        others = [] if has_trials(plan.value_at(("group",))) else workload.written_scripts
        yield from check_scripts(("workload",), own if isinstance(own, list) else others, workload.dataset_name, plan)


def _size(workload: Workload, plan: Sections) -> Iterator[Problem]:
    """Yield keys of another dataset, and impossible sizes."""
    if workload.dataset == SBTEST:
        if plan.value_at(("workload", "scale")) is not None:
            message = "does not apply to sbtest, whose size is tables and table_size"
            yield plan.problem(("workload", "scale"), message, "set table_size, the rows of each table")
        if any((point.scale or 0) > MOST_ROWS for point in plan.points):
            message = f"scale sets the rows of each sbtest table, at most {MOST_ROWS:,}"
            yield plan.problem(("sweep", "scale"), message)
        return
    for name in ("tables", "table_size"):
        if plan.value_at(("workload", name)) is not None:
            message = f'is valid only with dataset = "sbtest", and dataset is {workload.dataset}'
            yield plan.problem(("workload", name), message, 'remove it, or set dataset = "sbtest"')


def _own_data(dataset: SqlDataset, plan: Sections) -> Iterator[Problem]:
    """Yield mistakes in the files, variables that no file uses, and sizes, which such a dataset does not have."""
    yield from check_variables((*DATASET, "variables"), dataset.variables, plan)
    for path in (("workload", "scale"), ("sweep", "scale")):
        if plan.value_at(path) is not None:
            message = f"does not apply to {dataset.name}, which SQL files make"
            yield plan.problem(path, message, "use a variable in dataset.variables")
    swept = [point.variables for point in plan.points]
    used: set[str] = set()
    for values in {tuple(dataset.values(each).items()): None for each in swept or [{}]}:
        try:
            used |= read_contents(dataset, plan.folder, dict(values)).used
        except SqlFileError as error:
            yield plan.problem((*DATASET, "sql"), str(error), error.hint)
            return
    for name in dataset.variables.keys() - used:
        hint = "remove it; variables of the scripts belong in workload.variables"
        yield plan.problem((*DATASET, "variables", name), "no file of the dataset uses it", hint)


def check_scripts(section: KeyPath, scripts: Sequence[str], dataset: str, plan: Sections) -> Iterator[Problem]:
    choices: list[ScriptChoice] = []
    key = "queries" if plan.value_at((*section, "queries")) is not None else "scripts"
    for place, text in enumerate(scripts):
        path = (*section, key, place)
        try:
            choice = parse_script(text)
        except ValueError as error:
            yield plan.problem(path, str(error), 'such as "select-only@3"')
            continue
        choices.append(choice)
        if not choice.builtin:
            yield from _script_file(choice.name, path, plan)
        elif dataset != "pgbench":
            message = f"{choice.name} needs pgbench's tables, but dataset is {dataset}"
            yield plan.problem(path, message, 'set dataset = "pgbench"')
    if scripts and len(choices) == len(scripts) and sum(choice.weight for choice in choices) == 0:
        yield plan.problem((*section, "scripts"), "no script has a weight above 0, so nothing would run")


def _script_file(name: str, path: KeyPath, plan: Sections) -> Iterator[Problem]:
    file = plan.folder / name
    if exists(file) and not is_file(file) and not is_folder(file):
        # reading a pipe would wait for its writer, and a second reader would find it empty
        yield plan.problem(path, f"{file} is not a regular file", "write the statements into a file")
        return
    try:
        text = file.read_text(encoding="utf-8")
        if text.startswith("\ufeff"):
            hint = "save it as UTF-8 without a byte order mark"
            yield plan.problem(path, f"{file} begins with a byte order mark, which the server would read", hint)
    except FileNotFoundError:
        listed = f"built-in scripts: {', '.join(BUILTIN_SCRIPTS)}"
        hint = listed if "/" in name else suggestion(name, BUILTIN_SCRIPTS, listed)
        yield plan.problem(path, f"{name} is neither a built-in script nor a file in {plan.folder}", hint)
    except UnicodeDecodeError as error:
        line = file.read_bytes().count(b"\n", 0, error.start) + 1
        yield plan.problem(path, f"{file} is not UTF-8 in line {line}", "save the file as UTF-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        yield plan.problem(path, f"cannot read the script {file}: {reason}")
    else:
        if not text.strip():
            yield plan.problem(path, f"the script {file} is empty")
