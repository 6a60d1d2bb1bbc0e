"""The page in a real browser, light and dark: it renders, and the console stays silent."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest

from reticent import Budget, sums
from reticent.plots.over_time import over_time
from reticent.report import Page

BROWSER = next(
    (b for b in ("chromium", "chromium-browser", "google-chrome", "chrome") if shutil.which(b)),
    None,
)
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no chromium or chrome on this machine to load the page with"
)


def browse(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    assert BROWSER is not None
    quiet = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    where = [f"--user-data-dir={home / 'profile'}", "--enable-logging=stderr", "--v=0"]
    return subprocess.run(
        [BROWSER, *quiet, *where, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
        env={**os.environ, "HOME": str(home)},
    )


def pixels(path: Path) -> np.ndarray:
    """An 8-bit RGB or RGBA PNG without interlacing, as browsers write them."""
    data = path.read_bytes()
    at, packed = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
        elif kind == b"IDAT":
            packed += body
        at += 12 + size
    assert depth == 8
    channels = {2: 3, 6: 4}[colour]
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + width * channels)
    out = np.zeros((height, width * channels), np.int64)
    before = np.zeros(width * channels, np.int64)
    for y, row in enumerate(rows):
        kind, line = int(row[0]), row[1:].astype(np.int64)
        if kind == 2:
            line = line + before
        elif kind in (1, 3, 4):
            for x in range(line.size):
                left = line[x - channels] if x >= channels else 0
                corner = before[x - channels] if x >= channels else 0
                up = before[x]
                if kind == 1:
                    line[x] += left
                elif kind == 3:
                    line[x] += (left + up) // 2
                else:
                    guess = left + up - corner
                    near = [abs(guess - v) for v in (left, up, corner)]
                    line[x] += (left, up, corner)[near.index(min(near))]
                line[x] %= 256
        out[y] = before = line % 256
    return out.reshape(height, width, channels)[:, :, :3]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("page")
    page = Page("Rendered", "by a browser")
    page.figure(over_time([1, 10, 100], {"a": [1, 2, 3], "b": [3, 2, 1]}, measure="x"), "lines")
    page.table(["a", "b"], [["1", "2"]], kind="diagnostic")
    page.guarantee(sums.Tree(2, 64, budget=Budget(1.0, 1e-6)).guarantee)
    return page.write(home / "page.html")


def test_it_renders_without_a_word_on_the_console(page: Path) -> None:
    done = browse(page.parent, "--dump-dom", page.as_uri())
    assert "CONSOLE" not in done.stderr, done.stderr
    assert "<svg" in done.stdout
    assert done.stdout.count('class="tag diagnostic"') == 2
    # the probe works: a page that the policy forbids to fetch is told so on the console
    bad = page.with_name("bad.html")
    bad.write_text(
        page.read_text().replace("</main>", '<img src="https://example.org/x.png"></main>')
    )
    done = browse(page.parent, "--dump-dom", bad.as_uri())
    assert re.search("CONSOLE.*Content Security Policy", done.stderr)


def test_it_is_light_and_dark(page: Path) -> None:
    means = []
    for scheme in (1, 0):
        shot = page.with_name(f"shot-{scheme}.png")
        browse(
            page.parent,
            f"--blink-settings=preferredColorScheme={scheme}",
            "--window-size=300,400",
            f"--screenshot={shot}",
            page.as_uri(),
        )
        image = pixels(shot)
        means.append(image.mean())
        assert image.std() > 10.0  # not a blank sheet
    assert means[0] > 200.0
    assert means[1] < 80.0
