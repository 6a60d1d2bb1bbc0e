"""Refuse River pipelines in which a step that learns from records precedes a private learner.

A step such as River's StandardScaler makes the contribution of a record depend on other records. No guarantee covers
that: the means and variances can be recovered from the published weights. The attack is in docs/estimators.md.
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
    """Refuse a pipeline in which a step before the learner learns, and warn if that cannot be determined.

    Parameters
    ----------
    learner : object
        The private learner, before it has learnt anything.
    depth : int
        Number of stack frames between this call and the caller of the learner.
    far : bool
        Whether to look at all callers or only at the next one.
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
                f"{name} comes before {type(learner).__name__} in a pipeline, and whether it learns from records "
                "cannot be seen from its type; if it does, what it learns is not protected, and the guarantee is void",
                PrivacyLeakWarning,
                stacklevel=5,
            )
        elif _learns(step):
            raise ValueError(
                f"{name} learns from the records and comes before {type(learner).__name__} in a pipeline: the "
                "published weights would reveal what it learns. Scale by known numbers instead, with "
                "compose.FuncTransformer and feature_norm"
            )


def _before(learner: Any, pipeline: Any) -> Iterator[Any]:
    """The steps before a learner, with unions split into their parts."""
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
    """Whether a transformer learns from records."""
    if isinstance(step, base.SupervisedTransformer):
        return True
    found = [getattr(type(step), name, None) for name in ("learn_one", "learn_many")]
    return any(method is not None and method not in _INERT for method in found)
