"""POST /models/{name}/versions: artefacts come back as they went, and hostile ones are refused by tensor or field."""

import json
import math
import random
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from app.services.artefact_checks import MAX_HEADER_BYTES
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import QUICK, Service, numbers, running, waves

BINARY = {"content-type": "application/octet-stream"}
ROWS: list[dict[str, Any]] = [{"x": 1.5, "kind": "low"}, {"x": 4.0, "kind": "high"}]


def download(service: Service, name: str) -> bytes:
    return service.client.get(f"/models/{name}/versions/1/artefact").content


def post(service: Service, data: bytes, name: str = "new") -> httpx.Response:
    return service.client.post(f"/models/{name}/versions", content=data, headers=BINARY)


def parts(data: bytes) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """Header without its document, the document, and the bytes of the tensors."""
    (length,) = struct.unpack_from("<Q", data)
    header = orjson.loads(data[8 : 8 + length])
    return header, orjson.loads(header["__metadata__"]["pursuit"]), data[8 + length :]


def joined(header: dict[str, Any], document: Any, tensors: bytes) -> bytes:
    if isinstance(header.get("__metadata__"), dict) and "pursuit" in header["__metadata__"]:
        header["__metadata__"]["pursuit"] = json.dumps(document)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + tensors


def with_tensors(data: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    """The artefact with other tensors, as its header says."""
    tensors = {name: array.copy() for name, array in load_tensors(data).items()}
    document = parts(data)[1]
    change(tensors)
    document["shapes"] = {name: list(array.shape) for name, array in tensors.items()}
    return save_tensors(tensors, metadata={"pursuit": orjson.dumps(document).decode()})


def with_document(data: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    header, document, tensors = parts(data)
    change(document)
    return joined(header, document, tensors)


@pytest.fixture(scope="module")
def waves_artefact(service: Service) -> bytes:
    return download(service, "waves")


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"artefact": "compact", "tolerance": 0.05},
        {"artefact": "mean"},
        {"noise": "input-dependent"},
        {"mean_rows": "all"},
        {"target_transform": "yeo-johnson", "intervals": "asymmetric"},
        {"missing": "impute"},
        {"kernel": "matern32", "unseen": "prior", "precision": "float32"},
    ],
    ids=str,
)
def test_every_kind_of_model_is_imported_and_predicts_the_same_bits(service: Service, spec: dict[str, Any]) -> None:
    table = waves(seed=3)
    if "missing" in spec:
        table = table.replace(",low,", ",,", 12)
    assert service.train(table, model="origin", **QUICK | spec)["state"] == "succeeded"
    number = service.client.get("/models/origin").json()["latest"]
    before = service.client.get(f"/models/origin/versions/{number}").json()
    data = service.client.get(f"/models/origin/versions/{number}/artefact").content
    answer = post(service, data, "copy")
    assert answer.status_code == 201, answer.text
    after = answer.json()
    assert answer.headers["location"] == f"/models/copy/versions/{after['version']}"
    assert (after["model"], after["job"], after["aliases"]) == ("copy", None, ["latest"])
    assert after["sha256"] == before["sha256"] == sha256(data).hexdigest()
    own = {"model", "version", "job", "created_at", "aliases"}
    assert {k: v for k, v in after.items() if k not in own} == {k: v for k, v in before.items() if k not in own}
    assert service.client.get(answer.headers["location"]).json() == after
    assert service.client.get(f"{answer.headers['location']}/artefact").content == data
    one, two = service.ask(f"origin@{number}", ROWS), service.ask("copy", ROWS)
    assert one | {"model": "copy", "version": after["version"]} == two


def test_a_full_process_is_imported(service: Service) -> None:
    """A function of two columns that a dozen basis vectors do not follow."""
    chance = random.Random(0)
    points = [(chance.uniform(-2, 2), chance.uniform(-2, 2), chance.gauss(0, 0.1)) for _ in range(240)]
    table = "a,b,y\n" + "".join(f"{a},{b},{math.sin(4 * a) * math.cos(3 * b) + e}\n" for a, b, e in points)
    quick: dict[str, Any] = {"max_basis_size": 12, "pool_size": 40, "adapt": {"rounds": 2, "steps": 6}}
    assert service.train(table, model="near", effort="normal", **quick)["state"] == "succeeded"
    data = download(service, "near")
    assert parts(data)[1]["format_version"] == 6, "this training is to give a full process"
    assert post(service, data, "near-copy").status_code == 201
    assert service.ask("near-copy", [[0.1, 0.2]])["std"] == service.ask("near", [[0.1, 0.2]])["std"]


def in_document(*path: Any, value: Any) -> Callable[[dict[str, Any]], object]:
    def change(document: dict[str, Any]) -> None:
        place: Any = document
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return change


def put(name: str, value: Any, place: Any = 0) -> Callable[[dict[str, Any]], object]:
    def change(tensors: dict[str, Any]) -> None:
        tensors[name][place] = value

    return change


HOSTILE_TENSORS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a group that is not there": (put("groups", 7.0), "groups"),
    "a negative group": (put("groups", -1.0), "groups"),
    "half a group": (put("groups", 0.5), "groups"),
    "no lengthscale": (put("lengthscales", 0.0), "lengthscales"),
    "a negative scale": (put("input_scale", -1.0), "input_scale"),
    "not a number": (put("alpha", np.nan), "alpha"),
    "infinite": (put("basis", np.inf), "basis"),
    "huge weights": (put("alpha", 1.7e308, slice(None)), "predict"),
    "another shape": (lambda t: t.update(alpha=t["alpha"][:-1].copy()), "alpha"),
    "a column more": (lambda t: t.update(basis=np.hstack([t["basis"], t["basis"]])), "groups"),
    "whole numbers": (lambda t: t.update(alpha=t["alpha"].astype(np.int64)), "alpha"),
    "an empty tensor": (lambda t: t.update(basis=np.zeros((0, 3))), "basis"),
    "three dimensions": (lambda t: t.update(basis=t["basis"][:, :, None].copy()), "basis"),
    "a tensor more": (lambda t: t.update(other=np.zeros(3)), "other"),
    "a tensor less": (lambda t: t.pop("alpha"), "alpha"),
    "no triangle": (lambda t: t.update(R=t["R"][:-1].copy()), "triangle"),
    "a transform of the inputs": (
        lambda t: t.update(input_transform=np.ones((3, 3))),
        "format version 2 and the tensor",
    ),
    "a mean without weights": (lambda t: t.update({"mean.basis": t["basis"].copy()}), "mean."),
}

HOSTILE_FIELDS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "unknown field": (in_document("surprise", value=1), "surprise"),
    "another version": (in_document("format_version", value=99), "format version"),
    "negative variance": (in_document("scalars", "noise_variance", value=-1.0), "noise_variance"),
    "no scale": (in_document("scalars", "target_scale", value=0.0), "target_scale"),
    "another sign": (in_document("scalars", "variance_sign", value=0.5), "variance_sign"),
    "unknown kernel": (in_document("kernel", value="cubic"), "kernel"),
    "a list of kernels": (in_document("kernel", value=[[]]), "[]"),
    "unknown spec field": (in_document("spec", "colour", value="red"), "spec.colour"),
    "spec of another type": (in_document("spec", "seed", value="one"), "spec.seed"),
    "a feature of no kind": (in_document("schema", "features", 0, "kind", value="sound"), "sound"),
    "a feature more": (lambda d: d["schema"]["features"].append(d["schema"]["features"][0]), "basis"),
    "an unknown word of a feature": (in_document("schema", "features", 0, "colour", value=1), "features[0].colour"),
    "a huge offset": (in_document("schema", "features", 0, "offset", value="9" * 400), "too large"),
    "a longer offset": (in_document("schema", "features", 0, "offset", value="9" * 5000), "schema"),
    "levels that are no texts": (in_document("schema", "features", 1, "levels", value=[1, 2]), "expected text"),
    "another target": (in_document("report", "target", value="z"), "report.target"),
    "no report of rows": (in_document("report", "rows", value="many"), "report.rows"),
    "moved of another type": (in_document("report", "moved", value=0), "report.moved"),
    "scores that are text": (in_document("report", "holdout", "nmse", value="low"), "report.holdout.nmse"),
    "too many scores": (in_document("report", "holdout", value={str(i): 1 for i in range(99)}), "report.holdout"),
    "other columns": (in_document("basis_columns", value=["a", "b", "c"]), "basis_columns"),
    "negative rows": (in_document("basis_rows", 0, value=-1), "basis_rows"),
    "fewer rows": (lambda d: d["basis_rows"].pop(), "basis_rows"),
    "gains of text": (in_document("gains", 0, value="much"), "gains"),
    "lengthscale of no feature": (in_document("hyperparameters", "lengthscales", "q", value=1.0), "lengthscales"),
    "a scale of zero": (in_document("calibration", "latent_scale", value=0.0), "scales must be above zero"),
    "ragged quantiles": (in_document("calibration", "quantiles", value=[[1], [1, 2]]), "inhomogeneous"),
    "unknown word of the calibration": (in_document("calibration", "colour", value=1), "calibration.colour"),
    "a transform without numbers": (in_document("transform", "power", value=None), "transform"),
    "unknown word of the transform": (in_document("transform", "colour", value=1), "transform.colour"),
    "precision": (in_document("precision", value="float8"), "float8"),
    "a list for an object": (in_document("report", value=[]), "report"),
    "a number for a list": (in_document("basis_rows", value=5), "basis_rows"),
    "noise of another type": (in_document("noise_scalars", value=3), "noise_scalars"),
}


@pytest.mark.parametrize("name", HOSTILE_TENSORS)
def test_a_tensor_that_does_not_fit_is_named(service: Service, waves_artefact: bytes, name: str) -> None:
    change, words = HOSTILE_TENSORS[name]
    answer = post(service, with_tensors(waves_artefact, change))
    assert answer.status_code == 422, answer.text
    assert words in answer.json()["detail"]


@pytest.mark.parametrize("name", HOSTILE_FIELDS)
def test_a_field_that_does_not_fit_is_named(service: Service, waves_artefact: bytes, name: str) -> None:
    change, words = HOSTILE_FIELDS[name]
    answer = post(service, with_document(waves_artefact, change))
    assert answer.status_code == 422, answer.text
    assert words in answer.json()["detail"]


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"\xff" * 64, struct.pack("<Q", 2) + b"[]", b"a,y\n1,2\n" * 9])
def test_other_bytes_are_malformed(service: Service, data: bytes) -> None:
    assert post(service, data).status_code == 400


def test_names_types_and_sizes(service: Service, waves_artefact: bytes, tmp_path: Path) -> None:
    assert post(service, waves_artefact, "-no-name").status_code == 422
    typed = service.client.post("/models/new/versions", content=b"{}", headers={"content-type": "application/json"})
    assert typed.status_code == 415
    with running(tmp_path, max_artefact_bytes=1_000) as small:
        answer = post(small, waves_artefact)
        assert answer.status_code == 413
        assert "PURSUIT_MAX_ARTEFACT_BYTES" in answer.json()["detail"]


@contextmanager
def little_memory(limit: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


def test_announced_sizes_take_no_memory(service: Service, waves_artefact: bytes) -> None:
    header, document, tensors = parts(waves_artefact)
    huge = deepcopy(header) | {"zero": {"dtype": "F64", "shape": [2**40, 0], "data_offsets": [0, 0]}}
    lists = b'{"a":[' + b"[]," * 3_000_000 + b"[]]}"
    deep = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    many = {f"t{i}": {"dtype": "F64", "shape": [1], "data_offsets": [8 * i, 8 * i + 8]} for i in range(100)}
    cases = [
        joined(huge, document, tensors),
        struct.pack("<Q", len(lists)) + lists,
        struct.pack("<Q", len(deep)) + deep,
        struct.pack("<Q", 2**63),
        joined(header | many, document, tensors),
    ]
    with little_memory(100 << 20):
        for data in cases:
            assert post(service, data).status_code in (400, 413, 422)
    long = b'{"a":"' + b"x" * MAX_HEADER_BYTES + b'"}'
    assert post(service, struct.pack("<Q", len(long)) + long).status_code == 413


def test_a_damaged_header_is_said_to_be_the_files(service: Service, waves_artefact: bytes) -> None:
    for mark, what in ((b'"__metadata__"', "the file's header"), (b'\\"format_version', "the description in")):
        place = waves_artefact.index(mark)
        damaged = waves_artefact[:place] + b"!" * len(mark) + waves_artefact[place + len(mark) :]
        detail = assert_problem(post(service, damaged), 400, "damaged")["detail"]
        assert what in detail
        assert "body" not in detail


def test_a_compact_model_expands_to_no_more_than_the_server_takes(tmp_path: Path) -> None:
    with running(tmp_path, max_basis_size=30) as service:
        assert service.train(numbers(60), model="m", **QUICK | {"artefact": "compact"})["state"] == "succeeded"
        data = download(service, "m")
        assert post(service, data).status_code == 201
        large = with_tensors(data, grow(31))
        large = with_document(large, lambda d: d.update(basis_rows=[0] * 31, gains=[None] * 31))
        answer = post(service, large)
        assert answer.status_code == 422
        assert "at most 30 basis vectors" in answer.json()["detail"]


def grow(size: int) -> Callable[[dict[str, Any]], object]:
    def change(tensors: dict[str, Any]) -> None:
        for name in ("basis", "alpha", "directions"):
            tensors[name] = np.resize(tensors[name], (size, *tensors[name].shape[1:]))

    return change


WEIRD = st.sampled_from(
    [None, True, False, 0, -1, 1, 0.5, -0.5, 2**31, 2**63, 10**30, 1e308, -1e308, 1e-320, "", "x", "NaN", "\x00"]
) | st.sampled_from([[], {}, [[]], [None], [1, [2]], {"": None}, "é" * 300, [0] * 50, "1"])


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in a JSON document."""
    if path:
        yield path
    if isinstance(tree, dict):
        for name, part in tree.items():
            yield from places(part, (*path, name))
    elif isinstance(tree, list):
        for place, part in enumerate(tree[:3]):
            yield from places(part, (*path, place))


FRACTION = st.floats(0.0, 1.0, exclude_max=True)
MUTATION = st.one_of(
    st.tuples(st.just("byte"), FRACTION, st.integers(1, 255)),
    st.tuples(st.just("cut"), FRACTION, st.none()),
    st.tuples(st.just("document"), FRACTION, WEIRD),
    st.tuples(st.just("dtype"), FRACTION, WEIRD | st.sampled_from(["F16", "F32", "BF16", "I64"])),
    st.tuples(
        st.sampled_from(["shape", "data_offsets"]),
        FRACTION,
        WEIRD | st.lists(st.sampled_from([-1, 0, 1, 8, 160, 2**40, 2**62, 2**64 - 1]), max_size=3),
    ),
    st.tuples(
        st.just("number"),
        FRACTION,
        st.sampled_from([0.0, -1.0, 0.5, 1e308, -1e308, 1e-320, float("nan"), float("inf"), 1e9, 3.0]),
    ),
)
"""A change: of what, at which share of the places there are, to what."""


def mutated(data: bytes, what: str, share: float, value: Any) -> bytes:
    if what == "byte" and data:
        spoilt = bytearray(data)
        spoilt[int(share * len(data))] ^= value
        return bytes(spoilt)
    if what == "cut":
        return data[: int(share * len(data))]
    try:
        header, document, tensors = parts(data)
    except (struct.error, ValueError, KeyError, TypeError):
        return data  # an earlier change left no header
    if what == "document" and isinstance(document, dict) and document:
        all_places = list(places(document))
        in_document(*all_places[int(share * len(all_places))], value=value)(document)
    elif what == "number":
        at = 8 * int(share * (len(tensors) // 8))
        tensors = tensors[:at] + struct.pack("<d", value) + tensors[at + 8 :]
    elif names := sorted(header.keys() - {"__metadata__"}):
        name = names[int(share * len(names))]
        header[name] = dict(header[name] or {}) | {what: value}
    return joined(header, document, tensors)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(MUTATION, min_size=1, max_size=3))
def test_a_changed_artefact_is_refused_or_works(
    service: Service, waves_artefact: bytes, changes: list[tuple[str, float, Any]]
) -> None:
    """Never a 5xx, for the import or for what it took; never an allocation much beyond the file."""
    data = waves_artefact
    for change in changes:
        data = mutated(data, *change)
    with little_memory(64 << 20):
        answer = post(service, data, "fuzzed")
        assert answer.status_code == 201 or 400 <= answer.status_code < 500, answer.text
        if answer.status_code == 201:
            made = answer.json()["version"]
            assert service.client.get(f"/models/fuzzed/versions/{made}").status_code == 200
            asked = {"model": f"fuzzed@{made}", "rows": ROWS}
            assert service.client.post("/predict", json=asked).status_code in (200, 422)
            assert service.client.get("/models/fuzzed").status_code == 200
