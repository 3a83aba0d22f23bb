"""The SHA-256 in an artefact: a changed byte is found wherever it is, by whatever reads it."""

import json
import random
import struct
from pathlib import Path
from typing import Any

import orjson
import pytest
from pursuit import InvalidError
from pursuit import load as load_local

from app.errors import BrokenArtefactError, InvalidRequestError
from app.services.artefact_import import check_artefact
from app.services.predict.loaded_model import load_model
from app.storage.artefact import load, save
from tests.app.routes.service import QUICK, numbers, running

FORMS: dict[str, dict[str, Any]] = {
    "full": {},
    "compact": {"artefact": "compact", "tolerance": 0.05},
    "noise": {"noise": "input-dependent", "basis_size": 20},
    "mean": {"mean_rows": "all"},
    "near": {"effort": "normal", "adapt": {"rounds": 1, "steps": 2}},
}


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    found = {}
    with running(tmp_path_factory.mktemp("digest")) as service:
        for name, spec in FORMS.items():
            job = service.train(
                numbers(60), **{**QUICK, "model": name, **spec} if name != "near" else {**spec, "model": name}
            )
            assert job["state"] == "succeeded", job
            found[name] = service.client.get(f"/models/{name}/versions/1/artefact").content
    return found


def parts(data: bytes) -> tuple[dict[str, Any], int]:
    """The header, and where the tensors begin."""
    (length,) = struct.unpack_from("<Q", data)
    header: dict[str, Any] = orjson.loads(data[8 : 8 + length])
    return header, 8 + length


def with_text(data: bytes, text: str) -> bytes:
    header, start = parts(data)
    header["__metadata__"]["pursuit"] = text
    whole = json.dumps(header).encode()
    return struct.pack("<Q", len(whole)) + whole + data[start:]


@pytest.mark.parametrize("form", FORMS)
def test_a_flipped_bit_in_any_tensor_is_found(artefacts: dict[str, bytes], form: str) -> None:
    data, chance = artefacts[form], random.Random(3)
    header, start = parts(data)
    del header["__metadata__"]
    for name, tensor in header.items():
        first, end = tensor["data_offsets"]
        for _ in range(3):
            damaged = bytearray(data)
            damaged[start + chance.randrange(first, end)] ^= 1 << chance.randrange(8)
            with pytest.raises(BrokenArtefactError):
                load(bytes(damaged))
            with pytest.raises(InvalidRequestError):
                check_artefact(bytes(damaged), max_basis_size=500)
            with pytest.raises(InvalidError):
                load_local(bytes(damaged))
        lowest = bytearray(data)
        lowest[start + first] ^= 1  # the last bit of its first number, which no prediction shows
        with pytest.raises(BrokenArtefactError, match="sha256"):
            load(bytes(lowest))
        assert name


def test_a_changed_digit_of_the_description_is_found(artefacts: dict[str, bytes]) -> None:
    data = artefacts["full"]
    text: str = parts(data)[0]["__metadata__"]["pursuit"]
    digits = [place for place, sign in enumerate(text) if sign.isdigit()]
    for place in random.Random(4).sample(digits, 60):
        other = "7" if text[place] != "7" else "3"
        with pytest.raises((BrokenArtefactError, InvalidRequestError)):
            load_model(with_text(data, text[:place] + other + text[place + 1 :]))


def test_the_digest_is_over_the_text_as_it_stands(artefacts: dict[str, bytes]) -> None:
    """Another release may write 1e16 as 1e+16: what is in the file counts, and not how it would be written today."""
    data = artefacts["full"]
    text: str = parts(data)[0]["__metadata__"]["pursuit"]
    assert load(with_text(data, text)).basis_rows == load(data).basis_rows
    with pytest.raises(BrokenArtefactError, match="sha256"):
        load(with_text(data, json.dumps(orjson.loads(text))))
    moved = {"sha256": orjson.loads(text)["sha256"], **{k: v for k, v in orjson.loads(text).items() if k != "sha256"}}
    with pytest.raises(BrokenArtefactError, match="sha256"):
        load(with_text(data, json.dumps(moved)))


def test_a_file_without_one_still_loads(artefacts: dict[str, bytes]) -> None:
    data = artefacts["full"]
    document = orjson.loads(parts(data)[0]["__metadata__"]["pursuit"])
    del document["sha256"]
    older = with_text(data, orjson.dumps(document).decode())
    assert save(load(older)) == data
    assert check_artefact(older, max_basis_size=500).basis_rows == load(data).basis_rows
    stored = Path(__file__).with_name("stored") / "pep.safetensors"
    assert load(stored.read_bytes()).kind == "full"


def test_a_server_refuses_a_damaged_one(artefacts: dict[str, bytes], tmp_path: Path) -> None:
    data = bytearray(artefacts["full"])
    data[-8] ^= 1
    with running(tmp_path) as service:
        headers = {"content-type": "application/octet-stream"}
        answer = service.client.post("/models/new/versions", content=bytes(data), headers=headers)
        assert answer.status_code == 422
        assert "sha256" in answer.json()["detail"]
        assert (
            service.client.post("/models/new/versions", content=artefacts["full"], headers=headers).status_code == 201
        )
