"""kind = "build" and "local", and extensions: a source tree that is compiled and installed once, or an installation.

The source tree of these tests is small: its configure writes a Makefile that installs links to the embedded build, so
that the result is a real server.
"""

import os
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pgdyno.errors import TargetError
from pgdyno.plan.targets import Extension
from pgdyno.targets import Home, Progress, SilentProgress
from pgdyno.targets.build.extensions import add_extensions
from pgdyno.targets.build.kind import find_build
from pgdyno.targets.build.schema import BuildTarget
from pgdyno.targets.build.source_tree import read_tree
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.home import ensure_folder
from pgdyno.targets.kind import fetch_target
from pgdyno.targets.local.kind import find_local
from pgdyno.targets.local.schema import LocalTarget
from tests.postgres.servers import execute, opened, value
from tests.small_extension import change_rounds, commit_all, git, programs_with_headers, write_extension, write_tree


@pytest.fixture
def tree(scratch: Path, installed: Installation) -> Path:
    return write_tree(scratch / "source", installed)


MESON = """\
project('tree', 'c', version: '1')
executable('main', 'src/main.c', install: true, install_dir: 'made')
if get_option('luck') == 'none'
  error('no luck')
endif
foreach name : ['bin', 'lib', 'share']
  install_symlink(name, install_dir: '.', pointing_to: 'BUILT/' + name)
endforeach
"""


def spec(tree: Path, **fields: object) -> BuildTarget:
    return BuildTarget.model_validate(
        {"kind": "build", "source": str(tree), "settings": {"fsync": "off", "shared_buffers": "16MB"}, **fields}
    )


def builds(tree: Path) -> int:
    return (tree.parent / "count").read_text().count("once")


def find(home: Home, tree: Path, progress: Progress | None = None, **fields: object) -> Installation:
    return find_build(spec(tree, **fields), home, progress or SilentProgress())


def test_a_server_from_source(tree: Path, warm_home: Home, installed: Installation) -> None:
    left = warm_home.root / "builds" / "0123456789abcdef.partial"
    ensure_folder(left)
    with opened(warm_home, spec(tree), "built") as server:
        assert server.facts().version == installed.version
        (note,) = server.notes
    assert str(note).startswith(f"built from {tree}, files ")
    assert find(warm_home, tree).version == installed.version
    # kept by what it was built from, and without remains of a killed build
    assert builds(tree) == 1
    assert [entry.suffix for entry in sorted((warm_home.root / "builds").iterdir())] == ["", ".log"]


@pytest.mark.long
def test_a_server_by_meson(tree: Path, warm_home: Home, installed: Installation) -> None:
    (tree / "meson.build").write_text(MESON.replace("BUILT", str(installed.bin.parent)))
    (tree / "meson_options.txt").write_text("option('luck', type: 'string', value: 'some')\n")
    meson = spec(tree, build_system="meson", configure=["-Dluck=more"])
    with opened(warm_home, meson, "built") as server:
        assert server.facts().version == installed.version
        (note,) = server.notes
    find_build(meson, warm_home, SilentProgress())
    assert str(note).startswith(f"built from {tree}, files ")
    assert str(note).endswith(", meson, -Dluck=more")
    assert not (tree.parent / "count").exists()
    # what meson compiled is there, and nothing of it in the tree
    (made,) = (warm_home.root / "builds").glob("*/installed/made/main")
    assert os.access(made, os.X_OK)
    assert {entry.name for entry in tree.iterdir()} == {"configure", "meson.build", "meson_options.txt", "src"}
    with pytest.raises(TargetError, match="configuring failed with status 1") as caught:
        find(warm_home, tree, build_system="meson", configure=["-Dluck=none"])
    assert "no luck" in caught.value.message
    # the same tree, by its configure
    assert find(warm_home, tree).origin not in str(note)
    assert builds(tree) == 1
    (tree / "meson.build").unlink()
    with pytest.raises(TargetError, match=r"there is no meson\.build"):
        find_build(meson, warm_home, SilentProgress())


def test_inputs_that_cause_another_build(tree: Path, warm_home: Home) -> None:
    main = tree / "src" / "main.c"
    inputs: list[dict[str, Any]] = [
        {}, {"configure": ["--without-icu"]}, {"cflags": "-O3"}, {"build_variables": {"CC": "cc -pipe"}},
    ]  # fmt: skip
    first, *others = [find(warm_home, tree, **fields).origin for fields in inputs]
    main.write_text("int main() { return 0; }\n")
    others.append(find(warm_home, tree).origin)
    assert first not in others
    assert builds(tree) == 5
    main.write_text("int main() {}\n")
    assert find(warm_home, tree).origin == first
    assert builds(tree) == 5


def test_a_tree_is_known_by_its_files_and_a_checkout_by_its_commit(tree: Path) -> None:
    before = read_tree(tree).key
    # a pipe is not read
    os.mkfifo(tree / "pipe")
    assert read_tree(tree).key not in ("", before)
    (tree / ".gitignore").write_text("*.o\n")
    commit_all(tree)
    committed = read_tree(tree)
    assert committed.words.startswith("commit ")
    (tree / "main.o").write_text("ignored")
    assert read_tree(tree) == committed
    (tree / "new.c").write_text("int x;\n")
    changed = read_tree(tree)
    assert changed.words == f"{committed.words}, changed"
    (tree / "new.c").write_text("int y;\n")
    assert len({committed.key, changed.key, read_tree(tree).key}) == 3
    commit_all(tree)
    assert "changed" not in read_tree(tree).words
    # as root another user's checkout, which git alone would refuse
    if os.geteuid() == 0:
        os.chown(tree, 65534, 65534)
        assert read_tree(tree).words.startswith("commit ")


PATCH = """\
From 0123456789abcdef Mon Sep 17 00:00:00 2001
From: X <x@example.net>
Subject: [PATCH v3 {number}] Say {word}

A mail, as git format-patch writes it.
---
 src/main.c | 2 +-
 1 file changed, 1 insertion(+), 1 deletion(-)

diff --git a/src/main.c b/src/main.c
--- a/src/main.c
+++ b/src/main.c
@@ -1 +1 @@
-{before}
+{after}
--{blank}
2.39.5

"""


def write_patch(tree: Path, number: int, before: str, after: str) -> str:
    path = tree.parent / f"v3-000{number}.patch"
    path.write_text(PATCH.format(number=number, word=after, before=before, after=after, blank=" "))
    return str(path)


def installed_main(found: Installation) -> str:
    return (found.bin.parent / "main.c").read_text()


@pytest.fixture
def installs_source(tree: Path) -> Path:
    text = (tree / "configure").read_text()
    text = text.replace("share .\n", 'share . && cp "$(dirname "$0")/src/main.c" .\n')
    (tree / "configure").write_text(text)
    return tree


@pytest.mark.parametrize("in_git", [True, False])
def test_patches_are_applied_in_order_to_a_copy(installs_source: Path, in_git: bool, warm_home: Home) -> None:
    tree = installs_source
    first = write_patch(tree, 1, "int main() {}", "int one;")
    second = write_patch(tree, 2, "int one;", "int two;")
    if in_git:
        commit_all(tree)
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}

    def patched(*patches: str) -> Installation:
        return find(warm_home, tree, patches=list(patches))

    found = [patched(), patched(first), patched(first, second), patched(first)]
    assert [installed_main(each) for each in found] == ["int main() {}\n", "int one;\n", "int two;\n", "int one;\n"]
    assert builds(tree) == 3
    assert "v3-0001.patch (" in str(found[2].built)
    assert str(found[2].built).index("v3-0001") < str(found[2].built).index("v3-0002")
    # by its text, not by its name
    Path(first).write_text(Path(first).read_text().replace("+int one;", "+int three;"))
    assert installed_main(patched(first)) == "int three;\n"
    assert {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()} == before
    with pytest.raises(TargetError, match=r"cannot apply .*v3-0002\.patch to .*patch failed: src/main\.c:1") as caught:
        patched(second)
    assert "commit" in str(caught.value.hint)
    assert not list((warm_home.root / "builds").glob("*.partial"))


def test_a_commit_that_is_not_checked_out(installs_source: Path, warm_home: Home) -> None:
    tree = installs_source
    first = commit_all(tree)
    (tree / "src" / "main.c").write_text("int later;\n")
    commit_all(tree)
    # neither uncommitted changes nor a build in place are in the way
    (tree / "src" / "main.c").write_text("int dirty;\n")
    (tree / "config.status").write_text("")
    git(tree, "tag", "old", first)
    for commit in ("old", first[:9], "HEAD~1"):
        found = find(warm_home, tree, commit=commit)
        assert installed_main(found) == "int main() {}\n"
        assert found.built == f"{tree}, commit {first[:12]}"
    assert builds(tree) == 1
    assert git(tree, "status", "--porcelain").split() == ["M", "src/main.c", "??", "config.status"]
    assert "partial" not in git(tree, "worktree", "list")
    with pytest.raises(TargetError, match="there is no commit --all"):
        find(warm_home, tree, commit="--all")


@pytest.mark.parametrize("text", ["", "not a patch", "\0\0", "outside the copy"])
def test_a_file_that_is_no_patch(text: str, tree: Path, warm_home: Home) -> None:
    path = Path(write_patch(tree, 1, "x", "y"))
    outside = path.read_text().replace("/src/main.c", "/../../outside.c")
    path.write_text(outside if text == "outside the copy" else text)
    (warm_home.root / "outside.c").write_text("x\n")
    with pytest.raises(TargetError, match=r"cannot apply .*v3-0001\.patch"):
        find(warm_home, tree, patches=[str(path)])
    assert (warm_home.root / "outside.c").read_text() == "x\n"


def test_a_build_that_fails_tells_its_last_lines(tree: Path, warm_home: Home) -> None:
    with pytest.raises(
        TargetError, match=r"configuring failed with status 77(?s:.*)configure: error: no luck"
    ) as caught:
        find(warm_home, tree, configure=["--without-luck"])
    (log,) = (warm_home.root / "builds").iterdir()
    assert caught.value.hint == f"see the whole log: {log}"
    assert "checking the machine" in log.read_text()
    (tree / "configure").write_text("#!/bin/sh\nprintf 'all install:\\n\\ttrue\\n' > Makefile\n")
    with pytest.raises(TargetError, match="nothing was installed"):
        find(warm_home, tree)
    (tree / "config.status").write_text("")
    with pytest.raises(TargetError, match="it was configured in place") as caught:
        find(warm_home, tree)
    assert caught.value.hint == f"run make distclean in {tree} first"


def test_two_do_not_build_at_once(tree: Path, warm_home: Home) -> None:
    text = (tree / "configure").read_text().replace("echo once", "sleep 1; echo once")
    (tree / "configure").write_text(text)
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(partial(find, warm_home), [tree, tree]))
    assert found[0].origin == found[1].origin
    assert builds(tree) == 1


def test_an_interrupt_ends_the_compiler(tree: Path, warm_home: Home) -> None:
    text = (tree / "configure").read_text().replace("@echo", "@sleep 300; echo")
    (tree / "configure").write_text(text)

    class Interrupting(SilentProgress):
        def step(self, text: str) -> None:
            if text.startswith("compiling"):
                threading.Timer(0.5, os.kill, (os.getpid(), 2)).start()

    with pytest.raises(KeyboardInterrupt):
        find(warm_home, tree, Interrupting())
    assert [entry.suffix for entry in (warm_home.root / "builds").iterdir()] == [".log"]
    sleeping = subprocess.run(["pgrep", "-f", "^sleep 300$"], capture_output=True, text=True, check=False)
    ours = [pid for pid in sleeping.stdout.split() if str(warm_home.root) in str(Path(f"/proc/{pid}/cwd").readlink())]
    assert ours == []


NAMES = "SELECT string_agg(extname || ' ' || extversion, ', ' ORDER BY extname) FROM pg_extension"


def target(*extensions: dict[str, Any], **fields: object) -> LocalTarget:
    return LocalTarget.model_validate(
        {"kind": "local", "bin": str(programs_with_headers()), "extensions": list(extensions), **fields}
    )


@pytest.fixture
def extension(scratch: Path) -> Path:
    return write_extension(scratch / "busywork", mix=10)


def test_a_server_with_an_extension(extension: Path, fresh_home: Home) -> None:
    change_rounds(extension, mix=1)
    commit = commit_all(extension)
    before = sorted(extension.rglob("*"))
    spec = target({"source": str(extension)}, settings={"shared_preload_libraries": "busywork"}, replicas={"count": 1})
    with opened(fresh_home, spec, "with") as server:
        assert value(server, NAMES) == "busywork 1.0, plpgsql 1.0"
        assert value(server, "SHOW busywork.extra_rounds") == "0"
        one_round = value(server, "SELECT busywork_mix(1)")
        assert server.facts().built == f"busywork 1.0 ({extension}, commit {commit[:12]})"
        with server.connect(server.maintenance) as connection:
            # as a reset makes it
            connection.execute("DROP DATABASE pgdyno")
            connection.execute("CREATE DATABASE pgdyno")
        assert value(server, "SELECT busywork_mix(1)") == one_round
        # the copy of the programs is complete
        server.make_replicas()
        assert value(server, "SELECT count(*) FROM pg_stat_replication") == 1
    assert sorted(extension.rglob("*")) == before
    assert git(extension, "status", "--porcelain") == ""
    # another amount of work: another build, another result
    change_rounds(extension, mix=2)
    with opened(fresh_home, target({"source": str(extension)}), "with") as server:
        assert value(server, "SELECT busywork_mix(1)") != one_round
        assert str(server.facts().built).endswith(f"commit {commit[:12]}, changed)")
    # the first again, by its commit: kept
    old = target({"source": str(extension), "commit": commit, "create": False})
    with opened(fresh_home, old, "with") as server:
        assert value(server, NAMES) == "plpgsql 1.0"
        execute(server, "CREATE EXTENSION busywork")
        assert value(server, "SELECT busywork_mix(1)") == one_round
    assert len(list((fresh_home.root / "builds").glob("*[!g]"))) == 2
    assert not (programs_with_headers().parent / "lib" / "busywork.so").exists()
    # a library that does not load
    settings = {"shared_preload_libraries": "busywork", "busywork.fails_at_start": "on"}
    failing = target({"source": str(extension)}, settings=settings)
    with pytest.raises(TargetError, match="SIGABRT ended it") as caught, opened(fresh_home, failing, "with"):
        pass
    assert "shared_preload_libraries" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("busywork.c", "int rounds)\n{", "int rounds)\n{ oops;", "compiling failed with status 2(?s:.*)oops"),
        ("Makefile", "include $(PGXS)", "include nothing.mk", "cleaning failed with status 2(?s:.*)nothing.mk"),
    ],
)
def test_an_extension_that_does_not_build(
    file: str, old: str, new: str, message: str, extension: Path, fresh_home: Home
) -> None:
    (extension / file).write_text((extension / file).read_text().replace(old, new))
    with pytest.raises(TargetError, match=f"target with: cannot build {extension}: {message}") as caught:
        fetch_target("with", target({"source": str(extension)}), home=fresh_home, progress=SilentProgress())
    assert str(caught.value.hint).startswith("see the whole log")
    assert [entry.suffix for entry in (fresh_home.root / "builds").iterdir()] == [".log"]


def test_what_an_extension_cannot_be_built_from(
    extension: Path, scratch: Path, fresh_home: Home, installed: Installation
) -> None:
    with pytest.raises(TargetError, match="cannot build extensions for") as caught:
        add_extensions(installed, [Extension(source=str(extension))], fresh_home, SilentProgress())
    assert f"postgresql-server-dev-{installed.major}" in str(caught.value.hint)
    found = find_local(target(), fresh_home)
    with pytest.raises(TargetError, match="there is no Makefile"):
        add_extensions(found, [Extension(source=str(scratch))], fresh_home, SilentProgress())


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(0o755)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def programs(folder: Path, initdb: str = "17.2", postgres: str | None = None) -> LocalTarget:
    script(folder / "initdb", f'echo "initdb (PostgreSQL) {initdb}"')
    script(folder / "postgres", f'echo "postgres (PostgreSQL) {postgres or initdb}"')
    return LocalTarget(kind="local", bin=str(folder))


def test_a_server_from_a_folder_or_one_that_pg_config_names(
    warm_home: Home, installed: Installation, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = find_local(LocalTarget(kind="local", bin=str(installed.bin)), warm_home)
    assert (found.bin, found.version) == (installed.bin, installed.version)
    config = script(scratch / "path" / "pg_config", f'[ "$1" = --bindir ] && echo "{installed.bin}"')
    monkeypatch.setenv("PATH", f"{config.parent}:/usr/bin:/bin")
    with opened(warm_home, LocalTarget(kind="local", settings={"work_mem": "7MB"})) as server:
        facts = server.facts()
    assert (facts.version, facts.settings_changed["work_mem"]) == (installed.version, "7MB")
    assert not server.data_directory.exists()


def rejection(spec: LocalTarget, home: Home, **environ: str) -> TargetError:
    with pytest.raises(TargetError) as caught:
        find_local(spec, home, environ)
    return caught.value


def test_pg_configs_that_lead_to_no_server(fresh_home: Home, scratch: Path) -> None:
    asked = LocalTarget(kind="local")
    error = rejection(asked, fresh_home, PATH=str(scratch))
    assert error.message == "cannot find a local PostgreSQL: there is no pg_config on the PATH"
    assert error.hint == "set bin to the folder with initdb and postgres"
    # client libraries alone bring one too
    config = script(scratch / "path" / "pg_config", f'echo "{scratch}"')
    error = rejection(asked, fresh_home, PATH=str(config.parent))
    assert error.message == f"cannot find initdb in {scratch}"
    assert error.hint == f"{config} names that folder; install PostgreSQL's server, or set bin"
    script(config, "exit 3")
    error = rejection(asked, fresh_home, PATH=str(config.parent))
    assert error.message.startswith(f"cannot locate PostgreSQL with {config}: ")
    assert "exit status 3" in error.message


def test_programs_that_cannot_be_used(fresh_home: Home, scratch: Path) -> None:
    folder = scratch / "bin"
    error = rejection(LocalTarget(kind="local", bin=str(folder)), fresh_home)
    assert error.message == f"cannot use bin {folder}: there is no such folder"
    error = rejection(programs(folder, "16.3", "17.2"), fresh_home)
    assert error.message == f"cannot use {folder}: initdb is version 16.3, postgres 17.2"
    error = rejection(programs(folder, "9.6.24"), fresh_home)
    assert error.message == f"cannot use {folder}: PostgreSQL 9.6.24 is older than 10"
    script(folder / "postgres", "echo 'error while loading shared libraries: libx.so'; exit 127")
    error = rejection(LocalTarget(kind="local", bin=str(folder)), fresh_home)
    assert error.message.endswith("--version says error while loading shared libraries: libx.so (status 127)")
    (folder / "postgres").chmod(0o644)
    error = rejection(LocalTarget(kind="local", bin=str(folder)), fresh_home)
    user = fresh_home.account.name
    assert error.message == f"cannot run {folder}/postgres as user {user}: it is not executable"


@pytest.mark.parametrize("version", ["15.5 (Debian 15.5-0+deb12u1)", "19devel", "18beta1"])
def test_versions_as_distributions_write_them(fresh_home: Home, scratch: Path, version: str) -> None:
    found = find_local(programs(scratch / "bin", version), fresh_home, {})
    assert (found.version, found.major) == (version.partition(" ")[0], int(version[:2]))
