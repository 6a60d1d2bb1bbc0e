"""CuPy, where there is a device."""

from __future__ import annotations

import pytest


@pytest.fixture
def cupy():
    cupy = pytest.importorskip("cupy", reason="no CuPy, so no device")
    try:
        cupy.cuda.runtime.getDeviceCount()
    except Exception:
        pytest.skip("no NVIDIA device")
    return cupy
