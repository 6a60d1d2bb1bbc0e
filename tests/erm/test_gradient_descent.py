"""Noisy gradient descent against a plain loop with the same noise, and its guarantees."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp

import reticent
from reticent import erm, losses, sets
from reticent.erm.pause import take_up
from reticent.erm.reading import read
from reticent.noise import Source
from reticent.privacy import ForkError, SubsampledGaussian
from reticent.state import files, lease

from .reference import ball, draws, gaussian_epsilon, logistic_slope, records

BUDGET = reticent.Budget(1.0, 1e-6)
LOSS = losses.Logistic()


def scale_of(fit):
    return float(fit.guarantee.releases[0].noise.split()[-1])


@pytest.mark.parametrize("average", ["uniform", "weighted", "last"])
def test_against_a_plain_loop(average):
    A, y = records()
    n, d = A.shape
    fit = erm.gradient_descent(LOSS, sets.L2Ball(d, 2.0), A, y, budget=BUDGET, steps=30,
                               step_size=0.7, average=average, seed=4)  # fmt: skip
    slope = 1 / (1 + math.exp(-2.0))
    sigma = slope * math.sqrt(30) / BUDGET.mu
    assert scale_of(fit) == pytest.approx(sigma, rel=1e-5)
    # the exact scale is needed to draw the same noise: it is the sensitivity over mu
    x, points = np.zeros(d), []
    scale = fit_scale(fit, A, d)
    for noise in draws(4, [scale] * 30, d):
        points.append(x)
        x = ball(x - 0.7 * (A.T @ logistic_slope(A, y, x) + noise) / n, 2.0)
    weights = np.arange(1, 31) if average == "weighted" else np.ones(30)
    want = x if average == "last" else weights @ np.array(points) / weights.sum()
    np.testing.assert_allclose(fit.point, want, atol=1e-7)


def fit_scale(fit, A, d):
    """The scale in full precision, from the release's sensitivity and cost."""
    release = fit.guarantee.releases[0]
    return release.sensitivity / release.curve.mu


def test_guarantee_by_a_second_road():
    A, y = records()
    for neighbours, factor in (("zero-out", 1.0), ("replace", 2.0)):
        budget = BUDGET.with_(neighbours=neighbours)
        fit = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, budget=budget, steps=50, seed=0)
        moved = factor / (1 + math.exp(-1.0))
        mu = math.sqrt(50) * moved / scale_of(fit)
        assert gaussian_epsilon(1e-6, mu) == pytest.approx(1.0, abs=2e-5)
        assert fit.guarantee.gdp == pytest.approx(mu, rel=1e-5)
        assert fit.guarantee.meets(budget)
        assert fit.guarantee.releases[0].sensitivity >= moved


def test_pure_budget_composes_by_addition():
    A, y = records()
    fit = erm.gradient_descent(
        LOSS, sets.L2Ball(4), A, y, budget=reticent.Budget(2.0), steps=5, seed=0
    )
    assert fit.guarantee.pure == pytest.approx(2.0, rel=1e-6)
    release = fit.guarantee.releases[0]
    assert release.count == 5
    assert scale_of(fit) == pytest.approx(5 * release.sensitivity / 2.0, rel=1e-5)


def test_sampling_is_accounted_by_the_privacy_loss_distribution():
    A, y = records(count=300)
    fit = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, budget=BUDGET, steps=40, sampling=0.1,
                               seed=1)  # fmt: skip
    curve = fit.guarantee.releases[0].curve
    assert isinstance(curve, SubsampledGaussian)
    assert curve.steps == 40
    from dp_accounting.pld import privacy_loss_distribution as pld

    one = pld.from_gaussian_mechanism(curve.noise_multiplier,
                                      sampling_prob=curve.sampling_probability)  # fmt: skip
    epsilon = one.self_compose(40).get_epsilon_for_delta(1e-6)
    assert 0.999 < epsilon <= 1.0 + 1e-9
    full = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, budget=BUDGET, steps=40, seed=1)
    # a tenth of the records for much less than the noise of all of them
    assert scale_of(fit) < 0.4 * scale_of(full)


def test_without_noise_it_reaches_the_optimum():
    A, y = records()
    loss = losses.Logistic(ridge=0.05)
    best = losses.best_fixed(sets.L2Ball(4, 3.0), loss, A, y, gap=1e-9)
    for average in ("weighted", "last"):
        fit = erm.gradient_descent(loss, sets.L2Ball(4, 3.0), A, y, budget=reticent.Budget(1e6, 1e-6),
                                   average=average, seed=0)  # fmt: skip
        assert loss.mean_value(fit.point, A, y) - best.lower_bound < 2e-3
    assert loss.mean_value(fit.point, A, y) - best.lower_bound < 1e-6


def test_kinks_and_other_sets():
    A, y = records(count=3000)
    loss = losses.Hinge(ridge=0.1)
    for where in (sets.Box(-np.ones(4), np.ones(4)), sets.L1Ball(4, 2.0)):
        best = losses.best_fixed(where, loss, A, y, gap=1e-6)
        fit = erm.gradient_descent(loss, where, A, y, budget=reticent.Budget(8.0, 1e-5), seed=0)
        assert loss.mean_value(fit.point, A, y) - best.lower_bound < 0.05


def test_sparse_records_give_the_same_point():
    A, y = records()
    A[np.abs(A) < 0.3] = 0.0
    arguments = dict(budget=BUDGET, steps=20, step_size=0.5, seed=2)
    dense = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, **arguments)
    sparse = erm.gradient_descent(LOSS, sets.L2Ball(4), sp.csr_array(A), y, **arguments)
    np.testing.assert_allclose(sparse.point, dense.point, atol=1e-7)


def test_a_custom_loss_is_clipped_to_its_claim():
    A, y = records(count=60)
    steep = losses.CustomLoss(
        lambda x, a, b: 100.0 * float((x @ a - b) ** 2),
        lambda x, a, b: 200.0 * (x @ a - b) * a,
        lipschitz=1.0,
    )
    fit = erm.gradient_descent(steep, sets.L2Ball(4), A, y, budget=reticent.Budget(1e6, 1e-6), steps=1,
                               step_size=1.0, average="last", seed=0)  # fmt: skip
    gradients = 200.0 * (0.0 - y)[:, None] * A
    gradients *= np.minimum(1.0, 1.0 / np.linalg.norm(gradients, axis=1))[:, None]
    np.testing.assert_allclose(fit.point, ball(-gradients.mean(0), 1.0), atol=1e-3)


def test_records_beyond_the_bounds_are_clipped():
    A, y = records()
    arguments = dict(budget=BUDGET, steps=5, seed=2)
    one = erm.gradient_descent(LOSS, sets.L2Ball(4), A * 1.0, y, **arguments)
    far = A.copy()
    far[7] *= 1e9
    two = erm.gradient_descent(LOSS, sets.L2Ball(4), far, y, **arguments)
    assert np.linalg.norm(one.point - two.point) < 0.05
    assert "1 had features scaled down" in two.trace.facts["clipped"]


def test_published_noise_tells_the_truth():
    A, y = records()
    fit = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, budget=BUDGET, steps=100, seed=0,
                               calibration="published")  # fmt: skip
    slope = 1 / (1 + math.exp(-1.0))
    want = slope * math.sqrt(2 * 100 * (math.log(1e6) + 1.0))
    assert scale_of(fit) == pytest.approx(want, rel=1e-5)
    assert fit.guarantee.epsilon(1e-6) == pytest.approx(0.761, abs=1e-3)
    assert fit.guarantee.caveats == ()
    strict = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, steps=100, seed=0,
                                  budget=BUDGET.with_(neighbours="replace"),
                                  calibration="published")  # fmt: skip
    assert strict.guarantee.epsilon(1e-6) == pytest.approx(1.610, abs=1e-3)
    assert "1.61" in strict.guarantee.caveats[0]


def test_stop_and_resume_is_as_if_nothing_had_happened():
    A, y = records()
    arguments = dict(budget=BUDGET, steps=20, step_size=0.5, seed=3)
    whole = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, **arguments)
    half = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, **arguments,
                                callback=lambda moment: moment.step == 8)  # fmt: skip
    assert not half.finished
    assert half.guarantee.gdp == whole.guarantee.gdp
    with reticent.Ledger(BUDGET) as ledger:
        rest = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, **arguments, resume=half)
    assert ledger.entries == ()
    assert rest.finished
    np.testing.assert_array_equal(rest.point, whole.point)
    with pytest.raises(ForkError, match="already continued"):
        erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, **arguments, resume=half)
    with pytest.raises(ValueError, match="nothing to resume"):
        rest.state()


def test_resume_from_a_saved_state(tmp_path):
    A, y = records()
    arguments = dict(budget=BUDGET, steps=20, step_size=0.5, seed=3)
    whole = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, **arguments)
    half = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, **arguments,
                                callback=lambda moment: moment.step == 8)  # fmt: skip
    files.save(half.state(), tmp_path / "run")
    state = files.load(tmp_path / "run")
    with pytest.raises(ValueError, match="another plan"):
        erm.gradient_descent(
            LOSS, sets.L2Ball(4), A, y, **(arguments | {"steps": 21}), resume=state
        )
    rest = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, **arguments, resume=state)
    np.testing.assert_array_equal(rest.point, whole.point)
    with pytest.raises(ForkError):
        erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, **arguments, resume=half)


def stopped(loss=LOSS, **changes):
    """A run that stopped at step 8, and a function that takes it up with some arguments changed."""
    A, y = records()
    arguments = dict(budget=BUDGET, steps=20, step_size=0.5, seed=3) | changes

    def run(resume=None, loss=loss, **others):
        return erm.gradient_descent(loss, sets.L2Ball(4), A, y, **(arguments | others),
                                    resume=resume)  # fmt: skip

    return run(callback=lambda moment: moment.step == 8), run


def test_a_run_is_not_taken_up_in_the_child_of_a_fork():
    """Else child and parent would both finish it, on one charge."""
    half, run = stopped(seed=None)

    def outcome(go_on):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover - the child's coverage is not collected
            try:
                go_on()
                os.write(writer, b"finished")
            except BaseException as error:
                os.write(writer, type(error).__name__.encode())
            os._exit(0)
        os.waitpid(child, 0)
        os.close(writer)
        with os.fdopen(reader, "rb") as file:
            return file.read()

    assert outcome(lambda: run(half)) == b"ForkError"
    assert outcome(lambda: run(half.state())) == b"ForkError"
    assert outcome(run) == b"finished"  # a run of its own
    assert run(half).finished


def test_two_threads_do_not_take_up_one_run():
    class Slow(lease.Lease):
        """Its reader dawdles, so that both threads have looked before either has written."""

        far = 8

        @property
        def furthest(self):
            far = self.far
            time.sleep(0.2)
            return far

        @furthest.setter
        def furthest(self, step):
            self.far = step

    half, _ = stopped()
    pause = half._pause
    pause.lease = Slow(step=8)
    won = []

    def go():
        with contextlib.suppress(ForkError):
            won.append(take_up(half, pause.solver, pause.plan))

    threads = [threading.Thread(target=go) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1


@pytest.mark.parametrize(
    ("others", "word"),
    [
        ({"loss": losses.Logistic(ridge=0.1)}, "loss"),
        ({"budget": BUDGET.with_(neighbours="replace")}, "budget"),
        ({"noise_precision": "float"}, "noise precision"),
    ],
)
def test_a_run_is_not_taken_up_with_another_loss_or_budget(others, word):
    """The published noise does not depend on either, so the plan's numbers are the same."""
    half, run = stopped(calibration="published")
    for resume in (half, half.state()):
        with pytest.raises(ValueError, match=rf"differs in: {word}\)"):
            run(resume, **others)
    assert run(half).finished


def slope(x, a, y, factor):
    return factor * np.sign(a @ x - y) * a


def test_a_saved_run_goes_on_in_another_process(monkeypatch):
    """There the same loss has another address, and nothing is known of the run."""

    def make():
        value = functools.partial(lambda x, a, y, factor: factor * abs(a @ x - y), factor=0.5)
        return losses.CustomLoss(value, functools.partial(slope, factor=0.5), lipschitz=0.5)

    loss = make()
    half, run = stopped(loss)
    state = files.loads(files.dumps(half.state()))
    monkeypatch.setattr(lease, "_known", {})
    again = make()
    assert repr(again) != repr(loss)
    assert run(state, loss=again).finished
    with pytest.raises(ForkError, match="already continued"):
        run(state, loss=again)


def test_the_trace():
    A, y = records()
    seen = []
    fit = erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, budget=BUDGET, steps=12, seed=0,
                               record_loss=True, callback=lambda m: seen.append(m.point))  # fmt: skip
    assert len(seen) == 12
    assert fit.trace.steps.tolist() == list(range(1, 13))
    assert fit.trace.diagnostics["loss"][0] == pytest.approx(math.log(2.0))
    assert "not covered by the guarantee" in str(fit)
    assert fit.trace.settings["steps"] == 12


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"budget": 1.0}, "budget must be a reticent.Budget"),
        ({"budget": reticent.Budget(1.0, 1e-6, window=5)}, "window must be None"),
        ({"steps": 0}, "steps must be"),
        ({"step_size": -1.0}, "step_size must be"),
        ({"average": "mode"}, "average must be one of"),
        ({"sampling": 2.0}, "sampling must be"),
        ({"budget": reticent.Budget(1.0), "sampling": 0.1}, "sampling needs Gaussian noise"),
        ({"set": sets.L2Ball(5)}, "the set has dimension 5"),
        ({"set": sets.NuclearBall((2, 2))}, None),
        ({"loss": "logistic"}, "loss must be a reticent.losses.Loss"),
        ({"loss": losses.Squared(), "set": sets.WholeSpace(4)}, "not Lipschitz"),
        ({"X": np.full((400, 4), np.nan)}, "must be finite"),
        ({"y": np.zeros(400)}, "must be -1 or 1"),
        ({"start": np.full(4, 9.0)}, "start must lie in"),
        ({"noise_precision": "double"}, "noise_precision must be"),
        ({"calibration": "loose"}, "calibration must be"),
        ({"callback": 3}, "callback must be callable"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_input_spends_nothing(changes, message):
    A, y = records()
    arguments = {"loss": LOSS, "set": sets.L2Ball(4), "X": A, "y": y, "budget": BUDGET, **changes}
    if message is None:  # a matrix set with a projection is welcome
        erm.gradient_descent(**arguments, steps=2)
        return
    with reticent.Ledger(BUDGET) as ledger, pytest.raises((TypeError, ValueError), match=message):
        erm.gradient_descent(**arguments)
    assert ledger.entries == ()


def test_a_ledger_is_charged_before_noise_is_drawn():
    A, y = records()
    with reticent.Ledger(BUDGET) as ledger:
        erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, budget=BUDGET, steps=3)
        with pytest.raises(reticent.privacy.BudgetExceeded):
            erm.gradient_descent(LOSS, sets.L2Ball(4), A, y, budget=BUDGET, steps=3)
    assert len(ledger.entries) == 1


def test_gradients_whose_squares_vanish_are_clipped():
    # The norm of 1e-170 ones is 0 if they are squared first.
    loss = losses.CustomLoss(
        lambda x, a, y: 0.0, lambda x, a, y: np.array([3e-170, 4e-170]), lipschitz=1e-170
    )
    problem = read(
        loss,
        sets.L2Ball(2),
        np.ones((1, 2)),
        None,
        reticent.Budget(1.0, 1e-6),
        noise_precision="lattice",
    )
    np.testing.assert_allclose(problem.gradient_sum(np.zeros(2)), [0.6e-170, 0.8e-170], rtol=1e-12)


def test_the_key_of_a_long_run_moves_on():
    """After 70 steps the state holds the key of the second interval of 64, and nothing of the first."""
    A, y = records()
    fit = erm.gradient_descent(
        LOSS, sets.L2Ball(4), A, y, budget=BUDGET, steps=100, seed=0,
        callback=lambda report: report.step >= 70,
    )  # fmt: skip
    state = files.dumps(fit.state())
    source = Source(0)
    for used in (False, True):
        source.ratchet()
        rounds = source.state(within=True)["coarse"]["s"]["seed"].tobytes()
        assert (rounds in state) == used
