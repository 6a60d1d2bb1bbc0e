"""The benchmark's own arithmetic, its files of data, and that the page is made of them and of nothing else."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

HOME = Path(__file__).resolve().parents[2] / "benchmarks"
NAMES = (
    "bench",
    "compare",
    "page",
    "glance",
    "excess",
    "table",
    "timing",
    "questions",
    "peers",
    "peers.environments",
    "peers.wire",
)


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    """The modules of the folder, which is no package, and no trace of them afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(HOME))
    try:
        import bench as program
        import compare
        import page
        import questions
        import table
        import timing
        from peers import environments

        yield SimpleNamespace(
            program=program, compare=compare, page=page, table=table, timing=timing, questions=questions,
            environments=environments,
        )  # fmt: skip
    finally:
        sys.path.remove(str(HOME))
        for name in set(sys.modules) - before:
            if name.split(".")[0] in NAMES:
                del sys.modules[name]


def made(bench: SimpleNamespace) -> object:
    Ratio, Mean = bench.timing.Ratio, bench.table.Mean
    table = bench.table.Table(
        "example", 3, "A title", ["what", "value", "share", "score"], "How to read it.",
        settings=["A setting."], facts={"mode": "quick", "load": [0.5, 1.25], "cores": 2},
    )  # fmt: skip
    table.add("a", 12345, Ratio(2.0, 0.04, 9), Mean(0.8612, 0.0123, 5))
    table.add("b", None, Ratio(0.5, 0.2, 9), Mean(0.5, math.nan, 1))
    table.add("c", math.inf, Ratio.exact(1.5), Mean(-2.5123e8, 1.04e7, 3))
    return table


class TestRatio:
    def test_is_the_median_of_ratios_not_the_ratio_of_medians(self, bench):
        first, second = np.array([1.0, 10.0, 4.0]), np.array([1.0, 5.0, 1.0])
        assert bench.timing.Ratio.of(first, second).value == 2.0
        assert np.median(first) / np.median(second) == 4.0

    def test_spread_is_the_interval_of_the_median(self, bench):
        # of 15 values those ranked 4 and 12 hold the median with 1 - 2 P(Bin(15, 1/2) <= 3) = 0.965
        values = np.arange(1.0, 16.0)
        found = bench.timing.Ratio.of(values, np.ones(15))
        assert found == bench.timing.Ratio(8.0, 0.5, 15)

    @pytest.mark.parametrize("count", [6, 9, 15, 40, 101])
    def test_interval_covers_the_median(self, bench, count):
        """By the binomial law: at least 95 %, and one rank further in would be less."""

        def covered(rank):
            return 1 - 2 * sum(math.comb(count, k) for k in range(rank + 1)) / 2.0**count

        rank = bench.timing._rank(count)
        assert covered(rank) >= 0.95 > covered(rank + 1)

    def test_few_rounds_give_the_whole_range(self, bench):
        assert bench.timing.Ratio.of(np.array([1.0, 2.0, 4.0]), np.ones(3)).spread == 1.0

    def test_more_rounds_narrow_it(self, bench):
        rng = np.random.default_rng(0)
        ratios = np.exp(0.3 * rng.standard_normal(200))
        few, many = (bench.timing.Ratio.of(ratios[:n], np.ones(n)).spread for n in (10, 200))
        assert many < few / 2

    def test_of_means_by_hand(self, bench):
        # the relative deviations are +-0.5 and -+0.1, in opposite directions
        found = bench.table.of_means([1.0, 3.0], [11.0, 9.0])
        assert found.value == pytest.approx(0.2)
        assert found.spread == pytest.approx(2 * 0.6 * math.sqrt(2) / math.sqrt(2))
        assert bench.table.of_means([2.0, 4.0], [1.0, 2.0]).spread == pytest.approx(0.0)


class TestMeasure:
    def test_takes_turns_and_stops_when_settled(self, bench):
        calls = []

        def task(name, seconds):
            def call():
                calls.append(name)
                return bench.timing.Clocked(seconds)

            return call

        tasks = {"a": task("a", 3.0), "b": task("b", 1.5)}
        found = bench.timing.measure(tasks, [("a", "b")], rounds=4, least=0.0)
        assert calls == ["a", "b"] + ["a", "b", "b", "a"] * 2
        assert bench.timing.Ratio.of(found["a"], found["b"]) == bench.timing.Ratio(2.0, 0.0, 4)

    def test_short_tasks_are_called_several_times_a_turn(self, bench):
        calls = []
        tasks = {"a": lambda: calls.append(0), "b": lambda: None}
        found = bench.timing.measure(tasks, [("a", "b")], rounds=3, least=0.0, seconds=0.0)
        assert len(found["a"]) == 3
        assert len(calls) > 3 * 10
        assert (found["a"] < bench.timing.SHORTEST).all()

    def test_goes_on_while_unsettled(self, bench):
        values = iter([1.0] * 4 + [9.0, 1.0] * 3 + [1.0] * 300)
        tasks = {
            "a": lambda: bench.timing.Clocked(next(values)),
            "b": lambda: bench.timing.Clocked(1.0),
        }
        assert len(bench.timing.measure(tasks, [("a", "b")], rounds=6, least=0.0)["a"]) > 6

    def test_time_runs_out(self, bench):
        values = iter(np.random.default_rng(0).random(10_000) + 1e-3)
        tasks = {
            "a": lambda: bench.timing.Clocked(next(values)),
            "b": lambda: bench.timing.Clocked(1.0),
        }
        assert len(bench.timing.measure(tasks, [("a", "b")], rounds=5, seconds=0.0)["a"]) == 5


class TestRepeat:
    def test_adds_seeds_until_the_ratio_has_settled(self, bench):
        # deviations of 0.4: 2 * 0.4 / sqrt(count) falls to 0.15 near 28 seeds
        pairs = [("a", "b")]

        def sample(seed):
            return {"a": 1.4 if seed % 2 else 0.6, "b": 1.0}

        found = bench.table.repeat(sample, pairs, least=3, most=200)
        assert 27 <= len(found["a"]) <= 31
        assert bench.table.of_means(found["a"], found["b"]).spread <= bench.timing.SPREAD
        assert len(bench.table.repeat(sample, pairs, least=3, most=5)["a"]) == 5

    def test_seeds_do_not_depend_on_the_speed_of_the_machine(self, bench, monkeypatch):
        now = iter(range(0, 10**9, 10**6))
        monkeypatch.setattr(bench.table.time, "perf_counter", lambda: next(now))
        found = bench.table.repeat(
            lambda seed: {"a": 1.0 + seed % 2, "b": 1.0}, [("a", "b")], least=3, most=500
        )
        assert len(found["a"]) > 10
        assert bench.table.of_means(found["a"], found["b"]).spread <= bench.timing.SPREAD


class TestPooledRatio:
    def pooled(self, bench, values, spreads=None):
        spreads = spreads or [0.01] * len(values)
        parts = [bench.timing.Ratio(v, s, 9) for v, s in zip(values, spreads, strict=True)]
        return bench.timing.Ratio.pooled(parts)

    def test_is_the_median_of_the_processes(self, bench):
        assert self.pooled(bench, [2.0, 2.1, 1.9]).value == pytest.approx(2.0)
        # the middle between two on the scale of ratios, on which 1/2 and 2 are equally far from 1
        assert self.pooled(bench, [0.5, 2.0]).value == pytest.approx(1.0)
        assert self.pooled(bench, [2.0, 2.1, 1.9]).rounds == 27

    def test_spread_is_at_least_the_floor(self, bench):
        assert self.pooled(bench, [2.0, 2.0, 2.0], [0.0] * 3).spread == bench.timing.FLOOR

    def test_spread_is_at_least_that_within_a_process(self, bench):
        assert self.pooled(bench, [2.0] * 3, [0.3, 0.1, 0.2]).spread == pytest.approx(0.2)
        # four times the rounds: half the spread
        assert self.pooled(bench, [2.0] * 12, [0.2] * 12).spread == pytest.approx(0.1)

    def test_spread_is_twice_what_the_processes_differ_by(self, bench):
        found = self.pooled(bench, [1.0, 1.01, 1.1])
        assert found.value == pytest.approx(1.01)
        assert found.spread == pytest.approx((1.1 / 1.01) ** 2 - 1.0)
        # it always reaches each of them
        assert found.value * (1.0 + found.spread) > 1.1

    def test_one_odd_process_of_five_does_not_decide(self, bench):
        assert self.pooled(bench, [1.0, 1.0, 1.01, 1.0, 2.0]).spread == bench.timing.FLOOR
        assert self.pooled(bench, [1.0, 1.0, 1.0, 2.0]).spread > 1.0
        assert self.pooled(bench, [1.0, 1.0, 1.0, 2.0, 2.0]).spread > 1.0

    def run(self, bench, rng, deviation, shift=0.0):
        """A ratio of one, with as many processes as it takes to settle, or as there may be."""
        parts = []
        while True:
            value = math.exp(shift + deviation * rng.standard_normal())
            parts.append(bench.timing.Ratio(value, 0.01, 9))
            if len(parts) < bench.timing.PROCESSES:
                continue
            found = bench.timing.Ratio.pooled(parts)
            if found.spread <= bench.timing.SPREAD or len(parts) == bench.timing.MOST_PROCESSES:
                return found

    def test_two_runs_agree_as_often_as_claimed(self, bench):
        """Of 150 ratios none differs by chance, in 99 % of comparisons.

        The deviations between processes are as measured: 3.2 % at the median, 3.6 % over all. One ratio in 15,000 may
        differ; here as many are compared, and 10 or more of them would differ with probability 1.1e-7.
        """
        rng = np.random.default_rng(0)
        different = 0
        for deviation in 0.032 * np.exp(0.35 * rng.standard_normal(15_000)):
            old, new = (self.run(bench, rng, deviation) for _ in range(2))
            different += not bench.compare.Pair("", old, new).agree
        assert different < 10

    def test_what_does_differ_is_found(self, bench):
        # the floors allow 0.08 + 0.08 * 1.28 of the 0.28; ten deviations and more are missing
        rng = np.random.default_rng(0)
        for _ in range(100):
            old, new = self.run(bench, rng, 0.005), self.run(bench, rng, 0.005, shift=0.25)
            assert not bench.compare.Pair("", old, new).agree


class TestPooledTable:
    def part(self, bench, number, ratio, exponent, share=1.5, words="a", bytes_sent=10):
        Ratio, Mean, Measured = bench.timing.Ratio, bench.table.Mean, bench.timing.Measured
        columns = ["what", "ms", "share", "exponent", "formula", "bytes", "none"]
        table = bench.table.Table("example", 3, "A title", columns, "How to read it.")
        table.facts = {"seconds": 10.0, "load": [ratio, number], "mode": "quick"}
        exact = Ratio.exact(share)
        table.add(words, Measured(number, 9), Ratio(ratio, 0.01, 9), Mean(exponent, 0.01, 5), exact,
                  bytes_sent, None)  # fmt: skip
        return table

    def test_by_hand(self, bench):
        parts = [
            self.part(bench, 5.0, 2.0, 1.0),
            self.part(bench, 7.0, 2.02, 1.2),
            self.part(bench, 6.0, 1.98, 0.8, share=1.5 * (1 + 1e-12)),
        ]
        whole = bench.table.pooled(parts)
        (row,) = whole.rows
        assert row[0] == "a"
        assert row[1] == bench.timing.Measured(6.0, 27)
        assert row[2].value == pytest.approx(2.0)
        # three exponents that are 0.2 apart have a standard deviation of 0.2
        assert row[3].value == 1.0
        assert row[3].error == pytest.approx(0.2 / math.sqrt(3))
        assert row[4] == bench.timing.Ratio.exact(1.5)
        assert row[5:] == [10, None]
        assert whole.facts == {"processes": 3, "seconds": 30.0, "load": [2.0, 6.0], "mode": "quick"}
        whole.facts["cores"] = 2
        assert "3 processes · 30 s" in bench.table.render(whole)
        assert len(parts[0].rows) == 1
        assert parts[0].facts["seconds"] == 10.0

    @pytest.mark.parametrize(
        ("more", "named"),
        [({"share": 1.6}, "formula"), ({"words": "b"}, "what"), ({"bytes_sent": 11}, "bytes")],
    )
    def test_what_is_not_measured_must_not_differ(self, bench, more, named):
        parts = [self.part(bench, 5.0, 2.0, 1.0), self.part(bench, 5.0, 2.0, 1.0, **more)]
        with pytest.raises(ValueError, match=f"example, row 1, '{named}'.*must not differ"):
            bench.table.pooled(parts)

    def test_refuses_tables_of_other_shapes(self, bench):
        parts = [self.part(bench, 5.0, 2.0, 1.0) for _ in range(3)]
        parts[1].rows = parts[1].rows * 2
        with pytest.raises(ValueError, match="processes made tables of different shapes"):
            bench.table.pooled(parts)

    def test_one_process_is_left_as_it_is(self, bench):
        part = self.part(bench, 5.0, 2.0, 1.0)
        assert bench.table.pooled([part]) is part


class TestProcesses:
    """Which tables are made how often, by a stand-in for the process that makes one."""

    @pytest.fixture
    def make(self, bench, tmp_path, monkeypatch):
        asked = []

        def made(name, full):
            values = bench.answers[name]
            value = values[min(asked.count(name), len(values) - 1)]
            asked.append(name)
            if value is None:
                raise subprocess.CalledProcessError(1, "bench.py")
            table = bench.table.Table(name, 3, name, ["share"], "")
            table.facts = {"seconds": 1.0, "load": [0.0, 0.0], "cores": 2, "mode": "quick"}
            table.add(bench.timing.Ratio(value, 0.01, 9))
            return table

        monkeypatch.setattr(bench.program, "make_apart", made)

        def run(**answers):
            bench.answers = answers
            failed = bench.program.make_all(list(answers), False, tmp_path)
            return asked, failed, {each.name: each for each in bench.table.load(tmp_path)}

        return run

    def test_several_where_times_are_measured_in_turns(self, make):
        asked, failed, found = make(windows=[1.0], fits=[2.0, 2.02, 1.98], minimizers=[1.0])
        assert asked == ["windows"] + ["fits", "minimizers"] * 3
        assert not failed
        assert found["fits"].rows[0][0].value == pytest.approx(2.0)
        assert found["fits"].facts["processes"] == 3
        assert "processes" not in found["windows"].facts

    def test_more_until_the_ratio_has_settled(self, make):
        asked, _, found = make(fits=[1.0, 1.3, 1.0])
        assert asked == ["fits"] * 5
        assert found["fits"].loose == 0
        assert found["fits"].facts["processes"] == 5

    def test_not_for_ever(self, make, capsys):
        asked, _, found = make(fits=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
        assert len(asked) == 6
        assert found["fits"].loose == 1
        assert "4 of 4: fits, process 4" in capsys.readouterr().out

    def test_a_failure_stops_its_own_table_only(self, make):
        asked, failed, found = make(fits=[1.0, None], minimizers=[1.0])
        assert failed == ["fits"]
        assert asked.count("fits") == 2
        assert list(found) == ["minimizers"]

    def test_one_process_is_no_result(self, bench):
        command = [sys.executable, str(HOME / "bench.py"), "--here", "--table", "windows"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 2
        assert "--into says where" in done.stderr

    def test_a_process_makes_a_table(self, bench):
        made = bench.program.make_apart("windows", False)
        assert made.name == "windows"
        assert made.facts["mode"] == "quick"


class TestTable:
    def test_rendering(self, bench):
        lines = bench.table.render(made(bench)).splitlines()
        assert lines[4:8] == [
            "| what | value | share | score |",
            "|:--|--:|--:|--:|",
            "| a | 12,345 | 2 × ± 4 % | 0.861 ± 0.012 |",
            "| b | – | 0.500 × ± 20 % (!) | 0.500 |",
        ]
        assert lines[8] == "| c | ∞ | 1.50 × | −2.51e8 ± 1.04e7 |"
        assert "`python benchmarks/bench.py --table example`" in lines[-1]
        assert "load average 0.5 before, 1.2 after, 2 cores" in lines[-1]

    @pytest.mark.parametrize(
        ("value", "text"),
        [(0.0, "0"), (3.14159, "3.14"), (31.4159, "31.4"), (314.159, "314"), (0.0123456, "0.0123"),
         (1234567.8, "1.23e6"), (1.5e-7, "1.50e−7"), (-2.25, "−2.25"), (1e6, "1,000,000")],
    )  # fmt: skip
    def test_numbers(self, bench, value, text):
        assert bench.table.number(value) == text

    def test_full_mode_is_part_of_the_command(self, bench):
        table = made(bench)
        table.facts["mode"] = "full"
        assert bench.table.command(table) == "python benchmarks/bench.py --full --table example"

    def test_goes_through_json(self, bench, tmp_path):
        table = made(bench)
        path = table.save(tmp_path)
        json.loads(path.read_text(), parse_constant=pytest.fail)  # strict JSON: no NaN, no Infinity
        (again,) = bench.table.load(tmp_path)
        assert bench.table.render(again) == bench.table.render(table)
        assert bench.table.to_dict(again) == bench.table.to_dict(table)

    def test_ratios_that_did_not_settle_are_counted(self, bench):
        assert made(bench).loose == 1

    def test_refuses_a_row_of_another_length(self, bench):
        with pytest.raises(ValueError, match="3 cells for 4 columns"):
            made(bench).add(1, 2, 3)

    def test_refuses_another_schema(self, bench):
        with pytest.raises(ValueError, match="run the bench again"):
            bench.table.from_dict({"schema": 0})


class TestResults:
    def files(self):
        return sorted((HOME / "results" / "tables").glob("*.json"))

    def test_follow_the_schema(self, bench):
        for path in self.files():
            data = json.loads(path.read_text(), parse_constant=pytest.fail)
            table = bench.table.from_dict(data)
            assert table.name == path.stem
            assert table.question in bench.questions.TITLES
            assert table.rows
            assert table.facts["mode"] in ("quick", "full")
            assert {"load", "cores", "processor", "seconds", "day", "versions"} <= set(table.facts)
            for cell in (cell for row in data["rows"] for cell in row if isinstance(cell, dict)):
                numbers = {
                    "ratio": {"value", "spread", "rounds"},
                    "mean": {"value", "error", "repeats"},
                    "measured": {"value", "rounds"},
                }
                assert set(cell) == {"kind"} | numbers[cell["kind"]]

    def test_each_has_a_maker(self, bench):
        assert {path.stem for path in self.files()} <= set(bench.questions.TABLES)
        for name, (question, module) in bench.questions.TABLES.items():
            text = (HOME / "questions" / f"{module}.py").read_text()
            assert f"def {name}(run: Run) -> Table:" in text
            assert f"\nQUESTION = {question}\n" in text
            # what several processes make is what is timed, and nothing else is
            assert bench.questions.timed(name) == ("measure(" in text)

    def test_page_is_what_the_results_say(self, bench):
        """Nobody types a number: run ``python benchmarks/bench.py --page`` after a change of wording."""
        tables, full = bench.table.load(), bench.table.load(bench.table.FULL)
        assert bench.page.PAGE.read_text() == bench.page.text(tables, full)
        assert bench.page.FIRST.read_text() == bench.page.first(tables)

    def test_a_verdict_counts_what_is_beyond_its_spread(self, bench):
        Ratio = bench.timing.Ratio
        table = bench.table.Table(
            "fits", 3, "Fits", ["data", "ours / diffprivlib", "ours / scikit-learn"], ""
        )
        for value, spread in ((0.5, 0.1), (0.97, 0.08), (1.25, 0.1), (1.002, math.nan)):
            table.add("somewhere", Ratio(value, spread, 3), None)
        row = next(
            line for line in bench.page.glance.section([table]).split("\n") if "diffprivlib" in line
        )
        assert "| 0.8 | 1.13 | 2 | 1 of 4 | 1 of 4 |" in row


class TestCompare:
    def pair(self, bench, old, new):
        return bench.compare.Pair("somewhere", bench.timing.Ratio(*old), bench.timing.Ratio(*new))

    def test_agree_where_the_intervals_touch(self, bench):
        # 1 +- 0.05 reaches 1.05; b - 0.05 b reaches down to it from b = 1.05 / 0.95
        assert self.pair(bench, (1.0, 0.05, 9), (1.105, 0.05, 9)).agree
        assert not self.pair(bench, (1.0, 0.05, 9), (1.106, 0.05, 9)).agree
        assert self.pair(bench, (1.0, 0.05, 9), (0.9, 0.06, 9)).apart == pytest.approx(0.1 / 0.104)

    def test_no_spread_allows_nothing(self, bench):
        assert self.pair(bench, (1.5, 0.0, 0), (1.5, 0.0, 0)).agree
        assert not self.pair(bench, (1.5, 0.0, 0), (1.501, 0.0, 0)).agree
        assert not self.pair(bench, (1.5, 0.0, 5), (1.6, 0.0, 5)).agree
        assert not self.pair(bench, (1.5, math.nan, 1), (1.6, math.nan, 1)).agree

    def test_finds_what_differs_and_where(self, bench, tmp_path, capsys):
        made(bench).save(tmp_path / "old")
        made(bench).save(tmp_path / "new")
        assert bench.compare.report(tmp_path / "old", tmp_path / "new")
        other = made(bench)
        other.rows[0][2] = bench.timing.Ratio(3.0, 0.04, 9)
        other.save(tmp_path / "new")
        assert not bench.compare.report(tmp_path / "old", tmp_path / "new")
        (line,) = (row for row in capsys.readouterr().out.splitlines() if "DIFFER" in row)
        assert "example: a, 12345: share: 2 × ± 4 %, 3 × ± 4 %" in line

    def test_refuses_other_work(self, bench, tmp_path):
        full = made(bench)
        full.facts["mode"] = "full"
        full.save(tmp_path / "old")
        made(bench).save(tmp_path / "new")
        with pytest.raises(ValueError, match="another mode"):
            bench.compare.report(tmp_path / "old", tmp_path / "new")
        shorter = made(bench)
        del shorter.rows[-1]
        shorter.save(tmp_path / "old")
        with pytest.raises(ValueError, match="2 rows and 3"):
            bench.compare.report(tmp_path / "old", tmp_path / "new")
        with pytest.raises(ValueError, match="no table in both"):
            bench.compare.report(tmp_path / "nothing", tmp_path / "new")

    @pytest.mark.parametrize(("value", "status"), [(2.0, 0), (3.0, 1)])
    def test_command_says_so_by_its_status(self, bench, tmp_path, value, status):
        made(bench).save(tmp_path / "old")
        other = made(bench)
        other.rows[0][2] = bench.timing.Ratio(value, 0.04, 9)
        other.save(tmp_path / "new")
        command = [sys.executable, str(HOME / "bench.py"), "--compare", str(tmp_path / "old")]
        done = subprocess.run(
            [*command, "--into", str(tmp_path / "new")], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == status, done.stderr


class TestPeers:
    def test_every_requirement_is_pinned(self, bench):
        for name in bench.environments.NAMES:
            lines = bench.environments.requirements(name).read_text().split()
            assert lines
            assert all(line.count("==") == 1 for line in lines)
            assert (HOME / "peers" / f"worker_{name}.py").exists()

    def test_unknown_peer_is_refused(self, bench):
        with pytest.raises(ValueError, match="must be one of"):
            bench.environments.ensure("nobody")

    def test_wire_answers_and_survives_a_failure(self):
        script = (
            "import sys; sys.path.insert(0, sys.argv[1]); from wire import serve; "
            "print('noise on stdout'); serve({'double': lambda x: {'y': 2 * x}})"
        )
        asked = '{"task": "double", "x": 21}\n{"task": "nothing"}\n{"task": "double", "x": 1}\n'
        done = subprocess.run(
            [sys.executable, "-c", script, str(HOME / "peers")], input=asked, capture_output=True,
            text=True, timeout=60,
        )  # fmt: skip
        answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        assert answers[0] == {"y": 42}
        assert "KeyError" in answers[1]["failed"]
        assert answers[2] == {"y": 2}
