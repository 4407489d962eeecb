"""What precedes an output: headings, names of machines, settings, and text that may name another server."""

import re

from pgdyno.importers.documents.blocks import BANNER_LEVEL
from pgdyno.importers.documents.command_lines import read_options, without_prefix
from pgdyno.importers.parsed import Output

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
# lines of shells and scripts between two runs of the same measurement
_NOISE = re.compile(
    r"\s{0,20}(?:real|user|sys)\s{1,8}\d{1,6}m|[\[(]?\d{1,2}:\d\d(?::\d\d)?|[\w.@:~/\[\] -]{0,60}[$#%>]\s{0,4}"
    r"(?:clear|date|sleep \d{1,6}|sync|exit|done|\S{0,20}checkpoint\S{0,4})?\s*$|"
    r"(?:sleep|done|end|fin|ready|\.\.\.|Password|\d{1,6} rows?|CHECKPOINT|VACUUM)\b.{0,3}$",
    re.IGNORECASE,
)
_INSTANCE = re.compile(r"\b(?:db\.)?[a-z]\d[a-z]{0,3}\.\d{0,3}x?(?:large|medium|small|micro|metal)\b")
# `-c 32 -j 4 -M prepared` in a heading
_OPTIONS = re.compile(r"(?<![\w-])-(?:c|j|M|s|S|N|b|f)\s?\w.{0,200}")
_CLIENTS = re.compile(r"(?<![\w.,])(?P<clients>\d{1,5})\s(?:concurrent\s)?(?:clients?|connections?)\b", re.IGNORECASE)
_INHERITED = ("workload", "scale", "protocol", "clients", "workers")


class Context:
    """Collects headings and text, and attaches what precedes each output."""

    def __init__(self) -> None:
        self._in_code = False
        self._headings: list[tuple[int, str]] = []
        self._named: dict[str, str] = {}
        self._section = 0
        self._text: list[str] = []
        self._is_ordinal = False
        self._warmup: str | None = None
        self.instance: str | None = None
        """A machine's type in the lines since the heading: `r5.2xlarge`."""
        self._first: Output | None = None
        """The last output with a head in this block of code, or since the last text."""

    @property
    def heading(self) -> str | None:
        return self._headings[-1][1] if self._headings else None

    @property
    def caption(self) -> str:
        """Return the heading and the text above, where a table without units may name its unit."""
        return "\n".join([*(text for _, text in self._headings[-1:]), *self._text[-3:]])

    def begin_code(self, in_code: bool) -> None:
        self._in_code, self._first = in_code, None

    def enter(self, level: int, text: str) -> None:
        self._headings = [each for each in self._headings if each[0] < level]
        self._headings.append((level, text))
        if level < BANNER_LEVEL:
            self._named.clear()
            self.instance = self._first = None
            # text under the previous heading may distinguish its outputs from those that follow
            self._section += bool(self._text)
            self._text = []
        self._find_instance(text)
        self._warmup = None
        self._is_ordinal = level == BANNER_LEVEL and ORDINAL.fullmatch(text) is not None

    def add(self, text: str) -> None:
        stripped = text.strip().strip("*_`#/-=<> \t")
        if not stripped or _NOISE.match(text):
            return
        self._find_instance(text)
        named = _NAMED.fullmatch(text) if len(text) <= 140 else None
        if named is not None:
            self._named[named["kind"].lower()] = named["name"]
            self._text.append(stripped)
        elif is_warmup(stripped):
            self._warmup = stripped
        elif len(stripped) <= _LONGEST_LABEL and ORDINAL.fullmatch(stripped):
            self._is_ordinal, self._warmup = True, None
        else:
            self._warmup = None
            self._text.append(stripped[:200])

    def _find_instance(self, text: str) -> None:
        if self.instance is None and "." in text:
            found = _INSTANCE.search(text[:2000])
            self.instance = found[0] if found else None

    def mark(self, output: Output) -> None:
        if self._text and not self._is_ordinal:
            self._section += 1
            self._first = self._first if self._in_code else None
        output.section = self._section
        if output.command is not None and "#" in output.command:
            comment = without_prefix(output.command).partition("#")[2]
            if is_warmup(comment):
                self._warmup = comment.strip()
        headings = [text for _, text in self._headings]
        if output.tool == "pgbench" and "workload" in output.printed:
            self._first = output
        elif output.tool == "pgbench":
            self._fill_head(output, headings)
        if headings and is_warmup(headings[-1]):
            self._warmup = headings[-1]
        output.warmup = output.warmup or self._warmup
        telling = [text for text in headings if not ORDINAL.fullmatch(text) and not WARMUP.search(text)]
        output.place = (*telling, *self._named.values())
        if output.target is None and output.place:
            machines = [name for kind, name in self._named.items() if "version" not in kind]
            output.target = ", ".join(machines or list(self._named.values())[:1] or telling[-1:])
        self._text, self._is_ordinal, self._warmup = [], False, None

    def _fill_head(self, output: Output, headings: list[str]) -> None:
        # the author cut the head: the first one of the block of code states it, or the headings, the nearest first
        stated = [self._first] if self._first is not None and output.command is None else []
        for heading in reversed(headings):
            stated.append(Output("pgbench", output.line, output.line))
            options, clients = _OPTIONS.search(heading.replace("`", " ")), _CLIENTS.search(heading)
            if options is not None:
                read_options(stated[-1], f"pgbench {options[0]}", output.line)
            elif clients is not None:
                stated[-1].put("clients", int(clients["clients"]), output.line, heading)
        for each in stated:
            for name in _INHERITED:
                if getattr(output, name) is None and getattr(each, name) is not None:
                    setattr(output, name, getattr(each, name))
                    if name in each.printed:
                        output.printed[name] = each.printed[name]


def is_warmup(text: str) -> bool:
    """Return whether `text`, a label, marks a warm-up run."""
    return len(text) <= _LONGEST_LABEL and WARMUP.search(text) is not None and not _NO_WARMUP.search(text)
