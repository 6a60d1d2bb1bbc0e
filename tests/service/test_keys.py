"""Keys of records: many at once are what each is by itself."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the service needs its extra")

from reticent.service.keys import Keys, made, new_key

TIMED = [new_key() for _ in range(50)]
ODD = [
    "visit 17", "", "é" * 36, "-" * 36, TIMED[0][:35], TIMED[0] + "0", TIMED[0].replace("-", "_"),
    TIMED[0][:14] + "4" + TIMED[0][15:], TIMED[0][:-2] + "  ", TIMED[0][:-2] + " 1", TIMED[0][:-1] + "g",
    TIMED[0][:30] + "-" + TIMED[0][31:], TIMED[0].upper(), "\ud800" * 36, "0" * 14 + "7" + "0" * 21,
]  # fmt: skip


@pytest.mark.parametrize(
    "odd", [None, *ODD], ids=lambda odd: "" if odd is None else str(ODD.index(odd))
)
def test_many_keys_are_packed_as_each_is(odd: str | None) -> None:
    keys = Keys(bytes(32))
    several = TIMED if odd is None else [*TIMED[:3], odd, *TIMED[3:]]
    assert keys.pack_all(several) == [keys.pack(key) for key in several]


def test_lengths_that_make_up_for_each_other_are_no_keys_with_a_time() -> None:
    keys = Keys(bytes(32))
    joined = TIMED[0] + TIMED[1]
    several = [joined[:35], joined[35:]]
    packed = keys.pack_all(several)
    assert packed == [keys.pack(key) for key in several]
    assert [made(key) for key in packed] == [None, None]


def test_digests_of_rows_are_what_each_is() -> None:
    keys = Keys(bytes(32))
    rows = np.random.default_rng(0).uniform(-1, 1, (7, 5))
    for table in (rows, rows[:, :3], rows[::2], rows.T):
        assert keys.digests(table) == [keys.digest(np.ascontiguousarray(row)) for row in table]
