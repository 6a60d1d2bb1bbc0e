"""Bugs in the estimators, the scaler and the feature-distributed protocol."""

from __future__ import annotations

from .planting import Bug

BUGS = (
    Bug(
        "scaler-forgets-the-squares",
        "estimators/scalers.py",
        '        each = math.sqrt(2.0) if budget.neighbours == "zero-out" else 2.0',
        '        each = 1.0 if budget.neighbours == "zero-out" else 2.0',
        "two statistics leave, the sensitivity of one is accounted",
        ("white-box-estimators: PrivateScaler, zero-out, gaussian",),
    ),
    Bug(
        "scaler-bounds-read-off-the-data",
        "estimators/scalers.py",
        "        center = 0.5 * self.data_low_ + 0.5 * self.data_high_\n",
        "        center = X.mean(axis=0)\n",
        "features are centred by their clean mean",
        ("white-box-estimators: PrivateScaler, zero-out, gaussian",),
    ),
    Bug(
        "scaler-clips-nothing",
        "estimators/scalers.py",
        "        V = np.clip((inside - 0.5 * self.center) / (0.5 * self.half), -1.0, 1.0)",
        "        V = np.clip((block.rows - self.center) / self.half, -1e3, 1e3)",
        "values beyond the declared bounds",
        ("white-box-estimators: PrivateScaler, zero-out, gamma",),
    ),
    Bug(
        "scaling-forgets-the-squares",
        "estimators/scaling.py",
        '    if budget.neighbours == "zero-out":\n        return math.hypot(1.0, weight)\n',
        '    if budget.neighbours == "zero-out":\n        return 1.0\n',
        "sums and squares leave, the sensitivity of the sums is accounted",
        ("white-box-estimators: scaling, zero-out, gaussian",),
    ),
    Bug(
        "feature-norm-read-off-the-data",
        "estimators/private.py",
        "            self._units = Units(norm)\n            if",
        "            self._units = Units(max(float(row_norms(X).max()), 1e-3))\n            if",
        "the bound that noise is calibrated to is the largest record's (data_norm=None of other libraries)",
        ("white-box-estimators: PrivateLogisticRegression, gradient-descent, zero-out",),
    ),
    Bug(
        "classifiers-of-several-classes-not-composed",
        "erm/objective_perturbation.py",
        "        exact(problem, given, count)\n",
        "        exact(problem, given, 1)\n",
        "each one-versus-rest classifier spends the whole budget",
        ("white-box-estimators: PrivateLogisticRegression, three classes, zero-out",),
    ),
    Bug(
        "estimator-asks-for-twice-its-epsilon",
        "estimators/private_classifiers.py",
        '        asked = checks.choice(self.solver, "solver", SOLVERS)\n'
        "        count = len(self.classes_)\n",
        '        asked = checks.choice(self.solver, "solver", SOLVERS)\n'
        "        common['budget'] = common['budget'].with_(epsilon=2.0 * common['budget'].epsilon)\n"
        "        count = len(self.classes_)\n",
        "the solver is asked for twice the epsilon; its guarantee says so, the estimator's parameter does not",
        ("budgets: budget of estimators",),
    ),
    Bug(
        "party-slopes-not-clipped",
        "vertical/rounds.py",
        "        return np.nan_to_num(np.clip(free, -plan.clip, plan.clip), nan=0.0)",
        "        return np.nan_to_num(free, nan=0.0)",
        "a coordinator who sends enormous predictions sees one record through the noise",
        ("white-box-vertical: Party, choices and values, zero-out",),
    ),
    Bug(
        "party-noise-divided",
        "vertical/rounds.py",
        "        return release.noisy(vector, scale, self.source, precision=precision)",
        "        return release.noisy(vector, scale / 1.5, self.source, precision=precision)",
        "two thirds of the noise on sketches and values",
        (
            "white-box-vertical: Party, sketches, zero-out",
            "white-box-vertical: Party, labels, replace",
        ),
    ),
    Bug(
        "party-choice-with-half-the-noise",
        "vertical/rounds.py",
        "        return Corners(len(scores), True, self.source).pick(scores, scale)",
        "        return Corners(len(scores), True, self.source).pick(scores, 0.5 * scale)",
        "half the noise on the choice of a column",
        ("white-box-vertical: Party, choices and values, zero-out",),
    ),
    Bug(
        "party-replacement-not-doubled",
        "vertical/plan.py",
        '        return norm if self.neighbours == "zero-out" else 2.0 * norm',
        "        return norm",
        "a party's own doubling under replacement forgotten",
        ("white-box-vertical: Party, sketches, replace",),
    ),
    Bug(
        "sketch-spread-forgotten",
        "vertical/sketch.py",
        "        return math.sqrt(self.spread) * (1.0 + 2.0**-50)",
        "        return 1.0 + 2.0**-50",
        "a record enters several entries of a sketch (errata V13 and V14)",
        ("white-box-vertical: Party, sketches, zero-out",),
    ),
    Bug(
        "choices-of-a-party-counted-once",
        "vertical/plan.py",
        'scale {plan.selection_scale:.6g}",\n                plan.rounds,\n',
        'scale {plan.selection_scale:.6g}",\n                1,\n',
        "rounds of choices accounted as one",
        ("white-box-vertical: Party, choices, laplace, zero-out",),
    ),
    Bug(
        "columns-not-clipped",
        "vertical/columns.py",
        "            A = np.clip(A, -bound, bound)",
        "            A = np.clip(A, -10.0 * bound, 10.0 * bound)",
        "entries beyond the bound that sketches are calibrated to",
        ("white-box-vertical: Party, sketches, zero-out",),
    ),
    Bug(
        "sketch-baseline-columns-counted-once",
        "vertical/baselines.py",
        "    each = budget.mu / np.sqrt(dim + 1.0) * (1.0 - 1e-9)",
        "    each = budget.mu * (1.0 - 1e-9)",
        "every column's sketch spends the whole budget; the claim says so",
        ("budgets: budget of solvers and choices",),
    ),
)
