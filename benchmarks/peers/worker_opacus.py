"""DP-SGD of Opacus on a logistic model: Poisson batches, its own per-example gradients, optimiser and accountant.

The rows are kept in one tensor and each Poisson batch is cut out of it by index, instead of being
collated row by row by a data loader. The mechanism is the same, and it is faster.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

import torch
from opacus import GradSampleModule
from opacus.accountants.utils import get_noise_multiplier
from opacus.optimizers import DPOptimizer
from wire import arrays, serve, timed

warnings.simplefilter("ignore")
torch.set_num_threads(1)


@lru_cache(maxsize=256)
def multiplier(epsilon: float, delta: float, rate: float, steps: int) -> float:
    """By the numerical accountant ("prv"), the tightest that Opacus has."""
    return get_noise_multiplier(
        target_epsilon=epsilon,
        target_delta=delta,
        sample_rate=rate,
        steps=steps,
        accountant="prv",
        epsilon_tolerance=0.005 * epsilon,
    )


@lru_cache(maxsize=16)
def tensors(data: str, train: str) -> tuple[torch.Tensor, ...]:
    found = arrays(data)
    X, y = torch.from_numpy(found["X"]).float(), torch.from_numpy(found["y"]).float()
    y = (y > 0).float()
    if not train:
        return X, y, X, y
    inside, outside = (torch.from_numpy(found[f"{part}{train}"]) for part in ("train", "test"))
    return X[inside], y[inside], X[outside], y[outside]


def fit(
    A: torch.Tensor, b: torch.Tensor, noise: float, rate: float, steps: int, lr: float, clip: float,
    intercept: bool, seed: int,
) -> torch.nn.Module:  # fmt: skip
    generator = torch.Generator().manual_seed(seed)
    inner = torch.nn.Linear(A.shape[1], 1, bias=intercept)
    torch.nn.init.zeros_(inner.weight)
    if intercept:
        torch.nn.init.zeros_(inner.bias)
    model = GradSampleModule(inner)
    optimiser = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9),
        noise_multiplier=noise, max_grad_norm=clip, expected_batch_size=rate * len(A), generator=generator,
    )  # fmt: skip
    loss = torch.nn.BCEWithLogitsLoss()
    count = float(len(A))
    for _ in range(steps):
        size = int(torch.distributions.Binomial(count, torch.tensor(rate)).sample())
        chosen = (
            torch.randperm(len(A), generator=generator)[:size]
            if rate < 1.0
            else torch.arange(len(A))
        )
        optimiser.zero_grad()
        loss(model(A[chosen]).squeeze(1), b[chosen]).backward()
        optimiser.step()
    return model


def logistic(
    data: str, epsilon: float, delta: float, rate: float, steps: int, lr: float, clip: float, intercept: bool,
    seed: int, train: str = "",
) -> dict[str, Any]:  # fmt: skip
    A, b, outside, labels = tensors(data, train)
    noise = multiplier(epsilon, delta, rate, steps)
    torch.manual_seed(seed)
    model, seconds = timed(lambda: fit(A, b, noise, rate, steps, lr, clip, intercept, seed))
    with torch.no_grad():
        right = (model(outside).squeeze(1) > 0).float() == labels
    return {"accuracy": float(right.float().mean()), "seconds": seconds, "noise": noise}


def probabilities(
    data: str, epsilon: float, delta: float, rate: float, steps: int, lr: float, clip: float, intercept: bool,
    seed: int, train: str,
) -> dict[str, Any]:  # fmt: skip
    """Of the second class, for records that were not learnt from."""
    A, b, outside, _ = tensors(data, train)
    torch.manual_seed(seed)
    noise = multiplier(epsilon, delta, rate, steps)
    model = fit(A, b, noise, rate, steps, lr, clip, intercept, seed)
    with torch.no_grad():
        sure = torch.sigmoid(model(outside).squeeze(1))
    return {"sure": sure.double().numpy().round(9).tolist()}


if __name__ == "__main__":
    serve({"logistic": logistic, "probabilities": probabilities})
