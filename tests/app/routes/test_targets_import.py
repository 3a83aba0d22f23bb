"""Artefacts of several targets come back as they went, and hostile ones are refused by target, tensor or field."""

import json
import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import httpx
import numpy as np
import orjson
import pytest
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from app.errors import TooLargeError
from app.services.artefact_import import check_artefact
from app.storage.artefact_document import with_digest
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import QUICK, Service, running

BINARY = {"content-type": "application/octet-stream"}
NAMES = ["y1", "y2", "other"]
ROWS = [[0.25, -0.5], [0.5, 0.75], [-0.125, 0.0]]
Document = dict[str, Any]


def table(count: int = 100) -> str:
    draws = np.random.default_rng(0)
    lines = []
    for a, b, noise in draws.uniform(-1.0, 1.0, (count, 3)).tolist():
        lines.append(f"{a!r},{b!r},{a + b + 0.1 * noise!r},{a - 2 * b + 0.1 * noise!r},{a * b if a < 0.5 else ''}")
    return "a,b,y1,y2,other\n" + "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """`all`, of three targets, and `one`, a list of one."""
    with running(tmp_path_factory.mktemp("service")) as service:
        for model, target in (("all", NAMES), ("one", ["y1"])):
            job = service.train(table(), model=model, target=target, features=["a", "b"], **QUICK)
            assert job["state"] == "succeeded", job
        yield service


@pytest.fixture(scope="module")
def data(trained: Service) -> bytes:
    return download(trained, "all")


def download(service: Service, name: str) -> bytes:
    return service.client.get(f"/models/{name}/versions/1/artefact").content


def post(service: Service, content: bytes, name: str = "new") -> httpx.Response:
    return service.client.post(f"/models/{name}/versions", content=content, headers=BINARY)


def document_of(content: bytes) -> Document:
    length = int.from_bytes(content[:8], "little")
    found: Document = orjson.loads(orjson.loads(content[8 : 8 + length])["__metadata__"]["pursuit"])
    return found


def rebuilt(content: bytes, change: Callable[[Document, dict[str, Any]], object], *, sign: bool = True) -> bytes:
    """The file with another description and other tensors, with the digest that they have."""
    tensors = {name: array.copy() for name, array in load_tensors(content).items()}
    document = document_of(content)
    document.pop("sha256")
    change(document, tensors)
    text = json.dumps(document, separators=(",", ":"))
    return save_tensors(tensors, metadata={"pursuit": with_digest(text, tensors) if sign else text})


def in_part(place: int, change: Callable[[Document], object]) -> Callable[[Document, dict[str, Any]], object]:
    """A change of the document of one target, which has no digest then."""

    def apply(document: Document, _: dict[str, Any]) -> None:
        own = orjson.loads(document["targets"][place]["document"])
        own.pop("sha256")
        change(own)
        document["targets"][place]["document"] = json.dumps(own, separators=(",", ":"))

    return apply


def test_it_predicts_the_same_bits(trained: Service, data: bytes) -> None:
    answer = post(trained, data, "copy")
    assert answer.status_code == 201, answer.text
    assert (answer.json()["target"], answer.json()["targets"]) == ("y1", NAMES)
    asked: dict[str, Any] = {"interval": [0.5, 0.95], "include": ["latent_std"], "quantiles": [0.1]}
    first, copy = (trained.ask(name, ROWS, **asked) for name in ("all", "copy"))
    assert {**copy, "model": "all"} == first
    assert download(trained, "copy") == data
    assert trained.client.get("/models?limit=10").json()["models"][1]["summary"]["target_names"] == NAMES


def test_what_stands_on_it_works(trained: Service, data: bytes) -> None:
    assert post(trained, data, "used").status_code == 201
    truth = {"y2": [1.0, 2.0, 3.0]}
    told = trained.client.post("/feedback", json={"model": "used", "rows": ROWS, "truth": truth}).json()
    assert told["rows"] == {"y1": 0, "y2": 3, "other": 0}
    monitoring = trained.client.get("/models/used/monitoring").json()
    assert (monitoring["has_profile"], list(monitoring["feedback"])) == (True, NAMES)
    assert "other" in trained.client.get("/models/used/versions/1/report?target=other").text
    spec = {"target": NAMES, "model": "later", "features": ["a", "b"], "from": "used"} | QUICK
    assert trained.train(table(), **spec)["state"] == "succeeded"


def test_a_list_of_one_target_is_imported_as_it_is(trained: Service) -> None:
    assert post(trained, download(trained, "one"), "single").status_code == 201
    assert list(trained.ask("single", ROWS)["mean"]) == ["y1"]


@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda own: own.update(more=1), "more: unknown field"),
        (lambda own: own["spec"].update(method="best"), "method"),
        (lambda own: own["report"].update(rows=-1), "report.rows: expected a whole number above zero"),
        (lambda own: own["report"].pop("target_names"), "report.target_names: expected"),
        (lambda own: own["report"].update(target="y9"), "report.target: expected what the schema says"),
        (lambda own: own["report"].update(sharing="all"), "report.sharing: expected an object"),
        (lambda own: own["report"]["sharing"].update({"with": ["y9"]}), "report.sharing.with: expected a list"),
        (lambda own: own["report"].pop("error_correlation"), "report.error_correlation: expected an object"),
        (
            lambda own: own["report"]["error_correlation"]["correlation"].pop(),
            "report.error_correlation.correlation: expected a square",
        ),
        (
            lambda own: own["report"]["error_correlation"]["correlation"][0].__setitem__(1, 1.5),
            "report.error_correlation.correlation: expected numbers from -1 to 1",
        ),
        (lambda own: own["scalars"].update(target_scale=0.0), "target_scale: expected a number above zero"),
        (lambda own: own["probe"].update(mean=1e3), "predictions are not those that the model made"),
    ],
)
def test_a_field_of_a_target_is_named(
    trained: Service, data: bytes, place: int, change: Callable[[Document], object], said: str
) -> None:
    answer = post(trained, rebuilt(data, in_part(place, change)))
    assert_problem(answer, 422, f"targets[{place}]", said)


def swapped(document: Document, _: dict[str, Any]) -> None:
    document["targets"].reverse()


def twice(document: Document, _: dict[str, Any]) -> None:
    document["targets"].append(deepcopy(document["targets"][1]))


def unknown_tensor(document: Document, _: dict[str, Any]) -> None:
    document["targets"][1]["tensors"]["basis"] = "9.basis"


def other_shape(document: Document, tensors: dict[str, Any]) -> None:
    place = document["targets"][2]["tensors"]["alpha"]
    tensors[place] = tensors[place][:-1]


def not_finite(document: Document, tensors: dict[str, Any]) -> None:
    tensors[document["targets"][2]["tensors"]["alpha"]][0] = np.nan


def integers(document: Document, tensors: dict[str, Any]) -> None:
    place = document["targets"][2]["tensors"]["alpha"]
    tensors[place] = tensors[place].astype(np.int64)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (swapped, ["targets: expected those of the first one's schema, each once"]),
        (twice, ["targets: expected those of the first one's schema, each once"]),
        (lambda document, _: document["targets"].pop(), ["no target has it"]),
        (lambda document, _: document.update(targets=[]), ["targets: expected a list of at least one, got none"]),
        (lambda document, _: document.update(targets="y"), ["targets: expected a list"]),
        (
            lambda document, _: document.update(more=1),
            ["more: unknown field; known are format_version, sha256, targets"],
        ),
        (lambda document, _: document.update(format_version=6), ["format_version: expected 7"]),
        (lambda document, _: document["targets"][0].update(more=1), ["targets[0]: expected an object of document"]),
        (lambda document, _: document["targets"][0].update(document={}), ["targets[0].document: expected text"]),
        (lambda document, _: document["targets"][0].update(tensors={}), ["targets[0].tensors: expected an object"]),
        (unknown_tensor, ["targets[1].tensors.basis: the file has no tensor '9.basis'"]),
        (lambda _, tensors: tensors.update(spare=np.zeros(3)), ["tensor spare: no target has it"]),
        (other_shape, ["targets[2]", "alpha"]),
        (not_finite, ["targets[2]"]),
        (integers, ["tensor alpha: expected F64, got 'I64'"]),
    ],
)
def test_what_is_around_the_targets_is_named(
    trained: Service, data: bytes, change: Callable[[Document, dict[str, Any]], object], said: list[str]
) -> None:
    assert_problem(post(trained, rebuilt(data, change)), 422, *said)


def test_targets_of_other_columns_do_not_go_together(trained: Service, data: bytes) -> None:
    """A target of another table, which has the same names: what differs is in its schema."""

    def other(own: Document) -> None:
        own["schema"]["features"][0]["name"] = "c"
        own["basis_columns"][0] = "c"
        own["hyperparameters"]["lengthscales"]["c"] = own["hyperparameters"]["lengthscales"].pop("a")

    answer = post(trained, rebuilt(data, in_part(1, other)))
    assert_problem(answer, 422, "targets[1].schema: expected the columns of the first target")


def test_a_damaged_file_is_said_to_be_one(trained: Service, data: bytes) -> None:
    flipped = bytearray(data)
    flipped[-5] ^= 1
    assert_problem(post(trained, bytes(flipped)), 422, "the artefact is damaged: its sha256")
    assert_problem(post(trained, data[:-8]), 422, "damaged or cut short")
    wrong = rebuilt(data, lambda document, _: document.update(sha256="0" * 64), sign=False)
    assert_problem(post(trained, wrong), 422, "the artefact is damaged: its sha256")
    assert post(trained, rebuilt(data, lambda *_: None)).status_code == 201


def test_any_flipped_byte_is_refused_or_changes_nothing(trained: Service, data: bytes) -> None:
    draws = random.Random(5)
    for _ in range(40):
        flipped = bytearray(data)
        flipped[draws.randrange(len(data))] ^= 1 << draws.randrange(8)
        assert post(trained, bytes(flipped)).status_code in {400, 413, 422}


def test_the_model_of_one_target_is_no_file_of_its_own(trained: Service, data: bytes) -> None:
    """Taken out of a file of several it says that there are others, which the server would look for."""
    tensors, target = load_tensors(data), document_of(data)["targets"][1]
    part = save_tensors(
        {name: tensors[place] for name, place in target["tensors"].items()}, metadata={"pursuit": target["document"]}
    )
    assert_problem(post(trained, part), 422, "schema.other_targets", "of one target alone")


def test_what_a_file_unfolds_to_is_bounded(data: bytes) -> None:
    """Ten targets of the same tensors: ten times their bytes in memory."""
    many = rebuilt(data, lambda document, _: document["targets"].extend(deepcopy(document["targets"][:1]) * 7))
    tensors = sum(array.nbytes for array in load_tensors(data).values())
    with pytest.raises(TooLargeError, match="the tensors of all 10 targets have"):
        check_artefact(many, max_basis_size=500, max_bytes=2 * tensors)
    assert len(check_artefact(data, max_basis_size=500, max_bytes=2 * tensors).others or ()) == 2
