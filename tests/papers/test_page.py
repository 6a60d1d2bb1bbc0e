"""The sentences of docs/reproduce.md that hold measured numbers hold those of the stored results."""

from __future__ import annotations

from pathlib import Path

import pytest

from reticent.papers.figures import store

DOCS = Path(__file__).parents[2] / "docs"
PAGE = " ".join((DOCS / "reproduce.md").read_text("utf-8").split())


def means(figure: str) -> dict[tuple[str, str, str, float | None], float]:
    rows = store.read(DOCS / "pictures" / "reproduce" / f"{figure}.json").rows
    return {(one.panel, one.series, one.variant, one.x): one.mean for one in store.summarise(rows)}


def span(values: list[float]) -> str:
    return f"{min(values):.0f} to {max(values):.0f}"


def test_factors_of_linear_regression() -> None:
    found = {(key[2], key[3]): value for key, value in means("online-2a").items()}
    epsilons = [0.01, 0.1, 1.0, 10.0]
    exact = [found["published", e] / found["corrected", e] for e in epsilons]
    ours = [found["corrected", e] / found["ours", e] for e in epsilons]
    assert f"by a factor of {span(exact)};" in PAGE
    assert f"by another {span(ours)}." in PAGE
    clean = found.get(("not private", 10.0)) or found["not private", None]
    word = {2: "two", 3: "three", 4: "four"}[round(found["ours", 10.0] / clean)]
    assert f"At epsilon 10, ours has {word} times the regret of no privacy" in PAGE


def test_numbers_of_the_window() -> None:
    found = means("window-1")
    published, ours = (
        next(v for k, v in found.items() if (k[0], k[2], k[3]) == ("project/T", name, 2.0**15))
        for name in ("published", "ours")
    )
    assert f"a regret of {published:.0f}, compared with {ours:.0f} for the same" in PAGE


def test_numbers_of_the_bandit() -> None:
    text = (DOCS / "reproduce.md").read_text("utf-8")
    section = text.split("## bandit-1")[1].split("\n## ")[0]
    last = {
        line[:31].strip(): line[31:].split("  ")
        for line in section.splitlines()
        if line.startswith(("corrected ", "paper's centring"))
    }
    corrected, clean = (
        float([cell for cell in cells if cell.strip()][3].split()[0]) for cells in last.values()
    )
    assert f"({corrected:.2f} compared with {clean:.2f} after 65,536 plays)" in PAGE


def test_bytes_of_the_parties() -> None:
    found = {(key[0], key[2], key[3]): value for key, value in means("vertical-1").items()}
    at = ("uplink/240", 10_000.0)
    sketched = next(v for k, v in found.items() if (k[0], k[2]) == at and "sketched once" in k[1])
    ratio = sketched / found["uplink/240", "ours", 10_000.0]
    assert f"{ratio:.1f} times as many with 240 columns and 10,000 records" in PAGE


@pytest.mark.parametrize("name", ["corrected", "ours"])
def test_with_a_window_regret_hardly_grows(name: str) -> None:
    found = means("window-1")
    line = {k[3]: v for k, v in found.items() if (k[0], k[2]) == ("project/T", name)}
    assert line[2.0**15] / line[2.0**14] < 15 / 14 + 0.02  # no faster than ln T, up to its error
