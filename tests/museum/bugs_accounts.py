"""Bugs in budgets, curves, compositions and ledgers."""

from __future__ import annotations

from .planting import Bug

_MU = "    return _safe_root(lambda m: _log_delta(epsilon, m) - target, low, high, -1.0)"

BUGS = (
    Bug(
        "replacement-not-doubled",
        "privacy/budget.py",
        'return norm if self.neighbours == "zero-out" else 2.0 * norm',
        "return norm",
        "a replaced record moves a sum twice as far as a blanked one",
        (
            "white-box-totals: Correlated, replace, lattice",
            "white-box-erm: frank_wolfe, l1 ball, replace, gaussian",
            "white-box-erm: exponential_mechanism, net, replace, gamma",
        ),
    ),
    Bug(
        "gaussian-calibration-of-the-textbook",
        "privacy/gaussian.py",
        _MU,
        "    return epsilon / math.sqrt(2.0 * math.log(1.25 / delta)) * 1.3",
        "a shortened textbook formula: sqrt(2 log(1.25/delta)) with a constant that was 'tuned'",
        ("budgets: budget of running totals",),
    ),
    Bug(
        "gaussian-epsilon-forgets-the-second-term",
        "privacy/gaussian.py",
        "    return _safe_root(lambda e: _log_delta(e, mu) - target, 0.0, high, +1.0)",
        "    return 0.8 * mu * math.sqrt(2.0 * math.log(1.0 / delta))",
        "epsilon of a Gaussian release from a tail bound, without its mu^2/2 and with a constant that was fitted",
        ("accounting: Gaussian releases",),
    ),
    Bug(
        "disjoint-promises-forget-ages",
        "privacy/guarantee.py",
        "        if first.ages or all(part._fades for part in guarantees):",
        "        if False:",
        "beyond the last age that was asked for, guarantees on disjoint records cost what they did at that age",
        ("accounting: guarantees by age on disjoint records",),
    ),
    Bug(
        "composition-keeps-the-last",
        "privacy/composition.py",
        "        self.total = compose([self.total, curve])",
        "        self.total = compose([curve])",
        "a ledger that remembers only its last entry",
        ("accounting: Ledger, Gaussian", "accounting: Ledger, pure"),
    ),
    Bug(
        "filter-settles-for-nothing",
        "privacy/composition.py",
        "            self._used = _more(self._used, self._price(curve))",
        "            self._used = max(self._used, self._price(curve))",
        "an adaptive filter that keeps the largest entry in place of the sum",
        ("accounting: Ledger, adaptive, Gaussian",),
    ),
    Bug(
        "filter-takes-the-best-rule-at-each-moment",
        "privacy/composition.py",
        "        if self._rule is None:\n            self._left = self.budget.epsilon - self._pure",
        "        if self._rule is None:\n            self._left = self.budget.epsilon",
        "pure epsilons spent before the filter settles are not taken off",
        ("accounting: Ledger, adaptive, mixed",),
    ),
    Bug(
        "squared-mu-added-as-mu",
        "privacy/composition.py",
        '        return curve.gdp_bound**2 if self._rule == "mu" else curve.rdp(self._order)',
        '        return 0.5 * curve.gdp_bound**2 if self._rule == "mu" else curve.rdp(self._order)',
        "zCDP's rho in place of mu squared: off by a factor of two",
        ("accounting: Ledger, adaptive, Gaussian",),
    ),
    Bug(
        "laplace-epsilon-at-delta",
        "privacy/curves.py",
        "        return self._rounded_up(self.value + 2.0 * math.log1p(-delta))",
        "        return self._rounded_up(self.value + 8.0 * math.log1p(-delta))",
        "a wrong constant in the trade-off of Laplace noise",
        ("accounting: Laplace releases",),
    ),
    Bug(
        "bounded-range-halved",
        "privacy/curves.py",
        "            return self._rounded_up(self.value + 2.0 * math.log1p(-root))",
        "            return self._rounded_up(0.5 * self.value + math.log1p(-root))",
        "the range of a choice taken for twice its epsilon",
        ("white-box-selection: gumbel, zero-out",),
    ),
    Bug(
        "sampled-replacement-as-removal",
        "privacy/subsampled.py",
        '        object.__setattr__(self, "neighbours", choice(self.neighbours, "neighbours", NEIGHBOURS))',
        '        choice(self.neighbours, "neighbours", NEIGHBOURS)\n'
        '        object.__setattr__(self, "neighbours", "zero-out")',
        "amplification by sampling computed for add-or-remove and claimed for replacement",
        ("accounting: Poisson samples, replace",),
    ),
    Bug(
        "ledger-forgets",
        "privacy/ledger.py",
        "            tally.add(entry.guarantee.at(age))",
        "            tally.fits(entry.guarantee.at(age))",
        "entries are listed but never counted",
        ("white-box-restarts: Ledger, twice the budget", "accounting: Ledger, pure"),
    ),
    Bug(
        "charge-not-made",
        "privacy/ledger.py",
        "                ledger.spend(guarantee, what)\n    except",
        "                ledger.fits(guarantee)\n    except",
        "room is checked and nothing is spent (a budget that can be asked for without end)",
        ("white-box-restarts: Ledger, twice the budget",),
    ),
    Bug(
        "pure-releases-of-a-tree-counted-once",
        "privacy/calibration.py",
        "def gamma(budget: Budget, sensitivity: float, count: int = 1) -> float:",
        "def gamma(budget: Budget, sensitivity: float, count: int = 1) -> float:\n"
        "    return sensitivity / budget.epsilon\n\n\n"
        "def _gamma(budget: Budget, sensitivity: float, count: int = 1) -> float:",
        "noise for one release where a record is in several: the guarantee tells the truth, and the budget is exceeded",
        ("budgets: budget of running totals",),
    ),
)
