"""The text of a script: a class of transactions in pgbench's language."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pgdyno.capture.parameter_columns import separators
from pgdyno.synthesise.constants import Template
from pgdyno.synthesise.fit_values import fit
from pgdyno.synthesise.transactions import Kind, statement_kind
from pgdyno.synthesise.values_and_pauses import SampledClass, Site
from pgdyno.synthesise.variables import SiteText, Variables
from pgdyno.units import quantity

MOST_COMMANDS = 600
"""The most statements that the copies of one loop have."""
LEAST_PAUSE_US = 1_000
"""Shorter pauses are the time that any client takes."""
MOST_PARAMETERS = 255
"""pgdrive's limit for a statement of the extended protocols."""

_WORDS = re.compile(
    r"\b(?:(select)\b.*?\bfrom|(insert)\s+into|(update)|(delete)\s+from|(merge)\s+into)\s+(?:only\s+)?"
    r"(?:\"?\w+\"?\.)?\"?(\w+)",
    re.IGNORECASE | re.DOTALL,
)
_NAMING = 10_000
"""Characters of a text that are searched for its name: each further SELECT without FROM is looked at to the end."""


@dataclass(frozen=True)
class Script:
    """One file of the model."""

    name: str
    text: str
    weight: int
    """How often it ran in the capture."""
    commands: list[int]
    """The class of each of its SQL commands."""
    summary: str
    """What it does, and how often, for the README."""


@dataclass(frozen=True)
class Share:
    """A class's part of the capture."""

    count: int
    of: int
    """All transactions of the capture."""
    time: float | None
    """Its part of the time on the server; None if the capture has no times."""

    def __str__(self) -> str:
        time = "" if self.time is None else f", {100 * self.time:.1f} % of the time on the server"
        return f"{self.count:,} of {self.of:,} transactions ({100 * self.count / self.of:.1f} %){time}"


_INERT = re.compile(
    r"(?<![\w$])[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\"[^\"]*\"|(\$(?:[A-Za-z_]\w*)?\$).*?\1|--[^\n]*|/\*.*?\*/",
    re.DOTALL,
)
"""Quoted text and comments, in which backslashes begin no command."""


def has_command(sql: str) -> bool:
    """Tells whether pgdrive would take a part of `sql` for a command of its own, such as \\shell."""
    return "\\" in _INERT.sub("", sql).replace("\\;", "")


def write_script(
    sampled: SampledClass,
    ordinal: int,
    share: Share,
    texts: Sequence[str],
    began: datetime,
    sessions: Sequence[int],
    *,
    is_simple: bool,
) -> Script | None:
    """Return the script of a class; None if a statement could run a command of pgdrive.

    `texts` are those of the statements' classes, by number; `sessions` are those that the clients stand for, if they
    stand for any.
    """
    name = f"{ordinal:02}-{_slug([texts[site.number] for site in sampled.sites])}.sql"
    writer = _Writer(sampled, texts, Variables(is_simple, began, sessions, names=_words(sampled.sites)))
    writer.write()
    if writer.has_command:
        return None
    of = quantity(sampled.sampled, "transaction") if sampled.sampled < share.count else "all of them"
    head = [f"-- {share}.", f"-- What follows was fitted to {of}; edit it freely.", ""]
    return Script(name, "\n".join([*head, *writer.lines]) + "\n", share.count, writer.commands, str(share))


class _Writer:
    def __init__(self, sampled: SampledClass, texts: Sequence[str], variables: Variables) -> None:
        self.lines: list[str] = []
        self.commands: list[int] = []
        self.has_command = False
        self._sampled = sampled
        self._texts = texts
        self._variables = variables

    def write(self) -> None:
        # all texts first: a statement returns variables if a later one needs them
        texts = [(site, self._text(site)) for site in self._sampled.sites]
        for element, shape in enumerate(self._sampled.of.elements):
            body = [(site, text) for site, text in texts if site.element == element]
            if shape.is_loop:
                self._loop(body, element)
            else:
                self._body(body, with_comments=True)

    def _text(self, site: Site) -> SiteText:
        return self._variables.text(site, output_pieces(site.template))

    def _body(self, body: Sequence[tuple[Site, SiteText]], *, with_comments: bool) -> None:
        for site, text in body:
            if site.pause_us > LEAST_PAUSE_US:
                if with_comments:
                    self.lines.append("-- the client's median pause here")
                self.lines.append(f"\\sleep {round(site.pause_us)} us")
            self.lines += [line for line in text.lines if with_comments or not line.startswith("--")]
            self._statement(site, text)

    def _statement(self, site: Site, text: SiteText) -> None:
        upto = 0
        for place, variant in enumerate(text.variants):
            upto += variant.count
            if text.choice is not None:
                condition = f" :{text.choice} <= {upto}"
                is_last = place == len(text.variants) - 1
                self.lines.append("\\else" if is_last else ("\\elif" if place else "\\if") + condition)
            prefix = self._variables.gset.get((site.element, site.offset))
            self.lines.append(f"{variant.sql};" if prefix is None else f"{variant.sql} \\gset {prefix}")
            self.has_command |= has_command(variant.sql)
            self.commands.append(site.number)
        if text.choice is not None:
            self.lines.append("\\endif")

    def _loop(self, body: Sequence[tuple[Site, SiteText]], element: int) -> None:
        self.lines += self._variables.counters.get(element, [])
        counts = self._sampled.loop_counts[element]
        fewest, most = int(counts.min()), int(counts.max())
        commands = sum(len(text.variants) for _, text in body)
        if most * commands > MOST_COMMANDS:
            mean = float(counts.mean())
            fewest = min(int(mean), max(MOST_COMMANDS // commands, 1))
            percent = round((mean - fewest) * 100) if fewest == int(mean) else 0
            self.lines.append(f"-- {fewest:,} to {most:,} times, {mean:.1f} on average; written {fewest:,} times")
            for place in range(fewest):
                self._body(body, with_comments=place == 0)
            if percent:
                name = self._variables.free_name("repeats")
                self.lines += [f"\\set {name} random(1, 100)", f"\\if :{name} <= {percent}"]
                self._body(body, with_comments=False)
                self.lines.append("\\endif")
            return
        name = self._variables.free_name("repeats")
        if fewest == most:
            self.lines.append(f"-- {most:,} times")
        else:
            found = fit(counts)
            self.lines.append(f"-- {fewest:,} to {most:,} times: {found.distribution.describe()}")
            self.lines += found.distribution.lines(name)
        for place in range(1, most + 1):
            if place > fewest:
                self.lines.append(f"\\if :{name} >= {place}")
            self._body(body, with_comments=place == 1)
            if place > fewest:
                self.lines.append("\\endif")


def output_pieces(template: Template) -> list[str]:
    """Return the pieces of `template` as a script has them: without a final semicolon, and with `\\;` for others."""
    pieces = list(template.pieces)
    if any(";" in piece for piece in pieces):
        text = "".join(f"{piece}${place}" for place, piece in enumerate(pieces, 1))[: -len(f"${len(pieces)}")]
        for place in reversed(separators(text)):
            text = f"{text[:place]}\\{text[place:]}"
        pieces = list(Template.parse(text).pieces)
    pieces[-1] = pieces[-1].rstrip().removesuffix(";").rstrip()
    if "--" in pieces[-1].rpartition("\n")[2]:
        # the semicolon would be part of the comment
        pieces[-1] += "\n"
    return pieces


def _words(sites: Sequence[Site]) -> set[str]:
    """Return what follows colons in the statements, which no variable may be called."""
    values = {value for site in sites for column in site.columns for value in set(column) if value and ":" in value}
    texts = [*values, *(piece for site in sites for piece in site.template.pieces if ":" in piece)]
    return {word for text in texts for word in re.findall(r":(\w+)", text)}


def _slug(texts: Sequence[str]) -> str:
    inside = [text for text in texts if statement_kind(text) is Kind.OTHER] or list(texts)
    found = [match for match in (_WORDS.search(text[:_NAMING]) for text in inside) if match is not None]
    changing = [match for match in found if not match[1]]
    if not found:
        words = re.findall(r"[a-z0-9_]+", re.sub(r"/\*.*?\*/", "", inside[0]).lower())
        return "-".join(words[:3])[:40] or "statement"
    match = (changing or found)[0]
    verb = next(group for group in match.groups()[:-1] if group)
    return re.sub(r"[^a-z0-9_-]", "_", f"{verb}-{match[6]}".lower())[:40]
