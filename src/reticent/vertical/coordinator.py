"""The coordinator: asks the parties round by round, keeps the model and counts the bytes.

The server node of Algorithm 2 of Lou and Cheung, *Uplink Communication Efficient Differentially Private Sparse
Optimization with Feature-Wise Distributed Data*. It solves three problems (docs/algorithms/vertical.md): ``"product"``,
a product of l1 balls of radius ``radius / K``, in which all parties move; ``"ball"``, the true l1 ball, in which the
party with the best noisy score moves; ``"sampled"``, the product again, in which randomly drawn parties move.

The coordinator holds no secrets. Parties repeat their answers, so a run is resumed by repeating it from its first
request, byte for byte.
"""

from __future__ import annotations

import math
import os
import secrets
from dataclasses import asdict
from pathlib import Path
from typing import Any

from reticent import checks
from reticent.privacy import Budget, prescribed
from reticent.state import files
from reticent.sums.mechanism import optional
from reticent.trace import Callback
from reticent.vertical.conversation import Conversation, Session
from reticent.vertical.design import VARIANTS, Noise
from reticent.vertical.fit import JointFit
from reticent.vertical.plan import LOSSES, OWN
from reticent.vertical.samplings import Sampling
from reticent.vertical.transport import Transport


class Coordinator:
    """Runs the protocol over a transport.

    Parameters
    ----------
    transport : Transport
        Object with ``names: tuple[str, ...]`` and ``ask(dict[str, bytes]) -> dict[str, bytes]``, which raises
        ``PartyLost(name, reason)``.
    path : path, optional
        File that keeps the run's id and settings while it lasts, so that a new process can :meth:`resume` it.

    See Also
    --------
    Party : The other side of the protocol.
    reticent.vertical.flare : Parties in different organisations.

    Examples
    --------
    >>> import numpy as np, reticent
    >>> from reticent.vertical import Coordinator, InProcess, Party
    >>> rng = np.random.default_rng(0)
    >>> A = rng.choice([-1.0, 1.0], size=(4000, 20))
    >>> y = 0.6 * A[:, 3] - 0.4 * A[:, 15]
    >>> about = dict(ids=range(4000), labels=y, ledger=reticent.Budget(2.0, 1e-6), key=bytes(16))
    >>> parties = {
    ...     "north": Party("north", A[:, :10], seed=1, **about),
    ...     "south": Party("south", A[:, 10:], seed=2, **about),
    ... }
    >>> fit = Coordinator(InProcess(parties)).run(budget=reticent.Budget(2.0, 1e-6), seed=0)
    >>> np.argsort(-np.abs(fit.point))[:2].tolist()
    [3, 15]
    >>> round(fit.guarantee.epsilon(1e-6), 3)
    2.0
    """

    def __init__(self, transport: Transport, *, path: str | os.PathLike[str] | None = None) -> None:
        if not isinstance(transport, Transport):
            raise TypeError(
                f"transport must have names and ask(requests), such as vertical.InProcess; got {transport!r}"
            )
        if not transport.names:
            raise ValueError("the transport reaches no party; give it at least one")
        self.transport = transport
        self.path = None if path is None else Path(path)
        self._settings: dict[str, Any] | None = None
        self._journal: dict[tuple[str, bytes], bytes] = {}

    def run(
        self,
        *,
        budget: Budget,
        radius: float = 1.0,
        loss: str = "squared",
        variant: str = "ball",
        rounds: int | None = None,
        columns: int | None = None,
        sampling: Sampling | None = None,
        sketch_size: int | None = None,
        distortion: float = 0.2,
        clip: float | None = None,
        own: str = "clear",
        correlation: float = 0.1,
        calibration: str = "exact",
        noise: Noise | None = None,
        seed: int | None = None,
        progress: bool = False,
        callback: Callback | None = None,
    ) -> JointFit:
        """Carry out all rounds of a new run.

        Parameters
        ----------
        budget : Budget
            Privacy budget for a whole row, for the releases of all parties together. Each party's own ledger may
            refuse.
        radius : float
            Radius of the l1 ball. Default: 1.
        loss : {"squared", "logistic"}
            Loss; logistic labels are -1 and 1. Default: "squared".
        variant : {"ball", "product", "sampled"}
            Problem to solve; see the module's documentation. Default: "ball".
        rounds : int, optional
            Number of rounds. By default it balances the parts of the excess risk.
        columns : int, optional
            Largest number of columns of which a party sends sketches. Default: 4.
        sampling : Sampling, optional
            Sampling of the parties for variant "sampled". Default: half of them at a time.
        sketch_size : int, optional
            Length of a sketch. Default: ``log(2 T / delta) / distortion^2``; with at least as many as there are rows,
            columns are sent unsketched.
        distortion : float
            The paper's iota. Default: 0.2.
        clip : float, optional
            Bound to which records' slopes are clipped. Default: the largest slope that a model in the ball can give.
        own : {"clear", "sketched"}
            Whether a party computes the predictions of its own columns from the columns (which costs nothing) or from
            their sketches, as the paper does. Default: "clear".
        correlation : float
            Expected size of correlations between columns of different parties. Noisy sketches of other parties' columns
            are weighted against this prior, and the more strongly the less noise they carry; ``math.inf`` trusts them
            fully, as the paper does. Default: 0.1.
        calibration : str
            ``"exact"``, or the name of prescribed noise (`reticent.privacy.prescribed`), for which the guarantee
            reports the true privacy. Default: "exact".
        noise : Noise, optional
            Explicit scales of the noise; the guarantee states what they give, and the budget is not used.
        seed : int, optional
            Seed of the public randomness: sketch and sampling.
        progress : bool
            Whether to show a progress line. Default: False.
        callback : callable, optional
            Called with a :class:`reticent.trace.Moment` after each step; a true result stops the run.

        Returns
        -------
        JointFit
            The model by party, the guarantees, and the traffic.

        Raises
        ------
        PartyLost
            If a party cannot be reached; bring it back and call :meth:`resume`.
        RefusedByParty
            If a party refuses a request; the message says why.
        """
        if not isinstance(budget, Budget):
            raise TypeError(f"budget must be a reticent.Budget, got {budget!r}")
        if budget.delta == 0.0:
            raise ValueError(
                "budget.delta must be above 0, because sketches carry Gaussian noise; use "
                f"Budget({budget.epsilon:g}, 1e-6)"
            )
        budget.must_be_for_ever("a fit", "it has one model, which is kept for ever")
        checks.choice(loss, "loss", LOSSES)
        checks.choice(variant, "variant", VARIANTS)
        checks.choice(own, "own", OWN)
        if prescribed.check(calibration) != "exact" and variant == "ball":
            raise ValueError(
                f"calibration={calibration!r} prescribes no noise for the values that variant='ball' needs; use "
                "variant='product'"
            )
        if sampling is not None and variant != "sampled":
            raise ValueError(f"sampling needs variant='sampled', got variant={variant!r}")
        settings = {
            "run": secrets.token_hex(16),
            "names": list(self.transport.names),
            "budget": asdict(budget),
            "radius": checks.number(radius, "radius", low=0.0, high=1e50, open_low=True),
            "loss": loss,
            "variant": variant,
            "rounds": optional(checks.integer, rounds, "rounds", low=1),
            "columns": optional(checks.integer, columns, "columns", low=1),
            "sketch_size": optional(checks.integer, sketch_size, "sketch_size", low=1),
            "distortion": checks.positive(distortion, "distortion"),
            "clip": optional(checks.positive, clip, "clip"),
            "own": own,
            "correlation": _correlation(correlation),
            "calibration": calibration,
            "noise": None if noise is None else asdict(noise),
            "seed": secrets.randbits(63) if seed is None else checks.integer(seed, "seed", low=0),
            "plans": None,  # set once the parties have described themselves
        }
        self._check_path(sampling)
        self._settings = settings
        self._sampling = sampling
        self._journal = {}
        return self.resume(progress=progress, callback=callback)

    def _check_path(self, sampling: Sampling | None) -> None:
        """Refuse a new run that cannot be kept in the file."""
        if self.path is None:
            return
        if self.path.exists():
            raise FileExistsError(
                f"{self.path} belongs to an unfinished run; call resume(), or remove the file to abandon the run"
            )
        if sampling is not None:
            raise ValueError(
                "a run with a custom sampling cannot be kept in a file; leave path out"
            )

    def resume(self, *, progress: bool = False, callback: Callback | None = None) -> JointFit:
        """Continue an interrupted run; nothing that was answered is drawn again.

        Parameters
        ----------
        progress : bool
            Whether to show a progress line. Default: False.
        callback : callable, optional
            Called with a :class:`reticent.trace.Moment` after each step; a true result stops the run.

        Returns
        -------
        JointFit
            The model by party, the guarantees, and the traffic.
        """
        if self._settings is None:
            if self.path is None or not self.path.exists():
                raise ValueError("there is no interrupted run to resume; call run()")
            self._settings = files.load(self.path)
            self._sampling = None
        settings = self._settings
        if list(self.transport.names) != settings["names"]:
            raise ValueError(
                f"the run was started with the parties {settings['names']}, and the transport now reaches "
                f"{list(self.transport.names)}; use a transport to the same parties"
            )
        talk = Conversation(self.transport, bytes.fromhex(settings["run"]), self._journal)
        session = Session(settings, self._sampling, talk, progress, callback)
        session.prepare()
        if self.path is not None:
            files.save({"kind": "vertical run", **settings}, self.path)
        fit = session.play()
        self._settings = None
        self._journal = {}
        if self.path is not None:
            self.path.unlink(missing_ok=True)
        return fit


def _correlation(value: float) -> float | None:
    if value == math.inf:
        return None
    return checks.positive(value, "correlation")
