"""What is secret: in settings, plans, connection strings, statements and names; and what a run keeps instead.

Server settings may contain passwords, tokens or keys: connection strings and shell commands. A superuser sees them in
pg_settings. pg_basebackup -R, for example, writes a password into primary_conninfo, which stays there when the standby
is promoted.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

MASK = "***"
GROUPS = ("settings", "session_settings", "variables")
"""Tables of a plan with settings or variables by name."""
CREDENTIAL_KEY = r"(?:passw(?:or)?d|passphrase|(?:_|user)pass|_pwd|client_secret)"
"""The end of the name of an option or a key that holds a password, for `re`, in any case."""
SECRETS_WITHOUT_VARIABLE = {
    "sslpassword": "use a client key without a passphrase",
    "oauth_client_secret": "log in with a password or a client certificate",
}
"""Secrets of libpq's parameters that have no environment variable, which could keep them out of command lines."""
_COMMANDS = frozenset([
    "archive_cleanup_command", "archive_command", "recovery_end_command", "restore_command", "ssl_passphrase_command",
])  # fmt: skip
_NAME = re.compile(r"(?:conninfo|connstr(?:ing)?|passphrase|passwd|password|secret|token)$", re.IGNORECASE)
_VALUE = re.compile(r"(?:passw(?:or)?d|client_secret)\s*=|://[^/\s:]*:[^/\s]*@", re.IGNORECASE)
_ASSIGNMENT = re.compile(r"\w+=")


def without_secrets(settings: Mapping[str, str]) -> dict[str, str]:
    """Return `settings` as a run keeps them."""
    return {name: kept_value(name, value) for name, value in settings.items()}


def kept_value(name: str, value: str) -> str:
    """Return `value` of the setting `name` with what may be secret masked: of a command, its program stays."""
    if name.lower() in _COMMANDS:
        program, *rest = value.split() or [""]
        if _ASSIGNMENT.match(program):
            return MASK
        return f"{program} {MASK}" if rest else value
    return MASK if value and (_NAME.search(name) or _VALUE.search(value)) else value


def names_password(name: str) -> bool:
    return re.search(rf"{CREDENTIAL_KEY}$", name, re.IGNORECASE) is not None


def may_name_secret(text: str) -> bool:
    """Return whether the connection string `text` has a key of a secret, perhaps misspelt around it."""
    return any(word in text.lower() for word in ("password", "secret"))


_URI = re.compile(r"postgres(ql)?://")
_PAIR = re.compile(r"([^\s=]+)(\s*=\s*)('(?:[^'\\]|\\.)*'?|(?:[^\s\\]|\\.)*)", re.DOTALL)
"""As libpq reads consecutive `keyword = value` pairs: an `options=` inside another value does not match."""
_PARAMETER = re.compile(r"([^?&=]+)(=)([^&]*)")


def masked_dsn(dsn: str) -> str:
    """Return a libpq connection string or URI with its `options` masked."""
    if _URI.match(dsn) is None:
        return _PAIR.sub(_mask_pair, dsn)
    address, mark, query = dsn.partition("?")
    return address + mark + _PARAMETER.sub(_mask_pair, query)


def masked_plan(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a resolved plan, or a part, as a run keeps it: strings, settings and variables masked."""
    return {
        # a key of a sweep's group ends with the name: orders.variables.password
        name: {key: _masked_setting(key.rpartition(".")[2] or key, each) for key, each in value.items()}
        if name in (*GROUPS, "over", "group") and isinstance(value, Mapping)
        else _masked_value(name, value)
        for name, value in plan.items()
    }


def _masked_setting(name: str, value: object) -> object:
    if isinstance(value, list):
        return [_masked_setting(name, each) for each in value]
    return kept_value(name, value) if isinstance(value, str) else _masked_value(name, value)


def _masked_value(name: str, value: object) -> object:
    if isinstance(value, Mapping):
        return masked_plan(value)
    if isinstance(value, list):
        return [_masked_value(name, each) for each in value]
    return masked_dsn(value) if name in ("dsn", "other_dsns") and isinstance(value, str) else value


def _mask_pair(pair: re.Match[str]) -> str:
    return f"{pair[1]}{pair[2]}{MASK}" if unquote(pair[1]) == "options" else pair[0]


# what follows is for RE2: connection strings, and code that sets a password

_CONNECTION_STRING = r"(?:password|client_secret)\s*=|postgres(?:ql)?://[^/@\s]*:[^/@\s]*@"
_ROLE_COMMANDS = (
    r"\b(?:create|alter)\s+(?:role|user|group|server|subscription|foreign\s+data\s+wrapper)\b.*\b(?:password|options)\b"
)
CREDENTIAL_IN_STRING = rf"(?is){_CONNECTION_STRING}|{_ROLE_COMMANDS}|\bpassword\s*(?:''|\\'|\$)"
"""Within quotes, where another quote is doubled or escaped, and in comments."""
CREDENTIAL_IN_CODE = rf"(?is){_CONNECTION_STRING}|{_ROLE_COMMANDS}|\bpassword\s+(?:(?:[en]|u&)?'|\$)"
"""In a statement with dollar quotes: code that they hold may have quotes of its own."""
CREDENTIAL_LIKELY = r"(?i)password|client_secret|options|postgres(?:ql)?://"
"""Matches each text that one of the others matches; cheap."""
