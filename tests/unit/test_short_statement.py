"""A statement in few characters: object-relational mappers name every column, and the tables must stay in sight."""

import pytest

from pgdyno.effect.short_statement import short_statement

COLUMNS = ", ".join(f'"api_check"."column_{number}"' for number in range(30))


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("SELECT 1", "SELECT 1"),
        ("SELECT a,\n  b FROM t", "SELECT a, b FROM t"),
        (f'SELECT {COLUMNS} FROM "api_check" WHERE "id" = $1', 'SELECT … FROM "api_check" WHERE "id" = $1'),
        (f'select distinct {COLUMNS}\nfrom "api_check"', 'select distinct … from "api_check"'),
        (f"SELECT {COLUMNS}, (SELECT max(x) FROM u WHERE y), extract(day FROM z) FROM v", "SELECT … FROM v"),
        (f"SELECT a FROM t WHERE x IN ({COLUMNS})", 'SELECT a FROM t WHERE x IN ("api_check"."column_0", "api_che…'),
        (f"INSERT INTO t ({COLUMNS}) SELECT 1 FROM u", 'INSERT INTO t ("api_check"."column_0", "api_check"."column…'),
        (f"SELECT {COLUMNS}", 'SELECT "api_check"."column_0", "api_check"."column_1", "api_…'),
    ],
)
def test_the_list_of_a_long_select_goes_first(text: str, short: str) -> None:
    assert len(short_statement(text, 60)) <= 60
    assert short_statement(text, 60)[:58] == short[:58]
