"""Scores against closed forms: the Gaussian and spherical likelihood ratios, and what learning finds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import laplace, multivariate_normal

from reticent.audit import Classifier, Fisher, GaussianRatio, Labels, SphericalRatio
from reticent.audit.statistics import Score, candidates

RNG = np.random.default_rng(0)


def test_the_gaussian_ratio_is_the_log_likelihood_ratio():
    matrix = RNG.normal(size=(4, 4))
    covariance = matrix @ matrix.T + np.eye(4)
    shift = RNG.normal(size=4)
    outputs = RNG.normal(size=(50, 4))
    ratio = multivariate_normal.logpdf(outputs, shift, covariance) - multivariate_normal.logpdf(
        outputs, np.zeros(4), covariance
    )
    score = GaussianRatio(shift, covariance)
    assert np.allclose(np.diff(score(outputs)), np.diff(ratio), rtol=1e-9)
    assert score.mu == pytest.approx(np.sqrt(shift @ np.linalg.solve(covariance, shift)))


def test_the_laplace_ratio_is_the_log_likelihood_ratio():
    mix = np.tril(RNG.normal(size=(3, 3))) + 3.0 * np.eye(3)
    center, shift, scale = RNG.normal(size=3), RNG.normal(size=3), np.array([0.5, 1.0, 2.0])
    outputs = RNG.normal(size=(50, 3)) * 3.0

    def density(mean):
        return laplace.logpdf((outputs - mean) @ np.linalg.inv(mix).T, scale=scale).sum(axis=1)

    score = SphericalRatio(mix, center, shift, scale)
    assert np.allclose(score(outputs), density(center + shift) - density(center), rtol=1e-9)


def test_the_gamma_ratio_is_the_log_likelihood_ratio():
    center, shift = RNG.normal(size=(2, 3)), RNG.normal(size=(2, 3))
    mix = np.array([[1.0, 0.0], [1.0, 1.0]])
    outputs = RNG.normal(size=(20, 6))
    wanted = []
    for row in outputs.reshape(20, 2, 3):
        here, there = [
            np.linalg.norm(np.linalg.inv(mix) @ (row - mean), axis=1).sum() / 0.7
            for mean in (center, center + shift)
        ]
        wanted.append(here - there)
    assert np.allclose(SphericalRatio(mix, center, shift, 0.7)(outputs), wanted)


def test_fisher_finds_the_direction_of_the_likelihood_ratio():
    matrix = RNG.normal(size=(3, 3))
    covariance = matrix @ matrix.T + 0.5 * np.eye(3)
    shift = np.array([0.5, -0.3, 0.2])
    a = RNG.multivariate_normal(np.zeros(3), covariance, size=200_000)
    b = RNG.multivariate_normal(shift, covariance, size=200_000)
    learnt = Fisher()
    learnt.fit(a, b)
    best = np.linalg.solve(covariance, shift)
    cosine = learnt.direction @ best / np.linalg.norm(best) / np.linalg.norm(learnt.direction)
    assert cosine > 0.999


def test_the_classifier_sees_a_difference_in_spread():
    a, b = RNG.normal(size=(4000, 2)), RNG.normal(scale=1.5, size=(4000, 2))
    learnt = Classifier()
    learnt.fit(a[:2000], b[:2000])
    assert np.mean(learnt(b[2000:]) > 0.0) - np.mean(learnt(a[2000:]) > 0.0) > 0.2


def test_labels_score_what_was_seen_and_nothing_else():
    a, b = np.array([["x"]] * 90 + [["y"]] * 10), np.array([["x"]] * 50 + [["y"]] * 50)
    learnt = Labels()
    learnt.fit(a, b)
    scores = learnt(np.array([["x"], ["y"], ["z"]]))
    assert scores[0] < 0.0 < scores[1]
    assert scores[2] == 0.0


def test_candidates_by_kind_of_output():
    assert [type(s) for s in candidates(None, np.zeros((3, 1)))] == [Score]
    assert [type(s) for s in candidates(None, np.zeros((3, 2)))] == [Fisher, Classifier]
    assert [type(s) for s in candidates(None, np.zeros((3, 1), int))] == [Labels]
    assert isinstance(candidates(np.sum, np.zeros((3, 2)))[0], Score)
    with pytest.raises(TypeError, match="statistic"):
        candidates("mean", np.zeros((3, 2)))
    with pytest.raises(ValueError, match="at least one"):
        candidates([], np.zeros((3, 2)))


def test_bad_shapes_are_refused():
    with pytest.raises(ValueError, match="covariance"):
        GaussianRatio([1.0, 2.0], np.eye(3))
