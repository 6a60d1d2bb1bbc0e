"""A source whose words are written down in advance, so that a draw can be worked out by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from reticent.noise import Source


class Scripted(Source):
    """Gives the words it was told to give; remembers the further bits that were asked for."""

    def __init__(self, words: Sequence[int] = (), fine: Sequence[int] = (), seed: int = 0) -> None:
        super().__init__(seed)
        self.script = [int(word) for word in words]
        self.fine_script = list(fine)
        self.fine: list[int] = []

    def words(self, count: int) -> NDArray[np.uint64]:
        if not self.script:
            return super().words(count)
        head, self.script = self.script[:count], self.script[count:]
        assert len(head) == count
        return np.array(head, np.uint64)

    def fine_bits(self, words: int) -> int:
        value = self.fine_script.pop(0) if self.fine_script else super().fine_bits(words)
        self.fine.append(value)
        return value


@pytest.fixture
def scripted() -> Callable[..., Scripted]:
    return Scripted
