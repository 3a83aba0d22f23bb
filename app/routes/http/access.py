"""Scope that each route wants, in one table. What is not in it wants `admin`; a test finds every route of the
application here.

Paths are written as the routes write them: a segment in braces stands for one that is not empty, and `{name}` is the
model, which is checked against those that a key may use.
"""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from app.routes.http.answers import problems
from app.routes.http.bodies import JSON
from app.services.keys.caller import KeyScope

PREDICT, TRAIN, ADMIN, MONITOR = KeyScope.PREDICT, KeyScope.TRAIN, KeyScope.ADMIN, KeyScope.MONITOR
PUBLIC = None
"""Routes that need no key: of all models, data and users they name versions whose files are damaged, and no more."""

MODEL = "{name}"

ACCESS: dict[str, dict[str, KeyScope | None]] = {
    "/": {"GET": PUBLIC},
    "/page/{file}": {"GET": PUBLIC},
    "/docs": {"GET": PUBLIC},
    "/docs/{file}": {"GET": PUBLIC},
    "/help": {"GET": PUBLIC},
    "/help/": {"GET": PUBLIC},
    "/help/{page}": {"GET": PUBLIC},
    "/openapi.json": {"GET": PUBLIC},
    "/health/live": {"GET": PUBLIC},
    "/health/ready": {"GET": PUBLIC},
    "/v2/health/live": {"GET": PUBLIC},
    "/metrics": {"GET": MONITOR},
    "/version": {"GET": MONITOR},
    "/v2/health/ready": {"GET": PUBLIC},
    "/predict": {"POST": PREDICT},
    "/evaluate": {"POST": PREDICT},
    "/v2": {"GET": PREDICT},
    "/v2/models/{name}": {"GET": PREDICT},
    "/v2/models/{name}/ready": {"GET": PREDICT},
    "/v2/models/{name}/infer": {"POST": PREDICT},
    "/v2/models/{name}/versions/{version}": {"GET": PREDICT},
    "/v2/models/{name}/versions/{version}/ready": {"GET": PREDICT},
    "/v2/models/{name}/versions/{version}/infer": {"POST": PREDICT},
    "/models": {"GET": PREDICT},
    "/models/{name}": {"GET": PREDICT, "DELETE": ADMIN},
    "/models/{name}/versions": {"POST": TRAIN},
    "/models/{name}/versions/{version}": {"GET": PREDICT, "DELETE": ADMIN},
    "/models/{name}/versions/{version}/artefact": {"GET": PREDICT},
    "/models/{name}/versions/{version}/held-out": {"GET": PREDICT},
    "/models/{name}/versions/{version}/importance": {"GET": PREDICT},
    "/models/{name}/versions/{version}/effects": {"GET": PREDICT},
    "/models/{name}/versions/{version}/report": {"GET": PREDICT},
    "/models/{name}/aliases/{alias}": {"PUT": ADMIN, "DELETE": ADMIN},
    "/models/{name}/explain": {"POST": PREDICT},
    "/models/{name}/suggest": {"POST": PREDICT},
    "/models/{name}/update": {"POST": TRAIN},
    "/models/{name}/monitoring": {"GET": PREDICT},
    "/feedback": {"POST": PREDICT},
    "/train": {"POST": TRAIN},
    "/jobs": {"GET": TRAIN},
    "/jobs/{job_id}": {"GET": TRAIN, "DELETE": TRAIN},
    "/jobs/{job_id}/events": {"GET": TRAIN},
    "/jobs/{job_id}/predictions": {"GET": TRAIN},
    "/datasets": {"GET": TRAIN, "POST": TRAIN},
    "/datasets/{dataset}/rows": {"POST": TRAIN},
    "/datasets/{dataset}": {"GET": TRAIN, "DELETE": ADMIN},
    "/keys": {"GET": ADMIN, "POST": ADMIN},
    "/keys/{key_id}": {"DELETE": ADMIN},
    "/audit": {"GET": ADMIN},
    "/audit/usage": {"GET": ADMIN},
}
"""Scope by path and method; HEAD is as GET."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Access to one path. model: the place of the model's name among its segments."""

    path: str
    scopes: dict[str, KeyScope | None]
    model: int | None

    @property
    def methods(self) -> str:
        """Return all methods of this path, for `Allow`."""
        with_head = [*self.scopes, *(["HEAD"] if "GET" in self.scopes else []), "OPTIONS"]
        return ", ".join(sorted(with_head))

    def model_of(self, path: str) -> str | None:
        """The model that a path names; a version that a reference names with it is cut off."""
        return None if self.model is None else path.split("/")[self.model].partition("@")[0]


def _compiled(
    table: Iterable[tuple[str, dict[str, KeyScope | None]]],
) -> dict[int, list[tuple[list[str | None], Access]]]:
    by_length: dict[int, list[tuple[list[str | None], Access]]] = {}
    for path, scopes in table:
        parts = path.split("/")
        access = Access(path=path, scopes=scopes, model=parts.index(MODEL) if MODEL in parts else None)
        pattern = [None if part.startswith("{") else part for part in parts]
        by_length.setdefault(len(parts), []).append((pattern, access))
    return by_length


_PATTERNS = _compiled(ACCESS.items())
_FIXED = {
    path: access
    for table in _PATTERNS.values()
    for pattern, access in table
    if None not in pattern
    for path in [access.path]
}


def access_of(path: str) -> Access | None:
    """Return the access to this path; None for one that is not in the table."""
    fixed = _FIXED.get(path)
    if fixed is not None:
        return fixed
    parts = path.split("/")
    for pattern, access in _PATTERNS.get(len(parts), ()):
        if all(part == known if known is not None else part for part, known in zip(parts, pattern, strict=True)):
            return access
    return None


def describe(document: dict[str, Any]) -> None:
    """Say in the OpenAPI document which scope each operation wants, and how it refuses."""
    document["components"]["securitySchemes"] = {
        "key": {
            "type": "http",
            "scheme": "bearer",
            "description": "An API key, `pk_..`: needed once there is one (`pursuit keys create`).",
        }
    }
    document["paths"] = deepcopy(document["paths"])  # some are constants
    for path, operations in document["paths"].items():
        access = access_of(path)
        for method, operation in operations.items():
            scope = None if access is None else access.scopes.get(method.upper())
            operation["security"] = [] if scope is None else [{"key": [scope.value]}]
            if scope is not None:
                for status, answer in problems(401, 403, 429).items():
                    if path.startswith("/v2"):  # that protocol has a form of its own
                        answer["content"] = {JSON: {"schema": {"$ref": "#/components/schemas/InferenceError"}}}
                    operation["responses"].setdefault(str(status), answer)
