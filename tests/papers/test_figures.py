"""`reticent reproduce`: tiny versions of the figures run for real, against facts computed another way."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import pathlib
import re

import numpy as np
import pytest
from scipy.stats import norm

from reticent import vertical
from reticent.cli import reproduce as command
from reticent.cli.reproduce import tables
from reticent.papers.figures import (
    bandit_1,
    chapter_1,
    data,
    online_2a,
    online_2b,
    online_2c,
    store,
    vertical_1,
    window_1,
)
from reticent.papers.figures.draw import picture
from reticent.papers.figures.figure import BOUND, CATALOGUE, CORRECTED, OURS, PUBLISHED, Row, load
from reticent.papers.figures.produce import measure, produce
from reticent.trace.sweep import sweep

NAMES = ["online-2a", "online-2b", "online-2c", "window-1", "bandit-1", "vertical-1", "chapter-1"]


def gaussian_epsilon(mu: float, delta: float) -> float:
    """By bisection on the Gaussian trade-off, straight from its definition."""
    low, high = 0.0, 1e6
    for _ in range(200):
        e = (low + high) / 2
        tail = norm.cdf(-e / mu + mu / 2) - math.exp(min(e, 700.0) + norm.logcdf(-e / mu - mu / 2))
        low, high = (low, e) if tail <= delta else (e, high)
    return high


def tiny(figure, **changes):
    return figure.settings(False) | changes


SMALL = online_2a.settings(False) | {"horizon": 400, "epsilons": [0.1, 10.0], "seeds": 2}


def small_online(**changes):
    return SMALL | changes


# ---------------------------------------------------------------- the catalogue


def test_the_catalogue_names_every_figure_and_each_is_well_formed():
    assert list(CATALOGUE) == NAMES
    for name in NAMES:
        figure = load(name)
        assert figure.name == name
        for full in (False, True):
            settings = figure.settings(full)
            assert json.loads(json.dumps(settings)) == settings
            tasks = figure.tasks(settings)
            assert tasks
            assert json.loads(json.dumps(tasks)) == tasks
            assert figure.panels(settings)
            assert figure.notes(settings)
        assert figure.settings(True) != figure.settings(False)


def test_without_a_name_the_figures_are_listed(tmp_path, capsys):
    assert command.reproduce(None, False, tmp_path, False, False) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in NAMES)
    assert command.reproduce(None, False, tmp_path, False, True) == 0
    assert list(json.loads(capsys.readouterr().out)) == NAMES
    assert not list(tmp_path.iterdir())


def test_an_unknown_figure_is_refused_with_the_names_there_are(tmp_path):
    with pytest.raises(ValueError, match=r"no figure 'online-3'.*online-2a"):
        command.reproduce("online-3", False, tmp_path / "out", False, False)
    assert not (tmp_path / "out").exists()


# ---------------------------------------------------------------- the whole command, once


@pytest.fixture
def small(monkeypatch):
    figure = dataclasses.replace(online_2a.FIGURE, settings=lambda full: small_online())
    monkeypatch.setattr(online_2a, "FIGURE", figure)
    return figure


def test_the_command_stores_draws_and_then_redraws_without_running(
    small, tmp_path, capsys, monkeypatch
):
    assert command.reproduce("online-2a", False, tmp_path, False, False, jobs=1) == 0
    said = capsys.readouterr()
    assert "average regret" in said.out
    assert "true epsilon" in said.out
    drawn = (tmp_path / "online-2a.svg").read_bytes()
    assert drawn.startswith(b"<?xml")
    assert len(drawn) < 100_000

    def never(*_):
        raise AssertionError("a stored figure was run again")

    monkeypatch.setattr(online_2a, "FIGURE", dataclasses.replace(small, measure=never))
    (tmp_path / "online-2a.svg").unlink()
    assert command.reproduce("online-2a", False, tmp_path, False, False, jobs=1) == 0
    again = capsys.readouterr()
    assert "nothing is run" in again.err
    assert again.out == said.out
    assert (tmp_path / "online-2a.svg").read_bytes() == drawn
    assert command.reproduce("online-2a", False, tmp_path, False, True, jobs=1) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["reused"] is True
    assert document["settings"] == small_online()
    assert {one["variant"] for one in document["summary"]} == {
        "published", "corrected", "ours", "not private", "without learning",
    }  # fmt: skip
    assert command.reproduce("online-2a", False, tmp_path, True, False, jobs=1) == 0
    quiet = capsys.readouterr()
    assert quiet.out == quiet.err == ""


def test_other_settings_are_run_again(small, tmp_path):
    first, reused = produce(small, small_online(seeds=1), tmp_path, "x", jobs=1)
    assert not reused
    second, reused = produce(small, small_online(seeds=2), tmp_path, "x", jobs=1)
    assert not reused
    assert len(second.rows) == 2 * len(first.rows)
    # fixed seeds: what both hold is the same to the last bit
    assert [row for row in second.rows if row.seed == 0] == first.rows


def test_a_file_that_is_no_result_is_not_overwritten(small, tmp_path):
    path = tmp_path / "online-2a.json"
    path.write_text('{"format": 99}')
    with pytest.raises(ValueError, match=r"online-2a\.json is not a stored result.*move it away"):
        command.reproduce("online-2a", False, tmp_path, False, False, jobs=1)
    assert path.read_text() == '{"format": 99}'


# ---------------------------------------------------------------- the stored form


def test_rows_survive_storage_and_the_table_holds_the_same(tmp_path):
    rows = [
        Row("p, q", "ours", 1.0, 0.1, 3, "pure", 1.0),
        Row("p, q", BOUND, None, 2.0),
        Row("r", "published", 0.3, 1e-300, 4, true_epsilon=math.inf),
    ]
    result = store.Result("online-2a", {"a": [1, 2.5]}, rows, {"reticent": "x", "seconds": 1.0})
    path, table = store.write(result, tmp_path, "name")
    assert store.read(path) == result
    with open(table, newline="") as file:
        found = list(csv.DictReader(file))
    assert [row["panel"] for row in found] == ["p, q", "p, q", "r"]
    assert [row["x"] for row in found] == ["1.0", "", "0.3"]
    assert found[2]["true_epsilon"] == "inf"
    assert not list(tmp_path.glob("*.part"))


def test_summaries_are_means_and_standard_errors():
    rng = np.random.default_rng(0)
    values = rng.standard_normal(7)
    rows = [Row("p", "ours", 2.0, float(v), k) for k, v in enumerate(values)]
    (one,) = store.summarise(rows)
    assert one.mean == pytest.approx(values.mean())
    assert one.error == pytest.approx(values.std(ddof=1) / math.sqrt(7))


def test_tasks_come_back_in_order_from_other_processes():
    tasks = [(2, k) for k in range(9)]
    assert sweep(pow, tasks, label="powers", jobs=2) == [2**k for k in range(9)]
    with pytest.raises(ZeroDivisionError):
        sweep(divmod, [(1, 1), (1, 0), (1, 1), (1, 1), (1, 1)], label="quotients", jobs=2)


# ---------------------------------------------------------------- the figures


def test_regret_falls_with_epsilon_and_from_published_to_ours():
    # Sign tests over 20 seeds: if there were no difference, all 20 would agree with chance 2^-20.
    settings = small_online(seeds=20)
    rows = [
        row
        for task in online_2a.tasks(settings)
        if task["epsilon"] is not None
        for row in online_2a.measure(settings, task)
    ]
    value = {(row.variant, row.x, row.seed): row.value for row in rows}
    for seed in range(20):
        for variant in (CORRECTED, OURS):
            assert value[variant, 10.0, seed] < value[variant, 0.1, seed]
        assert value[OURS, 10.0, seed] < value[PUBLISHED, 10.0, seed]
        assert value[OURS, 0.1, seed] < value[PUBLISHED, 0.1, seed]
    exact = [row.true_epsilon for row in rows if row.variant != PUBLISHED]
    asked = [row.x for row in rows if row.variant != PUBLISHED]
    assert exact == pytest.approx(asked, rel=1e-6)


def test_the_decision_zero_is_measured_against_ridge_regression():
    settings = small_online()
    X, y = online_2a.stream(10, 400, 1)
    w = np.linalg.solve(X.T @ X + 400 * np.eye(10), X.T @ y)  # a ridge of 1 on each of 400 losses
    best = 0.5 * np.sum((y - X @ w) ** 2) + 200 * w @ w
    clean, idle = measure("online-2a", settings, {"seed": 1, "epsilon": None})
    assert idle.value == pytest.approx((0.5 * y @ y - best) / 400, rel=1e-8)
    assert 0.0 < clean.value < idle.value


def test_the_synthetic_stream_is_the_papers():
    X, y = online_2a.stream(10, 20_000, 3)
    assert X.shape == (20_000, 10)
    assert np.linalg.norm(X, axis=1).max() <= 1 + 1e-12
    w, rest, *_ = np.linalg.lstsq(X, y)
    assert np.linalg.norm(w) == pytest.approx(1.0, abs=0.01)
    # targets carry noise of 0.01: a chi-square with 19,990 degrees of freedom, 5.7 sigma = 1e-8
    assert math.sqrt(rest[0] / 19_990) == pytest.approx(0.01, rel=5.7 / math.sqrt(2 * 19_990))


def test_published_noise_of_the_window_table():
    settings = tiny(window_1.FIGURE, horizons=[256], windows=[16], seeds=1)
    task = {"seed": 0, "horizon": 256, "window": 16, "against": "T"}
    rows = window_1.measure(settings, task)
    assert [row.panel for row in rows[::3]] == [f"{name}/T" for name in window_1.ROWS]
    assert len(window_1.ROWS) == 7
    at = {(row.panel, row.variant): row for row in rows}
    # squared losses on the unit l1 ball with labels in [-1, 1]: L = 2; ridge 1/2, diameter 2
    L, printed = 2.0, 2.0 + 0.5 * 2.0
    sigma = math.sqrt(8) * printed * (4 + 1) * math.log(2 / 1e-6)
    mu = math.sqrt(5) * L / sigma  # bit_length(16) = 5 nodes hold a record
    expected = gaussian_epsilon(mu, 1e-6)
    for row in ("project/T", "linear/T"):
        assert at[row, PUBLISHED].true_epsilon == pytest.approx(expected, rel=1e-4)
        assert at[row, OURS].true_epsilon == pytest.approx(1.0, rel=1e-6)
    for row in ("project-pure/T", "linear-pure/T"):
        assert at[row, PUBLISHED].true_epsilon == pytest.approx(L / printed, rel=1e-9)
        assert at[row, CORRECTED].true_epsilon == pytest.approx(1.0, rel=1e-9)
    wide = window_1.measure(settings, task | {"against": "W"})
    assert {row.panel for row in wide} == {
        "project-pure/W", "project/W", "linear-pure/W", "linear/W",
    }  # fmt: skip
    assert {row.x for row in wide} == {16.0}


def test_lower_bounds_and_the_instance_they_are_about():
    settings = tiny(chapter_1.FIGURE, epsilons=[0.1, 10.0], seeds=1)
    bounds = {
        (row.panel, row.x): row.value for row in chapter_1.measure(settings, {"what": "bounds"})
    }
    n, p, q = settings["records"], settings["dim"], settings["dim_pure"]
    for epsilon in (0.1, 10.0):
        assert bounds["exponential", epsilon] == pytest.approx(min(n, q / epsilon))
        assert bounds["gradient", epsilon] == pytest.approx(min(n, math.sqrt(p) / epsilon))
        lasso = n * (n * epsilon) ** (-2 / 3)
        assert bounds["frank-wolfe", epsilon] == pytest.approx(min(n, lasso))
    for length in (0.2, 7.0, 31.6):
        A = chapter_1.hardest(200, 10, length, 5)
        assert np.linalg.norm(A, axis=1).max() <= 1 + 1e-12
        assert np.linalg.norm(A.sum(axis=0)) == pytest.approx(length)
        assert len(A) in (199, 200)


def test_noise_of_the_chapter_as_printed():
    settings = tiny(chapter_1.FIGURE, records=300, dim_lasso=20, most_steps=20)

    def truths(what, epsilon):
        rows = chapter_1.measure(settings, {"what": what, "epsilon": epsilon, "seed": 0})
        assert all(row.value > 0 for row in rows)
        return {row.variant: row.true_epsilon for row in rows}

    found = truths("gradient", 1.0)
    # lambda = sqrt(2 T (ln(1/delta) + epsilon)) / epsilon over T releases
    mu = 1.0 / math.sqrt(2 * (math.log(1e6) + 1.0))
    assert found[PUBLISHED] == pytest.approx(gaussian_epsilon(mu, 1e-6), rel=1e-4)
    assert found[CORRECTED] == pytest.approx(1.0, rel=1e-5)
    assert found[OURS] == pytest.approx(1.0, rel=1e-5)
    for what in ("exponential", "objective-pure", "objective", "ftrl"):
        found = truths(what, 1.0)
        assert found[PUBLISHED] < 1.0
        assert found[CORRECTED] == pytest.approx(1.0, rel=1e-3)
    # one factor 1/n too many: thousands of times less privacy than claimed
    assert truths("frank-wolfe", 1.0)[PUBLISHED] > 50.0


def test_on_the_hardest_data_nothing_beats_the_constant_decision_by_much():
    settings = tiny(chapter_1.FIGURE, records=300)
    rows = chapter_1.measure(settings, {"what": "hard", "epsilon": 1.0, "seed": 0})
    assert {row.panel for row in rows} == {"hard-pure", "hard"}
    for row in rows:
        dim, kind = (2, "pure") if row.panel == "hard-pure" else (10, "approximate")
        length = chapter_1.lower_bound(300, dim, 1.0, kind)
        assert 0.0 <= row.value <= 2.0 * length + 1e-9  # the range of a linear loss on the ball


def test_bandit_worlds_have_the_dimensions_they_claim():
    from reticent.bandit.geometry import survey

    for name, make in bandit_1.SETS.items():
        for n in (2, 10):
            assert survey(make(n), True).dim == n, name
    settings = tiny(bandit_1.FIGURE, horizons=[256], seeds=1)
    task = {"set": "simplex", "dim": 2, "loss": "quadratic", "seed": 1000, "horizon": 256}
    rows = bandit_1.measure(settings, task)
    assert [(row.series, row.variant) for row in rows] == list(bandit_1.LEARNERS)
    published = {row.series: row.true_epsilon for row in rows if row.variant == PUBLISHED}
    assert published[""] < 0.1 < 1.0  # far more noise than the promise needs
    ours = [row.true_epsilon for row in rows if row.variant == OURS]
    assert ours == pytest.approx([1.0, 1.0], rel=1e-6)


def test_measured_gaps_are_below_theorem_one():
    settings = tiny(vertical_1.FIGURE, rate_records=100, steps=200, seeds=1)
    for name in vertical_1.SAMPLINGS:
        rows = vertical_1.measure(settings, {"what": "rate", "sampling": name, "seed": 0})
        line = {(row.variant, row.x): row.value for row in rows}
        steps = sorted(x for variant, x in line if variant == BOUND)
        assert steps[-1] == 200.0
        for t in steps:
            assert line[CORRECTED, t] <= line[BOUND, t]
    blocks = settings["blocks"]
    K, tau = settings["parties"], settings["tau"]
    assert vertical_1.PrintedDistributed(K, tau).p_min(blocks) == pytest.approx(
        (K * tau / blocks) ** 2
    )
    assert vertical.Distributed(K, tau).p_min(blocks) == pytest.approx(K * tau / blocks)


def test_uplink_counts():
    settings = tiny(vertical_1.FIGURE, parties=2)
    rows = vertical_1.measure(settings, {"what": "bytes", "records": 300, "columns": 8})
    found = {row.variant: row.value for row in rows}
    T = round(300 ** (2 / 3))
    m = min(300, math.ceil(math.log(2 * T / 1e-6) / 0.04))
    assert found[PUBLISHED] == 2 * T * (4 + 8 * m)
    assert found[vertical_1.COLUMNS] == 300 * 8 * 8
    assert 0 < found[OURS] < found[PUBLISHED]


def test_the_error_panel_of_the_protocol():
    settings = tiny(vertical_1.FIGURE, blocks=8, parties=2, records=300)
    rows = vertical_1.measure(settings, {"what": "error", "epsilon": 5.0, "seed": 0})
    truth = {row.variant: row.true_epsilon for row in rows if row.x is not None}
    assert truth[CORRECTED] == pytest.approx(5.0, rel=1e-3)
    assert truth[OURS] == pytest.approx(5.0, rel=1e-3)
    assert truth[PUBLISHED] < 5.0
    assert all(row.value > 0 for row in rows)


# ---------------------------------------------------------------- data


def test_without_the_folder_bundled_streams_stand_in_and_say_so(tmp_path, monkeypatch):
    monkeypatch.setenv("RETICENT_DATA", str(tmp_path))
    settings = online_2b.settings(False)
    assert settings["streams"] == ["diabetes", "trump"]
    assert all("stand-in" in panel.title for panel in online_2b.panels(settings))
    assert any("not the paper's data" in note for note in online_2b.notes(settings))
    assert online_2c.settings(False)["data"] == "shuttle"
    with pytest.raises(FileNotFoundError, match=r"covertype\.parquet.*RETICENT_DATA"):
        data.covertype()
    pytest.importorskip("river")
    for name in ("diabetes", "trump", "shuttle"):
        X, y = data.records(name)
        assert np.linalg.norm(X, axis=1).max() <= 1 + 1e-12
        assert np.abs(y).max() <= 1.0
    task = {"stream": "diabetes", "seed": 0, "epsilon": 1.0}
    rows = online_2b.measure(settings, task)
    assert [row.variant for row in rows] == [PUBLISHED, CORRECTED, OURS]


def test_accuracy_of_the_stand_in_for_forest_cover(monkeypatch):
    pytest.importorskip("river")
    settings = tiny(online_2c.FIGURE, data="shuttle", most=5_000)
    rows = online_2c.measure(settings, {"seed": 0, "epsilon": 10.0})
    assert [(row.series, row.variant) for row in rows] == [
        ("PIGD", PUBLISHED), ("PIGD", CORRECTED), ("PIGD", OURS), ("FTRL", OURS),
    ]  # fmt: skip
    assert all(0.0 <= row.value <= 100.0 for row in rows)
    clean = online_2c.measure(settings, {"seed": 0, "epsilon": online_2c.NEGLIGIBLE})
    levels = {(row.series, row.variant): row.value for row in clean}
    assert levels["", "the larger class"] > 50.0
    assert all(row.x is None for row in clean)


@pytest.mark.parametrize("name", ["covertype", "flights", "blog"])
def test_real_rows_are_within_their_declared_bounds(name):
    pytest.importorskip("pandas")
    if data.available(name) != name:
        pytest.skip(f"no {data.FILES[name]}: name its folder in RETICENT_DATA")
    X, y = data.records(name)
    assert np.linalg.norm(X, axis=1).max() <= 1 + 1e-12
    assert np.abs(y).max() <= 1.0
    assert len(X) > 60_000


# ---------------------------------------------------------------- words and pictures


def test_every_figure_draws_what_its_panels_ask_for(tmp_path):
    pytest.importorskip("matplotlib")
    for name in NAMES:
        figure = load(name)
        settings = figure.settings(False)
        rows = [
            Row(panel.name, variant, x, 0.5 * x, seed, true_epsilon=x)
            for panel in figure.panels(settings)
            for variant in (PUBLISHED, OURS)
            for x in (1.0, 2.0, 4.0)
            for seed in range(2)
        ]
        result = store.Result(figure.name, settings, rows, {})
        path = picture(figure, result, "title", tmp_path / f"{name}.svg")
        text = path.read_text()
        for panel in figure.panels(settings):
            assert panel.title.split("\n")[0] in text
        assert "published" in tables(figure, result)
        figure.findings(store.summarise(rows))


DOCS = pathlib.Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", NAMES)
def test_the_page_shows_what_the_stored_results_hold(name):
    result = store.read(DOCS / "pictures" / "reproduce" / f"{name}.json")
    figure = load(name)
    # Which data there are is the machine's affair; everything else is the code's.
    local = {"streams", "data"}
    wanted = {key: value for key, value in figure.settings(False).items() if key not in local}
    assert {key: value for key, value in result.settings.items() if key not in local} == wanted
    page = (DOCS / "reproduce.md").read_text()
    section = page.split(f"\n## {name}:")[1].split("\n## ")[0]
    assert f"    reticent reproduce {name}\n" in section
    assert f"(pictures/reproduce/{name}.svg)" in section
    blocks = re.findall(r"```text\n(.*?)\n```", section, flags=re.DOTALL)
    assert blocks
    words = [f"- {line}" for line in figure.findings(store.summarise(result.rows))]
    said = tables(figure, result) + "\n\n" + "\n".join(words)
    for block in blocks:
        for part in block.split("\n\n"):
            assert part in said
    panels = {panel.name for panel in figure.panels(result.settings)}
    assert panels == {row.panel for row in result.rows}
