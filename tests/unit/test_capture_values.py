"""Values in statements: what a capture replaces, keeps and leaves out."""

import json
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgdyno.capture.parser import require_parser
from pgdyno.capture.sql_constants import MARK, SPLIT, TOKENS
from pgdyno.errors import UsageError
from pgdyno.records.capture import STATEMENTS_FILE, Values
from tests.unit.capture_log_sample import Captured, Entry, captured, error

pytestmark = pytest.mark.slow


def anonymised(folder: Path, *log: str | Entry) -> Captured:
    return captured(folder, log, values=Values.ANONYMISED)


def execute(sql: str, parameters: str) -> Entry:
    return Entry(f"duration: 1.0 ms  execute a: {sql}", f"Parameters: {parameters}")


def test_text_is_replaced_and_all_else_stays(tmp_path: Path) -> None:
    found = anonymised(
        tmp_path,
        "SELECT * FROM \"people's\" WHERE name = 'Erika' AND born > '1990-01-01' AND id = '42' AND x = 17.5",
        execute("SELECT $1, $2, $3", "$1 = 'Erika', $2 = '7', $3 = NULL"),
        "SELECT 'Erika''s', E'Erika\\n', 'Otto '",
        # as a name, and as comments
        execute("SELECT $1, $2, $3", """$1 = '"Mustermann"', $2 = '-- Mustermann', $3 = '/* Mustermann */'"""),
        "SELECT a FROM t WHERE b = 'x' -- one",
        "SELECT a FROM t WHERE b = 'yy'",
    )
    first, second, third, *_ = found.statements
    match = re.fullmatch(
        r"SELECT \* FROM \"people's\" WHERE name = '([A-Z][a-z]{4})' AND born > '1990-01-01' AND id = '42'"
        r" AND x = 17\.5",
        first["sql"],
    )
    assert match is not None
    assert second["parameters"] == [match[1], "7", None]
    assert re.fullmatch(r"SELECT '[A-Z][a-z]{4}''[a-z]', E'[A-Z][a-z]{4}\n', '[A-Z][a-z]{3} '", third["sql"])
    assert found.capture.values is Values.ANONYMISED
    assert "Mustermann" not in str(found.rows)
    # statements stay of one class
    assert [each.calls for each in found.capture.statements if "FROM t" in each.text] == [2]


def test_nothing_that_was_replaced_is_in_the_folder(tmp_path: Path) -> None:
    secret = "Mustermannhausen"
    found = anonymised(
        tmp_path,
        f"SELECT '{secret}' -- {secret}",
        f"/* {secret} */ SELECT a FROM t /* {secret}\n*/",
        error(f"SELEKT '{secret}'", "42601"),
        f"SELECT $${secret}$$",
        f"DO 'BEGIN {secret}; END'",
        f"SELECT 'a\\'{secret}'",
        f"SELECT '{secret}",
        f"SELECT '{json.dumps({'name': secret})}'::jsonb",
        execute("SELECT $1", f"$1 = '{secret}'"),
        Entry("duration: 1.0 ms  bind a: SELECT $1", f"Parameters: $1 = '{secret}'"),
        error("SELECT $1", "22012"),
    )
    assert secret not in found.capture.model_dump_json()
    assert secret not in str(found.rows)
    assert secret.encode() not in (tmp_path / "capture" / STATEMENTS_FILE).read_bytes()
    assert found.left_out["code"][0] == 2
    assert found.texts[:2] == [found.texts[0], "  SELECT a FROM t  "]


@pytest.mark.parametrize(
    ("log", "texts", "left_out"),
    [
        (
            ["SELECT 1", "DO $$BEGIN END$$",
             "CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'", "SELECT 'it\\'s'",
             "SELECT /* a /* b */ c */ 1"],
            ["SELECT 1"],
            {"code": (2, "2"), "not-anonymised": (2, "4")},
        ),
        (
            ["SELECT 1", "SELECT $é$Mustermann$é$", "SELECT $größe_1$Muster$$mann$größe_1$", "SELECT $é$Mustermann"],
            ["SELECT 1"],
            {"code": (3, "2")},
        ),
        # nothing recognises these
        (
            ["SELECT a$b", "SELECT $a Mustermann", "SELECT 4111111111111111x", "SELECT a + $"],
            ["SELECT a$b"],
            {"not-anonymised": (3, "2")},
        ),
    ],
    ids=["code", "dollar quotes", "unknown"],
)  # fmt: skip
def test_statements_that_cannot_be_anonymised_are_counted(
    log: list[str], texts: list[str], left_out: dict[str, tuple[int, str]], tmp_path: Path
) -> None:
    found = anonymised(tmp_path, *log)
    assert (found.texts, found.left_out) == (texts, left_out)


CREDENTIALS = [
    "CREATE ROLE a PASSWORD 'geheim'",
    "ALTER USER a WITH ENCRYPTED PASSWORD 'md5abc'",
    "SELECT 1; alter role a password 'geheim'",
    "CREATE SUBSCRIPTION s CONNECTION 'host=a password=geheim' PUBLICATION p",
    "CREATE SERVER s FOREIGN DATA WRAPPER f OPTIONS (password 'geheim')",
    "CREATE USER MAPPING FOR a SERVER s OPTIONS (user 'a', password 'geheim')",
    "SELECT * FROM dblink('host=a password=geheim', 'SELECT 1')",
    "SELECT dblink_connect('postgresql://a:geheim@host/db')",
    "SELECT dblink_connect('host=a oauth_client_secret=geheim')",
    "SELECT dblink_connect($$host=a oauth_client_secret = geheim$$)",
    "DO $$BEGIN PERFORM dblink('password=geheim'); END$$",
    "DO $$BEGIN CREATE ROLE a PASSWORD 'geheim'; END$$",
    "DO $é$BEGIN EXECUTE 'alter user a with password ' || quote_literal('geheim'); END$é$",
    "DO $a$BEGIN PERFORM dblink($b$password=geheim$b$); END$a$",
    "DO $$BEGIN CREATE SERVER s FOREIGN DATA WRAPPER f OPTIONS (token 'geheim'); END$$",
    "DO 'BEGIN CREATE ROLE a PASSWORD ''geheim''; END'",
    "SELECT dblink_connect($$host=a password=geheim$$)",
    "SELECT dblink_connect($x$postgresql://a:geheim@host/db$x$)",
    "SELECT dblink_connect($x$host=a password=geheim",
    "SELECT dblink_exec('c', 'ALTER ROLE a PASSWORD ''geheim''')",
    "SELECT dblink_exec('c', E'ALTER ROLE a PASSWORD \\'geheim\\'')",
    "SELECT dblink_exec('c', $$CREATE USER MAPPING FOR a SERVER s OPTIONS (user 'a', password 'geheim')$$)",
    "CREATE SUBSCRIPTION s CONNECTION $$host=a password=geheim$$ PUBLICATION p",
    "SELECT 1 -- postgresql://a:geheim@host/db",
    "CREATE/**/SERVER s FOREIGN DATA WRAPPER f OPTIONS (token 'geheim')",
]


@pytest.mark.parametrize("values", [Values.KEPT, Values.ANONYMISED])
def test_credentials_are_left_out_even_when_values_are_kept(values: Values, tmp_path: Path) -> None:
    log = [
        *CREDENTIALS,
        error("ALTER USER a PASSWORD 'geheim'", "42704"),
        execute("SELECT dblink($1, 'x')", "$1 = 'password=geheim'"),
        execute("SELECT dblink_exec('x', $1)", "$1 = 'ALTER ROLE a PASSWORD ''geheim'''"),
        "SELECT password FROM users WHERE password = 'a'",
    ]
    found = captured(tmp_path, log, values=values)
    assert len(found.texts) == 1
    assert "geheim" not in str(found.rows) + found.capture.model_dump_json()
    assert found.left_out["credentials"] == (len(CREDENTIALS) + 3, "1")


def test_statements_about_passwords_stay_when_values_are_kept(tmp_path: Path) -> None:
    log = [
        "SELECT 1 FROM c WHERE name = 'password' AND options = '$1'",
        "UPDATE users SET password = '$argon2id$v=19$m=65536$abc'",
        "SELECT $$a text$$, 'with a password'",
        "INSERT INTO task VALUES ('Create user groups')",
    ]
    given = execute("SELECT $1, $2", "$1 = 'password', $2 = 'options'")
    assert captured(tmp_path, [*log, given]).texts == [*log, "SELECT $1, $2"]


def test_copy_of_the_client_and_of_files_is_left_out(tmp_path: Path) -> None:
    log = [
        "COPY t (a, b) FROM STDIN",
        "COPY t FROM '/tmp/x'",
        "COPY t TO PROGRAM 'curl -u a:geheim http://x'",
        "BEGIN; /* all */ COPY t FROM STDIN",
        "COPY (SELECT 1) TO STDOUT",
        # a column and a table of these names
        "SELECT copy FROM stdin",
    ]
    found = captured(tmp_path, log)
    assert (found.texts, found.left_out) == (log[4:], {"copy-data": (2, "1"), "copy-file": (2, "2")})


def test_constants_that_are_no_data_stay(tmp_path: Path) -> None:
    statements = [
        "SET search_path = 'app', 'public'",
        "SET LOCAL TIME ZONE 'Europe/Berlin'",
        "SET SESSION search_path TO 'app'",
        "set  local\n lock_timeout = '5s'",
        "SET work_mem = '4MB';",
        "SELECT nextval('orders_id_seq'), 'orders'::regclass, d -> 'key' ->> 'other'",
        "SELECT date_trunc('fortnight', now()) AT TIME ZONE 'Europe/Berlin', now() - INTERVAL 'P1D'",
        "SELECT set_config('app.tenant', '17', true), current_setting('app.tenant')",
    ]
    assert anonymised(tmp_path, *statements).texts == statements


def test_values_of_other_settings_are_replaced(tmp_path: Path) -> None:
    statements = [
        "SET LOCAL app.mail = 'alice@x.com'",
        "SET SESSION app.mail = 'alice@x.com'",
        "SET  app.mail = 'alice@x.com'",
        "SET\tLOCAL  app.mail TO 'alice@x.com'",
        "SET app . mail = 'alice@x.com'",
        "SET LOCAL/**/app/**/.mail = 'alice@x.com'",
        'SET "app"."mail" = \'alice@x.com\'',
        "SET app.\"mail\" = 'alice@x.com'",
        "SET \"app.mail\" = 'alice@x.com'",
        "SET U&\"app\".mail = 'alice@x.com'",
        "SET app$x.mail = 'alice@x.com'",
        "SET größe€.mail = 'alice@x.com'",
        "SET local.mail = 'alice@x.com'",
        "SET SESSION session.mail = 'alice@x.com'",
        "SET ROLE 'alice'",
        "SET LOCAL role TO 'alice'",
        "SET SESSION AUTHORIZATION 'alice'",
        "SET session_authorization = 'alice'",
        "SET application_name = 'alice@x.com'",
        "ALTER DATABASE d SET app.mail = 'alice@x.com'",
        "ALTER DATABASE d SET application_name = 'alice@x.com'",
        "SELECT set_config('app.mail', 'alice@x.com', true)",
        "BEGIN; SET LOCAL app.mail = 'alice@x.com'",
        "SET statement_timeout = 0; INSERT INTO t VALUES ('alice@x.com')",
        "SET search_path = 'app'; SET LOCAL app.mail = 'alice@x.com'",
        "RESET app.mail; SELECT 'alice@x.com'",
        "SHOW search_path; SELECT 'alice@x.com'",
    ]
    form = "SET search_path = 'app', 'public'; SELECT 'alice', nextval('a')"
    *found, last = anonymised(tmp_path, *statements, form).texts
    assert len(found) == len(statements)
    assert [text for text in found if "alice" in text] == []
    assert re.fullmatch(r"SET LOCAL app\.mail = '[a-z]{5}@[a-z]\.[a-z]{3}'", found[0])
    assert re.fullmatch(r"SET search_path = 'app', 'public'; SELECT '[a-z]{5}', nextval\('a'\)", last)


def test_dollars_within_quotes_are_text(tmp_path: Path) -> None:
    found = anonymised(
        tmp_path,
        "UPDATE u SET p = 'argon2$argon2id$v=19$salz' WHERE name = '$$'",
        "SELECT 'Mustermann$a$', $a$Mustermann$a$",
        "SELECT 1 -- $Mustermann$",
    )
    assert re.fullmatch(r"UPDATE u SET p = '[a-z]{5}\d\$[a-z]{5}\d[a-z]{2}\$[a-z]=\d\d\$[a-z]{4}' .*", found.texts[0])
    assert len(found.texts) == 2
    assert found.left_out == {"code": (1, "2")}
    assert "Mustermann" not in str(found.rows)


def test_constants_that_go_on_after_a_backslash_are_left_out(tmp_path: Path) -> None:
    ends = ("-- it's", "/* it's */", """AS "it's" """)
    found = anonymised(
        tmp_path,
        *(rf"SELECT 'O\'Mustermann' {each}" for each in ends),
        *(rf"SELECT 'a' LIKE 'b' ESCAPE '\' {each}" for each in ends),
    )
    assert [text[:8] for text in found.texts] == ["SELECT '"] * 3
    assert found.left_out == {"not-anonymised": (3, "1")}


def test_constants_after_operators_that_end_like_those_of_json_are_data(tmp_path: Path) -> None:
    operators = ("<->", "<<->", "<->>", "@->", "##>")
    log = (f"SELECT a->'key' FROM t ORDER BY a {operator} 'Mustermann'" for operator in operators)
    texts = anonymised(tmp_path, *log).texts
    assert [("'key'" in text, "Mustermann" in text) for text in texts] == [(True, False)] * len(operators)


def test_parameters_that_are_no_data_stay(tmp_path: Path) -> None:
    query = "SELECT set_config($1, $2, $3), nextval( $4 ), a->$5, $6::regclass, a <-> $7, $10"
    values = ["app.user", "Mustermann", "true", "orders_id", "street", "orders", "Muster", "8", "9", "Erika"]
    detail = ", ".join(f"${number} = '{value}'" for number, value in enumerate(values, 1))
    (row,) = anonymised(tmp_path, execute(query, detail)).statements
    same = [found == value for found, value in zip(row["parameters"], values, strict=True)]
    assert same == [True, False, True, True, True, True, False, True, True, False]


def test_large_numbers_are_replaced_alike_wherever_they_stand(tmp_path: Path) -> None:
    card = 4111111111111111
    found = anonymised(
        tmp_path,
        f"SELECT a FROM t WHERE card = {card} AND b = 123456789 AND c > 0.1234567890123",
        f"SELECT a FROM t WHERE card = '{card}'",
        f"SELECT a FROM t WHERE card IN (-{card}, 4_111_111_111_111_111, {card:#x}, {card:#X}, .1234567890123)",
        f"""SELECT '{{"card": {card}, "{card}": [{card}, -{card}, 17.5]}}'::jsonb""",
        execute("SELECT $1", f"$1 = '{card}'"),
    )
    (number,) = found.statements[-1]["parameters"]
    assert re.fullmatch(r"4\d{15}", number)
    assert int(number) != card
    assert found.texts[:-1] == [
        f"SELECT a FROM t WHERE card = {number} AND b = 123456789 AND c > 0.1234567890123",
        f"SELECT a FROM t WHERE card = '{number}'",
        f"SELECT a FROM t WHERE card IN (-{number}, {number}, {number}, {number}, .1234567890123)",
        f"""SELECT '{{"card": {number}, "{card}": [{number}, -{number}, 17.5]}}'::jsonb""",
    ]


def test_comments_are_removed_but_hints_of_the_planner_stay(tmp_path: Path) -> None:
    log = [
        "/*+ SeqScan(a) Set(enable_nestloop off) */ SELECT 1 /* user='alice' */",
        "/*+ alice */ SELECT 1 -- alice",
        "/*+ Set(a 'alice') */ SELECT 1",
    ]
    found = anonymised(tmp_path, *log)
    assert found.texts[0].rstrip() == "/*+ SeqScan(a) Set(enable_nestloop off) */ SELECT 1"
    assert [each.strip() for each in found.texts[1:]] == ["SELECT 1", "SELECT 1"]
    (of_class,) = found.capture.statements
    assert of_class.calls == 3
    assert "alice" not in found.capture.model_dump_json()


PIECES = st.sampled_from(
    ["SELECT ", "a1, ", ".5 ", "0x1F ", "1_000 ", "$é$c$é$",
     '"A ""b"', "$1", "$12 ", "'x'", "'it''s'", "E'\\'' ", "N'n'", "$$a'b$$", "$t$c$t$", "-- d\n",
     "/* e */", "17", "3.5e7", " = ", "+", "::text ", "(", ")", ";", "\n", "date'2026-01-01'", "x.y"],
)  # fmt: skip


@given(st.lists(PIECES, max_size=12))
@settings(max_examples=200)
def test_a_template_and_its_tokens_give_the_statement_again(pieces: list[str]) -> None:
    sql = "".join(pieces)
    template = re.sub(SPLIT, lambda match: (match[1] or "") + MARK, sql)
    tokens = re.findall(TOKENS, sql)
    parts = template.split(MARK)
    assert len(parts) == len(tokens) + 1
    again = "".join(
        part + ("" if token[0] == '"' or re.fullmatch(r"\$\d+", token) else token)
        for part, token in zip(parts, [*tokens, '"'], strict=True)
    )
    assert again == sql


def test_without_the_parser_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pglast", None)
    with pytest.raises(UsageError) as caught:
        require_parser()
    assert caught.value.hint == "pip install 'pgdyno[capture]'"
