"""What stands before a River learner in a pipeline: steps that learn from records are refused.

A step such as River's StandardScaler changes what a record contributes by what other records were. Nothing protects
that: its means and variances can be read off the weights that are published. The attack is in docs/estimators.md.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import Any

from river import base, compose

from reticent.privacy import PrivacyLeakWarning

_CALLS = {
    getattr(compose.Pipeline, name).__code__
    for name in ("learn_one", "learn_many")
    if hasattr(getattr(compose.Pipeline, name), "__code__")
}
_INERT = (base.Transformer.learn_one, base.MiniBatchTransformer.learn_many)


def check(learner: Any, depth: int, far: bool) -> None:
    """Refuse to learn behind a step that learns; warn of one that cannot be judged.

    Parameters
    ----------
    learner : object
        The private learner, before it learns anything.
    depth : int
        How many calls lie between this one and whoever called the learner.
    far : bool
        Whether to look at all callers, or at the next one only.
    """
    frame: FrameType | None = sys._getframe(depth + 1)
    while frame is not None:
        if frame.f_code in _CALLS:
            _check_steps(learner, frame.f_locals["self"])
        if not far:
            return
        frame = frame.f_back


def _check_steps(learner: Any, pipeline: Any) -> None:
    for step in _before(learner, pipeline):
        name = type(step).__name__
        if getattr(step, "guarantee", None) is not None:
            continue
        if not isinstance(step, base.Transformer):
            warnings.warn(
                f"{name} stands before {type(learner).__name__} in a pipeline, and whether it learns from records "
                "cannot be seen; if it does, nothing protects what it learns, and the guarantee is void",
                PrivacyLeakWarning,
                stacklevel=5,
            )
        elif _learns(step):
            raise ValueError(
                f"{name} learns from the records and stands before {type(learner).__name__} in a pipeline: what it "
                "learns is in the published weights, unprotected. Scale by what is known of the features "
                "instead: compose.FuncTransformer with fixed numbers, and feature_norm"
            )


def _before(learner: Any, pipeline: Any) -> Iterator[Any]:
    """The steps that come before a learner, those of unions one by one."""
    for step in pipeline.steps.values():
        if step is learner:
            return
        yield from _parts(step)


def _parts(step: Any) -> Iterator[Any]:
    if isinstance(step, compose.TransformerUnion | compose.TransformerProduct):
        within = step.transformers
    elif isinstance(step, compose.Pipeline):
        within = step.steps
    else:
        yield step
        return
    for part in within.values():
        yield from _parts(part)


def _learns(step: base.Transformer) -> bool:
    """Whether a transformer does anything when it is shown a record."""
    if isinstance(step, base.SupervisedTransformer):
        return True
    found = [getattr(type(step), name, None) for name in ("learn_one", "learn_many")]
    return any(method is not None and method not in _INERT for method in found)
