"""What is decided about a running total before the first record: its description.

A :class:`Mechanism` is frozen, hashable data: which noise, for how long, at which sensitivity. It states the
guarantee and the error of the total and has no side effects: it generates no key, charges no ledger and draws no
noise. :class:`reticent.sums.RunningTotal` runs one.

The noise never depends on the data, so a mechanism is a single class: the scale of the noise, how the noise of
several steps is mixed from fresh draws, the guarantee, and the variance. See docs/algorithms/running-totals.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from reticent import checks
from reticent.checks import FloatArray
from reticent.noise import lattice
from reticent.privacy import Budget, Guarantee
from reticent.privacy.budget import OLDEST
from reticent.privacy.participation import ONE_RECORD, Participation, check_participation
from reticent.privacy.prescribed import EXACT, Calibration, Prescription
from reticent.sums.process import Process

NOISES = ("gaussian", "laplace", "gamma")
PRECISIONS = ("lattice", "float")

_BLOCK = (
    65536  # numbers of noise drawn at a time: some 512 kB, which fit in a core's second-level cache
)
_EXACT = 2.0**60  # bound on a total in whole steps
_CARRIED = 2.0**50  # that bound for a total whose high part is moved away between blocks
_FIRST_EPOCH = 256
_MOST = 2**62  # largest dimension and longest horizon, which still fit in 64 bits


@dataclass(frozen=True)
class Mechanism(ABC):
    """The description of a private running total. The subclasses say what each mechanism is good for.

    Parameters
    ----------
    dim : int
        Length of a contribution.
    horizon : int or None
        Upper bound on the number of contributions, or ``None`` if it is unknown. Without a horizon, independent
        noise, and correlated noise that neither ends nor fades, stop after 2^40 contributions; other noise never
        stops.
    budget : Budget
        What may be spent on the whole stream.
    norm : float
        Clipping bound: longer contributions are scaled down to this Euclidean norm.
    noise : {"gaussian", "laplace", "gamma"}
        Distribution of the fresh draws.
    noise_precision : {"lattice", "float"}
        ``"float"`` is faster but for simulations only: its low-order bits leak, and the guarantee says so.
    sensitivity : float, optional
        How far one record moves the total, in the Euclidean norm, if that is not ``budget.sensitivity(norm)``: a record
        that is known to move it by less, or one that occurs several times. The caller must have proved it for
        contributions as they are added: on the lattice each coordinate is cut toward zero to a whole step. For persons
        a smaller one is not used.
    records : int, optional
        Upper bound on the number of records in the exact total, if a contribution is the sum of several.
    participation : Participation, optional
        How often a person may contribute; all of a person's records are then protected together. By default single
        records are protected.

    Examples
    --------
    >>> import reticent
    >>> tree = reticent.sums.TreeMechanism(3, 1000, budget=reticent.Budget(1.0, 1e-6))
    >>> print(f"{tree.error(1000):.1f} {tree.guarantee.epsilon(1e-6):.3f}")
    21.6 1.000
    >>> tree == tree.with_(dim=3), tree.with_(dim=4).dim
    (True, 4)
    >>> reticent.sums.RunningTotal(tree, seed=0).add([1.0, 0.0, 0.0]).shape
    (3,)
    """

    dim: int
    horizon: int | None = None
    _: KW_ONLY
    budget: Budget
    norm: float = 1.0
    noise: str = "gaussian"
    noise_precision: str = "lattice"
    sensitivity: float | None = None
    records: int | None = None
    participation: Participation | None = None

    noises: ClassVar[tuple[str, ...]] = NOISES
    forgets: ClassVar[bool] = False
    """Whether the mechanism supports a window."""
    fades: ClassVar[bool] = False
    """Whether it supports a budget that fades."""
    expires: ClassVar[bool] = False
    """Whether nothing at all is guaranteed after the window."""
    counts_persons: ClassVar[bool] = False
    """Whether it knows the cost of several records of one person together."""
    formula_name: ClassVar[str | None] = None
    """The name under which a calibration has its formula; a mechanism with one has a field ``calibration``."""

    calibration = Calibration(EXACT, "")  # no field here: not every mechanism has a formula

    def __post_init__(self) -> None:
        if self.formula_name is not None:
            self._keep(calibration=Calibration.read(self.calibration, self.formula_name))
        if not isinstance(self.budget, Budget):
            raise TypeError(f"budget must be a reticent.Budget, got {self.budget!r}")
        # bounds that keep the squares of the norm and the sensitivity, and the lattice step, well within the range
        # of a double
        extent: dict[str, Any] = {"low": 1e-100, "high": 1e100}
        self._keep(
            dim=checks.integer(self.dim, "dim", low=1, high=_MOST),
            horizon=optional(checks.integer, self.horizon, "horizon", low=1, high=_MOST),
            norm=checks.number(self.norm, "norm", **extent),
            noise=checks.choice(self.noise, "noise", self.noises),
            noise_precision=checks.choice(self.noise_precision, "noise_precision", PRECISIONS),
            sensitivity=optional(checks.number, self.sensitivity, "sensitivity", **extent),
            records=optional(checks.integer, self.records, "records", low=1, high=_MOST),
        )
        self._check_budget()
        self._check_participation()

    def _keep(self, **checked: Any) -> None:
        """Set fields to their checked values."""
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def _check_budget(self) -> None:
        if self.noise == "gaussian" and self.budget.delta == 0:
            raise ValueError(
                f"{self.kind} with Gaussian noise needs delta > 0, got delta=0; "
                "choose a delta well below one over the number of people, or a tree with noise='gamma'"
            )
        if self.budget.window is not None and not self.forgets:
            raise ValueError(
                f"{self.kind} protects every record for ever and cannot use window={self.budget.window}; "
                "use WindowTree or Correlated, or a budget without a window"
            )
        if self.budget.fade is not None and not self.fades:
            raise ValueError(
                f"{self.kind} does not support a budget that fades (fade={self.budget.fade}); "
                "use Correlated, or a budget without fade"
            )
        if self.participation is not None and not self.counts_persons:
            raise ValueError(
                f"{self.kind} protects single records, not persons; leave out participation "
                f"({self.participation})"
            )

    def _check_participation(self) -> None:
        rule = self.participation
        if rule is None:
            return
        if not self.calibration.is_exact:
            raise ValueError(
                f"calibration={self.calibration.name!r} prescribes noise for records; leave participation out"
            )
        check_participation(rule)
        if self.has_epochs:
            raise ValueError(
                f"{self.kind} without a horizon uses epochs, and a person may have records in several of them; give "
                "a horizon, or use Correlated"
            )
        for age in self.budget.scope.ages or (self.protected,):
            rule.records_within(age)

    # What a mechanism provides ---------------------------------------------------------------------
    #
    # A stretch is a sequence of steps that share one process of noise: the whole stream or one epoch. ``steps`` is
    # its length: the horizon, the length of an epoch, or None if there is no end.

    @abstractmethod
    def _scale(self, steps: int | None) -> float:
        """Scale of one fresh draw."""

    @abstractmethod
    def _guarantee(self) -> Guarantee:
        """The guarantee for every record, whatever the data."""

    @abstractmethod
    def variance(self, t: int, steps: int | None) -> float:
        """Variance of one coordinate of the noise of a total.

        Parameters
        ----------
        t : int
            Number of the total within its stretch, counted from 1.
        steps : int or None
            Length of the stretch, that is, of the steps that share one process of noise: the horizon, the length of an
            epoch, or None if there is no end.
        """

    @abstractmethod
    def draws(self, steps: int | None, t: int, rows: int) -> int:
        """Number of fresh vectors of noise that some steps need.

        Parameters
        ----------
        steps : int or None
            Length of the stretch: the horizon, the length of an epoch, or None if there is no end.
        t : int
            Number of steps that the stretch has taken; the steps in question are t+1, ..., t+rows.
        rows : int
            Number of steps.
        """

    def relative_scales(self, steps: int | None, t: int, rows: int) -> FloatArray | None:
        """Scale of each fresh draw of some steps, relative to :meth:`scale`.

        Parameters
        ----------
        steps : int or None
            Length of the stretch: the horizon, the length of an epoch, or None if there is no end.
        t : int
            Number of steps that the stretch has taken; the steps in question are t+1, ..., t+rows.
        rows : int
            Number of steps.

        Returns
        -------
        array or None
            One factor for each draw; None (the default) if all draws have the same scale.
        """
        return None

    @abstractmethod
    def memory(self, steps: int | None) -> dict[str, NDArray[Any]]:
        """Everything that a stretch remembers of its draws, in its initial state.

        Parameters
        ----------
        steps : int or None
            Length of the stretch: the horizon, the length of an epoch, or None if there is no end.

        Returns
        -------
        dict
            Arrays by name. :meth:`mix` changes them in place, and saved states contain them.
        """

    @abstractmethod
    def mix(
        self,
        steps: int | None,
        memory: dict[str, NDArray[Any]],
        fresh: NDArray[Any],
        t: int,
        rows: int,
    ) -> NDArray[Any]:
        """Compute the noise of the totals t+1, ..., t+rows from fresh draws.

        Parameters
        ----------
        steps : int or None
            Length of the stretch: the horizon, the length of an epoch, or None if there is no end.
        memory : dict
            What the stretch remembers, as after step t; changed in place.
        fresh : array of shape (draws, dim)
            The fresh draws of these steps; may be overwritten.
        t : int
            Number of steps that the stretch has taken.
        rows : int
            Number of steps to take.

        Returns
        -------
        array of shape (rows, dim)
            The noise of each total.
        """

    def forget(self, steps: int | None, memory: dict[str, NDArray[Any]], t: int) -> None:
        """Zero what no later total needs; does nothing by default.

        Parameters
        ----------
        steps : int or None
            Length of the stretch: the horizon, the length of an epoch, or None if there is no end.
        memory : dict
            A copy of what the stretch remembers, as after step t; changed in place.
        t : int
            Number of steps that the stretch has taken.
        """
        return

    def _prescribed(self, **facts: Any) -> Prescription | None:
        """The noise that the formula prescribes, given further facts; None if the calibration is exact."""
        if self.calibration.is_exact:
            return None
        return self.calibration.prescribe(self.budget, noise=self.noise, norm=self.norm, **facts)

    # What users call -------------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        """Name of the mechanism in messages and saved states."""
        return type(self).__name__.removesuffix("Mechanism")

    @cached_property
    def guarantee(self) -> Guarantee:
        """The guarantee for every record, and for all outputs together."""
        made = self._guarantee()
        if not checks.is_built_in(self):
            from reticent.sums import matrices

            matrices.refuse_false(self, made)
        return made

    def error(self, t: int) -> float:
        """Standard deviation of one coordinate of the noise in the t-th total.

        Parameters
        ----------
        t : int
            Number of the total, counted from 1.

        Returns
        -------
        float
            The standard deviation, exact up to rounding.
        """
        t = checks.integer(t, "t", low=1, high=self.horizon)
        if not self.has_epochs:
            return math.sqrt(self.variance(t, self.horizon))
        variance = 0.0
        for start, steps in epochs():
            if t <= start + steps:
                return math.sqrt(variance + self.variance(t - start, steps))
            variance += self.variance(steps, steps)
        raise AssertionError("the epochs are endless")

    def scale(self, steps: int | None = None) -> float:
        """Scale of one fresh draw.

        Parameters
        ----------
        steps : int or None
            Length of an epoch. None (the default) stands for the first stretch of the stream.
        """
        steps = self.stretch if steps is None else steps
        if steps not in self._scales:
            self._scales[steps] = self._scale(steps)
        return self._scales[steps]

    @cached_property
    def _scales(self) -> dict[int | None, float]:
        """Cache of the scales."""
        return {}

    @cached_property
    def record_sensitivity(self) -> float:
        """How far one record moves the total, in the Euclidean norm."""
        usual = self.budget.sensitivity(self.norm)
        if self.participation is not None:
            # a person's records may be replaced by records at other steps, so the two changes need not coincide
            return max(usual, self.sensitivity or 0.0)
        return usual if self.sensitivity is None else self.sensitivity

    @property
    def protected(self) -> int:
        """Largest number of outputs in which a record, or a person, is protected."""
        return min(n for n in (self.budget.scope.last, self.horizon, OLDEST) if n is not None)

    @property
    def unit(self) -> str:
        """What is protected: "record" or "person"."""
        return "record" if self.participation is None else "person"

    @property
    def pattern(self) -> Participation:
        """How many records are protected together, and how far apart they are."""
        return ONE_RECORD if self.participation is None else self.participation

    @property
    def noise_sensitivity(self) -> float:
        """How far one record moves the total, in the norm of the noise.

        That is the 1-norm for Laplace noise, else the Euclidean norm.
        """
        moved = self.record_sensitivity
        return moved * math.sqrt(self.dim) if self.noise == "laplace" else moved

    @property
    def is_endless(self) -> bool:
        """Whether one stretch of noise has no end."""
        return self.horizon is None and self.forgets and self.budget.window is not None

    @property
    def has_epochs(self) -> bool:
        """Whether the stream is cut into epochs of doubling length, each with independent noise."""
        return self.horizon is None and not self.is_endless

    @property
    def stretch(self) -> int | None:
        """Length of the first stretch of noise."""
        return _FIRST_EPOCH if self.has_epochs else self.horizon

    @property
    def last_step(self) -> float:
        """Largest number of contributions."""
        if self.horizon is not None:
            return self.horizon
        return OLDEST if self.is_endless and self.budget.scope.last is None else math.inf

    @property
    def on_lattice(self) -> bool:
        """Whether noise lies on a lattice."""
        return self.noise_precision == "lattice"

    @property
    def block_rows(self) -> int:
        """Number of steps in a block of noise."""
        return max(1, _BLOCK // self.dim)

    def lattice_step(self, scale: float, steps: int | None) -> float:
        """The lattice step, a power of two; 1.0 in floating point.

        It is tiny compared with the noise, but large enough that the total stays exact.

        Parameters
        ----------
        scale : float
            Scale of one fresh draw.
        steps : int or None
            Length of the stretch: the horizon, the length of an epoch, or None if there is no end.
        """
        if not self.on_lattice:
            return 1.0
        per_scale = lattice.GAMMA_STEPS if self.noise == "gamma" else lattice.STEPS
        # largest number of records in the exact total at once
        most = max(self.block_rows if steps is None else steps, self.records or 0)
        exact = _CARRIED if self.is_endless else _EXACT
        fine = lattice.step(scale, per_scale)
        return max(fine, 2.0 ** math.ceil(math.log2(self.norm * most / exact)))

    def zeros(self, *shape: int) -> NDArray[Any]:
        """An array of zeros for noise or contributions: of integers, which count lattice steps, or in floating point.

        Parameters
        ----------
        *shape : int
            Shape of the array.
        """
        return np.zeros(shape, np.int64 if self.on_lattice else np.float64)

    def process(self, steps: int | None = None) -> Process:
        """A new process of noise.

        Parameters
        ----------
        steps : int or None
            Length of an epoch. None (the default) stands for the first stretch of the stream.
        """
        steps = self.stretch if steps is None else steps
        scale = self.scale(steps)
        return Process(self, steps, scale, self.lattice_step(scale, steps), self.memory(steps))

    def with_(self, **changes: Any) -> Self:
        """A copy of the description with some fields changed.

        Parameters
        ----------
        **changes
            New values by field name.
        """
        return replace(self, **changes)

    # Plain data ------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain data, for a saved state."""
        kept = {field.name: getattr(self, field.name) for field in fields(self)}
        kept["budget"] = dict(vars(self.budget))
        if self.participation is not None:
            kept["participation"] = dict(vars(self.participation))
        if self.formula_name is not None:
            kept["calibration"] = self.calibration.to_dict()
        return kept

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The mechanism that :meth:`to_dict` described.

        Parameters
        ----------
        data : dict
            All fields, as :meth:`to_dict` returns them.
        """
        rule = data["participation"]
        parts = {
            "budget": Budget(**data["budget"]),
            "participation": None if rule is None else Participation(**rule),
        }
        return cls(**dict(data) | parts)


def optional(check: Any, value: Any, name: str, **limits: Any) -> Any:
    return None if value is None else check(value, name, **limits)


def epochs() -> Iterator[tuple[int, int]]:
    """Start and length of each epoch of a stream without a horizon."""
    start, steps = 0, _FIRST_EPOCH
    while True:
        yield start, steps
        start, steps = start + steps, 2 * steps
