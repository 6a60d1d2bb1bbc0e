"""Look at every page of the built documentation in a real browser: light and dark, wide and on a telephone.

    python scripts/look.py site [--out pictures] [--only PART]

Says which pages are wider than the window, have a picture that does not load, text that stands on a colour it can
hardly be told from, or a script that fails; exits with 1 if there is one. ``--out`` keeps a picture of each page.
Needs Playwright and an installed Chromium.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LOOKS = {"light": (1280, "light"), "dark": (1280, "dark"), "telephone": (390, "light")}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
LEAST_CONTRAST = 3.0
"""Of large text, by the Web Content Accessibility Guidelines 2.1; what is below is hard to read at any size."""

FAULTS = """
(least) => {
  const found = [];
  const room = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > room + 1)
    found.push(`${document.documentElement.scrollWidth} px wide in a window of ${room} px`);
  for (const picture of document.querySelectorAll("article img"))
    if (picture.complete && picture.naturalWidth === 0 && picture.offsetParent !== null)
      found.push(`a picture does not load: ${picture.getAttribute("src")}`);
  const parts = (text) => {
    const numbers = text.match(/[\\d.]+/g).map(Number);
    return [numbers[0], numbers[1], numbers[2], numbers.length > 3 ? numbers[3] : 1];
  };
  const light = (colour) => {
    const part = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(colour[0]) + 0.7152 * part(colour[1]) + 0.0722 * part(colour[2]);
  };
  const behind = (node) => {
    const layers = [];
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if (!/^rgb/.test(colour)) return null;
      layers.push(parts(colour));
      if (layers[layers.length - 1][3] === 1) break;
    }
    let under = [255, 255, 255];
    for (const layer of layers.reverse())
      under = under.map((c, i) => layer[3] * layer[i] + (1 - layer[3]) * c);
    return under;
  };
  const seen = new Set();
  const walker = document.createTreeWalker(document.querySelector("article") || document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !node || node.offsetParent === null) continue;
    const style = getComputedStyle(node);
    if (!/^rgb/.test(style.color) || Number(style.opacity) < 1 || node.closest(".headerlink, svg")) continue;
    const under = behind(node);
    if (under === null) continue;
    const ink = parts(style.color);
    const seenAs = under.map((c, i) => ink[3] * ink[i] + (1 - ink[3]) * c);
    const [a, b] = [light(seenAs), light(under)];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const words = walker.currentNode.textContent.trim().slice(0, 40);
    if (contrast < least && !seen.has(style.color + under)) {
      seen.add(style.color + under);
      found.push(`contrast ${contrast.toFixed(1)} of "${words}"`);
    }
  }
  return found;
}
"""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder, while it lasts."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def look(
    places: Mapping[str, str], out: Path | None, arrive: Callable[[Any], None] = lambda page: None
) -> list[str]:
    """What is wrong with pages, by their names and addresses; `arrive` does what is needed after opening one."""
    from playwright.sync_api import sync_playwright

    browser_path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    wrong: list[str] = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for look_name, (width, scheme) in LOOKS.items():
            context = browser.new_context(
                viewport={"width": width, "height": 900}, color_scheme=scheme
            )
            page = context.new_page()
            failed: list[str] = []
            page.on("pageerror", lambda error, failed=failed: failed.append(str(error)))
            for name, address in places.items():
                page.goto(address, wait_until="load")
                arrive(page)
                faults = [*page.evaluate(FAULTS, LEAST_CONTRAST), *failed]
                failed.clear()
                wrong += [f"{name}, {look_name}: {fault}" for fault in faults]
                if out is not None:
                    out.mkdir(parents=True, exist_ok=True)
                    picture = out / f"{name.replace('/', '-')}-{look_name}.png"
                    page.screenshot(path=str(picture), full_page=True)
            context.close()
        browser.close()
    return wrong


def look_at_site(site: Path, out: Path | None, only: str) -> list[str]:
    """What is wrong with the pages of a folder."""
    pages = sorted(path.parent.relative_to(site).as_posix() for path in site.rglob("index.html"))
    with served(site) as address:
        places = {
            "home" if page == "." else page: f"{address}{page}/" for page in pages if only in page
        }
        return look(places, out)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("site", type=Path, help="The folder that mkdocs has built.")
    parser.add_argument("--out", type=Path, help="Where to keep pictures.")
    parser.add_argument("--only", default="", help="Only pages whose address has this in it.")
    options = parser.parse_args()
    wrong = look_at_site(options.site, options.out, options.only)
    print("\n".join(wrong) or "nothing to mend")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
