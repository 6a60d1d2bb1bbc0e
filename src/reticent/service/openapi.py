"""The OpenAPI 3.1 description of the service, one line per route."""

from __future__ import annotations

from functools import cache
from typing import Any

from reticent.version import __version__

_OBJECT: dict[str, Any] = {"type": "object"}
_COUNT = {"type": "integer", "minimum": 0}
_NAMED = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"}
_SCHEMAS: dict[str, Any] = {
    "Problem": {
        "type": "object",
        "required": ["type", "title", "status", "detail"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
        },
    },
    "Budget": {
        "type": "object",
        "required": ["epsilon"],
        "properties": {
            "epsilon": {"type": "number", "exclusiveMinimum": 0},
            "delta": {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
            "neighbours": {"enum": ["zero-out", "replace"]},
            "window": {"type": ["integer", "null"], "minimum": 1},
            "fade": {"type": ["array", "null"]},
        },
        "additionalProperties": False,
    },
    "Schema": {
        "type": "object",
        "required": ["columns"],
        "properties": {
            "target": {"type": "string"},
            "columns": {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "required": ["type"],
                    "properties": {
                        "type": {"enum": ["number", "category", "boolean", "person", "ignore"]},
                        "bounds": {
                            "type": "array",
                            "items": {"type": "number"},
                            "minItems": 2,
                            "maxItems": 2,
                        },
                        "values": {"type": "array", "minItems": 2},
                    },
                },
            },
        },
    },
    "Specification": {
        "type": "object",
        "required": ["name", "kind", "budget"],
        "properties": {
            "name": _NAMED,
            "kind": {"enum": ["logistic", "linear", "total", "bandit"]},
            "schema": {"$ref": "#/components/schemas/Schema"},
            "budget": {"$ref": "#/components/schemas/Budget"},
            "publish": {"enum": ["request", "every"]},
            "seed": {"type": ["integer", "null"], "minimum": 0},
            "ledger": {"type": ["string", "null"]},
            "remember": {"type": "integer", "minimum": 60},
        },
    },
    "Sent": {
        "type": "object",
        "required": ["accepted", "repeated", "refused", "decision_number", "steps"],
        "properties": {
            name: _COUNT for name in ("accepted", "repeated", "refused", "decision_number", "steps")
        },
    },
}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _parameter(name: str, schema: dict[str, Any], where: str = "path") -> dict[str, Any]:
    return {"name": name, "in": where, "required": where == "path", "schema": schema}


_NAME = _parameter("name", _NAMED)
_ID = _parameter("id", {"type": "string"})
_NUMBER = _parameter("number", {"type": "string", "pattern": "^([0-9]{1,18}|latest)$"})
_KEY = _parameter("Idempotency-Key", {"type": "string", "minLength": 1, "maxLength": 200}, "header")
_PRODUCER = _parameter("Reticent-Producer", {"type": "string", "maxLength": 200}, "header")
_SEQUENCE = _parameter(
    "Reticent-Sequence", {"type": "string", "pattern": "^[0-9]{1,18}$"}, "header"
)
_POINTS = _parameter("points", {"type": "integer", "minimum": 2, "maximum": 1000}, "query")
_BEFORE = _parameter("before", {"type": "integer", "minimum": 0}, "query")
_LAST = _parameter("Last-Event-ID", {"type": "string"}, "header")
_JSON = "application/json"
_FIT = {
    "type": "object",
    "required": ["kind", "epsilon"],
    "properties": {
        "kind": {"enum": ["logistic", "linear", "lasso"]},
        "epsilon": {"type": "number", "exclusiveMinimum": 0},
        "delta": {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
        "target": {"type": "string"},
        "options": {"type": "object"},
    },
}
_TABLE = {
    "type": "object",
    "required": ["name", "path", "schema", "budget"],
    "properties": {
        "name": _NAMED,
        "path": {"type": "string"},
        "schema": _ref("Schema"),
        "budget": _ref("Budget"),
    },
}
_LEDGER = {
    "type": "object",
    "required": ["name", "budget"],
    "properties": {
        "name": _NAMED,
        "budget": _ref("Budget"),
        "unit": {"enum": ["record", "person"]},
    },
}
_TOKEN = {
    "type": "object",
    "required": ["role"],
    "properties": {
        "role": {"enum": ["writer", "reader", "data holder", "administrator"]},
        "streams": {"type": ["array", "null"], "items": _NAMED},
        "expires_in": {"type": ["number", "null"], "minimum": 1},
        "label": {"type": "string", "maxLength": 200},
    },
}
_SESSION = {
    "type": "object",
    "required": ["token"],
    "properties": {"token": {"type": "string", "minLength": 1}},
    "additionalProperties": False,
}
_TOLD = {
    "type": "object",
    "required": ["ticket", "value"],
    "properties": {
        "ticket": {"type": "integer", "minimum": 1},
        "value": {"type": ["number", "null"]},
        "person": {"type": ["string", "integer", "null"]},
    },
    "additionalProperties": False,
}
_ASKED = {
    "type": "object",
    "properties": {
        "x": _OBJECT,
        "records": {"type": "array", "items": _OBJECT},
        "number": {"type": "integer", "minimum": 0},
    },
    "additionalProperties": False,
}
_DUMMY = {
    "allOf": [
        _ref("Specification"),
        {
            "type": "object",
            "properties": {"records": {"type": "integer", "minimum": 1, "maximum": 10_000}},
        },
    ]
}
_RECORDS = {
    "application/x-ndjson": {"type": "string"},
    "application/vnd.apache.arrow.stream": {"type": "string", "format": "binary"},
}

# method, address, what it does, status, parameters, body by content type, schema of the answer
_LINES: list[tuple[str, str, str, str, list[Any], Any, dict[str, Any]]] = [
    ("get", "/healthz", "Is the process alive?", "200", [], None, _OBJECT),
    ("get", "/readyz", "Can it do its work now?", "200", [], None, _OBJECT),
    (
        "get",
        "/metrics",
        "Metrics in Prometheus's text format.",
        "200",
        [],
        None,
        {"type": "string"},
    ),
    ("get", "/openapi.json", "This description.", "200", [], None, _OBJECT),
    ("get", "/v1/streams", "List the streams.", "200", [], None, _OBJECT),
    (
        "post",
        "/v1/streams",
        "Create a stream, and charge its whole life to a ledger.",
        "201",
        [],
        _ref("Specification"),
        _OBJECT,
    ),
    (
        "get",
        "/v1/streams/{name}",
        "A stream, its latest decision and its guarantee.",
        "200",
        [_NAME],
        None,
        _OBJECT,
    ),
    (
        "delete",
        "/v1/streams/{name}",
        "Delete the state and the decisions of a stream; what it spent stays spent.",
        "200",
        [_NAME],
        None,
        _OBJECT,
    ),
    (
        "post",
        "/v1/streams/{name}/close",
        "Close a stream to new records; its decisions stay.",
        "200",
        [_NAME],
        None,
        _OBJECT,
    ),
    (
        "post",
        "/v1/streams/{name}/records",
        "Send records; they are durable and the decision is published when this answers.",
        "200",
        [_NAME, _KEY, _PRODUCER, _SEQUENCE],
        _RECORDS,
        _ref("Sent"),
    ),
    (
        "get",
        "/v1/streams/{name}/decisions",
        "Decisions evenly spread over all that were published.",
        "200",
        [_NAME, _POINTS],
        None,
        _OBJECT,
    ),
    (
        "get",
        "/v1/streams/{name}/decisions/{number}",
        "A published decision; its bytes never change.",
        "200",
        [_NAME, _NUMBER],
        None,
        _OBJECT,
    ),
    (
        "post",
        "/v1/streams/{name}/predict",
        "Predictions with a decision.",
        "200",
        [_NAME],
        _ASKED,
        _OBJECT,
    ),
    (
        "post",
        "/v1/streams/{name}/ask",
        "The next point of a bandit, and its ticket.",
        "200",
        [_NAME, _KEY],
        None,
        _OBJECT,
    ),
    (
        "post",
        "/v1/streams/{name}/tell",
        "Report the loss of a point that was played.",
        "200",
        [_NAME],
        _TOLD,
        _ref("Sent"),
    ),
    (
        "get",
        "/v1/streams/{name}/events",
        "New decisions as server-sent events.",
        "200",
        [_NAME, _LAST],
        None,
        {"type": "string"},
    ),
    (
        "get",
        "/v1/streams/{name}/guarantee",
        "The guarantee of a record, by its age.",
        "200",
        [_NAME],
        None,
        _OBJECT,
    ),
    (
        "get",
        "/v1/events",
        "The status of every stream, as server-sent events.",
        "200",
        [],
        None,
        {"type": "string"},
    ),
    (
        "get",
        "/v1/streams/{name}/diagnostics",
        "For the data holder: numbers that no guarantee covers.",
        "200",
        [_NAME],
        None,
        _OBJECT,
    ),
    (
        "post",
        "/v1/estimate",
        "What a stream would cost; nothing is created.",
        "200",
        [],
        _ref("Specification"),
        _OBJECT,
    ),
    (
        "post",
        "/v1/dummy",
        "A dry run on made-up records; nothing is created.",
        "200",
        [],
        _DUMMY,
        _OBJECT,
    ),
    ("get", "/v1/ledgers", "Budgets, their charges, and what is left.", "200", [], None, _OBJECT),
    (
        "post",
        "/v1/ledgers",
        "Add a ledger that several streams share.",
        "201",
        [],
        _LEDGER,
        _OBJECT,
    ),
    ("get", "/v1/ledgers/{name}", "One ledger.", "200", [_NAME], None, _OBJECT),
    ("get", "/v1/tables", "Tables that models can be fitted to.", "200", [], None, _OBJECT),
    (
        "post",
        "/v1/tables",
        "Add a folder of Parquet files, with a budget.",
        "201",
        [],
        _TABLE,
        _OBJECT,
    ),
    (
        "post",
        "/v1/tables/{name}/fits",
        "Fit a model to a table; answers with a job.",
        "202",
        [_NAME, _KEY],
        _FIT,
        _OBJECT,
    ),
    ("get", "/v1/jobs", "List the jobs.", "200", [], None, _OBJECT),
    (
        "get",
        "/v1/jobs/{id}",
        "A job, its progress, and its model when it is done.",
        "200",
        [_ID],
        None,
        _OBJECT,
    ),
    ("delete", "/v1/jobs/{id}", "Cancel a job.", "202", [_ID], None, _OBJECT),
    ("get", "/v1/session", "The token in use, and what it may do.", "200", [], None, _OBJECT),
    (
        "post",
        "/v1/session",
        "Sign in from a browser: exchange a token for a cookie.",
        "200",
        [],
        _SESSION,
        _OBJECT,
    ),
    ("delete", "/v1/session", "Sign out: remove the cookie.", "200", [], None, _OBJECT),
    ("get", "/v1/log", "Who did what, the latest first.", "200", [_BEFORE], None, _OBJECT),
    ("get", "/v1/tokens", "List the tokens, without their secrets.", "200", [], None, _OBJECT),
    ("post", "/v1/tokens", "Make a token, which is shown once.", "201", [_KEY], _TOKEN, _OBJECT),
    ("delete", "/v1/tokens/{id}", "Revoke a token.", "200", [_ID], None, _OBJECT),
]
_OPEN = (
    "get /healthz",
    "get /readyz",
    "get /openapi.json",
    "post /v1/session",
    "delete /v1/session",
)


def _operation(
    method: str,
    path: str,
    words: str,
    status: str,
    parameters: list[Any],
    body: Any,
    found: dict[str, Any],
) -> dict[str, Any]:
    kind = "text/event-stream" if path.endswith("/events") else _JSON
    kind = "text/plain" if path == "/metrics" else kind
    answers: dict[str, Any] = {
        status: {"description": "done", "content": {kind: {"schema": found}}},
        "default": {
            "description": "refused; nothing was changed",
            "content": {"application/problem+json": {"schema": _ref("Problem")}},
        },
    }
    if path == "/v1/streams" and status == "201":
        answers["200"] = answers["201"] | {"description": "it existed already"}
    out: dict[str, Any] = {"summary": words, "responses": answers}
    if parameters:
        out["parameters"] = parameters
    if body is not None:
        kinds = body if body is _RECORDS else {_JSON: body}
        out["requestBody"] = {
            "required": True,
            "content": {kind: {"schema": schema} for kind, schema in kinds.items()},
        }
    if f"{method} {path}" in _OPEN:
        out["security"] = []
    return out


@cache
def document() -> dict[str, Any]:
    """The whole OpenAPI description."""
    paths: dict[str, dict[str, Any]] = {}
    for method, path, *rest in _LINES:
        paths.setdefault(path, {})[method] = _operation(method, path, *rest)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Reticent",
            "version": __version__,
            "description": "Private learning that is durable before it is seen.",
        },
        "paths": paths,
        "security": [{"token": []}],
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
