"""Worst cases: for each algorithm, by name, two neighbouring inputs that are as hard to hide as any.

A bound found by an attack is only as good as the pair of inputs that was attacked. The pairs here attain, or almost
attain, the sensitivity for which the algorithm is calibrated; each one says why. If possible, the record that differs
is longer than the algorithm's norm, so that an algorithm that does not clip is detected as well.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from reticent.audit.attack import mechanism
from reticent.audit.bets import sequential
from reticent.audit.finding import Finding
from reticent.privacy import Curve, Guarantee

_ENOUGH = 50_000
"""Runs that suffice for choosing an event if little has to be learnt."""
MODULES = (
    "pairs_sums",
    "pairs_selections",
    "pairs_online",
    "pairs_erm",
    "pairs_bandit",
    "pairs_vertical",
)
"""Modules with the library's own worst cases, which each registers when it is imported."""
_loaded: list[str] = []


@dataclass(frozen=True)
class Pair:
    """Two neighbouring worlds, a way to run the algorithm on either, and its claim.

    Parameters
    ----------
    name
        Name of the algorithm.
    run
        ``run(world, size)`` returns outputs of ``size`` independent runs, one per row; if ``batch`` is None,
        ``run(world)`` returns the output of one run.
    world_a
        Input of ``run`` in one world.
    world_b
        Input of ``run`` in the other world.
    claim
        The algorithm's guarantee for this pair.
    delta
        The delta at which epsilon is bounded.
    statistic
        Best known score of an output for this pair: a function of an array of outputs, one of
        :mod:`reticent.audit.statistics`, or a list of these.
    batch
        Number of runs per call.
    why
        What makes the pair hard to hide, in a sentence.
    subject
        An object whose guarantee :func:`reticent.audit.guarantee` can recompute, if there is one.
    selection
        Largest share of the runs on which the event is selected.
    """

    name: str
    run: Callable[..., Any]
    world_a: Any
    world_b: Any
    claim: Guarantee | Curve | float
    delta: float
    statistic: Any = None
    batch: int | None = None
    why: str = ""
    subject: Any = None
    selection: float = 0.5

    def attack(
        self, runs: int, *, false_alarm: float = 1e-6, progress: bool = False, **changes: Any
    ) -> Finding:
        """Attack the algorithm on this pair by :func:`reticent.audit.mechanism`.

        Parameters
        ----------
        runs : int
            Number of runs in each world.
        false_alarm : float
            Upper bound on the probability that the result exceeds the true epsilon.
        progress : bool
            Whether to show the progress on standard error.
        **changes
            Other arguments of :func:`reticent.audit.mechanism`, which override those of the pair.

        Returns
        -------
        Finding
            The bound, and how it compares with the claim.
        """
        given: dict[str, Any] = {
            "runs": runs,
            "delta": self.delta,
            "statistic": self.statistic,
            "claim": self.claim,
            "false_alarm": false_alarm,
            "batch": self.batch,
            "selection": min(self.selection, max(_ENOUGH / runs, 0.02)),
            "name": self.name,
            "progress": progress,
        }
        return mechanism(self.run, self.world_a, self.world_b, **(given | changes))

    def bet(
        self,
        runs: int,
        *,
        seconds: float | None = None,
        false_alarm: float = 1e-6,
        progress: bool = False,
    ) -> Finding:
        """Attack the algorithm on this pair by :func:`reticent.audit.sequential`.

        Parameters
        ----------
        runs : int
            Largest number of runs in each world.
        seconds : float, optional
            Approximate processor time to spend.
        false_alarm : float
            Upper bound on the probability that a true claim is ever refuted.
        progress : bool
            Whether to show the progress on standard error.

        Returns
        -------
        Finding
            The bound, and whether the claim holds.
        """
        return sequential(
            self.run, self.world_a, self.world_b, runs=runs, delta=self.delta,
            statistic=self.statistic, claim=self.claim, false_alarm=false_alarm, batch=self.batch,
            seconds=seconds, name=self.name, progress=progress,
        )  # fmt: skip


Builder = Callable[..., Pair]
_BUILDERS: dict[str, tuple[Builder, dict[str, Any], tuple[dict[str, Any], ...]]] = {}


def register(
    name: str, *, variants: Iterable[Mapping[str, Any]] = ({},), **options: Any
) -> Callable[[Builder], Builder]:
    """Register a worst case under a name.

    Parameters
    ----------
    name
        Name of the case; an earlier one with that name is replaced.
    variants
        Changes of the options; :func:`reticent.audit.run_all` attacks the case under each of them.
    **options
        Default options, which :func:`worst_case` passes to the builder.

    Returns
    -------
    callable
        A decorator for a function that builds the `Pair`.


    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> @register("my-count", epsilon=1.0)
    ... def my_count(*, epsilon):
    ...     def run(world, size):
    ...         return world + rng.laplace(scale=1.0 / epsilon, size=size)
    ...
    ...     return Pair("my-count", run, 0.0, 1.0, claim=epsilon, delta=0.0, batch=10_000)
    >>> worst_case("my-count", epsilon=0.5).attack(20_000).holds
    True
    >>> unregister("my-count")
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"name must be a word, got {name!r}")

    def add(builder: Builder) -> Builder:
        _BUILDERS[name] = (builder, options, tuple(dict(changes) for changes in variants))
        return builder

    return add


def unregister(name: str) -> None:
    """Remove a registered worst case.

    Parameters
    ----------
    name
        Name of the case.
    """
    del _BUILDERS[name]


def names() -> tuple[str, ...]:
    """The names of all registered worst cases."""
    _load()
    return tuple(sorted(_BUILDERS))


def worst_case(name: str, **changes: Any) -> Pair:
    """The neighbouring pair that is hardest to hide for an algorithm.

    Parameters
    ----------
    name
        One of :func:`names`.
    **changes
        Options of the builder; for the library's own cases ``epsilon``, ``delta``, ``neighbours``, ``window`` and
        ``horizon`` where they apply.

    Returns
    -------
    Pair
        The pair, ready to be attacked.


    Examples
    --------
    >>> pair = worst_case("tree-gaussian-plain", horizon=8)
    >>> found = pair.attack(4000)
    >>> found.holds
    True
    """
    _load()
    if name not in _BUILDERS:
        near = ", ".join(n for n in _BUILDERS if n.split("-")[0] in name) or ", ".join(_BUILDERS)
        raise ValueError(f"no worst case is registered as {name!r}; registered are {near}")
    builder, options, _ = _BUILDERS[name]
    return builder(**(options | changes))


def variants(name: str) -> tuple[dict[str, Any], ...]:
    """The changes of its options under which :func:`reticent.audit.run_all` attacks a worst case.

    Parameters
    ----------
    name
        Name of a registered worst case.

    Returns
    -------
    tuple of dict
        One dictionary of changed options for each attack.
    """
    _load()
    return _BUILDERS[name][2]


def _load() -> None:
    """Import the modules with the library's own worst cases."""
    new = [module for module in MODULES if module not in _loaded]
    if not new:
        return
    # a case that a user has registered under the same name stays
    mine = dict(_BUILDERS)
    for module in new:
        importlib.import_module(f"reticent.audit.{module}")
        _loaded.append(module)
    _BUILDERS.update(mine)
