"""Replaces text by other text of the same length and kind.

Equal text stays equal, and different text different: a keyed permutation, a Feistel cipher of three rounds, adds to
each letter within the letters and to each digit within the digits. The key is random and never written.
"""

import hashlib
import json
import re
import secrets
from collections.abc import Callable
from enum import Enum, auto


class _Shape(Enum):
    KEPT = auto()
    UUID = auto()
    HEX = auto()
    INTEGER4 = auto()
    INTEGER8 = auto()
    NUMBER = auto()
    JSON = auto()
    ARRAY = auto()
    COLONS = auto()
    ADDRESS = auto()
    TEXT = auto()


_NUMBER = r"[+-]?(?:0|[1-9]\d{0,8})(?:\.\d+)?(?:[eE][+-]?\d{1,3})?"
_DATE = r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?: ?(?:Z|UTC|[+-]\d\d(?::?\d\d)?))?)?(?: BC)?"
_TIME = r"\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:[+-]\d\d(?::?\d\d)?)?"
_UNITS = r"(?:microsecond|millisecond|second|sec|minute|min|hour|day|week|mon|month|quarter|year|decade|century)s?"
_INTERVAL = rf"(?:[+-]?\d+(?:\.\d+)? {_UNITS}|[+-]?{_TIME})(?: (?:[+-]?\d+(?:\.\d+)? {_UNITS}|[+-]?{_TIME}|ago))*"
_WORDS = (
    "true|false|t|f|yes|no|on|off|y|n|null|infinity|-infinity|nan|now|today|tomorrow|yesterday|epoch|utc|gmt|hex|base64"
    f"|escape|utf8|utf-8|{_UNITS}|public|pg_catalog|simple|english"
)
_ITEM = rf'(?:"(?:{_DATE})"|{_DATE}|{_NUMBER}|NULL|)'
_KEPT = re.compile(
    rf"(?:{_NUMBER}|{_DATE}|{_TIME}|(?i:{_INTERVAL}|{_WORDS})"
    # arrays and ranges of these
    rf"|[\[({{]{_ITEM}(?:,{_ITEM})*[\])}}]|[\s!-/:-@\[-`{{-~]*)",
    re.ASCII,
)
_UUID = re.compile(r"(\{)?[0-9a-fA-F]{4}(?:-?[0-9a-fA-F]{4}){7}(?(1)\})")
"""Matches all forms that PostgreSQL reads; an application may send them without hyphens."""
_HEX = re.compile(r"\\x(?:[0-9a-fA-F]{2})*|(?:[0-9a-fA-F]{2}){20,}")
"""Matches `bytea`, and hashes from SHA-1 on."""
_INTEGER = re.compile(r"[+-]?[1-9]\d{9,18}", re.ASCII)
_LARGE_NUMBER = re.compile(r"[+-]?[1-9]\d*(?:\.\d*)?(?:[eE][+-]?\d+)?", re.ASCII)
"""Without zeros before it, which JSON does not allow: what stands for it has none either."""
_PARTS = re.compile(r"([+-]?)([\d.]+)(.*)", re.ASCII)
_BYTE = r"(?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])"
_ADDRESS = re.compile(rf"({_BYTE})\.({_BYTE})\.({_BYTE})\.({_BYTE})(/\d{{1,2}})?", re.ASCII)
_GROUP = r"[0-9a-fA-F]{0,4}"
_COLONS = re.compile(rf"(?:{_GROUP}:){{5,7}}{_GROUP}|(?=[^.]*::)(?:{_GROUP}:){{2,7}}{_GROUP}", re.ASCII)
"""Matches addresses of IPv6 and of network cards."""
_RADIX = tuple("xXoObB")
"""Follow the zero of numbers that are not decimal."""
_SURELY_TEXT = re.compile(r"[A-Za-z][\w-]*[^\w:-]", re.ASCII)
"""Matches most texts of several words, what stands for them, and nothing of another shape."""
_JSON_VALUE = re.compile(r'"(?:[^"\\]|\\.)*"(\s*:)?|-?\d[\d.eE+-]*', re.DOTALL | re.ASCII)
_ARRAY = re.compile(r'\{(?:"(?:[^"\\]|\\.)*"|[^"\\])*\}', re.DOTALL)
_ELEMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|[^{},"\s](?:[^{},"]*[^{},"\s])?', re.DOTALL)
"""Of an array, without the spaces around it."""
_PATTERNS = {
    _Shape.NUMBER: _LARGE_NUMBER,
    _Shape.UUID: _UUID,
    _Shape.HEX: _HEX,
    _Shape.ADDRESS: _ADDRESS,
    _Shape.COLONS: _COLONS,
    _Shape.ARRAY: _ARRAY,
}
_DEEPEST_JSON = 2000
"""Brackets that open: more could be too deep for the parser."""

_LETTERS = 64
"""Letters beyond ASCII change within as many, which need as many bytes each."""


def _spans() -> list[tuple[int, int]]:
    """Return for each ASCII character the first of its kind, and how many there are: 1 for punctuation."""
    spans = [(code, 1) for code in range(128)]
    for first, count in ((ord("a"), 26), (ord("A"), 26), (ord("0"), 10)):
        spans[first : first + count] = [(first, count)] * count
    return spans


_SPANS = _spans()
_MOVED = [
    bytes(first + (code - first + key) % count for code, (first, count) in enumerate(_SPANS)) for key in range(256)
]
"""What stands for each ASCII character, by a byte of the key's stream."""
_HEX_DIGIT = re.compile(r"[0-9a-fA-F]")


class Anonymiser:
    def __init__(self, key: bytes | None = None) -> None:
        """Draws a key unless a test gives one."""
        self._key = key or secrets.token_bytes(16)

    def value(self, text: str) -> str:
        """Return what stands for `text`, the value of a parameter or a constant."""
        if _SURELY_TEXT.match(text):
            return self._text(text)
        shape = _shape(text)
        if shape is _Shape.KEPT:
            return text
        if shape is _Shape.JSON:
            return _JSON_VALUE.sub(self._json_value, text)
        replace = self._REPLACE[shape]
        found = replace(self, text)
        # what is kept, or of another kind, must not stand for this: permute until it is of the same kind
        while _shape(found) is not shape:
            found = replace(self, found)
        return found

    def literal(self, literal: str) -> str:
        """Return what stands for `literal`, a constant in quotes as SQL writes it."""
        quote = literal.find("'")
        prefix, inner = literal[:quote].lower(), literal[quote + 1 : -1].replace("''", "'")
        if prefix == "b":
            return literal
        if prefix == "x":
            return f"{literal[: quote + 1]}{self._hex(inner)}'"
        if prefix == "e":
            inner = _ESCAPE.sub(_unescape_match, inner)
        elif prefix == "u&":
            inner = re.sub(r"\\(?:[0-9A-Fa-f]{4}|\+[0-9A-Fa-f]{6})", "u", inner)
        found = self.value(inner).replace("'", "''")
        found = found.replace("\\", "\\\\") if prefix == "e" else found
        return f"{literal[: quote + 1]}{found}'"

    def number(self, number: str) -> str:
        """Return what stands for `number`, a constant without quotes as SQL writes it: that of an equal parameter."""
        plain = number.replace("_", "").lstrip("0")
        if plain[:1] in _RADIX:
            try:
                plain = str(int(f"0{plain}", 0))
            except ValueError:
                # without digits, or with more than Python converts: the server has no such number
                return self._text(number)
        found = self.value(plain) if _LARGE_NUMBER.fullmatch(plain) else plain
        return number if found == plain else found

    def _json_value(self, match: re.Match[str]) -> str:
        if match[0][0] != '"':
            return self.value(match[0]) if _LARGE_NUMBER.fullmatch(match[0]) else match[0]
        if match[1] is not None:
            # names of fields are part of the schema
            return match[0]
        found = self.value(json.loads(match[0], strict=False))
        # half a character, which JSON may have, exists in escapes only
        return json.dumps(found, ensure_ascii=re.search("[\ud800-\udfff]", found) is not None)

    def _array(self, text: str) -> str:
        return _ELEMENT.sub(self._element, text)

    def _element(self, match: re.Match[str]) -> str:
        # equal to what stands for the same value elsewhere; NULL stays
        if match[1] is None:
            return self.value(match[0])
        found = self.value(re.sub(r"\\(.)", r"\1", match[1], flags=re.DOTALL)) if match[1] else ""
        return '"' + re.sub(r'(["\\])', r"\\\1", found) + '"'

    def _text(self, text: str) -> str:
        if text.isascii():
            codes = text.encode()
            half = len(codes) // 2
            left = self._shift_codes(codes[:half], codes[half:], 1)
            right = self._shift_codes(codes[half:], left, 2)
            return (self._shift_codes(left, right, 3) + right).decode()
        return "".join(map(chr, self._permute_codes([ord(each) for each in text], _span)))

    def _shift_codes(self, codes: bytes, other: bytes, turn: int) -> bytes:
        stream = hashlib.shake_128(self._key + bytes((turn,)) + other).digest(len(codes))
        return bytes([_MOVED[key][code] for key, code in zip(stream, codes, strict=True)])

    def _hex(self, text: str) -> str:
        head = "\\x" if text.startswith("\\x") else ""
        codes = [int(digit, 16) for digit in _HEX_DIGIT.findall(text, len(head))]
        found = iter(self._permute_codes(codes, lambda _: (0, 16)))
        return head + _HEX_DIGIT.sub(lambda _: f"{next(found):x}", text[len(head) :])

    def _integer(self, text: str) -> str:
        # the first digit stays, so that few tries give a number of the same type
        sign = 1 if text[0] in "+-" else 0
        return text[: sign + 1] + self._text(text[sign + 1 :])

    def _number(self, text: str) -> str:
        sign, digits, exponent = _PARTS.findall(text)[0]
        return f"{sign}{self._text(digits)}{exponent}"

    def _address(self, text: str) -> str:
        match = _ADDRESS.fullmatch(text)
        assert match is not None
        parts = self._permute_codes([int(match[place]) for place in range(1, 5)], _byte_span)
        return ".".join(map(str, parts)) + (match[5] or "")

    def _permute_codes(self, codes: list[int], span: Callable[[int], tuple[int, int]]) -> list[int]:
        half = len(codes) // 2
        left, right = codes[:half], codes[half:]
        left = self._add_stream(left, right, 1, span)
        right = self._add_stream(right, left, 2, span)
        return self._add_stream(left, right, 3, span) + right

    def _add_stream(
        self, codes: list[int], other: list[int], turn: int, span: Callable[[int], tuple[int, int]]
    ) -> list[int]:
        if not codes:
            return codes
        seed = self._key + bytes((turn,)) + "".join(map(chr, other)).encode("utf-32-le", "surrogatepass")
        # two bytes a character: 65,536 is so much larger than any span that all results are about as likely
        stream = hashlib.shake_128(seed).digest(2 * len(codes))
        found = []
        for place, code in enumerate(codes):
            first, count = span(code)
            found.append(first + (code - first + stream[2 * place] * 256 + stream[2 * place + 1]) % count)
        return found

    _REPLACE = {
        _Shape.UUID: _hex,
        _Shape.HEX: _hex,
        _Shape.INTEGER4: _integer,
        _Shape.INTEGER8: _integer,
        _Shape.NUMBER: _number,
        _Shape.ADDRESS: _address,
        _Shape.COLONS: _hex,
        _Shape.ARRAY: _array,
        _Shape.TEXT: _text,
    }


def _span(code: int) -> tuple[int, int]:
    return _SPANS[code] if code < 128 else (code & -_LETTERS, _LETTERS)


def _byte_span(number: int) -> tuple[int, int]:
    """Numbers of as many digits."""
    if number < 10:
        return 0, 10
    return (10, 90) if number < 100 else (100, 156)


def _shape(text: str) -> _Shape:
    if _KEPT.fullmatch(text):
        return _Shape.KEPT
    if text[0] in "{[" and _is_json(text):
        return _Shape.JSON
    if _INTEGER.fullmatch(text) and abs(int(text)) < 2**63:
        return _Shape.INTEGER4 if abs(int(text)) < 2**31 else _Shape.INTEGER8
    return next((shape for shape, pattern in _PATTERNS.items() if pattern.fullmatch(text)), _Shape.TEXT)


def _is_json(text: str) -> bool:
    if text.count("{") + text.count("[") > _DEEPEST_JSON:
        return False
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return False
    return True


_ESCAPE = re.compile(r"\\(?:[0-7]{1,3}|x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _unescape_match(match: re.Match[str]) -> str:
    text = match[0][1:]
    if text[0] in "xuU" and len(text) > 1:
        code = int(text[1:], 16)
    elif text[0] in "01234567":
        code = int(text, 8)
    else:
        return _ESCAPES.get(text, text)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "u"
