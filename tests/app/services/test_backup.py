"""A backup that is taken, damaged, gone on with and restored: what is there afterwards, and what is refused."""

import json
import re
import resource
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from app.cli.commands import cli
from app.database.engine import Database
from app.errors import ConflictError, InvalidRequestError, NotFoundError, UnavailableError
from app.services.backup import BLOBS, MANIFEST, back_up, check_backup, restore
from app.services.diagnosis import diagnose
from app.services.stored_files import missing_files
from app.settings import Settings
from app.storage import catalog
from app.storage.blobs import MODELS, LocalBlobStore, sweep
from app.storage.store_identity import check_store_identity
from app.storage.stores import open_store
from tests.app.routes.service import QUICK, Service, numbers, running
from tests.s3 import S3Server

ROWS = [[0.1, 0.2], [0.4, -0.3]]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with two versions, an alias, a dataset, a queued job, and predictions of a dataset."""
    with running(tmp_path_factory.mktemp("original")) as service:
        check_store_identity(service.database, service.blobs)
        for seed in (1, 2):
            assert service.train(numbers(seed=seed), model="m", **QUICK)["state"] == "succeeded"
        assert service.client.put("/models/m/aliases/champion", json={"version": 1}).status_code == 200
        dataset = service.client.post("/datasets", files={"file": ("t.csv", numbers())}).json()["id"]
        answer = service.client.post("/predict", json={"model": "m", "dataset": dataset})
        assert answer.status_code == 202, answer.text
        assert service.work() == 1
        assert service.post_file(numbers(), {"model": "later", **QUICK}).status_code == 202
        yield service


@pytest.fixture
def saved(original: Service, tmp_path: Path) -> Path:
    folder = tmp_path / "backup"
    back_up(original.database, original.blobs, folder)
    return folder


def empty(folder: Path) -> Settings:
    return Settings(data_dir=folder / "restored")


def restored(saved: Path, folder: Path) -> Settings:
    settings = empty(folder)
    restore(saved, LocalBlobStore(settings.data_dir / "blobs"), settings.data_dir / "pursuit.db")
    return settings


def blobs_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.glob("*/*") if path.parent.name != "tmp"}


def artefact(service: Service, version: int) -> str:
    with service.database.read() as connection:
        return catalog.get_version(connection, "m", version).artefact


def test_all_is_there_again(original: Service, saved: Path, tmp_path: Path) -> None:
    backup, wanted = check_backup(saved)
    assert backup.missing == {}
    assert backup.files == len(wanted) == len(blobs_of(saved / BLOBS))
    assert {f"m@{n}" for n in (1, 2)} <= set(wanted.values())
    restored(saved, tmp_path)
    client = original.client
    with running(tmp_path / "restored") as again:
        assert missing_files(again.database, again.blobs) == {}
        check_store_identity(again.database, again.blobs)
        for page in ("/models/m", "/models/m/versions/1", "/models/m/versions/2", "/datasets", "/jobs"):
            assert client.get(page).status_code == 200
            assert again.client.get(page).json() == client.get(page).json()
        assert again.ask("m", ROWS) == original.ask("m", ROWS)
        assert again.ask("m@2", ROWS) == original.ask("m@2", ROWS)
        (job,) = [job for job in client.get("/jobs").json()["jobs"] if job["kind"] == "predict"]
        place = f"/jobs/{job['id']}/predictions"
        assert again.client.get(place).content == client.get(place).content
        assert again.work() == 1, "the job that waited is done by the copy"
        assert again.client.get("/models/later").status_code == 200
    assert client.get("/models/later").status_code == 404


def test_a_second_backup_copies_what_is_new_and_forgets_what_is_gone(
    original: Service, saved: Path, tmp_path: Path
) -> None:
    gone = saved / BLOBS / MODELS / ("0" * 64 + ".safetensors")
    gone.write_bytes(b"of a model that was deleted since")
    kept = saved / BLOBS / artefact(original, 1)
    before = kept.stat().st_mtime_ns
    first = check_backup(saved)[0]
    second = back_up(original.database, original.blobs, saved)
    assert (second.files, second.size_bytes) == (first.files, first.size_bytes)
    assert not gone.exists()
    assert kept.stat().st_mtime_ns == before
    assert {path.name for path in saved.iterdir()} == {BLOBS, MANIFEST, second.database}
    restored(saved, tmp_path)


def test_what_was_broken_off_is_no_backup_and_is_gone_on_with(original: Service, saved: Path) -> None:
    (saved / MANIFEST).unlink()
    (saved / BLOBS / artefact(original, 1)).unlink()
    with pytest.raises(NotFoundError, match="not finished"):
        check_backup(saved)
    back_up(original.database, original.blobs, saved)
    assert check_backup(saved)[0].missing == {}


def test_an_earlier_backup_stays_one_where_the_next_fails(original: Service, saved: Path, tmp_path: Path) -> None:
    class Away(LocalBlobStore):
        def path(self, key: str) -> Path:
            raise UnavailableError(f"the share is away: {key}")

    shutil.rmtree(saved / BLOBS / MODELS)
    with pytest.raises(UnavailableError, match="away"):
        back_up(original.database, Away(tmp_path), saved)
    shutil.copytree(original.settings.data_dir / "blobs" / MODELS, saved / BLOBS / MODELS)
    assert check_backup(saved)[0].missing == {}


def test_files_that_are_deleted_meanwhile_take_their_rows_along(tmp_path: Path) -> None:
    """The first copy of the database names a version that is deleted, and swept, before its file is copied."""

    class Deleting(LocalBlobStore):
        def path(self, key: str) -> Path:
            if key == doomed:
                with service.database.write() as connection:
                    if any(version.version == 1 for version in catalog.list_versions(connection, "m")[0]):
                        catalog.delete_version(connection, model="m", version=1)

                def artefacts(_: list[str]) -> set[str]:
                    with service.database.read() as connection:
                        return catalog.referenced_artefacts(connection)

                sweep(service.blobs, MODELS, artefacts, older_than=0.0)
            return super().path(key)

    with running(tmp_path / "live") as service:
        for seed in (0, 1):
            assert service.train(numbers(seed=seed), model="m", **QUICK)["state"] == "succeeded"
        doomed = artefact(service, 1)
        assert doomed != artefact(service, 2)
        backup = back_up(service.database, Deleting(tmp_path / "live" / "blobs"), tmp_path / "backup")
    assert backup.missing == {}
    restored(tmp_path / "backup", tmp_path)
    with running(tmp_path / "restored") as again:
        assert [again.client.get(f"/models/m/versions/{number}").status_code for number in (1, 2)] == [404, 200]
        assert missing_files(again.database, again.blobs) == {}


def test_of_sqlite_with_a_bucket_and_back_into_another(s3: S3Server, tmp_path: Path) -> None:
    first, second = (f"s3://{s3.make_bucket()}/{n}" for n in "ab")
    with running(tmp_path / "live", artefact_url=first) as service:
        check_store_identity(service.database, service.blobs)
        assert service.train(numbers(), model="m", **QUICK)["state"] == "succeeded"
        answer = service.ask("m", ROWS)
        back_up(service.database, service.blobs, tmp_path / "backup")
    settings = Settings(data_dir=tmp_path / "restored", artefact_url=second)
    restore(tmp_path / "backup", open_store(settings), settings.data_dir / "pursuit.db")
    with running(tmp_path / "restored", artefact_url=second) as again:
        check_store_identity(again.database, again.blobs)
        assert missing_files(again.database, again.blobs) == {}
        assert again.ask("m", ROWS) == answer


@pytest.mark.parametrize("damage", ["lost", "changed"])
def test_what_the_store_has_lost_is_named_and_the_rest_is_restored(
    original: Service, tmp_path: Path, damage: str
) -> None:
    store = tmp_path / "store"
    shutil.copytree(original.settings.data_dir / "blobs", store)
    key = artefact(original, 2)
    (store / key).unlink()
    if damage == "changed":
        (store / key).write_bytes(b"damaged")
    backup = back_up(original.database, LocalBlobStore(store), tmp_path / "backup")
    assert backup.missing == {key: "m@2"}
    settings = restored(tmp_path / "backup", tmp_path)
    with Database(settings.database) as database:
        assert missing_files(database, LocalBlobStore(settings.data_dir / "blobs")) == {key: "m@2"}
    found = {check["name"]: check for check in diagnose(settings, {})["checks"]}
    assert found["stored"]["state"] == "error"
    assert f"m@2 ({key})" in found["stored"]["detail"]
    shutil.copyfile(original.settings.data_dir / "blobs" / key, settings.data_dir / "blobs" / key)
    assert {check["name"]: check["state"] for check in diagnose(settings, {})["checks"]}["stored"] == "ok"


def test_a_damaged_backup_restores_nothing(original: Service, saved: Path, tmp_path: Path) -> None:
    file = saved / BLOBS / artefact(original, 1)
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(InvalidRequestError, match=r"1 file is lost or damaged in the backup: models/\S+ \(m@1\)"):
        restored(saved, tmp_path)
    assert not empty(tmp_path).data_dir.exists()
    file.write_bytes(whole)
    (copy,) = saved.glob("pursuit-*.db")
    page = bytearray(copy.read_bytes())
    page[-100] ^= 1
    copy.write_bytes(page)
    with pytest.raises(InvalidRequestError, match="is not the database"):
        restored(saved, tmp_path)


def test_a_damaged_fit_is_left_out_and_made_again(saved: Path, tmp_path: Path) -> None:
    (fit,) = [key for key in blobs_of(saved / BLOBS) if key.startswith("fits/")]
    (saved / BLOBS / fit).write_bytes(b"damaged")
    new = empty(tmp_path)
    done = pursuit("restore", saved, "--data-dir", new.data_dir)
    assert done.exit_code == 0, done.output
    assert f"({fit}), which is made again" in done.stderr
    assert "missing" not in done.stdout
    assert not (new.data_dir / "blobs" / fit).exists()
    found = {check["name"]: check for check in diagnose(new, {})["checks"]}["stored"]
    assert (found["state"], "lacks 1 file that" in found["detail"]) == ("warning", True)
    again = pursuit("backup", tmp_path / "again", "--data-dir", new.data_dir, "--json")
    assert (again.exit_code, list(json.loads(again.stdout)["missing"])) == (0, [fit])
    with running(new.data_dir) as service:
        assert service.work() == 1
        assert service.client.get("/models/later").status_code == 200


def test_the_rest_is_restored_without_what_is_damaged(original: Service, saved: Path, tmp_path: Path) -> None:
    lost, damaged = artefact(original, 1), artefact(original, 2)
    (identity,) = [key for key in blobs_of(saved / BLOBS) if key.startswith("marks/")]
    (saved / BLOBS / lost).unlink()
    for key in (damaged, identity):
        (saved / BLOBS / key).write_bytes(b"damaged")
    settings = empty(tmp_path)
    refused = pursuit("restore", saved, "--data-dir", settings.data_dir, "--json")
    assert refused.exit_code == 1
    told = json.loads(refused.stdout)["error"]
    assert {fault["value"]: fault["message"].split()[-1] for fault in told["errors"]} == {lost: "m@1", damaged: "m@2"}
    assert told["error_count"] == 2
    assert "2 files are lost or damaged" in told["message"]
    assert "--leave-out-damaged" in told["message"]
    there = settings.data_dir / "blobs" / damaged
    there.parent.mkdir(parents=True)
    there.write_bytes(b"damaged here as well")
    options = ("--leave-out-damaged", "--data-dir", settings.data_dir)
    checked = pursuit("restore", saved, "--check", *options)
    assert (checked.exit_code, checked.stdout.split(":")[0]) == (1, "the rest is whole")
    done = pursuit("restore", saved, *options)
    assert done.exit_code == 1, done.output
    assert done.stdout.strip().endswith("; 2 files are missing")
    for version, key in ((1, lost), (2, damaged)):
        assert f"the backup did not have m@{version} whole ({key})" in done.stderr
    with Database(settings.database) as database:
        blobs = LocalBlobStore(settings.data_dir / "blobs")
        assert missing_files(database, blobs) == {lost: "m@1", damaged: "m@2"}
        check_store_identity(database, blobs)
    found = {check["name"]: check for check in diagnose(settings, {})["checks"]}["stored"]
    assert (found["state"], "lacks 2 files" in found["detail"]) == ("error", True)


def test_a_damaged_file_that_the_store_has_is_not_missed(original: Service, saved: Path, tmp_path: Path) -> None:
    key = artefact(original, 1)
    (saved / BLOBS / key).unlink()
    there = empty(tmp_path).data_dir / "blobs" / key
    there.parent.mkdir(parents=True)
    shutil.copyfile(original.settings.data_dir / "blobs" / key, there)
    settings = restored(saved, tmp_path)
    with Database(settings.database) as database:
        assert missing_files(database, LocalBlobStore(settings.data_dir / "blobs")) == {}


def test_a_full_disk_is_named_and_the_next_restore_goes_on(saved: Path, tmp_path: Path) -> None:
    class Full(LocalBlobStore):
        """Takes one file; the kernel refuses the bytes of all others."""

        def put(self, prefix: str, suffix: str, source: Path | bytes) -> str:
            soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (0 if blobs_of(folder) else soft, hard))
            try:
                return super().put(prefix, suffix, source)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    settings = empty(tmp_path)
    folder = settings.data_dir / "blobs"
    told = f"{re.escape(str(folder))}/.*in the store: File too large; files .* stay, and the next restore goes on"
    with pytest.raises(UnavailableError, match=told):
        restore(saved, Full(folder), settings.data_dir / "pursuit.db")
    (first,) = blobs_of(folder)
    before = (folder / first).stat().st_mtime_ns
    (tmp_path / "file").touch()
    with pytest.raises(UnavailableError, match=r"file/pursuit\.db: File exists; files"):
        restore(saved, LocalBlobStore(folder), tmp_path / "file" / "pursuit.db")
    restored(saved, tmp_path)
    assert (folder / first).stat().st_mtime_ns == before
    assert blobs_of(folder) == blobs_of(saved / BLOBS)


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ("", "cannot be read"),
        ("[]", "not of the format"),
        ('{"format": "pursuit-backup/2"}', "a newer release"),
        ('{"format": "pursuit-backup/1"}', "lacks"),
        (None, "is no database of a backup"),
    ],
)
def test_descriptions_that_are_none(saved: Path, manifest: str | None, said: str) -> None:
    place = saved / MANIFEST
    changed = json.loads(place.read_text()) | {"database": "../../etc/passwd"}
    place.write_text(json.dumps(changed) if manifest is None else manifest)
    with pytest.raises(InvalidRequestError, match=said):
        check_backup(saved)


def test_nothing_is_written_over(original: Service, saved: Path, tmp_path: Path) -> None:
    (tmp_path / "restored").mkdir()
    for name in ("pursuit.db", "pursuit.db-wal"):
        (tmp_path / "restored" / name).write_bytes(b"somebody's")
        with pytest.raises(ConflictError, match="there is a database already"):
            restored(saved, tmp_path)
        (tmp_path / "restored" / name).unlink()
    other = LocalBlobStore(tmp_path / "restored" / "blobs")
    identity = other.put("marks", "", b"of another database")
    with pytest.raises(ConflictError, match="belongs to another database"):
        restored(saved, tmp_path)
    other.delete(identity)
    damaged = tmp_path / "restored" / "blobs" / artefact(original, 1)
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"damaged, which is why the backup is restored")
    restored(saved, tmp_path)
    assert damaged.read_bytes() == (saved / BLOBS / artefact(original, 1)).read_bytes()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").touch()
    for folder, said in ((tmp_path / "full", "thesis"), (tmp_path / "full" / "thesis.txt", "no folder")):
        with pytest.raises(ConflictError, match=said):
            back_up(original.database, original.blobs, folder)


def test_one_backup_at_a_time_goes_into_a_folder(original: Service, tmp_path: Path) -> None:
    held, go_on = threading.Event(), threading.Event()

    class Slow(LocalBlobStore):
        def path(self, key: str) -> Path:
            held.set()
            assert go_on.wait(60.0)
            return super().path(key)

    slow = Slow(original.settings.data_dir / "blobs")
    thread = threading.Thread(target=back_up, args=(original.database, slow, tmp_path / "backup"))
    thread.start()
    assert held.wait(60.0)
    with pytest.raises(ConflictError, match="another backup"):
        back_up(original.database, original.blobs, tmp_path / "backup")
    go_on.set()
    thread.join(60.0)
    assert check_backup(tmp_path / "backup")[0].missing == {}


def pursuit(*words: Any, **environment: str) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words], env=environment)


def test_the_commands(original: Service, tmp_path: Path) -> None:
    data, folder, new = original.settings.data_dir, tmp_path / "b", tmp_path / "new"
    made = pursuit("backup", folder, "--data-dir", data, "--json")
    assert made.exit_code == 0, made.output
    document = json.loads(made.stdout)
    assert document == {"folder": str(folder), **json.loads((folder / MANIFEST).read_text())}
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.rglob("*"))
    checked = pursuit("restore", folder, "--check", "--data-dir", new)
    assert (checked.exit_code, checked.stdout.split(":")[0]) == (0, "whole")
    assert not new.exists()
    again = pursuit("restore", folder, "--data-dir", new, "--json")
    assert json.loads(again.stdout) == document
    refused = pursuit("restore", folder, "--data-dir", new)
    assert (refused.exit_code, "there is a database already" in refused.stderr) == (1, True)
    nowhere = pursuit("backup", tmp_path / "c", "--data-dir", tmp_path / "nowhere")
    assert (nowhere.exit_code, "there is no database" in nowhere.stderr) == (1, True)
    assert not (tmp_path / "nowhere").exists()
    (new / "blobs" / artefact(original, 1)).unlink()
    partly = pursuit("backup", tmp_path / "d", "--data-dir", new)
    assert partly.exit_code == 1
    assert "the store did not have m@1 whole" in partly.stderr
    some = pursuit("restore", tmp_path / "d", "--data-dir", tmp_path / "some")
    assert (some.exit_code, some.stdout.strip().endswith("; 1 file is missing")) == (1, True)
    told = " ".join(pursuit("restore", "--help").stdout.replace("│", " ").split())
    assert "Exit code 1 where files are missing, which the store had lost before the backup" in told
    postgres = pursuit("backup", tmp_path / "e", PURSUIT_DATABASE_URL="postgresql://x@127.0.0.1:9/x")
    assert (postgres.exit_code, "pg_dump" in postgres.stderr) == (1, True)
