"""Bugs in running totals, online learners, bandits and saved states."""

from __future__ import annotations

from .planting import Bug

BUGS = (
    Bug(
        "tree-one-level-short",
        "sums/tree.py",
        "            return scales.exact(self, scales.touched(self, steps.bit_length()))",
        "            return scales.exact(self, scales.touched(self, steps.bit_length() - 1))",
        "ceil(log2 n) nodes counted for a record that touches floor(log2 n) + 1: the budget is exceeded",
        ("budgets: budget of running totals",),
    ),
    Bug(
        "tree-claims-one-level-less",
        "sums/scales.py",
        "    ages = Stepwise([(age, compose([(curve, n)])) for age, n in by_age or [(1, count)]])",
        "    ages = Stepwise([(age, compose([(curve, n)])) for age, n in by_age or [(1, count - 1)]])\n"
        "    count = max(1, count - 1)",
        "the same in the promise",
        ("white-box-totals: WindowTree of 4, zero-out",),
    ),
    Bug(
        "laplace-in-the-wrong-norm",
        "sums/mechanism.py",
        '        return moved * math.sqrt(self.dim) if self.noise == "laplace" else moved',
        "        return moved",
        "Laplace noise needs the 1-norm of what a record moves; the Euclidean one is up to sqrt(d) too short",
        ("white-box-totals: Tree, plain, laplace, zero-out, lattice",),
    ),
    Bug(
        "noise-halved-in-every-total",
        "sums/process.py",
        "        mixed = self.mix(fresh, t, rows)",
        "        mixed = self.mix(fresh, t, rows) // 2",
        "half the noise, after everything was accounted",
        (
            "white-box-totals: Tree, Honaker, zero-out, lattice",
            "white-box-bandit: ProjectionFreeBandit, correlated, zero-out",
            "white-box-estimators: OnlineLogisticRegression, zero-out",
        ),
    ),
    Bug(
        "same-noise-in-every-block",
        "sums/process.py",
        "        source.ratchet()\n",
        "        source._begun = True\n        source._coarse.state = {**type(source._coarse)(key=7).state}\n",
        "each block of a stream begins with the same noise",
        ("white-box-restarts: noise of two runs",),
    ),
    Bug(
        "noise-reused-after-a-restart",
        "sums/running.py",
        "            self._block, self._row = block, used\n        elif",
        "            self._block, self._row = np.roll(block, used, axis=0), used\n        elif",
        "a restored total covers the next record with the noise of the first",
        (
            "white-box-restarts: Tree, Honaker, restarted",
            "white-box-restarts: Correlated, restarted",
        ),
    ),
    Bug(
        "fresh-noise-after-a-restart",
        "sums/running.py",
        '        self._take_on(kind.from_dict(state["mechanism"]), Source.from_state(state["source"]))',
        '        self._take_on(kind.from_dict(state["mechanism"]), Source())',
        "a restored total draws other noise for totals that were already released: a second release of the same data",
        ("white-box-restarts: Correlated, restarted",),
    ),
    Bug(
        "epoch-begins-with-the-clean-total",
        "sums/running.py",
        "        self._enter(self.mechanism.process(2 * self._epoch_steps), self._released(), self.steps)",
        "        clean = self._base + self._noise.step * self._total\n"
        "        self._enter(self.mechanism.process(2 * self._epoch_steps), clean, self.steps)",
        "a new epoch starts from the exact total of the old one",
        ("white-box-totals: Tree, plain, two epochs",),
    ),
    Bug(
        "forks-allowed",
        "state/lease.py",
        "        if self.furthest != step:\n            raise ForkError(",
        "        if self.furthest < -9 * step - 99:\n            raise ForkError(",
        "a saved state may be continued as often as one likes, with the same noise on different data",
        ("white-box-restarts: Tree, Honaker, continued twice",),
    ),
    Bug(
        "gap-takes-no-noise",
        "sums/running.py",
        "        if contribution is None:\n            v = np.zeros(self.dim)",
        "        if contribution is None:\n            return self._released()",
        "a blanked record is skipped, so that the number of outputs, or their noise, shows that it is missing",
        ("white-box-restarts: Independent, restarted",),
    ),
    Bug(
        "window-of-half-the-length",
        "sums/window_tree.py",
        "        return min(self.budget.window, self.horizon or self.budget.window)",
        "        return max(1, min(self.budget.window, self.horizon or self.budget.window) // 2)",
        "records are protected in half of the outputs that were promised",
        ("white-box-totals: WindowTree of 4, zero-out",),
    ),
    Bug(
        "persons-of-several-windows-counted-once",
        "privacy/ages.py",
        "            most = None if math.isinf(lags) else most * -(-int(lags) // self.window)\n",
        "            most = None if math.isinf(lags) else most\n",
        "a limit on records in each window taken for a limit on all outputs, as it was at first",
        ("white-box-totals: Correlated of persons, window of 4, age 12",),
    ),
    Bug(
        "correlated-noise-of-a-single-output",
        "sums/correlated.py",
        "            self.parameters.sensitivity, moved, slack, self.horizon, self.pattern, window",
        "            self.parameters.sensitivity, 0.5 * moved, slack, self.horizon, self.pattern, window",
        "the sensitivity of the filter taken too small",
        ("white-box-totals: Correlated, zero-out, lattice",),
    ),
    Bug(
        "clip-after-the-sum",
        "sums/kernels.py",
        "        for i in range(total.size):\n"
        "            total[i] += total.dtype.type(out[t, i])\n"
        "            out[t, i] =",
        "        for i in range(total.size):\n"
        "            total[i] += total.dtype.type(rows[t, i] * per_step)\n"
        "            out[t, i] =",
        "what was measured is not what is added",
        ("white-box-totals: Tree, Honaker, zero-out, lattice",),
    ),
    Bug(
        "iterates-moved-by-half",
        "online/iterate_calibration.py",
        "    moved = budget.sensitivity(bound) * (1.0 + (set.dim + 16) * 2.0**-50)",
        "    moved = 0.5 * budget.sensitivity(bound) * (1.0 + (set.dim + 16) * 2.0**-50)",
        "the stability of an iterate off by two (as in erratum W2)",
        ("white-box-online: PerturbedIterates, implicit, zero-out, lattice",),
    ),
    Bug(
        "iterates-forget-composition",
        "online/schedules.py",
        "        share = budget.mu / math.sqrt(count) - grain",
        "        share = budget.mu - grain",
        "one iterate's noise for a window of iterates; the claim with it",
        ("budgets: budget of learners and bandits",),
    ),
    Bug(
        "quadratic-leader-at-its-norm",
        "online/quadratic_leader.py",
        "        square = 2.0 + 2.0 * q + 0.5 * q * q if q <= 2.0 else 4.0 * q",
        "        square = 1.0 + q",
        "two records that replace each other move the joint total farther than one is long",
        ("white-box-online: QuadraticLeader, replace",),
    ),
    Bug(
        "bandit-value-not-clipped",
        "bandit/base.py",
        "                if abs(w) > 1.0:",
        "                if abs(w) > 1e6:",
        "a value beyond its range enters as it is",
        ("white-box-bandit: ProjectedBandit, zero-out",),
        more=(
            (
                "bandit/kernels.py",
                "    if not fill(room, first, per_step, room, second) <= largest_square(steps):\n"
                "        cut(room, first, per_step, steps, room, second)\n    for i in range(pending.size):\n"
                "        pending[i]",
                "    fill(room, first, per_step, room, second)\n    for i in range(pending.size):\n"
                "        pending[i]",
            ),
        ),
    ),
)
