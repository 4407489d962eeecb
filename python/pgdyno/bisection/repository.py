"""The commits of a git repository between a good one and a bad one. Nothing in the repository changes."""

from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.messages import Message
from pgdyno.mounts import is_folder
from pgdyno.programs import ask

GIT = "git"
_FORMAT = "--format=%H%x00%h%x00%s"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit, and what people see of it."""

    sha: str
    short: str
    subject: str

    @property
    def words(self) -> str:
        """`abc1234 'subject'`."""
        return f"{self.short} '{self.subject}'"


@dataclass(frozen=True, slots=True)
class History:
    """Commits in their order: the first is good, the last is bad."""

    commits: tuple[Commit, ...]
    note: Message | None
    """Why the first is not the commit that the user named."""


class Repository:
    """A git repository, read only."""

    def __init__(self, folder: Path) -> None:
        """Raises UsageError if `folder` is in no repository."""
        if not is_folder(folder):
            raise UsageError(f"there is no folder {folder}", hint="name a git repository with --repo")
        self._folder = folder
        self._ask("rev-parse", "--git-dir")

    def history(self, good: str, bad: str) -> History:
        """Return the commits from `good` to `bad` along first parents: a merge counts as one commit.

        If `good` is no ancestor of `bad`, they begin with the merge base, as for `git bisect`. Raises UsageError.
        """
        first, last = self._commit("--good", good), self._commit("--bad", bad)
        try:
            base = self._ask("merge-base", first, last)
        except UsageError as error:
            raise UsageError(f"{good} and {bad} have no common ancestor", hint="name commits of one history") from error
        if base == last:
            wrong = "are the same commit" if first == last else "are in the wrong order: the bad one is older"
            raise UsageError(f"--good {good} and --bad {bad} {wrong}", hint="name the older, faster commit with --good")
        start = self._ask("log", "-1", _FORMAT, base)
        rest = self._ask("log", "--first-parent", "--reverse", _FORMAT, f"{base}..{last}")
        commits = tuple(Commit(*line.split("\0", 2)) for line in [start, *rest.split("\n")])
        if base == first:
            return History(commits, None)
        note = Message(
            "bisect-from-base",
            "{good} is not an ancestor of {bad}: the search begins at their merge base, {base}",
            good=good,
            bad=bad,
            base=commits[0].words,
        )
        return History(commits, note)

    def has(self, commit: str, path: str) -> bool:
        """Return whether `commit` has the file or folder `path`."""
        try:
            self._ask("cat-file", "-e", f"{commit}:{path}")
        except UsageError:
            return False
        return True

    def _commit(self, option: str, name: str) -> str:
        try:
            return self._ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        except UsageError as error:
            message = f"{option}: there is no commit {name} in {self._folder}"
            raise UsageError(message, hint="name a commit, branch or tag, and fetch it first") from error

    def _ask(self, *arguments: str) -> str:
        """Return git's output. Raises UsageError with its last line."""
        # the repository may belong to another user, which git refuses: only its own files are read
        options = ["-c", "safe.directory=*", "-c", "log.showSignature=false", "-C", str(self._folder)]
        try:
            done = ask([GIT, *options, *arguments], limit_s=None, check=False)
        except OSError as error:
            raise UsageError(f"cannot run git: {(error.strerror or str(error)).lower()}", hint="install git") from error
        if done.returncode != 0:
            said = (done.stderr.strip().splitlines() or ["it says nothing"])[-1].removeprefix("fatal: ")
            raise UsageError(f"cannot read the commits in {self._folder}: {said}", hint="name a git repository")
        return done.stdout.rstrip("\n")
