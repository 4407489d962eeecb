"""Reports a load that ran on the server's machine."""

from collections.abc import Iterator

from pgdyno.audit.finding import Evidence, MissingError, Rule, RuleFinding, Severity, evidence_of
from pgdyno.audit.subject import Subject
from pgdyno.messages import Message
from pgdyno.registry import kinds_that_are

HERE = frozenset(kinds_that_are("here"))
"""Kinds of targets that run on pgdyno's own machine."""
ADVICE = "for reproducible figures, run the load on a separate host"


def _check(subject: Subject) -> Iterator[RuleFinding]:
    if subject.imported:
        yield from _by_commands(subject)
        return
    here = [target.name for target in subject.manifest.targets if target.kind in HERE]
    host = subject.manifest.host
    if here:
        cores = host.cores if host is not None else 0
        yield RuleFinding(
            Severity.NOTE,
            Message(
                "generator-on-server",
                "load and server share the {cores} cores of one machine: {targets}",
                cores=cores,
                targets=", ".join(here),
            ),
            (),
            [Evidence(at="manifest", figures={"cores": cores, "targets": ", ".join(here)})],
            ADVICE,
        )


def _by_commands(subject: Subject) -> Iterator[RuleFinding]:
    """Report what command lines of an import, and the prompts before them, show."""
    # a run of pgdyno's own needs no parsers of documents
    from pgdyno.importers.documents.command_lines import host_of, is_local

    commands = [
        (sample, sample.trial.imported.command)
        for sample in subject.samples
        if sample.trial.imported is not None and sample.trial.imported.command is not None
    ]
    prompts = subject.facts("prompt of a server")
    if not commands and not prompts:
        raise MissingError(Message("no-command-line", "the source shows no command line"))
    elsewhere = [line for line in subject.facts("PGHOST") if not is_local(line.text.partition("=")[2])]
    here = [(sample, command) for sample, command in commands if _connects_locally(command, named=bool(elsewhere))]
    if here:
        shown = dict.fromkeys(
            host_of(command) or "no host: a local socket, unless PGHOST was set" for _, command in here
        )
        yield RuleFinding(
            Severity.NOTE,
            Message(
                "generator-on-server-command",
                "{commands} of {all} command lines connect to the machine on which they ran ({hosts}): load and "
                "server shared it",
                commands=len(here),
                all=len(commands),
                hosts=", ".join(shown),
            ),
            *evidence_of({sample: {"command": command} for sample, command in here}),
            ADVICE,
        )
    elif prompts:
        yield RuleFinding(
            Severity.NOTE,
            Message(
                "generator-on-server-prompt",
                "the prompt before the command is from the server's machine: load and server may have shared it",
            ),
            (),
            [Evidence(at=f"{line.file}:{line.line}", figures={"text": line.text}) for line in prompts],
            ADVICE,
        )


def _connects_locally(command: str, *, named: bool) -> bool:
    from pgdyno.importers.documents.command_lines import host_of, is_local

    host = host_of(command)
    return host is not None and is_local(host) and not (named and not host)


RULE = Rule(
    "generator-on-server",
    "targets on the generator's machine; for an import, command lines that connect to localhost or to a local "
    "socket (no host, and no PGHOST elsewhere), and prompts of the account postgres or of a host named db or pg",
    Severity.NOTE,
    "docs/design/method.md, Gates",
    _check,
    place=90,
)
