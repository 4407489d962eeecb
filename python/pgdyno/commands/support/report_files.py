"""Files that commands read and write for people: price files and reports."""

import os
import sys
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from pgdyno.errors import PgdynoError, StoreError, UsageError
from pgdyno.mounts import expand_home, is_folder, read_within
from pgdyno.plan.plan_document import dotted_path, key_lines
from pgdyno.records.price import PriceList
from pgdyno.safe_output import visible
from pgdyno.store.object_storage.address import Address, is_remote
from pgdyno.store.safe_files import open_new, store_errors


def check_report_file(path: Path) -> None:
    """Raise StoreError if `path` cannot be written, before anything is measured."""
    if path.parts[:2] == ("/", "dev"):
        return
    if is_folder(path):
        reason = "is a directory"
    elif not is_folder(path.parent):
        reason = f"folder {path.parent} does not exist"
    elif not os.access(path.parent, os.W_OK):
        reason = "permission denied"
    else:
        return
    raise StoreError(f"cannot write {path}: {reason}", hint="choose another path")


def try_write_report(path: Path, content: str | bytes) -> StoreError | None:
    """Write as `write_report_file`. Returns its error, so that the caller prints the results before it raises it."""
    try:
        write_report_file(path, content)
    except StoreError as error:
        return error
    return None


def raise_first(errors: Iterable[PgdynoError | None]) -> None:
    """Raise the first error of several `try_write_report`; does nothing without one."""
    for error in errors:
        if error is not None:
            raise error


def write_report_file(path: Path, content: str | bytes) -> None:
    """Write `content` to `path` atomically. Raises StoreError with the reason."""
    write_pieces(path, [_bytes(content)])


def is_standard_output(path: Path | str | None) -> bool:
    """Return whether `path` is `-`, which stands for standard output."""
    return path is not None and str(path) == "-"


def _bytes(content: str | bytes) -> bytes:
    """Escapes control characters as on a terminal, so that printing the file is safe."""
    return visible(content).encode() if isinstance(content, str) else content


def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Write `pieces` to `path` atomically without holding all of them in memory.

    What is below /dev, such as /dev/stdout, is written to instead of replaced; `-` is standard output. Raises
    StoreError with the reason.
    """
    if is_standard_output(path):
        path = Path("/dev/stdout")
    if path.parts[:2] == ("/", "dev"):
        # a file to which the shell redirects keeps what it has: opened by its name, it would be emptied
        target = {"/dev/stdout": 1, "/dev/stderr": 2}.get(str(path), path)
        with store_errors("write", path, None), open(target, "wb", closefd=isinstance(target, Path)) as stream:
            sys.stdout.flush()
            stream.writelines(pieces)
        return
    if not path.name:
        # "." and "/"
        raise StoreError(f"cannot write {path}: is a directory", hint="choose another path")
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open_new(partial) as file:
            file.writelines(pieces)
        partial.replace(path)
    except OSError as error:
        raise StoreError(
            f"cannot write {path}: {(error.strerror or str(error)).lower()}", hint="choose another path"
        ) from error
    finally:
        # the reason why it could not be written may be that it cannot be removed, either
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def write_report_at(place: str, content: str | bytes) -> None:
    """Write `content` to `place`, a path or an address of object storage. Raises StoreError and UsageError."""
    if not is_remote(place):
        write_report_file(expand_home(place), content)
        return
    from pgdyno.store.object_storage.objects import write

    write(_bytes(content), Address.parse(place))


def below(place: str, name: str) -> str:
    """Return the location of `name` in the folder at `place`."""
    return str(Address.parse(place) / name) if is_remote(place) else str(Path(place) / name)


def read_prices(path: Path) -> PriceList:
    """Read a price list from a TOML file. Raises UsageError with all mistakes in it."""
    try:
        # editors on Windows write a byte order mark, which TOML does not have
        text = read_within(path).decode("utf-8-sig")
        return PriceList.model_validate(tomllib.loads(text))
    except OSError as error:
        raise UsageError(f"cannot read the prices in {path}: {(error.strerror or '').lower()}") from error
    except ValidationError as error:
        lines = key_lines(text)
        mistakes = "; ".join(_mistake(lines, each["loc"], each["type"], each["msg"]) for each in error.errors())
        raise UsageError(
            f"{path} is not a price list: {mistakes}", hint="see the example in docs/reference/price.md"
        ) from error
    # after ValidationError, which is a ValueError
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8", hint="save the file as UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from error


_SAID = {"missing": "is missing", "extra_forbidden": "unknown key"}


def _mistake(lines: Mapping[tuple[str | int, ...], int], at: tuple[str | int, ...], kind: str, message: str) -> str:
    where = f"line {lines[at]}: " if at in lines else ""
    message = message.removeprefix("Value error, ")
    return f"{where}{dotted_path(at)}: {_SAID.get(kind, message[:1].lower() + message[1:])}"
