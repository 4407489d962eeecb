"""Which files are copied to another host with a Lua script."""

from pathlib import Path

import pytest

from pgdyno.errors import EngineError
from pgdyno.remote import program_files as module
from pgdyno.remote.program_files import lua_files, pack


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        file = folder / f"{name.replace('__', '/')}.lua"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_files_next_to_the_script_and_those_that_it_loads(tmp_path: Path) -> None:
    write(
        tmp_path,
        lua__own="require('common')\nlocal x = require \"deep.inner\"\npcall(dofile, path .. 'computed.lua')",
        lua__computed="",
        lua__common="loadfile('lua/deep/other.lua')",
        lua__deep__inner="",
        lua__deep__other="",
        lua__deep__unused="",
        elsewhere__far="",
    )
    (tmp_path / "lua" / "notes.txt").touch()
    found = lua_files("lua/own.lua", tmp_path)
    assert found.script == "lua/own.lua"
    assert sorted(found.files) == [
        "lua/common.lua",
        "lua/computed.lua",
        "lua/deep/inner.lua",
        "lua/deep/other.lua",
        "lua/own.lua",
    ]
    assert found.files["lua/common.lua"] == b"loadfile('lua/deep/other.lua')"


def test_the_engine_gets_its_place_there_and_finds_names_without_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, own="", here__x="")
    monkeypatch.chdir(tmp_path / "here")
    baggage = pack(["--lua=../own.lua", "--lua-opt=a=b"], {}, {})
    assert baggage.options == ["--lua=up/own.lua", "--lua-opt=a=b"]
    assert list(baggage.files) == ["up/own.lua"]
    write(tmp_path, own="", installed__oltp="require('oltp_common')", installed__oltp_common="")
    monkeypatch.setattr(module, "INSTALLED", (tmp_path / "installed",))
    assert lua_files("own", tmp_path).script == "own.lua"
    found = lua_files("oltp", tmp_path)
    assert found.script.endswith("/installed/oltp.lua")
    assert not found.script.startswith("/")
    assert {name.rpartition("/")[2] for name in found.files} == {"oltp.lua", "oltp_common.lua"}


def test_files_outside_of_the_folder_and_too_many_are_refused(tmp_path: Path) -> None:
    write(tmp_path, lua__own="dofile('../common.lua')", lua2__own="dofile('common.lua')", common="")
    for folder, named in (("lua", "../common.lua"), ("lua2", "common.lua")):
        with pytest.raises(EngineError, match=rf"{folder}/own\.lua loads {named}, which is outside of its folder"):
            lua_files(f"{folder}/own.lua", tmp_path)
    with pytest.raises(EngineError, match="Lua script none does not exist"):
        lua_files("none", tmp_path)
    write(tmp_path, own="", **{f"x{number}": "" for number in range(module.MOST_FILES)})
    with pytest.raises(EngineError, match="too many files to copy"):
        lua_files("own.lua", tmp_path)
