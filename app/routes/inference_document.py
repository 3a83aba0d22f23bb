"""`/v2` in the OpenAPI document, written by hand: the routes are not declared to FastAPI."""

from typing import Any

from app.routes.http.answers import STRICT_JSON
from app.routes.http.bodies import JSON
from app.routes.http.fields import NAME, REFERENCE, VERSION
from app.routes.inference import BINARY, HEADER_LENGTH, OUTPUTS
from app.services.predict.options import EXTRAS, INTERVAL
from app.services.predict.tensors import BYTES, NUMBERS
from core.predict.calibration import IntervalBasis

_MEANING = {
    "400": "The bytes are not what they claim to be",
    "404": "There is no such model, version or alias",
    "408": "The body did not come within its time",
    "413": "A limit is passed",
    "415": "A content type that is not read here",
    "422": "Understood, but a tensor, a column or a cell is wrong",
    "503": "Not ready, or the database or the store does not answer; try again",
}
_ERROR = {JSON: {"schema": {"$ref": "#/components/schemas/InferenceError"}}}
_SHAPE = {"type": "array", "items": {"type": "integer", "minimum": 0}, "description": "Its size in each dimension."}
_NAMES = list(OUTPUTS + EXTRAS)
_LEVEL = {"type": ["number", "null"], "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": INTERVAL}
_NAMED = {
    "type": "string",
    "description": f"One of {', '.join(_NAMES)}; of several targets each with its own: `y1.mean`.",
}

SCHEMAS: dict[str, Any] = {
    "InferenceError": {
        "type": "object",
        "required": ["error"],
        "properties": {"error": {"type": "string", "description": "What is wrong."}},
    },
    "InferenceRequest": {
        "type": "object",
        "required": ["inputs"],
        "properties": {
            "id": {"type": ["string", "null"], "description": "Given back with the answer."},
            "parameters": {
                "type": ["object", "null"],
                "description": "Of the request; others are ignored.",
                "properties": {
                    "interval": _LEVEL | {"description": "Probability of what lies between `lower` and `upper`."},
                    "binary_data_output": {
                        "type": ["boolean", "null"],
                        "default": False,
                        "description": "All outputs as bytes behind the JSON.",
                    },
                },
            },
            "inputs": {
                "type": "array",
                "description": "One tensor of shape [rows, features], in the order of the features and of any name; or "
                "one for each column, of its name and of shape [rows].",
                "items": {
                    "type": "object",
                    "required": ["name", "shape", "datatype"],
                    "properties": {
                        "name": {"type": "string", "description": "Of the column, or any for all of them."},
                        "shape": _SHAPE,
                        "datatype": {"enum": [*NUMBERS, BYTES], "description": "Type of its numbers; texts are BYTES."},
                        "data": {
                            "type": ["array", "null"],
                            "description": "Flat, or nested as the shape.",
                            "items": {},
                        },
                        "parameters": {
                            "type": ["object", "null"],
                            "description": "Of this tensor; others are ignored.",
                            "properties": {
                                "binary_data_size": {
                                    "type": ["integer", "null"],
                                    "description": "In place of data: so many bytes behind the JSON are this tensor.",
                                }
                            },
                        },
                    },
                },
            },
            "outputs": {
                "type": ["array", "null"],
                "description": f"By default {', '.join(OUTPUTS)}. The mean alone takes a tenth of the time or less.",
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": _NAMED,
                        "parameters": {
                            "type": ["object", "null"],
                            "description": "Of this output.",
                            "properties": {
                                "binary_data": {
                                    "type": ["boolean", "null"],
                                    "description": "As bytes behind the JSON; by default `binary_data_output`.",
                                }
                            },
                        },
                    },
                },
            },
        },
    },
    "InferenceAnswer": {
        "type": "object",
        "required": ["model_name", "model_version", "outputs"],
        "properties": {
            "model_name": {"type": "string", "pattern": NAME, "description": "Name of the model."},
            "model_version": {"type": "string", "pattern": VERSION, "description": "Number of the version."},
            "id": {"type": "string", "description": "That of the request."},
            "parameters": {
                "type": "object",
                "description": "Of the answer.",
                "properties": {
                    "interval": {"type": "number", "description": "Level of `lower` and `upper`."},
                    "interval_basis": {
                        "enum": list(IntervalBasis),
                        "description": "From the ranks of left-out rows, the tail of a distribution fitted to them "
                        "where they are too few for the level, or the model's own normal distribution.",
                    },
                    "warnings": {"type": "string", "description": "Rows that are far from all training rows."},
                },
            },
            "outputs": {
                "type": "array",
                "description": "Those asked for, in that order.",
                "items": {
                    "type": "object",
                    "required": ["name", "datatype", "shape"],
                    "properties": {
                        "name": _NAMED,
                        "datatype": {"const": "FP64", "description": "Doubles."},
                        "shape": _SHAPE,
                        "data": {
                            "type": "array",
                            "items": {"type": "number"},
                            "description": "A number for each row.",
                        },
                        "parameters": {
                            "type": "object",
                            "description": "In place of data.",
                            "properties": {
                                "binary_data_size": {
                                    "type": "integer",
                                    "minimum": 0,
                                    "description": "So many bytes behind the JSON are this tensor.",
                                }
                            },
                        },
                    },
                },
            },
        },
    },
}
"""Components of the OpenAPI document."""

_LENGTH = {
    "schema": {"type": "integer", "minimum": 0},
    "description": "Bytes of the JSON, where tensors come behind it as bytes.",
}


def _refusals(*statuses: str) -> dict[str, Any]:
    return {status: {"description": _MEANING[status], "content": _ERROR} for status in statuses}


def _get(summary: str, parameters: list[dict[str, Any]], *statuses: str) -> dict[str, Any]:
    answer = {"description": summary, "content": {JSON: {"schema": {"type": "object"}}}}
    return {
        "get": {
            "tags": ["open inference protocol"],
            "summary": summary,
            "parameters": parameters,
            "responses": {"200": answer, **_refusals(*statuses)},
        }
    }


def _infer(parameters: list[dict[str, Any]]) -> dict[str, Any]:
    example = {
        "inputs": [{"name": "rows", "shape": [2, 1], "datatype": "FP64", "data": [0.25, 0.75]}],
        "outputs": [{"name": "mean"}, {"name": "std"}],
    }
    return {
        "post": {
            "tags": ["open inference protocol"],
            "summary": "Predict tensors",
            "description": "As `/predict`, with the Open Inference Protocol's tensors, in JSON or as bytes behind it "
            f"(the binary tensor data extension: {BINARY} with {HEADER_LENGTH}). {STRICT_JSON}",
            "parameters": [*parameters, {"name": HEADER_LENGTH, "in": "header", **_LENGTH}],
            "requestBody": {
                "required": True,
                "content": {
                    JSON: {"schema": {"$ref": "#/components/schemas/InferenceRequest"}, "example": example},
                    BINARY: {"schema": {"type": "string", "format": "binary"}},
                },
            },
            "responses": {
                "200": {
                    "description": "A tensor for each output",
                    "headers": {HEADER_LENGTH: _LENGTH},
                    "content": {
                        JSON: {"schema": {"$ref": "#/components/schemas/InferenceAnswer"}},
                        BINARY: {"schema": {"type": "string", "format": "binary"}},
                    },
                },
                **_refusals("400", "404", "408", "413", "415", "422", "503"),
            },
        }
    }


def _parameter(name: str, pattern: str, description: str) -> dict[str, Any]:
    schema = {"type": "string", "pattern": pattern}
    return {"name": name, "in": "path", "required": True, "schema": schema, "description": description}


_NAME = _parameter("name", REFERENCE, "`name`, `name@3` or `name@alias`; a plain name is `champion`, else `latest`.")
_PLAIN_NAME = _parameter("name", NAME, "Name of the model.")
_VERSION = _parameter("version", NAME, "A version's number, or an alias.")

PATHS: dict[str, Any] = {
    "/v2": _get("The server and its extensions", []),
    "/v2/health/live": _get("The process runs", []),
    "/v2/health/ready": _get("It can work", [], "503"),
}
"""Paths of the OpenAPI document."""
for _version, _parameters in (("", [_NAME]), ("/versions/{version}", [_PLAIN_NAME, _VERSION])):
    _path = f"/v2/models/{{name}}{_version}"
    PATHS[_path] = _get("Versions, inputs and outputs of a model", _parameters, "404", "422", "503")
    PATHS[f"{_path}/ready"] = _get("The model is in memory", _parameters, "404", "422", "503")
    PATHS[f"{_path}/infer"] = _infer(_parameters)
