"""Host, port and database of a connection string, without its user, password and options."""

from __future__ import annotations

import re

_URI = re.compile(
    r"postgres(?:ql)?://(?:[^/@]{0,4000}@)?(?P<hosts>[^/?]{0,1000})(?:/(?P<database>[^?]{0,200}))?(?:\?(?P<query>.*))?"
)
_PAIR = re.compile(r"(?:^|[\s&])(?P<key>[a-z_]{1,40})\s{0,4}=\s{0,4}(?P<value>'(?:\\.|[^'\\])*'|(?:\\.|[^\s&\\])+)")
_PARTS = {"service": "h", "hostaddr": "h", "host": "h", "port": "p", "dbname": "d"}
"""libpq's parameters, and the options of pgbench for the same."""


def server_parts(text: str) -> dict[str, str]:
    """Return host, port and database of `text`, a database's name or a connection string of libpq, by pgbench's options
    `h`, `p` and `d`.

    Without a host, `h` is the service. A URI's host contains its port.
    """
    uri = _URI.fullmatch(text)
    if uri is None and "=" not in text:
        return {"d": text}
    pairs = {match["key"]: match["value"].strip("'") for match in _PAIR.finditer((uri["query"] or "") if uri else text)}
    if uri is not None:
        pairs = {"host": uri["hosts"], "dbname": uri["database"] or ""} | pairs
    return {part: pairs[key] for key, part in _PARTS.items() if pairs.get(key)}
