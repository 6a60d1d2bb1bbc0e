"""Bugs in where noise comes from, in samplers, the lattice, choices, and the door that clips."""

from __future__ import annotations

from .planting import Bug

BUGS = (
    Bug(
        "seed-from-the-clock",
        "noise/source.py",
        "        if seed is None:\n            self._next = os.urandom(32)",
        "        if seed is None:\n            import time\n\n"
        "            self._next = hashlib.blake2b(str(time.time_ns()).encode(), digest_size=32).digest()",
        "a generator keyed by the time: whoever knows when it ran knows the noise",
        ("white-box-restarts: Source, clock and process stopped",),
    ),
    Bug(
        "seed-of-one-byte",
        "noise/source.py",
        "        if seed is None:\n            self._next = os.urandom(32)",
        "        if seed is None:\n            self._next = os.urandom(1) * 32",
        "256 streams of noise in all",
        ("white-box-restarts: Source, clock and process stopped",),
    ),
    Bug(
        "seed-fixed",
        "noise/source.py",
        "        if seed is None:\n            self._next = os.urandom(32)",
        "        if seed is None:\n            self._next = bytes(32)",
        "a fixed seed left over from debugging",
        ("white-box-restarts: noise of two runs",),
    ),
    Bug(
        "seed-of-two-bytes",
        "noise/source.py",
        "        if seed is None:\n            self._next = os.urandom(32)",
        "        if seed is None:\n            self._next = os.urandom(2) * 16",
        "65,536 streams of noise in all",
        ("white-box-restarts: Source, clock and process stopped",),
    ),
    Bug(
        "noise-shared-after-a-fork",
        "noise/source.py",
        "        else:\n            self._next = os.urandom(32)\n\n    def _ready",
        "        else:\n            self._coarse.state, self._fine.state = coarse, fine\n"
        "            self._begun, self._fine_key = begun, key\n\n    def _ready",
        "worker processes that continue their parent's generator, as NumPy's does",
        ("white-box-restarts: Source, after a fork",),
    ),
    Bug(
        "state-leads-back",
        "noise/source.py",
        "        self._next, self._fine_key, rounds = self._ahead.pop()",
        "        _, self._fine_key, rounds = self._ahead.pop()",
        "the key never moves forward: from a state, what was drawn can be drawn again",
        ("white-box-restarts: Source, saved state",),
    ),
    Bug(
        "noise-not-rounded-to-the-lattice",
        "noise/release.py",
        "    return step * (whole.astype(np.int64) + drawn[0]).astype(np.float64)",
        "    return vector + step * drawn[0].astype(np.float64)",
        "noise on a lattice, the value not: the last bits show it (Mironov 2012)",
        (
            "white-box-erm: output_perturbation, zero-out, gaussian, lattice",
            "white-box-estimators: PrivateScaler, zero-out, gaussian",
            "white-box-objective-perturbation: SmoothHinge, ridge 300, zero-out, gaussian",
        ),
    ),
    Bug(
        "rounding-after-the-noise",
        "noise/release.py",
        "    return step * (whole.astype(np.int64) + drawn[0]).astype(np.float64)",
        "    noise = step * drawn[0].astype(np.float64) * (1.0 + 2.0**-40)\n    return vector + noise",
        "real noise, real values: floating point throughout (diffprivlib, issue 94)",
        ("white-box-erm: gradient_descent, 3 steps, zero-out, gaussian, lattice",),
    ),
    Bug(
        "variance-given-as-deviation",
        "noise/release.py",
        "    _SAMPLERS[noise](source, np.array([scale / step]), drawn)",
        "    _SAMPLERS[noise](source, np.array([scale / step / 1.5]), drawn)",
        "a sampler's parameter taken for another one: two thirds of the noise",
        (
            "white-box-erm: gradient_descent, 3 steps, zero-out, gamma, lattice",
            "white-box-vertical: Party, sketches, zero-out",
        ),
    ),
    Bug(
        "noise-only-on-the-first-coordinate",
        "noise/release.py",
        "    return step * (whole.astype(np.int64) + drawn[0]).astype(np.float64)",
        "    drawn[0, 1:] = drawn[0, :1]\n"
        "    return step * (whole.astype(np.int64) + drawn[0]).astype(np.float64)",
        "one number broadcast over a vector: differences of coordinates are clean",
        ("white-box-erm: gradient_descent, 3 steps, zero-out, gaussian, lattice",),
    ),
    Bug(
        "choice-without-its-factor-two",
        "noise/selection.py",
        "    reach = sensitivity if monotone else 2.0 * sensitivity",
        "    reach = sensitivity",
        "the gap between two scores moves by twice what one moves",
        ("white-box-selection: gumbel, zero-out", "white-box-selection: laplace, zero-out"),
    ),
    Bug(
        "choice-with-half-the-noise",
        "noise/selection.py",
        "    return Selection(_select(values, scale, source, noise), guarantee)",
        "    return Selection(_select(values, 0.5 * scale, source, noise), guarantee)",
        "accounted with one scale, drawn with another",
        ("white-box-selection: exponential, zero-out",),
    ),
    Bug(
        "gumbel-kernel-with-half-the-noise",
        "noise/selection.py",
        "        value = shift + drawn\n",
        "        value = shift + 0.5 * drawn\n",
        "the same in compiled code, below every scale that is recorded",
        ("attack: exponential-mechanism; neighbours=zero-out",),
    ),
    Bug(
        "clip-that-lets-pass",
        "noise/door.py",
        "    return float(norm * (1.0 - margin(dim)))",
        "    return float(3.0 * norm * (1.0 - margin(dim)))",
        "contributions are clipped to three times the norm that noise is calibrated to",
        ("white-box-totals: Tree, plain, laplace, zero-out, lattice",),
    ),
    Bug(
        "clip-at-the-square-root-of-two",
        "noise/door.py",
        "    return limit * limit if _LOW <= limit <= _HIGH else -1.0",
        "    return 2.0 * limit * limit if _LOW <= limit <= _HIGH else -1.0",
        "a squared norm compared with a norm that was doubled: records a little too long pass as they are",
        ("white-box-totals: Independent, zero-out, lattice",),
    ),
)

UNCAUGHT = (
    Bug(
        "lattice-rounding-not-accounted",
        "noise/release.py",
        "    return sensitivity + spread * lattice.step(scale, _steps(noise))",
        "    return sensitivity",
        "a billionth of the noise: below what the lines resolve. tests/test_contributions.py compares with exact "
        "rational numbers and finds it",
        (),
    ),
)
