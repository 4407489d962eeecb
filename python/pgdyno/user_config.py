"""The user's configuration file: defaults for options that somebody gives to every command."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.mounts import expand_home

KEYS = {"runs": "the folder of runs", "language": "the language of reports: en, ko, ja or zh"}
LANGUAGES = ("en", "ko", "ja", "zh")
"""Those of `report.translation.Language`, which takes longer to load than commands without reports take to start."""
_PARAMETERS = {"runs": ("runs", "import.into"), "language": ("language",)}
"""The parameters that each key sets, unless the command line or the environment does: of every command, or of the one
before the dot, because `--into` of another command is no folder of runs.
"""


def config_path() -> Path:
    """Return `pgdyno/config.toml` in the folder of the XDG base directory specification."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    # the specification ignores relative paths
    # an account may have no home directory at all, as in containers
    folder = Path(base) if base.startswith("/") else expand_home(os.environ.get("HOME") or "~") / ".config"
    return folder / "pgdyno" / "config.toml"


def read_config(path: Path) -> dict[str, str]:
    """Return the keys of the file at `path`; none if it does not exist. Raises UsageError with the mistake."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        # imported here: few users have the file
        import tomllib

        found = tomllib.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else reason.lower()
        raise UsageError(f"cannot read {path}: {reason}", hint="correct it, or remove it") from error
    for key, value in found.items():
        if key not in KEYS:
            raise UsageError(f"{path}: unknown key {key}", hint=f"known keys: {', '.join(KEYS)}")
        if not isinstance(value, str) or not value:
            raise UsageError(f"{path}: {key} must be a string", hint=f"{key} is {KEYS[key]}")
        if key == "language" and value not in LANGUAGES:
            raise UsageError(f"{path}: there is no language {value!r}", hint=f"{key} is {KEYS[key]}")
    if "runs" in found:
        found["runs"] = str(expand_home(found["runs"]))
    return found


def defaults(config: Mapping[str, str], commands: Iterable[str]) -> dict[str, dict[str, str]]:
    given = {parameter: value for key, value in config.items() for parameter in _PARAMETERS[key]}
    return {command: _defaults_of_command(command, given) for command in commands} if given else {}


def _defaults_of_command(command: str, given: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for parameter, value in given.items():
        only, _, name = parameter.rpartition(".")
        if only in ("", command):
            found[name] = value
    return found
