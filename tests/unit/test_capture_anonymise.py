"""The anonymiser: equal length, equal kind, distinct values, and nothing of the original."""

import ipaddress
import json
import re
import uuid

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pgdyno.capture.anonymise import Anonymiser

pytestmark = pytest.mark.slow

ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
ONE = Anonymiser(b"a key of a test!")


@given(ANY)
def test_a_value_keeps_its_length_in_characters_and_bytes_and_a_literal_stays_one(text: str) -> None:
    found = ONE.value(text)
    if not text.startswith(("{", "[")):
        assert len(found) == len(text)
        assert len(found.encode()) == len(text.encode())
    literal = "'" + text.replace("'", "''") + "'"
    anonymised = ONE.literal(literal)
    assert re.fullmatch(r"'(?:[^']|'')*'", anonymised)
    assert anonymised[1:-1].replace("''", "'") == ONE.value(text)


SHORT = st.text("abc", min_size=1, max_size=3)


@given(st.tuples(ANY, ANY) | st.tuples(SHORT, SHORT))
def test_different_values_stay_different_and_equal_ones_equal(values: tuple[str, str]) -> None:
    one, other = values
    assert (ONE.value(one) == ONE.value(other)) == (one == other) or "\\x" in (one + other).lower()


@given(st.from_regex(r"[a-z]{4,8} [A-Z][a-z]{6,12}@[a-z]{8}\.[a-z]{3}", fullmatch=True))
def test_nothing_of_a_text_remains_but_its_form(text: str) -> None:
    found = ONE.value(text)
    assert re.sub("[a-z]", "a", re.sub("[A-Z]", "A", found)) == re.sub("[a-z]", "a", re.sub("[A-Z]", "A", text))
    for word in re.findall(r"[A-Za-z]{6,}", text):
        assert word not in found


@given(st.from_regex(r"[Ѐ-ӿ一-鿿가-힣é]{6,20}", fullmatch=True))
def test_letters_beyond_ascii_are_replaced_too(text: str) -> None:
    assert ONE.value(text) != text


MAC = r"[0-9a-f]{2}(:[0-9a-f]{2}){5}"


@given(
    bytea=st.binary(),
    of_hash=st.binary(min_size=20, max_size=32),
    ipv4=st.ip_addresses(v=4).map(str),
    ipv6=st.ip_addresses(v=6).map(str),
    mac=st.from_regex(MAC, fullmatch=True),
    digits=st.text("0123456789", min_size=10, max_size=30),
)
@example(bytea=b"", of_hash=b"x" * 20, ipv4="1.2.3.4", ipv6="::1", mac="0a:0b:0c:0d:0e:0f", digits="0" * 10)
def test_a_value_stays_of_its_kind(bytea: bytes, of_hash: bytes, ipv4: str, ipv6: str, mac: str, digits: str) -> None:
    assert len(bytes.fromhex(ONE.value(f"\\x{bytea.hex()}").removeprefix("\\x"))) == len(bytea)
    assert len(bytes.fromhex(ONE.value(of_hash.hex()))) == len(of_hash)
    for address in (ipv4, ipv6):
        assert ipaddress.ip_address(ONE.value(address)).version == ipaddress.ip_address(address).version
    assert re.fullmatch(MAC, ONE.value(mac))
    assert re.fullmatch(r"\d+", ONE.value("0" + digits))


def test_numbers_booleans_dates_and_punctuation_stay_but_large_numbers() -> None:
    for value in (
        "", "0", "42", "-17", "3.25", "1e6", "t", "false", "TRUE", "2026-11-23", "2026-11-23 18:00:01.5+01",
        "2026-11-23T18:00:01Z", "18:30", "3 days", "1 mon 2 days 03:04:05", "infinity", "NaN", "day", "UTC",
        "{1,2,NULL}", "[1,10)", '["2026-01-01","2026-02-01")', "%", "%_%", "...",
    ):  # fmt: skip
        assert ONE.value(value) == value
    for number in ("0", "17", "123456789", "0.1234567890123", "0x1F", "0000000000", "1.5e300"):
        assert ONE.number(number) == number
    for number in ("0x" + "1234567890" * 1000, "0x____________"):
        assert ONE.number(number) != number


@given(st.uuids())
def test_a_uuid_becomes_a_uuid(value: uuid.UUID) -> None:
    found = ONE.value(str(value))
    assert uuid.UUID(found) != value
    assert ONE.value(str(value).upper()) == found
    # Django's psycopg sends them without hyphens, and equal ones must stay equal
    assert ONE.value(value.hex) == found.replace("-", "")
    assert ONE.value(f"{{{value}}}") == f"{{{found}}}"


@given(st.integers(10**9, 2**63 - 1))
def test_a_large_number_fits_into_the_same_type(value: int) -> None:
    found = int(ONE.value(str(value)))
    assert len(str(found)) == len(str(value))
    assert (found < 2**31) == (value < 2**31)
    assert found < 2**63


@given(st.integers(10**9, 10**30))
def test_a_number_without_quotes_becomes_what_an_equal_value_becomes(value: int) -> None:
    found = ONE.value(str(value))
    assert {found} == {ONE.number(each) for each in (str(value), f"{value:_}", hex(value), f"00{value}")}
    assert re.fullmatch(rf"[1-9]\d{{{len(str(value)) - 1}}}", found)
    assert json.loads(ONE.value(f'{{"a": {value}, "b": [-{value}]}}')) == {"a": int(found), "b": [-int(found)]}


@given(st.from_regex(r"[1-9][0-9]{9,20}(\.[0-9]{1,5})?[eE][+-]?[0-9]{1,4}", fullmatch=True))
def test_a_large_number_keeps_its_exponent_and_stays_a_number(value: str) -> None:
    found = ONE.number(value)
    assert re.sub("[0-9]", "0", found) == re.sub("[0-9]", "0", value)
    assert re.split("[eE]", found)[1] == re.split("[eE]", value)[1]
    assert ONE.value(f"-{value}") == f"-{found}"
    json.loads(ONE.value(f"[{value}]"))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def _shape(value: object) -> object:
    if isinstance(value, dict):
        return {key: _shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_shape(each) for each in value]
    return len(value) if isinstance(value, str) and value[:1] not in ("{", "[") else type(value)


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=3))
def test_json_keeps_its_keys_and_numbers_and_stays_json(value: dict[str, object]) -> None:
    assert _shape(json.loads(ONE.value(json.dumps(value)))) == _shape(value)
    assert json.loads(ONE.value('{"name": "Erika Mustermann", "age": 42}'))["age"] == 42
    assert "Erika" not in ONE.value('{"name": "Erika Mustermann", "age": 42}')


def test_an_element_of_an_array_becomes_what_an_equal_value_becomes() -> None:
    for elements in (
        ["alice", "bob smith", "NULL", "true", "7"],
        ["7411111111111111111", "4111111111111111"],
        ["0a0b0c0d-0a0b-0a0b-0a0b-0a0b0c0d0e0f"],
        ["10.0.0.1", "2026-11-23"],
    ):
        found = ",".join(map(ONE.value, elements))
        assert ONE.value("{" + ",".join(elements) + "}") == "{" + found + "}"
        assert ONE.value("{{" + ", ".join(elements) + "}}") == "{{" + found.replace(",", ", ") + "}}"
    assert ONE.value(r'{"Erika, \"M\\","NULL",x}') == r'{{"{}","NULL",{}}}'.format(
        ONE.value('Erika, "M\\').replace("\\", r"\\").replace('"', r"\""), ONE.value("x")
    )


def test_other_forms_of_literals_and_patterns_stay_what_they_are() -> None:
    for literal, pattern in (
        (r"E'caf\u00e9\n\'x\''", r"E'(?:[^'\\]|''|\\\\)*'"),
        (r"e'\x41\101\\'", r"e'[^'\\]{2}\\\\'"),
        ("B'0101'", "B'0101'"),
        ("X'1FAB'", "X'[0-9a-f]{4}'"),
        ("N'name'", "N'[a-z]{4}'"),
        (r"U&'d\0061t\+000061'", r"U&'\w{4}'"),
        (r"'\xdeadbeef'", r"'\\x[0-9a-f]{8}'"),
    ):
        found = ONE.literal(literal)
        assert re.fullmatch(pattern, found), found
        assert found == literal or literal[0] != "B"
    assert re.fullmatch(r"%[a-z]{4}\\_[a-z]{3}_%", ONE.value(r"%abcd\_efg_%"))


def test_a_key_is_drawn_for_each_capture() -> None:
    assert Anonymiser().value("Erika Mustermann") != Anonymiser().value("Erika Mustermann")
