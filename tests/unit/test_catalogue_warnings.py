"""Plans of the catalogue, also those on rented servers, cause no warnings."""

import pytest

from pgdyno.plan import catalogue
from tests.unit.test_plan_problems import warned


@pytest.mark.parametrize("name", [entry.name for entry in catalogue()])
def test_no_plan_of_the_catalogue_warns_about_itself(name: str) -> None:
    assert warned(name) == []
