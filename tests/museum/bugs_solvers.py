"""Bugs in the offline solvers."""

from __future__ import annotations

from .planting import Bug

_UNPAID = (("erm/solver.py", "        self.allowance.take(scale)\n", ""),)
"""Without this, a run refuses draws that its plan's releases do not pay for."""
_HINGE = "white-box-objective-perturbation: SmoothHinge, ridge 300, zero-out, gaussian"

BUGS = (
    Bug(
        "objective-noise-divided",
        "erm/objective_perturbation.py",
        "        b = run.noisy(np.zeros(problem.dim), setting.scale)",
        "        b = run.noisy(np.zeros(problem.dim), setting.scale / 1.5)",
        "two thirds of the noise of the linear term",
        (_HINGE, "white-box-estimators: PrivateLogisticRegression, zero-out"),
    ),
    Bug(
        "objective-without-its-last-noise",
        "erm/objective_perturbation.py",
        "problem.set.project(problem.shaped(run.noisy(found.point, cover)))",
        "problem.set.project(problem.shaped(found.point))",
        "a minimiser that is not exact leaves as it is: its error depends on the records",
        (_HINGE,),
    ),
    Bug(
        "one-linear-term-for-all-classes",
        "erm/objective_perturbation.py",
        "        b = run.noisy(np.zeros(problem.dim), setting.scale)",
        "        b = run.arrays['b'] if points else run.noisy(np.zeros(problem.dim), setting.scale)\n"
        "        run.arrays['b'] = b",
        "the difference of two classifiers has no noise",
        ("white-box-estimators: PrivateLogisticRegression, three classes, zero-out",),
    ),
    Bug(
        "determinant-dropped",
        "erm/perturbation.py",
        "    return r * math.log1p(public.bend / (r * ridge)) * (1.0 + 2.0**-50)",
        "    return 0.0",
        "the Jacobian of objective perturbation forgotten",
        ("white-box-objective-perturbation: SmoothHinge, ridge 6, zero-out, gamma",),
    ),
    Bug(
        "ridge-not-added",
        "erm/objective_perturbation.py",
        "        found = minimise(one, b, setting.ridge,",
        "        found = minimise(one, b, 0.1 * setting.ridge,",
        "a ridge that is accounted for and not all in the objective",
        ("white-box-objective-perturbation: SmoothHinge, ridge 6, zero-out, gamma",),
    ),
    Bug(
        "curvature-of-half-a-record",
        "erm/perturbation.py",
        "            bend=problem.weight_bound * float(bend) * problem.feature_norm**2,",
        "            bend=0.1 * problem.weight_bound * float(bend) * problem.feature_norm**2,",
        "a smoothness constant that the loss does not have",
        ("white-box-objective-perturbation: SmoothHinge, ridge 6, zero-out, gamma",),
    ),
    Bug(
        "rows-not-clipped",
        "losses/records.py",
        "def clip_rows(",
        "def clip_rows(A, bound):\n    return A, 0\n\n\ndef _clip_rows(",
        "records longer than their bound enter a perturbed objective as they are",
        (_HINGE, "white-box-erm: gradient_descent, 3 steps, zero-out, gaussian, lattice"),
        more=(
            (
                "erm/rounded_sums.py",
                "    return 1.0 / form.unit, form.limit(block.rows.shape[1]), form.constant",
                "    return 1.0 / form.unit, 1e150, form.constant",
            ),
        ),
    ),
    Bug(
        "labels-not-clipped",
        "losses/records.py",
        "def clip_labels(",
        "def clip_labels(y, low, high):\n    import numpy as np\n\n"
        "    return np.clip(y, 10.0 * low, 10.0 * high), 0\n\n\ndef _clip_labels(",
        "labels beyond their bounds",
        ("white-box-erm: sufficient_statistics, joint, zero-out, gaussian",),
        more=(
            (
                "erm/reading.py",
                "    return np.clip(np.asarray(labels, dtype=np.float64), *label_range(loss))",
                "    return np.array(labels, dtype=np.float64)",
            ),
        ),
    ),
    Bug(
        "weights-not-clipped",
        "erm/reading.py",
        '    return np.clip(checks.vector(value, "weights", count), 0.0, bound)',
        '    return np.clip(checks.vector(value, "weights", count), 0.0, 10.0)',
        "a weight beyond its bound multiplies a record's influence",
        ("white-box-erm: gradient_descent, weights, zero-out",),
    ),
    Bug(
        "steps-counted-as-one",
        "erm/problem.py",
        '        return Release(what, curve, moved, f"{words} {scale:.6g}", count, **extra)',
        '        return Release(what, curve, moved, f"{words} {scale:.6g}", 1, **extra)',
        "three noisy gradients accounted as one",
        ("white-box-erm: gradient_descent, 3 steps, zero-out, gaussian, lattice",),
        more=_UNPAID,
    ),
    Bug(
        "descent-noise-divided",
        "erm/gradient_descent.py",
        "        answer = run.noisy(problem.gradient_sum(x, rows), scale)",
        "        answer = run.noisy(problem.gradient_sum(x, rows), scale / 1.5)",
        "two thirds of the noise on a sum of gradients",
        ("white-box-erm: gradient_descent, 3 steps, zero-out, gamma, lattice",),
        more=_UNPAID,
    ),
    Bug(
        "sampling-at-twice-the-rate",
        "erm/gradient_descent.py",
        "    return np.flatnonzero((source.words(count) >> np.uint64(11)) * 2.0**-53 < rate)",
        "    return np.flatnonzero((source.words(count) >> np.uint64(11)) * 2.0**-53 < 2.0 * rate)",
        "a record is in more samples than the amplification allows",
        ("white-box-erm: gradient_descent, Poisson sampling, zero-out",),
    ),
    Bug(
        "noise-scaled-by-records-that-are-there",
        "erm/output_perturbation.py",
        "        return problem.set.project(problem.shaped(run.noisy(found.point, self.scale)))",
        "        present = float((abs(problem.A).sum(axis=1) > 0.0).mean())\n"
        "        return problem.set.project(problem.shaped(run.noisy(found.point, self.scale * present)))",
        "n read off the data: the scale of the noise tells how many records there are",
        ("white-box-erm: output_perturbation, zero-out, gaussian, lattice",),
        more=_UNPAID,
    ),
    Bug(
        "visits-counted-as-one",
        "erm/ftrl.py",
        "        self.overlap = overlap_of(self.visits, problem.count, steps, problem.budget.delta > 0.0)",
        "        self.overlap = 1.0",
        "several passes over the records accounted as one",
        ("white-box-erm: ftrl, 3 passes, zero-out, gaussian, lattice",),
    ),
    Bug(
        "corner-without-its-factor-two",
        "erm/oracles.py",
        "        return scale, self._release(scale, steps, curves.BoundedRange(2.0 * self.moved / scale))",
        "        return scale, self._release(scale, steps, curves.BoundedRange(self.moved / scale))",
        "the factor of two of the exponential mechanism forgotten in Frank-Wolfe",
        ("white-box-erm: frank_wolfe, l1 ball, zero-out, gaussian",),
    ),
    Bug(
        "corners-with-half-the-noise",
        "erm/oracles.py",
        "        return self._corners.pick(scaled, scale)",
        "        return self._corners.pick(scaled, 0.5 * scale)",
        "half the noise on the choice of a corner",
        ("white-box-erm: frank_wolfe, l1 ball, zero-out, gaussian",),
    ),
    Bug(
        "exponent-doubled",
        "erm/exponential_mechanism.py",
        "    k, limited = _limited(problem, sampler, 1.0 / max(scale, 1e-300), own)",
        "    k, limited = _limited(problem, sampler, 2.0 / max(scale, 1e-300), own)",
        "the exponent of the exponential mechanism off by two",
        (
            "white-box-erm: exponential_mechanism, net, zero-out, gamma",
            "white-box-selection: erm.exponential_mechanism, exact draw, zero-out",
        ),
    ),
    Bug(
        "statistics-with-half-the-noise",
        "erm/sufficient_statistics.py",
        "        seen = run.noisy(np.concatenate([as_vector(V) / matrix, u / vector]), scale)",
        "        seen = run.noisy(np.concatenate([as_vector(V) / matrix, u / vector]), 0.5 * scale)",
        "half the noise on A'A and A'y",
        ("white-box-erm: sufficient_statistics, joint, zero-out, gaussian",),
        more=_UNPAID,
    ),
    Bug(
        "statistics-as-two-releases-for-one",
        "erm/sufficient_statistics.py",
        "        return math.sqrt(first + second)",
        "        return math.sqrt(max(first, second))",
        "two statistics share one budget slice (diffprivlib, issue 104, second point)",
        ("white-box-erm: sufficient_statistics, joint, zero-out, gaussian",),
    ),
    Bug(
        "statistics-bound-of-one-side",
        "erm/sufficient_statistics.py",
        "    first, second = F**4 / matrix**2, (F * Y / vector) ** 2",
        "    first, second = F**4 / matrix**2, 0.0",
        "a sensitivity from one of two bounds (diffprivlib, issues 104 and 105)",
        ("white-box-erm: sufficient_statistics, joint, zero-out, gaussian",),
    ),
    Bug(
        "adassp-eigenvalue-without-noise",
        "erm/sufficient_statistics.py",
        "        level = problem.level / math.sqrt(3.0)",
        "        level = problem.level",
        "three releases with the noise of one each; the claim says so, the budget is exceeded",
        ("budgets: budget of solvers and choices",),
    ),
    Bug(
        "second-stage-spends-again",
        "erm/localisation.py",
        "    shares = (math.sqrt(share), math.sqrt(1.0 - share)) if gaussian else (share, 1.0 - share)",
        "    shares = (math.sqrt(share), 1.0) if gaussian else (share, 1.0)",
        "the second stage of localisation spends the whole budget once more",
        ("budgets: budget of solvers and choices",),
    ),
    Bug(
        "minimiser-moved-by-half",
        "erm/output_perturbation.py",
        "    exact = problem.budget.sensitivity(problem.norm)",
        "    exact = 0.5 * problem.budget.sensitivity(problem.norm)",
        "the stability of a regularised minimiser off by two",
        ("white-box-erm: output_perturbation, zero-out, gaussian, lattice",),
    ),
    Bug(
        "average-moved-as-its-last",
        "erm/averaged_iterate.py",
        "        return (_harmonic(T) - 1.0) / T",
        "        return 1.0 / T",
        "the average of all iterates moves by more than the last one (erratum O16)",
        ("white-box-erm: averaged_iterate, uniform, zero-out, gaussian, lattice",),
    ),
    Bug(
        "projection-looks-at-the-clean-point",
        "erm/output_perturbation.py",
        "        return problem.set.project(problem.shaped(run.noisy(found.point, self.scale)))",
        "        seen = run.noisy(found.point, self.scale)\n"
        "        return problem.set.project(problem.shaped(seen + 1e-7 * found.point))",
        "a ten-millionth of the clean point leaves with the noisy one",
        ("white-box-erm: output_perturbation, zero-out, gaussian, lattice",),
    ),
)

UNCAUGHT = (
    Bug(
        "diagnostics-of-the-clean-loss",
        "erm/solver.py",
        '        made.facts["clipped"] = str(self.problem.clipped)',
        '        made.facts["clipped"] = str(self.problem.clipped)\n        made.facts["rows"] = str(self.problem.A)',
        "a trace is a diagnostic of private data and says so; the audit looks at what is released, not at diagnostics",
        (),
    ),
)
