"""kind = "local": an installation on this machine."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.mounts import expand_home, is_folder
from pgdyno.programs import ask
from pgdyno.targets.cluster.installation import Installation, inspect_programs
from pgdyno.targets.home import Home
from pgdyno.targets.kind import OwnKind, TargetKind
from pgdyno.targets.local.schema import LocalTarget


def find_local(spec: LocalTarget, home: Home, environ: Mapping[str, str] | None = None) -> Installation:
    """Return the installation in `spec.bin`, else that of the pg_config on the PATH. Raises TargetError."""
    environ = os.environ if environ is None else environ
    if spec.bin is not None:
        folder = expand_home(spec.bin).absolute()
        remedy = "set bin to the folder with initdb and postgres"
        if not is_folder(folder):
            raise TargetError(f"cannot use bin {folder}: there is no such folder", hint=remedy)
    else:
        config, folder = _ask_pg_config(environ)
        remedy = f"{config} names that folder; install PostgreSQL's server, or set bin"
    library_path = environ.get("LD_LIBRARY_PATH")
    version, major = inspect_programs(folder, home.account, library_path, remedy)
    return Installation(folder, version, major, f"local {folder.resolve()} {version}", library_path)


def _ask_pg_config(environ: Mapping[str, str]) -> tuple[str, Path]:
    config = shutil.which("pg_config", path=environ.get("PATH"))
    if config is None:
        raise TargetError(
            "cannot find a local PostgreSQL: there is no pg_config on the PATH",
            hint="set bin to the folder with initdb and postgres",
        )
    try:
        answer = ask([config, "--bindir"])
    except (OSError, subprocess.SubprocessError) as error:
        raise TargetError(
            f"cannot locate PostgreSQL with {config}: {error}", hint="set bin to the folder with initdb and postgres"
        ) from error
    return config, Path(answer.stdout.strip())


KIND: TargetKind[LocalTarget, Installation] = OwnKind(lambda spec, home, _progress: find_local(spec, home))
