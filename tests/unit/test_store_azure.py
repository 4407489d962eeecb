"""Runs on Azure's object storage, which Azurite replaces; `make test-long`, because npm downloads 186 MB for it."""

import secrets
from pathlib import Path

import pytest

from pgdyno.errors import StoreError
from pgdyno.store import load_run
from pgdyno.store.find_runs import named_runs
from pgdyno.store.object_storage import objects
from pgdyno.store.object_storage.address import Address
from pgdyno.store.object_storage.runs import copy_run, open_run, upload
from pgdyno.targets import Home
from tests.azurite import azurite
from tests.present import present
from tests.s3 import environment
from tests.unit.archive_sample import run_of


@pytest.mark.long
def test_runs_on_azure(tmp_path: Path) -> None:
    run, runs = run_of(tmp_path / "runs"), Address.parse("az://bench/runs")
    with azurite(Home.locate(), tmp_path):
        at = upload(run, runs)
        assert str(at) == f"az://bench/runs/{run.name}"
        assert named_runs(["az://bench/runs"], tmp_path).places == [str(at)]
        with open_run(str(at)) as there:
            assert load_run(there).intervals() == load_run(run).intervals()
        assert copy_run(at, tmp_path / "back").manifest == run.manifest
        with pytest.raises(StoreError, match="already exists"):
            upload(run, runs)
        # two that begin at once: the service lets one manifest in
        with pytest.raises(StoreError, match=r"cannot write az://bench/runs/.*: it already exists"):
            objects.write(b"{}", at / "manifest.json", only_new=True)
        found = present(objects.find_object(at / "manifest.json"))
        objects.write(b"{}", at / "manifest.json")
        with pytest.raises(StoreError, match="it was changed while the run was read"):
            objects.fetch(found, tmp_path / "x")
        objects.write(secrets.token_bytes(12 << 20), Address.parse("az://bench/large"))
        large = present(objects.find_object(Address.parse("az://bench/large")))
        objects.fetch(large, tmp_path / "large")
        assert (tmp_path / "large").stat().st_size == 12 << 20
        with pytest.raises(StoreError, match="cannot list az://nowhere/x: there is no bucket nowhere"):
            objects.list_objects(Address.parse("az://nowhere/x"))
        with (
            environment({"AZURE_STORAGE_ACCOUNT_KEY": "bm9uZQ=="}),
            pytest.raises(StoreError, match=r"cannot list az://bench/runs: (access denied|the credentials are not)"),
        ):
            objects.list_objects(runs)
