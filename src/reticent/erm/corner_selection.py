"""The exponential mechanism over the vertices of an l1 ball or a simplex, with few random draws.

Done naively, each of the 2p vertices gets a Gumbel variable. Here candidates are grouped in blocks. The maximum of the
Gumbels of m equal scores is one Gumbel plus ln m, so a block whose scores are at most V is *proposed* with weight
m exp(V) by one Gumbel. A uniformly drawn candidate of the block, with score q, is then accepted with probability
exp(q - V); otherwise everything starts again. This is rejection sampling, so a candidate is selected with probability
exactly exp(q) / sum exp(q). Using few Gumbels for many small scores is an idea of Mussmann, Levy and Ermon, *Fast
amortized inference and learning in log-linear models with randomly perturbed approximate inference*. A block that was
proposed in vain and holds few good candidates is split into them from then on. Proof and arithmetic:
docs/algorithms/frank-wolfe.md.

Every round is fresh, so envelopes may be arbitrary and change between rounds; only V >= q must hold, so V is rounded
up.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from mpmath import MPIntervalContext, libmp

from reticent.checks import FloatArray
from reticent.compiling import compiled
from reticent.noise import Source, select

_SMALL = 512
"""Up to this many candidates, each gets its own Gumbel."""
_HOT = 4
"""How many split blocks are kept from one selection to the next."""
_LOPSIDED = 0.1
"""A block is split if a proposal from it is accepted with a smaller probability than this."""
_LN2 = math.log(2.0)


@compiled
def _block_tops(g, size, signed, tops):
    """The maximum of ``|g|``, or of ``-g``, in every block."""
    for k in range(tops.size):
        start = k * size
        stop = min(start + size, g.size)
        best = -np.inf
        if signed:
            for j in range(start, stop):
                best = max(best, abs(g[j]))
        else:
            for j in range(start, stop):
                best = max(best, -g[j])
        tops[k] = best


class Corners:
    """Select vertices ``sign * e_j`` with probability proportional to ``exp(-sign g_j / scale)``.

    Parameters
    ----------
    count
        Number of coordinates.
    signed
        Whether both signs are allowed (the l1 ball) or only ``+`` (the simplex).
    source
        Generator of the randomness.
    """

    def __init__(self, count: int, signed: bool, source: Source) -> None:
        self.count = count
        self.signed = signed
        self.source = source
        self.draws = 0
        # about sqrt(candidates) in each block, a power of two, so that a few random bits select one
        self.bits = max(1, round(0.5 * math.log2(max(2, count))))
        self.size = 2**self.bits >> int(signed)
        self.blocks = -(-count // self.size)
        self._tops = np.empty(self.blocks)
        self._hot: list[int] = []

    @property
    def candidates(self) -> int:
        return self.count * (2 if self.signed else 1)

    def pick(self, g: FloatArray, scale: float) -> tuple[int, float]:
        """The coordinate and the sign of the selected vertex; small values of ``sign g_j`` are most likely."""
        if self.candidates <= _SMALL:
            scores = np.concatenate([-g, g]) if self.signed else -g
            self.draws += scores.size
            best = select(scores, scale, self.source)
            return best % self.count, -1.0 if best >= self.count else 1.0
        _block_tops(g, self.size, self.signed, self._tops)
        ceilings = _up(self._tops / scale)
        hot = self._hot[-_HOT:]
        while True:
            chosen, block = self._round(g, scale, ceilings, hot)
            if chosen is not None:
                self._hot = hot
                return chosen
            if block is not None and self._is_lopsided(g, scale, float(ceilings[block]), block):
                hot = [*hot, block]

    def _is_lopsided(self, g: FloatArray, scale: float, ceiling: float, block: int) -> bool:
        """Whether few candidates of a block are close to its ceiling; affects speed only."""
        part = g[block * self.size : (block + 1) * self.size] / scale
        likely = np.exp(-part - ceiling).sum()
        if self.signed:
            likely += np.exp(part - ceiling).sum()
        return bool(likely < _LOPSIDED * 2**self.bits)

    def _round(
        self, g: FloatArray, scale: float, ceilings: FloatArray, hot: list[int]
    ) -> tuple[tuple[int, float] | None, int | None]:
        """One proposal: the vertex if it is accepted, else the block it came from."""
        cold = np.ones(self.blocks, dtype=bool)
        cold[hot] = False
        blocks = np.flatnonzero(cold)
        singles = self._singles(hot)
        shift = self.bits * _LN2
        own = -g[singles[0]] * singles[1] / scale
        weights = np.concatenate([_up(ceilings[blocks] + shift), _up(own)])
        self.draws += weights.size
        at = select(weights, 1.0, self.source)
        words = self.source.words(2)
        if at >= len(blocks):
            j, sign = int(singles[0][at - len(blocks)]), float(singles[1][at - len(blocks)])
            block, bits = None, 0
        else:
            block, bits = int(blocks[at]), self.bits
            place = int(words[0]) & (2**self.bits - 1)
            sign = -1.0 if self.signed and place & 1 else 1.0
            j = block * self.size + (place >> int(self.signed))
            if j >= self.count:
                return None, block
        score = -sign * float(g[j])
        if self._accepts(int(words[1]), float(weights[at]), bits, score, scale):
            return (j, sign), block
        return None, block

    def _singles(self, hot: list[int]) -> tuple[np.ndarray, FloatArray]:
        if not hot:
            return np.empty(0, np.int64), np.empty(0)
        places = np.concatenate(
            [np.arange(k * self.size, min((k + 1) * self.size, self.count)) for k in hot]
        )
        signs = np.ones(len(places))
        if self.signed:
            return np.concatenate([places, places]), np.concatenate([signs, -signs])
        return places, signs

    def _accepts(self, word: int, ceiling: float, bits: int, score: float, scale: float) -> bool:
        """Whether a uniform variable whose first 64 bits are ``word`` is below the acceptance probability.

        The probability is ``2^bits exp(score / scale - ceiling)``, evaluated exactly for the given floats.
        """
        value = score / scale
        distance = ceiling - bits * _LN2 - value
        error = (abs(ceiling) + bits + abs(value) + 1.0) * 2.0**-46
        low, high = -math.log((word + 1.0) * 2.0**-64), math.inf
        if word > 0:
            high = -math.log(word * 2.0**-64)
        error += 2.0**-46 * (1.0 + abs(low))
        if low > distance + error:
            return True
        if high < distance - error:
            return False
        rest = Fraction(ceiling) - Fraction(score) / Fraction(scale)
        return _exceeds(self.source, word, rest, bits)


def _up(values: FloatArray) -> FloatArray:
    """Upper bounds of the real numbers that these floats approximate."""
    return values + (np.abs(values) * 2.0**-46 + 2.0**-60)


def _exceeds(source: Source, word: int, rest: Fraction, bits: int) -> bool:
    """Whether ``-log U > rest - bits log 2`` for a uniform U whose first bits are those of ``word``."""
    context = MPIntervalContext()
    value, length = word, 64
    for _ in range(64):
        value = value << 128 | source.fine_bits(2)
        length += 128
        context.prec = length + 64
        uniform = context.mpf([value, value + 1]) / context.mpf(2) ** length
        exact = context.mpf(rest.numerator) / context.mpf(rest.denominator)
        gap = -context.log(uniform) - exact + bits * context.log(2)
        room = context.mpf(2) ** (24 - context.prec) * (1 + abs(exact) + bits)
        low, high = (gap + context.mpf([-1, 1]) * room)._mpi_
        if libmp.mpf_gt(low, libmp.fzero):
            return True
        if libmp.mpf_lt(high, libmp.fzero):
            return False
    raise ArithmeticError(
        "8256 random bits did not decide a draw, which is impossible by chance; check the generator"
    )
