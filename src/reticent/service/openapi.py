"""The description of the service that programs read: OpenAPI 3.1, written by hand beside the routes."""

from __future__ import annotations

from functools import cache
from typing import Any

from reticent._version import __version__


def _json(schema: dict[str, Any], kind: str = "application/json") -> dict[str, Any]:
    return {"content": {kind: {"schema": schema}}}


def _answer(words: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"description": words} | ({} if schema is None else _json(schema))


_OBJECT: dict[str, Any] = {"type": "object"}
_PROBLEM = {"description": "refused; nothing was changed"} | _json(
    {
        "type": "object",
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
        },
    },
    "application/problem+json",
)
_NAME = {
    "name": "name", "in": "path", "required": True,
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"},
}  # fmt: skip
_NUMBER = {
    "name": "number", "in": "path", "required": True,
    "description": "a number from 0 on, or latest", "schema": {"type": "string"},
}  # fmt: skip
_SPECIFICATION = {
    "type": "object",
    "required": ["name", "kind", "budget"],
    "properties": {
        "name": {"type": "string"},
        "kind": {"enum": ["logistic", "linear", "total", "bandit"]},
        "schema": {"type": "object"},
        "budget": {
            "type": "object",
            "required": ["epsilon"],
            "properties": {
                "epsilon": {"type": "number", "exclusiveMinimum": 0},
                "delta": {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
                "neighbours": {"enum": ["zero-out", "replace"]},
                "window": {"type": ["integer", "null"], "minimum": 1},
                "fade": {"type": ["array", "null"]},
            },
        },
        "publish": {"enum": ["request", "every"]},
        "seed": {"type": ["integer", "null"], "minimum": 0},
        "ledger": {"type": ["string", "null"]},
        "remember": {"type": "integer", "minimum": 60},
    },
}
_SENT = {
    "type": "object",
    "required": ["accepted", "repeated", "refused", "decision_number", "steps"],
    "properties": {
        name: {"type": "integer", "minimum": 0}
        for name in ("accepted", "repeated", "refused", "decision_number", "steps")
    },
}


def _operation(
    summary: str,
    answers: dict[str, Any],
    *,
    parameters: Any = (),
    body: Any = None,
    open: bool = False,
) -> dict[str, Any]:
    out: dict[str, Any] = {"summary": summary, "responses": {**answers, "default": _PROBLEM}}
    if parameters:
        out["parameters"] = list(parameters)
    if body is not None:
        out["requestBody"] = {"required": True, **body}
    if open:
        out["security"] = []
    return out


PATHS: dict[str, dict[str, Any]] = {
    "/healthz": {
        "get": _operation("Is the process alive?", {"200": _answer("yes", _OBJECT)}, open=True)
    },
    "/readyz": {
        "get": _operation("Are its kernels compiled?", {"200": _answer("yes", _OBJECT)}, open=True)
    },
    "/openapi.json": {
        "get": _operation("This description.", {"200": _answer("it", _OBJECT)}, open=True)
    },
    "/v1/streams": {
        "get": _operation("List the streams.", {"200": _answer("names, kinds, steps", _OBJECT)}),
        "post": _operation(
            "Create a stream, and charge its whole life to its ledger.",
            {"201": _answer("created", _OBJECT), "200": _answer("it was there already", _OBJECT)},
            body=_json(_SPECIFICATION),
        ),
    },
    "/v1/streams/{name}": {
        "get": _operation(
            "A stream, its latest decision and its guarantee.",
            {"200": _answer("the stream", _OBJECT)},
            parameters=[_NAME],
        )
    },
    "/v1/streams/{name}/records": {
        "post": _operation(
            "Send records; one decision is published after the last of them.",
            {"200": _answer("durable", _SENT)},
            parameters=[_NAME],
            body=_json({"type": "string"}, "application/x-ndjson"),
        )
    },
    "/v1/streams/{name}/decisions/{number}": {
        "get": _operation(
            "A published decision, always the same bytes.",
            {"200": _answer("the decision", _OBJECT)},
            parameters=[_NAME, _NUMBER],
        )
    },
    "/v1/ledgers": {
        "get": _operation(
            "Budgets, what was charged, what is left.", {"200": _answer("ledgers", _OBJECT)}
        )
    },
}


@cache
def document() -> dict[str, Any]:
    """The whole description."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Reticent",
            "version": __version__,
            "description": "Private learning that is durable before it is seen.",
        },
        "paths": PATHS,
        "security": [{"token": []}],
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }
