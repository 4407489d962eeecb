"""What the documentation shows can be used as it stands."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from pgdyno.plan import Plan, load_plan
from tests import commands_page

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def plans() -> list[tuple[str, str]]:
    blocks = [(page, re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)) for page in PAGES]
    return [(f"{page.name}-{number}", text) for page, texts in blocks for number, text in enumerate(texts)]


@pytest.mark.parametrize(("name", "text"), plans())
def test_a_plan_in_the_docs_is_one(name: str, text: str, tmp_path: Path) -> None:
    document = tomllib.loads(text)
    if "extends" in document:
        (tmp_path / "plan.toml").write_text(text)
        assert load_plan(tmp_path / "plan.toml").plan.points(), name
    elif "sweep" in document:
        assert Plan.model_validate(document).points(), name


def test_the_readme_has_a_plan() -> None:
    assert any(name.startswith("README.md") and "[sweep]" in text for name, text in plans())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)[^)]*\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_reference_has_every_command_as_its_help_has_it() -> None:
    written = (ROOT / "docs" / "reference" / "pgdyno.md").read_text()
    # else: python -m tests.commands_page > docs/reference/pgdyno.md
    assert written == commands_page.page()
