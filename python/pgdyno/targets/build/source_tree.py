"""A source tree: its current state or one of its commits, with patches, and a copy that a build may write to."""

import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from pgdyno.errors import TargetError
from pgdyno.mounts import expand_home
from pgdyno.targets.home import ensure_folder, target_errors

_GIT_TIMEOUT_S = 120
_SHORT = 12
_SHORT_HASH = 8


@dataclass(frozen=True, slots=True)
class Source:
    """One state of a source tree."""

    folder: Path
    key: str
    """Changes when any file of the tree changes that git does not ignore, or a patch."""
    words: str
    """A description for messages: `commit 1a2b3c4d5e6f, changed, v3-0001.patch (9f8e7d6c)`."""
    commit: str | None = None
    """The commit to build instead of the files that are there."""
    patches: tuple[Path, ...] = ()
    """Applied in this order."""

    @property
    def is_in_git(self) -> bool:
        """Whether git tells sources from what a build made of them."""
        return self.key.startswith("commit ")

    def has(self, name: str) -> bool:
        """Return whether the tree has the file `name`, before patches."""
        if self.commit is None:
            return (self.folder / name).is_file()
        return _git(self.folder, "cat-file", "-e", f"{self.commit}:./{name}") is not None


def read_tree(folder: Path, commit: str | None = None, patches: Sequence[str] = ()) -> Source:
    """Read the state of the tree in `folder`, or its `commit`. Raises TargetError."""
    if commit is not None:
        found = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
        if found is None:
            hint = "name a commit, branch or tag of a git checkout, and fetch it first"
            raise TargetError(f"cannot build {folder}: there is no commit {commit}", hint=hint)
        name = found.decode().strip()
        source = Source(folder, f"commit {name} ", f"commit {name[:_SHORT]}", name)
    else:
        source = _read_files(folder)
    for each in patches:
        path = expand_home(each).absolute()
        with target_errors(path, "cannot read"):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        words = f"{source.words}, {path.name} ({digest[:_SHORT_HASH]})"
        source = replace(source, key=f"{source.key} patch {digest}", words=words, patches=(*source.patches, path))
    return source


def _read_files(folder: Path) -> Source:
    commit = _git(folder, "rev-parse", "HEAD") if (folder / ".git").exists() else None
    if commit is None:
        key = _hash_files(folder, all_files(folder))
        return Source(folder, f"tree {key}", f"files {key[:_SHORT]}")
    changed = _changes(folder)
    name = commit.decode().strip()
    return Source(folder, f"commit {name} {changed}", f"commit {name[:_SHORT]}" + (", changed" if changed else ""))


def copy_tree(source: Source, to: Path) -> None:
    """Copy the files of `source`, without what git ignores, to the folder `to`, and apply its patches.

    Neither the tree nor its repository changes. Raises TargetError, which names the patch, file and line.
    """
    with target_errors(to, "cannot write"):
        to.mkdir()
    if source.commit is not None:
        _export_commit(source.folder, source.commit, to)
    else:
        copy_files(_files_of(source.folder), source.folder, to)
    for patch in source.patches:
        _apply_patch(patch, source, to)


def copy_files(files: Iterable[Path], folder: Path, to: Path) -> None:
    """Copy `files` of `folder` to the same places below `to`; symbolic links stay. Raises TargetError."""
    for path in files:
        target = to / path.relative_to(folder)
        ensure_folder(target.parent)
        with target_errors(target, "cannot copy to"):
            # times are kept: make compares them
            shutil.copy2(path, target, follow_symlinks=False)


def _export_commit(folder: Path, commit: str, to: Path) -> None:
    archive = to.with_name(f"{to.name}.tar")
    said = _run_git(folder, "archive", "--format=tar", f"--output={archive}", commit)
    with target_errors(archive, "cannot unpack"):
        if said is None:
            shutil.unpack_archive(archive, to, "tar")
        archive.unlink(missing_ok=True)
    if said is not None:
        raise TargetError(f"cannot build {folder}: git archive {commit} failed: {said}")


def _apply_patch(patch: Path, source: Source, to: Path) -> None:
    # the copy may lie in a repository of the user's, in which git would look for the files
    said = _run_git(to, "apply", "--whitespace=nowarn", str(patch), ceiling=to.parent)
    if said is not None:
        name = source.commit or "the files"
        raise TargetError(
            f"cannot apply {patch} to {source.folder}: {said}",
            hint=f'make the patch again for {name[:_SHORT]}, or name the commit that it was made for: commit = "…"',
        )


def _run_git(folder: Path, *arguments: str, ceiling: Path | None = None) -> str | None:
    """Return why git failed, in one line; None if it did not. Raises TargetError without git."""
    try:
        done = _call_git(folder, arguments, {"GIT_CEILING_DIRECTORIES": str(ceiling)} if ceiling is not None else {})
    except OSError as error:
        raise TargetError(f"cannot run git: {(error.strerror or str(error)).lower()}", hint="install git") from error
    except subprocess.TimeoutExpired as error:
        raise TargetError(f"cannot build {folder}: git does not answer") from error
    if done.returncode == 0:
        return None
    lines = done.stderr.decode("utf-8", "replace").splitlines()
    return "; ".join(line.removeprefix("error: ").removeprefix("fatal: ") for line in lines) or "it says nothing"


def _git(folder: Path, *arguments: str) -> bytes | None:
    """Return git's output; None without git, or if git does not track the tree (an archive next to a stray .git)."""
    try:
        done = _call_git(folder, arguments)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None


def _call_git(
    folder: Path, arguments: Sequence[str], more: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[bytes]:
    # the tree may belong to another user, which git refuses: only its own files are read
    command = ["git", "-c", "safe.directory=*", "-C", str(folder), *arguments]
    # in a hook of git, its variables name another repository
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"LC_ALL": "C", **more}
    return subprocess.run(command, capture_output=True, env=environment, timeout=_GIT_TIMEOUT_S, check=False)


def _changes(folder: Path) -> str:
    """Return a hash of uncommitted changes; empty if there are none."""
    diff = _git(folder, "diff", "--binary", "HEAD") or b""
    others = _listed(folder, "--others") or []
    if not diff and not others:
        return ""
    return hashlib.sha256(diff + _hash_files(folder, others).encode()).hexdigest()


def _listed(folder: Path, *options: str) -> list[Path] | None:
    """Return the files that git lists and does not ignore; None if git does not track the tree."""
    listed = _git(folder, "ls-files", *options, "--exclude-standard", "-z") if (folder / ".git").exists() else None
    names = None if listed is None else dict.fromkeys(listed.split(b"\0"))
    return None if names is None else [folder / os.fsdecode(name) for name in names if name]


def _files_of(folder: Path) -> list[Path]:
    """Return the files of the tree that are there, without what git ignores."""
    found = _listed(folder, "--cached", "--others")
    return [path for path in (all_files(folder) if found is None else found) if path.is_symlink() or path.is_file()]


def all_files(folder: Path) -> list[Path]:
    """Return the files below `folder`, except those of git."""
    found = []
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        links = [name for name in folders if Path(at, name).is_symlink()]
        found += [Path(at, name) for name in sorted([*names, *links])]
    return found


def _hash_files(folder: Path, files: list[Path]) -> str:
    total = hashlib.sha256()
    for path in files:
        with target_errors(path, "cannot read"):
            status = path.lstat()
            content = os.fsencode(path.readlink()) if path.is_symlink() else b""
            if stat.S_ISREG(status.st_mode):
                # a pipe would never end, and a socket cannot be read
                content = path.read_bytes()
        name = os.fsencode(path.relative_to(folder))
        total.update(b"%d %o %d %s\0" % (len(name), status.st_mode, len(content), name))
        total.update(content)
    return total.hexdigest()
