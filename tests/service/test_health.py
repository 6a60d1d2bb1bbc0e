"""Readiness means that requests can be answered; docs/running.md relies on this."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reticent.service import health
from reticent.service.problems import Problem


def test_readiness_means_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(command: Any) -> bool:
        await asyncio.sleep(60)
        return True

    async def quick(command: Any) -> bool:
        return True

    def state(**more: Any) -> Any:
        usual = {
            "ready": True,
            "stopping": SimpleNamespace(is_set=lambda: False),
            "folder": tmp_path,
            "do": quick,
        }
        return SimpleNamespace(**usual | more)

    asyncio.run(health.check(state()))
    monkeypatch.setattr(health, "_PATIENCE", 0.01)
    for found, words in (
        (state(ready=False), "starting"), (state(stopping=SimpleNamespace(is_set=lambda: True)), "stopping"),
        (state(do=slow), "did not reach the store"),
    ):  # fmt: skip
        with pytest.raises(Problem, match=words) as caught:
            asyncio.run(health.check(found))
        assert caught.value.status == 503
        assert caught.value.headers["Retry-After"]
    monkeypatch.setattr(health, "free_bytes", lambda folder: 2**20)
    with pytest.raises(Problem, match="1 MiB are free"):
        asyncio.run(health.check(state()))
    dead = SimpleNamespace(
        engine=SimpleNamespace(alive=lambda: False), stopping=SimpleNamespace(is_set=lambda: False)
    )
    with pytest.raises(Problem, match="start the service again"):
        asyncio.run(health.health(dead, None))  # type: ignore[arg-type]
