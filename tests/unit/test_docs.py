"""The examples, links, commands and paths in the documentation are valid."""

import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import typer

import commands_page
import man_page
import messages_page
import pages
from pgdyno.cli import app
from pgdyno.plan import Plan, load_plan
from pgdyno.user_config import KEYS, read_config
from tests.unit.plan_sample import loaded
from tests.unit.test_plan_document import assert_kept, validator

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.fixture(scope="module")
def generated() -> dict[Path, str]:
    return {ROOT / "docs" / path: text for path, text in pages.pages().items()}


PLAN = re.compile(r'```toml(?: title="(\S+)")?\n(.*?)```', re.DOTALL)


def plans() -> list[tuple[str, str]]:
    blocks = [(page, PLAN.findall(page.read_text())) for page in PAGES]
    return [(f"{page.name}-{number}", text) for page, texts in blocks for number, (_, text) in enumerate(texts)]


@pytest.mark.parametrize(("name", "text"), plans())
def test_a_plan_in_the_docs_is_one(name: str, text: str, tmp_path: Path) -> None:
    page = next(each for each in PAGES if each.name == name.rpartition("-")[0])
    for title, other in PLAN.findall(page.read_text()):
        if title:
            (tmp_path / title).write_text(other)
    document = tomllib.loads(text)
    if "extends" in document or "sweep" in document:
        validator().validate(document)
    if "extends" in document:
        (tmp_path / "plan.toml").write_text(text)
        assert load_plan(tmp_path / "plan.toml").plan.points(), name
    elif "sweep" in document:
        plan = Plan.model_validate(document)
        assert plan.points(), name
        assert_kept(plan)


def test_the_first_plan_of_the_guide_to_tuning_has_no_warning(tmp_path: Path) -> None:
    assert loaded(tmp_path, dict(plans())["tune.md-0"]).warnings == []


def targets_of(text: str) -> list[str]:
    return re.findall(r"\]\((?!https?:|mailto:|#)([^)#]+)[^)]*\)", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings_that_exist(page: Path, generated: dict[Path, str]) -> None:
    text = page.read_text()
    linked = [(page.parent / target).resolve() for target in targets_of(text)]
    assert [str(path) for path in linked if not (path.exists() or path in generated)] == []
    for target, fragment in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", text):
        path = (page.parent / target).resolve() if target else page
        assert fragment in anchors(generated.get(path) or path.read_text()), f"{target}#{fragment}"
    # `make docs` ends at a link that leaves the site, or that leads to a folder; other files have addresses at GitHub
    outside = [str(path) for path in linked if not path.is_relative_to(ROOT / "docs") or path.is_dir()]
    assert page == PAGES[0] or outside == []


def test_the_site_has_every_page_and_stores_no_generated_one(generated: dict[Path, str]) -> None:
    named = re.findall(r"^ +- ([\w/.-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    stored = [page for page in [*PAGES[1:], *generated] if page.suffix == ".md"]
    assert sorted(named) == sorted(str(page.relative_to(ROOT / "docs")) for page in stored)
    assert [str(path) for path in generated if path.exists()] == []
    linked = {(path.parent / target).resolve() for path, text in generated.items() for target in targets_of(text)}
    assert len(linked) > 4
    assert [str(path) for path in linked if not (path.exists() or path in generated)] == []


PAPERS = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs" / "design").glob("*.md"))]
PACKAGE = ROOT / "python" / "pgdyno"
MADE = {"target", ".venv"}
"""Folders of what is built, which a clone lacks."""


@pytest.mark.parametrize("page", PAPERS, ids=lambda page: page.name)
def test_files_that_a_paper_names_exist(page: Path) -> None:
    folders = {root: {path.name for path in root.iterdir() if path.name not in MADE} for root in (ROOT, PACKAGE)}
    sources = [path for top in ("python", "crates", "tests", "fuzz") for path in (ROOT / top).rglob("*.*")]
    missing = []
    for name in re.findall(r"`([\w.*-]+(?:/[\w.*-]*)*)`", page.read_text()):
        first, slash, _ = name.partition("/")
        roots = [root for root, names in folders.items() if first in names]
        if slash and roots and not {"KIND", "PROVIDER"} & set(name.split("/")):
            exists = any(True for root in roots for _ in root.glob(name.rstrip("/")))
        elif not slash and re.search(r"\.(py|rs|sh)$", name) and page.name != "style.md":
            # style.md names files of other projects
            exists = (ROOT / name).exists() or any(path.name == name for path in sources)
        else:
            continue
        if not exists:
            missing.append(name)
    assert missing == []


def test_links_to_the_repository_lead_to_files_that_exist() -> None:
    form = re.compile(r"\(https://github\.com/pgdyno/pgdyno/blob/main/([^)#]+)\)")
    named = {path for page in PAGES for path in form.findall(page.read_text())}
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def anchors(text: str) -> set[str]:
    """The fragments that a link to a page may have, by GitHub's rule for headings."""
    titles = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    ids = re.findall(r'<a id="([^"]+)">', text)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles} | set(ids)


def test_the_references_have_every_command_option_and_message_id(generated: dict[Path, str]) -> None:
    page, manual = commands_page.page(), man_page.page().replace("\\-", "-")
    for words, command in commands_page.commands(typer.main.get_command(app), ("pgdyno",)):
        name = " ".join(words)
        section = page.partition(f"\n`{name}")[2].partition("\n## ")[0]
        described = manual.partition(f'\n.SH "{name}"\n')[2].partition("\n.SH ")[0]
        options = {option for each in command.params for option in each.opts if option.startswith("--")} - {"--help"}
        assert [each for each in options if each not in section or each not in described] == [], name
    listed = set(re.findall(r"^\| `([\w-]+)` \|", generated[ROOT / "docs/reference/messages.md"], re.MULTILINE))
    assert listed == {entry.id for entry in messages_page.entries()}
    assert len(listed) > 300


def test_the_manual_page_of_a_wheel_explains_exit_codes(tmp_path: Path, generated: dict[Path, str]) -> None:
    pages.write(tmp_path)
    assert {path.name for path in (tmp_path / "doc").iterdir()} == {path.name for path in generated}
    assert (tmp_path / "man" / "pgdyno.1").read_text().startswith(".TH PGDYNO 1\n")
    page = man_page.page()
    for line in (
        ".B 9\na check of `pgdyno doctor` says stop, or a run did not start because of it\n",
        ".B 143\nSIGTERM; likewise\n",
        ".SH ENVIRONMENT\n.TP\n.B PGDYNO_RUNS\nthe folder of runs, as `\\-\\-runs`; default: ",
        ".B NO_COLOR, COLUMNS\nno colours; the width of tables; default: the terminal's\n",
        "libpq's other variables\ncomplete a connection string, as for psql\n",
    ):
        assert line in page


def test_the_page_of_the_environment_has_every_variable_and_the_keys_of_the_configuration_file(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "reference" / "environment.md").read_text()
    source = "".join(file.read_text() for file in (ROOT / "python").rglob("*.py"))
    # of a trial, hooks get its fields by their names
    of_trials = {"PGDYNO_TRIAL", "PGDYNO_TRIAL_NAME", "PGDYNO_TRIAL_DIR", "PGDYNO_TARGET", "PGDYNO_REPEAT"}
    page, named = (set(re.findall(r"PGDYNO_[A-Z_]+", each)) for each in (text, source))
    assert page - {"PGDYNO_CLIENTS", "PGDYNO_SETTINGS_WORK_MEM"} == named | of_trials
    (tmp_path / "config.toml").write_text(re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[0])
    assert read_config(tmp_path / "config.toml").keys() == KEYS.keys()


def typed() -> list[tuple[str, str]]:
    form = re.compile(r"(?<![\w/.-])pgdyno (?:[a-z]|--)[^`\n]*")
    found = []
    for page in PAGES:
        text = page.read_text()
        code = re.findall(r"^```(?:sh|console|)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        code += re.findall(r"`([^`\n]+)`", text)
        found += [(page.name, call) for each in code for call in form.findall(each)]
    return found


def test_every_command_in_the_docs_has_valid_options() -> None:
    known = {
        " ".join(words[1:]): {option for each in command.params for option in each.opts}
        for words, command in commands_page.commands(typer.main.get_command(app), ("pgdyno",))
    }
    wrong = []
    for page, call in typed():
        words = call.split("#")[0].replace("[", " ").replace("]", " ").split()[1:]
        name = next((" ".join(words[:many]) for many in (2, 1) if " ".join(words[:many]) in known), None)
        options = {re.split("[=,;.:)]", word)[0] for word in words if re.match("--?[a-z]", word)}
        if name is None:
            wrong += [(page, call)] if options - {"--version", "--help", "--install-completion"} else []
        elif options - known[name] - {"--help"}:
            wrong.append((page, call))
    assert wrong == []
    assert len(typed()) > 100


def test_the_page_of_the_analysis_names_functions_that_exist() -> None:
    page = (ROOT / "docs" / "reference" / "analysis.md").read_text()
    named = [
        name
        for row in re.findall(r"^\| [^|]+ \| ([^|]+) \| [^|]+ \|$", page, re.MULTILINE)
        for name in re.findall(r"`([a-z_]+(?:\.[a-z_]+)*\.[A-Za-z_]+)`", row)
    ]
    assert len(named) > 15
    for name in named:
        module, _, function = name.rpartition(".")
        assert hasattr(import_module(f"pgdyno.analyse.{module}"), function), name


def test_programs_in_the_docs_import_what_exists() -> None:
    texts = [each.read_text() for each in (ROOT / "docs").rglob("*.md")]
    lines = [line for text in texts for line in re.findall(r"^from (pgdyno[.\w]*) import (.+)$", text, re.MULTILINE)]
    assert len(lines) >= 3
    missing = [(module, name) for module, names in lines for name in names.split(", ")
               if not hasattr(import_module(module), name)]  # fmt: skip
    assert missing == []
