"""Set-up: the machine, servers, differences between targets, the plan, and the raw data."""

from collections.abc import Iterator

from markupsafe import Markup

from pgdyno.records.secret_values import masked_plan
from pgdyno.report.plan_toml import plan_toml
from pgdyno.report.run_notes import disturbance_lines, preparation_line, search_lines
from pgdyno.report.sections.draft import Draft, Section
from pgdyno.report.sections.environment import (
    asked_differences,
    environment_table,
    generator_table,
    host_facts,
    server_table,
    settings_tables,
)
from pgdyno.report.sections.section_blocks import Absence, Block, Code, Facts, Folded, Heading, Items, markup
from pgdyno.report.translation import gettext, gettext_noop, sentence
from pgdyno.store.duckdb_session import reading_below


def _blocks(draft: Draft) -> list[Block]:
    of, extras, targets = draft.of, draft.extras, draft.of.manifest.targets
    if draft.brief:
        return _event_blocks(draft)
    generators = generator_table(of)
    differing, settings = settings_tables(targets, extras.alike_settings)
    differences = (environment_table(extras.differences), differing, asked_differences(targets))
    tables = [each for each in differences if each is not None]
    if len(targets) > 1:
        absence = Absence(gettext("No other differences between the targets are known."))
    else:
        absence = Absence(gettext("One target: nothing differs."))
    return [
        Heading(gettext("Environment"), "environment"),
        Facts(host_facts(of)),
        server_table(targets),
        *([generators] if generators is not None else []),
        *([Heading(gettext("Differences"), "differences"), *tables] if tables else [absence]),
        *([Folded(gettext("All settings that are not the default"), [settings])] if settings is not None else []),
        *_plan(draft),
        *_raw_data(draft.location),
    ]


def _plan(draft: Draft) -> Iterator[Block]:
    manifest = draft.of.manifest
    yield Heading(gettext("Plan"), "plan")
    if manifest.imported is not None:
        files = ", ".join(each.path for each in manifest.imported.files)
        yield markup("There was none: the figures were imported from {files}.", files=files)
    else:
        text = _description_text(manifest.plan.get("description"))
        source = markup("As resolved: every default filled in. Its source was {file}.", file=str(manifest.plan_source))
        yield Markup("{} {}").format(text, source) if text else source
    yield from _event_blocks(draft)
    if manifest.imported is None:
        title = gettext("Plan as TOML")
        blocks: list[Block] = [
            Code(plan_toml(masked_plan(manifest.plan)), title),
            markup("Save the plan above as {file}, then:", file="plan.toml"),
            Code("pgdyno plan check plan.toml\npgdyno run plan.toml", gettext("Commands")),
        ]
        yield Folded(title, blocks)


def _event_blocks(draft: Draft) -> list[Block]:
    trials = draft.of.run.trials
    # the answer of a short report has the result of a search
    lines = [] if draft.brief else search_lines(draft.of.manifest)
    lines += [*disturbance_lines(trials), *filter(None, [preparation_line(trials)])]
    return [Items([sentence(line) for line in lines], "notes")] if lines else []


def _description_text(text: str | None) -> str:
    return "" if not text else text if text.endswith((".", "?", "!")) else f"{text}."


def _raw_data(location: str) -> Iterator[Block]:
    yield Heading(gettext("Raw data"), "raw")
    yield markup(
        "Every figure here comes from the run folder {folder}: records as JSON, tables as Parquet, latency histograms "
        "as HDR blobs. DuckDB reads it as it stands:",
        folder=location,
    )
    query = (
        "SELECT trial, second, sum(succeeded) AS succeeded\n"
        f"FROM {reading_below(location, 'trials/*/intervals.parquet')}\n"
        "GROUP BY ALL ORDER BY ALL;"
    )
    yield Code(query, gettext("Query"))


SECTION = Section("setup", gettext_noop("Set-up"), _blocks)
