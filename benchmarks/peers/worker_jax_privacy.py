"""jax_privacy's running totals: the error of its factorisations, and the time of its noise on the CPU.

Its privatiser noises gradients; a total is the running sum of what it returns, and that sum is part
of the timed, compiled scan.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax_privacy import noise_addition  # noqa: E402
from jax_privacy.matrix_factorization import buffered_toeplitz, toeplitz  # noqa: E402
from wire import serve, timed  # noqa: E402


@lru_cache(maxsize=64)
def _blt(n: int, buffers: int) -> Any:
    return buffered_toeplitz.optimize(n=n, error="max", min_buffers=buffers, max_buffers=buffers)


def blt(n: int, buffers: int) -> dict[str, Any]:
    """Largest standard deviation over the horizon for sensitivity 1 and unit noise."""
    found, seconds = timed(lambda: _blt(n, buffers))
    square = float(buffered_toeplitz.max_loss(found, jnp.asarray(float(n))))
    return {"error": square**0.5, "seconds": seconds}


def blt_of_persons(n: int, buffers: int, records: int, gap: int) -> dict[str, Any]:
    """The same where a person takes part in several steps, some steps apart; sensitivity 1 for each of them."""
    found, seconds = timed(
        lambda: buffered_toeplitz.optimize(
            n=n,
            error="max",
            min_sep=gap,
            max_participations=records,
            min_buffers=buffers,
            max_buffers=buffers,
        )
    )
    loss = buffered_toeplitz.LossFn.build_min_sep(
        n=n, error="max", min_sep=gap, max_participations=records
    )
    return {"error": float(loss.loss(found)) ** 0.5, "seconds": seconds}


def square_root(n: int) -> dict[str, Any]:
    noising = toeplitz.optimal_max_error_noising_coefs(n)
    strategy = toeplitz.optimal_max_error_strategy_coefs(n)
    error = toeplitz.per_query_error(noising_coef=noising)[-1]
    return {"error": float(jnp.sqrt(error * toeplitz.sensitivity_squared(strategy)))}


def banded(n: int, bands: int) -> dict[str, Any]:
    found, seconds = timed(
        lambda: toeplitz.optimize_banded_toeplitz(n, bands, reduction_fn=jnp.max)
    )
    error = toeplitz.loss(found, n, jnp.max)
    return {"error": float(jnp.sqrt(error)), "seconds": seconds}


@lru_cache(maxsize=32)
def _scan(kind: str, n: int, dim: int, width: str, bits: str) -> Any:
    if kind == "blt":
        noising = _blt(n, 5).inverse_as_streaming_matrix()
    else:
        coefficients = toeplitz.optimal_max_error_strategy_coefs(32)
        noising = toeplitz.inverse_as_streaming_matrix(coefficients)
    key = jax.random.key(0, impl=bits)
    dtype = jnp.dtype(width)
    add = noise_addition.matrix_factorization_privatizer(
        noising, stddev=1.0, prng_key=key, dtype=dtype
    )

    def step(state: Any, row: Any) -> Any:
        total, noise = state
        noisy, noise = add.update(row, noise)
        total = total + noisy
        return (total, noise), total

    def whole(rows: Any) -> Any:
        state = (jnp.zeros(dim, dtype), add.init(rows[0]))
        return jax.lax.scan(step, state, rows)[1]

    return jax.jit(whole)


def totals(kind: str, n: int, steps: int, dim: int, width: str, bits: str) -> dict[str, Any]:
    """All noisy totals of ``steps`` rows, compiled beforehand."""
    run = _scan(kind, n, dim, width, bits)
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(steps, dim)) / dim, jnp.dtype(width))
    if (kind, n, steps, dim, width, bits) not in _warm:
        run(rows).block_until_ready()
        _warm.add((kind, n, steps, dim, width, bits))
    _, seconds = timed(lambda: run(rows).block_until_ready())
    return {"seconds": seconds}


_warm: set[tuple[Any, ...]] = set()

if __name__ == "__main__":
    serve(
        {
            "blt": blt,
            "blt_of_persons": blt_of_persons,
            "square_root": square_root,
            "banded": banded,
            "totals": totals,
        }
    )
