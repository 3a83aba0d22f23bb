"""The audit log and counts of use: who did what to which model, when and from where."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.services.keys import usage
from app.settings import Settings
from app.worker import remove_old
from tests.app.routes.keys import create, id_of
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import QUICK, numbers, running
from tests.processes import wait_until

BINARY = {"content-type": "application/octet-stream"}


def test_every_change_is_written_down(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        headers = create(service, "predict", "train", "admin")
        key = id_of(headers)
        client = service.client
        wait_until(lambda: client.get("/models").status_code == 401)
        client.headers.update(headers)
        dataset = client.post("/datasets", files={"file": ("t.csv", numbers())}).json()["id"]
        job = client.post("/train", json={"dataset": dataset, "spec": {"model": "cars", **QUICK}}).json()["id"]
        service.work()
        other = service.post_file(numbers(), {"model": "cars", **QUICK}).json()["id"]
        for _ in range(2):
            assert client.delete(f"/jobs/{other}").json()["state"] == "cancelled"
        service.post_file(numbers(), {"model": "cars", **QUICK})
        service.work()
        artefact = client.get("/models/cars/versions/1/artefact").content
        assert client.post("/models/vans/versions", content=artefact, headers=BINARY).status_code == 201
        client.put("/models/cars/aliases/champion", json={"version": 1}, headers={"X-Request-ID": "promotion"})
        assert client.delete("/models/cars/versions/1").status_code == 409, "what is refused is not written down"
        client.delete("/models/cars/aliases/champion")
        client.delete("/models/cars/versions/1")
        client.delete("/models/cars")
        client.delete(f"/datasets/{dataset}")
        made = client.post("/keys", json={"scopes": ["predict"], "name": "new"}).json()["id"]
        for _ in range(2):
            client.delete(f"/keys/{made}")
        entries: list[dict[str, Any]] = client.get("/audit").json()["entries"]
        assert [(entry["action"], entry["subject"]) for entry in reversed(entries)] == [
            ("create-key", key),
            ("upload", dataset),
            ("train", "cars"),
            ("train", "cars"),
            ("cancel", other),
            ("train", "cars"),
            ("import", "vans@1"),
            ("set-alias", "cars@champion"),
            ("delete-alias", "cars@champion"),
            ("delete-version", "cars@1"),
            ("delete-model", "cars"),
            ("delete-dataset", dataset),
            ("create-key", made),
            ("revoke-key", made),
        ]
        assert [entry["key"] for entry in entries[:-1]] == [key] * 13
        assert entries[-1]["key"] is None
        assert {entry["address"] for entry in entries[:-1]} == {"127.0.0.1"}
        (promotion,) = [entry for entry in entries if entry["action"] == "set-alias"]
        assert (promotion["detail"], promotion["request_id"]) == ({"version": 1}, "promotion")
        (first,) = [entry for entry in entries if (entry["detail"] or {}).get("job") == job]
        assert first["detail"] == {"job": job, "rows": 120}
        assert abs(datetime.fromisoformat(first["at"]).timestamp() - datetime.now(UTC).timestamp()) < 60.0

        pages = [client.get("/audit", params={"limit": 5}).json()]
        while pages[-1]["next_cursor"]:
            pages.append(client.get("/audit", params={"limit": 5, "cursor": pages[-1]["next_cursor"]}).json())
        assert [entry["id"] for page in pages for entry in page["entries"]] == [entry["id"] for entry in entries]
        trained = client.get("/audit", params={"action": "train"}).json()["entries"]
        assert {entry["action"] for entry in trained} == {"train"}
        assert len(client.get("/audit", params={"key": key}).json()["entries"]) == 13
        assert_problem(client.get("/audit", params={"action": "sing"}), 422, "action")
        assert_problem(client.get("/audit", params={"cursor": "x"}), 422, "cursor")
        assert_problem(client.get("/audit", params={"key": "x"}), 422, "key")


def test_without_keys_the_log_has_what_was_done(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        service.train(numbers(), model="cars", **QUICK)
        (entry,) = service.client.get("/audit").json()["entries"]
        assert (entry["action"], entry["subject"], entry["key"], entry["address"]) == (
            "train",
            "cars",
            None,
            "127.0.0.1",
        )


def test_reads_are_counted_by_key_and_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "FLUSH_SECONDS", 0.2)
    with running(tmp_path) as service:
        service.train(numbers(), model="cars", **QUICK)
        first, second, admin = (create(service, scope) for scope in ("predict", "predict", "admin"))
        wait_until(lambda: service.client.get("/models").status_code == 401)
        for headers, requests, rows in ((first, 3, 4), (second, 2, 1)):
            for _ in range(requests):
                body = {"model": "cars", "rows": [[0.1, 0.2]] * rows}
                assert service.client.post("/predict", json=body, headers=headers).status_code == 200
        tensors = {"inputs": [{"name": "rows", "shape": [1, 2], "datatype": "FP64", "data": [0.1, 0.2]}]}
        assert service.client.post("/v2/models/cars/infer", json=tensors, headers=second).status_code == 200
        assert service.client.get("/models/cars/versions/1", headers=first).status_code == 200
        assert service.client.get("/models/none", headers=first).status_code == 404
        assert service.client.post("/predict", json={"model": "none", "rows": [[1]]}, headers=first).status_code == 404

        def counts() -> dict[tuple[str, str, str], tuple[int, int]]:
            found: dict[tuple[str, str, str], tuple[int, int]] = {}
            for one in service.client.get("/audit/usage", headers=admin).json()["usage"]:
                place = (one["key"], one["model"], one["action"])  # two minutes may have had their share
                requests, rows = found.get(place, (0, 0))
                found[place] = (requests + one["requests"], rows + one["rows"])
            return found

        wanted = {
            (id_of(first), "cars", "predict"): (3, 12),
            (id_of(first), "cars", "read"): (1, 0),
            (id_of(second), "cars", "predict"): (3, 3),
        }
        wait_until(lambda: counts() == wanted)
        page = service.client.get("/audit/usage", params={"limit": 1}, headers=admin).json()
        seen = page["usage"]
        while page["next_cursor"]:
            query = {"limit": 1, "cursor": page["next_cursor"]}
            page = service.client.get("/audit/usage", params=query, headers=admin).json()
            seen += page["usage"]
        assert seen == service.client.get("/audit/usage", headers=admin).json()["usage"]
        only = service.client.get("/audit/usage", params={"key": id_of(second)}, headers=admin).json()["usage"]
        assert {one["key"] for one in only} == {id_of(second)}
        assert_problem(service.client.get("/audit/usage", params={"cursor": "1:2"}, headers=admin), 422, "cursor")


def test_old_entries_go(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        service.train(numbers(), model="cars", **QUICK)
        remove_old(service.database, Settings(keep_audit_days=1.0))
        assert len(service.client.get("/audit").json()["entries"]) == 1
        with service.database.write() as connection:
            connection.exec_driver_sql("UPDATE audit SET at = at - 100000.0")
            connection.exec_driver_sql(
                "INSERT INTO key_usage VALUES (1, '0123456789abcdef', 'm', 'read', 1, 1), "
                "(99999999, '0123456789abcdef', 'm', 'read', 1, 1)"
            )
        remove_old(service.database, Settings(keep_audit_days=1.0))
        assert service.client.get("/audit").json()["entries"] == []
        assert len(service.client.get("/audit/usage").json()["usage"]) == 1
