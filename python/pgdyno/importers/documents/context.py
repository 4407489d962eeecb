"""The text between the outputs of a document: cleaned lines, headings, names of machines, printed equations, and text
that may name another server.
"""

from __future__ import annotations

import ast
import html
import operator
import re
from collections.abc import Callable, Sequence

from pgdyno.importers.documents.command_lines import without_prefix
from pgdyno.importers.documents.stated_settings import fill_settings
from pgdyno.importers.parsed import Claim, Output

_CLAIM = re.compile(
    r"(?P<currency>[€$£¥])\s{0,4}(?P<printed>\d[\d,]{0,30}(?:\.\d{1,10})?)\s{0,4}"
    r"\((?P<formula>[^=/x×*]{0,150}[/x×*][^=]{0,200})\)(?!\S)"  # noqa: RUF001
)
_LONGEST = 2_000
"""Characters of a line that may contain an equation."""
_WORDS = re.compile(r"[A-Za-z€$£¥]+")
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def claims_in(text: str, line: int) -> list[Claim]:
    """Return every equation in `text`, such as `€ 0.11 (€ 38,364 / 365,974 TPS)`."""
    if not any(currency in text for currency in "€$£¥") or len(text) > _LONGEST:
        return []
    found = []
    for match in _CLAIM.finditer(text):
        computed = evaluate(match["formula"])
        if computed is None:
            continue
        printed = match["printed"].replace(",", "")
        decimals = len(printed.partition(".")[2])
        found.append(Claim(line, match[0], float(printed), decimals, computed, match["currency"]))
    return found


def evaluate(formula: str) -> float | None:
    """Evaluate `(€ 38,364 + 3 x 2 x € 4,200) / 365,974 TPS`; None if it is not a formula."""
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", formula).replace("×", "*")  # noqa: RUF001
    plain = re.sub(r"(?<=[\d\s)])x(?=[\s\d(€$£¥])", "*", plain)
    plain = _WORDS.sub("", plain).strip()
    try:
        return _value(ast.parse(plain, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return float(node.value)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    raise ValueError("not a formula")


LONGEST_LINE = 65_536
"""Characters; longer lines are not read, and listed as unread."""
MOST_JOINED = 30
"""Lines that backslashes may join to one command."""

_ESCAPES = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_QUOTE = re.compile(r"\s{0,8}(?:>[ \t]?){1,12}")
_TAGS = re.compile(r"</?(?:pre|code|br|p|span|div|li|b|strong|em|samp|kbd)(?:\s[^<>]{0,300})?/?>", re.IGNORECASE)
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z?\s")
"""In logs that were copied from a CI or from `docker logs -t`."""
_FENCE = re.compile(r"\s{0,12}(?:```|~~~)(?P<info>.*)")


def cleaned(text: str) -> str:
    """Return `text` as the tool printed it: it keeps the indentation, and loses what a mail, HTML or a CI added."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if ">" in text[:16] and not text.lstrip().startswith(">>>>>"):
        quote = _QUOTE.match(text)
        if quote is not None:
            text = text[quote.end() :]
    if "<" in text:
        text = _TAGS.sub("", text)
    if "&" in text:
        text = html.unescape(text).replace("\xa0", " ")
    if text[:4].isdigit():
        stamp = _STAMP.match(text)
        if stamp is not None:
            text = text[stamp.end() :]
    return text


def fence(text: str) -> str | None:
    """Return the text after the mark of a code block: empty, or the name of a language; None if `text` is no such
    mark.
    """
    match = _FENCE.match(text) if "```" in text or "~~~" in text else None
    return match["info"].strip() if match else None


def joined(lines: Sequence[str], at: int) -> tuple[str, int]:
    """Return the line at `at` joined with its continuation lines, and their number."""
    if not lines[at].rstrip().endswith("\\"):
        return lines[at], 1
    parts, count = [], 0
    for text in lines[at : at + MOST_JOINED]:
        count += 1
        stripped = text.rstrip()
        if not stripped.endswith("\\"):
            parts.append(stripped.strip())
            break
        parts.append(stripped[:-1].strip())
    return " ".join(parts), count


LONGEST_HEADING = 100
_HEADING = re.compile(
    r"\s{0,8}(?:(?P<hash>#{1,6})\s{1,8}(?P<hashed>\S.*)|\[(?P<bracket>[^\]()]{1,90})\](?:\s{0,8}-.*)?|"
    r"(?P<numbered>\d{1,2}(?:\.\d{1,2}){1,4}\.? [^\W\d].*))$"
)
_BANNER = re.compile(
    r"\s{0,20}(?P<mark>[=*#~+-])(?P=mark){1,60}\s{0,8}(?P<text>[^\s=*#~+|-].{0,90}?)\s{0,8}(?P=mark){2,60}\s*$"
)
"""`=== run 1 ===`."""
_RATE = re.compile(r"\btps\s?=\s?\d")
_NAMED = re.compile(
    r"[\s\-*•_>`|]{0,12}(?P<kind>instance(?: type)?|host(?:name)?|server|machine|provider|node|vm|target|system|dbms|"
    r"database|engine|(?:postgres(?:ql)? |server )?version|postgres(?:ql)?|branch|commit|build|patch|kernel|cpu|"
    r"storage|disk|filesystem|file system|configuration|config)[\s*_`]{0,6}[:=][\s*_`]{0,6}"
    r"(?P<name>[^\s].{0,90}?)[\s*_`|]{0,6}$",
    re.IGNORECASE,
)
ORDINAL = re.compile(
    r"[\W_]{0,12}(?:(?:(?:test|benchmark|pgbench|sysbench)\s)?(?:run|round|iteration|iter|repeat|repetition|rep|attempt|"
    r"pass|trial|sample|test|try|measurement|прогон|запуск|попытка|тест|lauf|第|回目|次)\s?(?:#|no\.?|№|nr\.?)?\s?\d{1,3}"
    r"(?:\s?(?:of|/|из|von)\s?\d{1,3})?|\d{1,3}\s?(?:st|nd|rd|th|\.|-й|回目|次)?\s?"
    r"(?:run|round|iteration|attempt|pass|trial|test|раз|прогон|запуск|lauf|回目|次)|[#№]?\d{1,2})[\W_]{0,12}",
    re.IGNORECASE,
)
"""Names a repeat, and nothing else."""
WARMUP = re.compile(r"\bwarm(?:ing)?[\s_-]?up\b|прогрев|预热|暖机|ウォームアップ|워밍업|워밍 업", re.IGNORECASE)
_NO_WARMUP = re.compile(
    r"\b(?:no|not|without|after|w/o|sans|ohne|followed|then|nach|skip|plus|and|with)\b|[:=]\s?\d|\b\d+\s?s\b.*,|\bor\b|без",
    re.IGNORECASE,
)
_LONGEST_LABEL = 60
_NOISE = re.compile(
    r"\s{0,20}(?:real|user|sys)\s{1,8}\d{1,6}m|[\[(]?\d{1,2}:\d\d(?::\d\d)?|[\w.@:~/\[\] -]{0,60}[$#%>]\s{0,4}"
    r"(?:clear|date|sleep \d{1,6}|sync|exit|done|\S{0,20}checkpoint\S{0,4})?\s*$|"
    r"(?:sleep|done|end|fin|ready|\.\.\.|Password|\d{1,6} rows?|CHECKPOINT|VACUUM)\b.{0,3}$",
    re.IGNORECASE,
)
"""Lines of shells and scripts between two runs of the same measurement."""
_INSTANCE = re.compile(r"\b(?:db\.)?[a-z]\d[a-z]{0,3}\.\d{0,3}x?(?:large|medium|small|micro|metal)\b")
_PROMPT = re.compile(r"[\w.@:~/\[\]()-]{1,60}[$#%]\s|[$#%]\s")


class Context:
    """Collects headings and text, and attaches what precedes each output."""

    def __init__(self) -> None:
        self.in_fence = False
        self._headings: list[tuple[int, str]] = []
        self._named: dict[str, str] = {}
        self._section = 0
        self._text: list[str] = []
        self._is_ordinal = False
        self._warmup: str | None = None
        self._instance: str | None = None
        self._first: Output | None = None
        """The last output with a head in this block of code, or since the last text."""

    @property
    def heading(self) -> str | None:
        return self._headings[-1][1] if self._headings else None

    @property
    def instance(self) -> str | None:
        """Return a machine's type in the lines since the heading: `r5.2xlarge`."""
        return self._instance

    @property
    def caption(self) -> str:
        """Return the heading and the text above, where a table without units may name its unit."""
        return "\n".join([*(text for _, text in self._headings[-1:]), *self._text[-3:]])

    def heading_of(self, text: str, previous: str, following: str) -> tuple[int, str] | None:
        """Return level and text of the heading in `text`; `previous` and `following` are its neighbours."""
        if len(text) > LONGEST_HEADING or "|" in text:
            return None
        banner = _BANNER.match(text)
        if _RATE.search(text) is not None:
            # an author's emphasis of a result
            return None
        if banner is not None and _PROMPT.match(text) is None and (banner["mark"] != "#" or self.in_fence):
            return 8, banner["text"]
        if self.in_fence:
            return None
        stripped = text.strip()
        if stripped and set(following.strip()) == {"="} and len(following.strip()) >= 3 and previous.strip() == "":
            return 1, stripped
        match = _HEADING.match(text.rstrip())
        # `[root@host ~]# pgbench` is not a heading
        if match is None or "@" in text or _is_figure(match["numbered"]):
            return None
        if match["hash"] is not None:
            if match["hash"] == "#" and (
                (previous.strip() not in ("", "#") and following.strip())
                or re.match(r"\S{0,40}(?:pgbench|sysbench)\s", match["hashed"])
            ):
                # a shell comment, or what root typed
                return None
            return len(match["hash"]), match["hashed"].rstrip("# \t")
        if match["bracket"] is not None:
            return 7, match["bracket"]
        return 6, match["numbered"]

    def enter(self, level: int, text: str) -> None:
        """Add a heading, which applies from here on."""
        text = text.replace("`", "").strip().strip("*_").strip()
        self._headings = [each for each in self._headings if each[0] < level]
        self._headings.append((level, text))
        if level < 8:
            self._named.clear()
            self._instance = self._first = None
            # text under the previous heading may distinguish its outputs from those that follow
            self._section += bool(self._text)
            self._forget()
        self._look_for_instance(text)
        self._warmup = None
        self._is_ordinal = level == 8 and ORDINAL.fullmatch(text) is not None

    def add(self, text: str) -> None:
        """Add a line that no parser accepted."""
        mark = fence(text)
        if mark is not None:
            self._first = None
            # a block that opens within another follows a missing end mark
            self.in_fence = bool(mark) or not self.in_fence
            return
        stripped = text.strip().strip("*_`#/-=<> \t")
        if not stripped or _NOISE.match(text):
            return
        self._look_for_instance(text)
        named = _NAMED.fullmatch(text) if len(text) <= 140 else None
        if named is not None:
            self._named[named["kind"].lower()] = named["name"]
            self._text.append(stripped)
            return
        if len(stripped) <= _LONGEST_LABEL:
            if is_warmup(stripped):
                self._warmup = stripped
                return
            if ORDINAL.fullmatch(stripped):
                self._is_ordinal, self._warmup = True, None
                return
        self._warmup = None
        self._text.append(stripped[:200])

    def _look_for_instance(self, text: str) -> None:
        if self._instance is None and "." in text:
            found = _INSTANCE.search(text[:2000])
            self._instance = found[0] if found else None

    def mark(self, output: Output) -> None:
        """Attach what precedes `output`, which has just been read."""
        if self._text and not self._is_ordinal:
            self._section += 1
            self._first = self._first if self.in_fence else None
        output.section = self._section
        if output.command is not None and "#" in output.command:
            comment = without_prefix(output.command).partition("#")[2]
            if is_warmup(comment):
                self._warmup = comment.strip()
        headings = [text for _, text in self._headings]
        fill_settings(output, headings, self._first)
        if output.tool == "pgbench" and "workload" in output.printed:
            self._first = output
        nearest = headings[-1] if headings else None
        if nearest is not None and is_warmup(nearest):
            self._warmup = nearest
        output.warmup = output.warmup or self._warmup
        telling = [text for text in headings if not ORDINAL.fullmatch(text) and not WARMUP.search(text)]
        output.place = (*telling, *self._named.values())
        if output.target is None and output.place:
            machines = [name for kind, name in self._named.items() if "version" not in kind]
            output.target = ", ".join(machines or list(self._named.values())[:1] or telling[-1:])
        self._forget()

    def _forget(self) -> None:
        self._text = []
        self._is_ordinal = False
        self._warmup = None


def is_warmup(text: str) -> bool:
    """Return whether `text`, a label, marks a warm-up run."""
    return len(text) <= _LONGEST_LABEL and WARMUP.search(text) is not None and not _NO_WARMUP.search(text)


def _is_figure(text: str | None) -> bool:
    """Return whether an apparent numbered heading is a figure: `2.5 ms`."""
    return (
        text is not None
        and re.match(r"[\d.]{1,20} (?:tps|ms|tpm|nopm|qps|s|us|µs|GB|MB|kB)\b", text, re.IGNORECASE) is not None
    )
