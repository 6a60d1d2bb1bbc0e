"""The page in a real browser: create a stream, send records, see the picture move, run out of budget, read why."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from reticent.service.problems import Problem

from .running import SCHEMA, Service, records, specification

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright drives the browser; it is not installed"
)
BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome", "chrome") if (path := shutil.which(name))),
    None,
)  # fmt: skip
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no chromium or chrome on this machine to load the page with"
)
EVIL = "<script>window.evil = 1</script><img src=x onerror='window.evil = 1'>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        # no sandbox inside a container that runs as root
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(executable_path=BROWSER, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A running service that may hold tables."""
    home = tmp_path_factory.mktemp("page")
    (home / "tables").mkdir()
    service = Service(home / "data", "--tables", str(home / "tables"))
    yield service
    service.kill()


@pytest.fixture
def open_page(browser: Any, service: Service) -> Iterator[Any]:
    """Opens pages that are signed in; afterwards nothing but refusals may be on their consoles."""
    contexts: list[Any] = []
    said: list[str] = []

    def make(token: str | None = None, **options: Any) -> Any:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.goto(service.url)
        page.get_by_label("Token").fill(service.token if token is None else token)
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Streams").wait_for()
        return page

    yield make
    for context in contexts:
        context.close()
    assert [line for line in said if "status of 4" not in line] == []


def go(page: Any, service: Service, place: str, heading: str) -> None:
    page.goto(f"{service.url}/#/{place}")
    page.get_by_role("heading", name=heading, exact=True, level=1).wait_for()


def test_create_send_look_and_run_out(service: Service, open_page: Any) -> None:
    service.client().call(
        "POST", "/v1/ledgers", {"name": "shop", "budget": {"epsilon": 1.2, "delta": 1e-6, "window": 1024}}
    )  # fmt: skip
    page = open_page()
    page.get_by_role("link", name="Create a stream").click()

    def fill(name: str) -> None:
        page.get_by_label("Name", exact=True).fill(name)
        columns = page.get_by_role("group", name="Column")
        columns.nth(0).get_by_label("Name of the column").fill("age")
        columns.nth(0).get_by_label("Least value").fill("18")
        columns.nth(0).get_by_label("Largest value").fill("100")
        columns.nth(1).get_by_label("Name of the column").fill("spent")
        page.get_by_label("Ledger that pays").select_option("shop")

    fill("till")
    said = page.get_by_role("alert")
    page.get_by_role("button", name="What would it cost?").click()
    playwright.expect(said).to_contain_text("It would guarantee epsilon = 1")
    playwright.expect(said).to_contain_text("Its ledger can pay")
    assert "till" not in [one["name"] for one in service.client().streams()]
    page.get_by_role("button", name="Create", exact=True).dblclick()
    playwright.expect(said).to_contain_text("till")
    page.get_by_role("button", name="Create", exact=True).click()
    playwright.expect(said).to_contain_text("there already")
    charged = [one for one in service.client().ledgers() if one["name"] == "shop"]
    assert [len(one["entries"]) for one in charged] == [1]

    page.get_by_role("link", name="Open till").click()
    page.get_by_role("heading", name="till", exact=True).wait_for()
    picture = page.locator("figure", has_text="Coefficients").locator("svg.picture")
    before = picture.inner_html()
    rows = "\n".join(
        f'{{"id": "r{k}", "x": {{"age": {20 + k}}}, "y": {"true" if k > 5 else "false"}}}'
        for k in range(12)
    )
    page.get_by_label("Records, one JSON object per line").fill(rows)
    page.get_by_role("button", name="Send").click()
    playwright.expect(page.get_by_role("alert")).to_contain_text("12 accepted")
    playwright.expect(picture).to_have_attribute("aria-label", re.compile("at 12 records"))
    assert picture.inner_html() != before
    # and again when another client sends
    service.client().send(
        "till", [{"id": f"more {k}", "x": {"age": 30}, "y": True} for k in range(8)]
    )
    playwright.expect(picture).to_have_attribute("aria-label", re.compile("at 20 records"))
    playwright.expect(page.locator(".facts")).to_contain_text("20")
    # the table behind the picture says the same
    page.locator("figure", has_text="Coefficients").get_by_text("As a table").click()
    newest = page.locator("figure", has_text="Coefficients").locator("tbody tr").first
    playwright.expect(newest).to_contain_text("20")

    go(page, service, "new", "Create a stream")
    fill("till-2")
    page.get_by_role("button", name="Create", exact=True).click()
    playwright.expect(said).to_contain_text("does not fit in what is left of the budget")
    assert "till-2" not in [one["name"] for one in service.client().streams()]
    go(page, service, "ledgers", "Ledgers")
    meter = page.get_by_role("meter", name="per cent of the budget of shop is spent")
    assert 60 < int(meter.get_attribute("aria-valuenow")) < 100
    playwright.expect(page.locator(".card", has_text="shop")).to_contain_text("room for")


def test_nothing_that_a_schema_says_becomes_markup(service: Service, open_page: Any) -> None:
    number = {"type": "number", "bounds": [0, 1]}
    budget = {"epsilon": 1.0, "delta": 1e-6, "window": 64}
    columns = {EVIL: number, "kind": {"type": "category", "values": ["a", "b", EVIL]}}
    client = service.client()
    client.create({"name": "hostile", "kind": "total", "schema": {"columns": columns}, "budget": budget})  # fmt: skip
    client.create(specification("hostile-2", schema={"target": "y" + EVIL, "columns": {
        EVIL: number, "y" + EVIL: {"type": "category", "values": ["u", "v", EVIL]}}}))  # fmt: skip
    client.send("hostile", [{"id": EVIL, "x": {EVIL: 0.5, "kind": EVIL}}])
    client.call("POST", "/v1/tokens", {"role": "reader", "label": EVIL})
    page = open_page()
    for place, heading in (
        ("streams/hostile", "hostile"), ("streams/hostile-2", "hostile-2"), ("tokens", "Tokens"),
        ("ledgers", "Ledgers"), ("jobs", "Jobs"), ("log", "Who did what"),
    ):  # fmt: skip
        go(page, service, place, heading)
        for summary in page.locator("summary").all():
            summary.click()
        assert page.evaluate("window.evil") is None
        assert page.locator("main img, main script").count() == 0
    go(page, service, "streams/hostile", "hostile")
    playwright.expect(page.locator("main")).to_contain_text(EVIL)
    page.goto(f"{service.url}/#/streams/{EVIL}")
    playwright.expect(page.get_by_role("alert")).to_contain_text("there is no stream")
    assert page.evaluate("window.evil") is None


def test_the_policy_stops_markup_even_if_a_script_wrote_it(service: Service, browser: Any) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(service.url)
    page.get_by_label("Token").wait_for()
    refused = page.evaluate(
        "() => { try { document.body.innerHTML = '<b>x</b>'; return false; } catch { return true; } }"
    )
    assert refused
    assert page.evaluate("document.cookie") == ""
    context.close()


def test_diagnostics_are_for_the_data_holder_and_marked(service: Service, open_page: Any) -> None:
    client = service.client()
    client.create(specification("watched"))
    client.send("watched", records(0, 9))
    page = open_page()
    go(page, service, "streams/watched", "watched")
    assert page.get_by_role("heading", name="Diagnostics").count() == 0
    holder = client.call("POST", "/v1/tokens", {"role": "data holder", "label": "holder"})["token"]
    page = open_page(holder)
    assert page.get_by_role("link", name="Tokens").count() == 0
    go(page, service, "streams/watched", "watched")
    section = page.locator("section.private")
    playwright.expect(section).to_contain_text("reads private data")
    section.get_by_role("button", name="Show").click()
    playwright.expect(section.locator("tbody")).to_contain_text("features clipped")
    playwright.expect(section).to_contain_text("no guarantee covers")


def test_tokens_are_made_shown_once_and_revoked(service: Service, open_page: Any) -> None:
    service.client().create(specification("granted"))
    page = open_page()
    go(page, service, "tokens", "Tokens")
    page.get_by_label("Label").fill("till 7")
    page.get_by_label("Streams").select_option("granted")
    page.get_by_role("button", name="Make a token").dblclick()
    shown = page.locator("code.token")
    shown.wait_for()
    token = shown.inner_text()
    every = service.client().call("GET", "/v1/tokens")["tokens"]
    rows = [one for one in every if one["label"] == "till 7"]
    assert len(rows) == 1
    assert rows[0]["streams"] == ["granted"]
    service.client(token).send("granted", records(0, 1))
    page.get_by_role("button", name="Revoke the token till 7").click()
    page.get_by_role("button", name="Keep it").click()
    page.get_by_role("button", name="Revoke the token till 7").click()
    page.get_by_role("button", name="Revoke", exact=True).click()
    playwright.expect(page.locator("tbody")).not_to_contain_text("till 7")


def test_a_stream_is_deleted_and_the_log_says_who_did_it(service: Service, open_page: Any) -> None:
    client = service.client()
    client.create(specification("gone"))
    made = client.call("POST", "/v1/tokens", {"role": "writer", "streams": ["gone"]})
    page = open_page()
    go(page, service, "streams/gone", "gone")
    page.get_by_role("button", name="Delete this stream").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("heading", name="Streams").wait_for()
    go(page, service, "log", "Who did what")
    row = page.locator("tbody tr").first
    playwright.expect(row).to_contain_text("delete stream")
    playwright.expect(row).to_contain_text("made at the first start (administrator)")
    # a token of a deleted stream opens nothing, and its name is not used again
    with pytest.raises(Problem) as caught:
        service.client(made["token"]).send("gone", records(0, 1))
    assert caught.value.status == 410
    go(page, service, "streams/gone", "Refused")
    playwright.expect(page.get_by_role("alert")).to_contain_text("deleted")


def test_a_model_is_fitted_to_a_table_by_a_form(service: Service, open_page: Any) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    folder = service.folder.parent / "tables" / "visits"
    folder.mkdir()
    cells = [k / 500 - 1 for k in range(1000)]
    pq.write_table(
        pa.table({"a": cells, "b": cells[::-1], "y": [cell > 0 for cell in cells]}),
        folder / "0.parquet",
    )
    client = service.client()
    page = open_page()
    go(page, service, "jobs", "Jobs")
    playwright.expect(page.locator("main")).to_contain_text("There are no tables for this token")
    table = {"name": "visits", "path": str(folder), "schema": SCHEMA}
    client.call("POST", "/v1/tables", table | {"budget": {"epsilon": 1.5, "delta": 1e-6}})
    page.reload()
    said = page.get_by_role("alert").last
    page.get_by_label("Further options, as JSON").fill("{")
    page.get_by_role("button", name="Fit", exact=True).click()
    playwright.expect(said).to_contain_text("not JSON")
    page.get_by_label("Further options, as JSON").fill("")
    page.get_by_role("button", name="Fit", exact=True).dblclick()
    playwright.expect(said).to_contain_text("A fit of visits waits")
    playwright.expect(page.locator("tbody tr")).to_have_count(1)
    # a fit may have to compile first
    playwright.expect(page.locator("tbody tr").first).to_contain_text("done", timeout=120_000)
    charged = client.call("GET", "/v1/ledgers/visits")["entries"]
    assert len(charged) == 1
    # what is left does not pay for another
    page.get_by_role("button", name="Fit", exact=True).click()
    newest = page.locator("tbody tr").first
    playwright.expect(newest).to_contain_text("does not fit in what is left", timeout=60_000)
    page.get_by_label("Kind", exact=True).select_option("linear")
    page.get_by_role("button", name="Fit", exact=True).click()
    playwright.expect(said).to_contain_text("does not fit the target")
    assert client.call("GET", "/v1/ledgers/visits")["entries"] == charged


def test_a_session_that_ends_says_so(service: Service, open_page: Any) -> None:
    client = service.client()
    made = client.call("POST", "/v1/tokens", {"role": "reader", "label": "brief"})
    page = open_page(made["token"])
    client.call("DELETE", f"/v1/tokens/{made['id']}")
    page.get_by_role("link", name="Ledgers").click()
    page.get_by_role("heading", name="Sign in").wait_for()
    playwright.expect(page.get_by_role("alert")).to_contain_text("revoked")
    page.context.add_cookies([{"name": "reticent-session", "value": "old.1.00", "url": service.url}])  # fmt: skip
    page.reload()
    playwright.expect(page.get_by_role("alert")).to_contain_text("sign in again")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_narrow_screens_keyboards_and_contrast(
    service: Service, open_page: Any, scheme: str
) -> None:
    client = service.client()
    client.create(specification("narrow-" + scheme))
    client.send("narrow-" + scheme, records(0, 9))
    page = open_page(color_scheme=scheme, viewport={"width": 390, "height": 800})
    for place, heading in (
        ("streams", "Streams"), (f"streams/narrow-{scheme}", f"narrow-{scheme}"), ("new", "Create a stream"),
        ("ledgers", "Ledgers"), ("jobs", "Jobs"), ("tokens", "Tokens"), ("log", "Who did what"),
    ):  # fmt: skip
        go(page, service, place, heading)
        page.wait_for_timeout(100)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, place
        assert page.evaluate("document.activeElement.tagName") == "H1"
        # every control has a name, every picture a description
        assert page.evaluate(_UNNAMED) == [], place
        assert page.evaluate(_PALE) == [], place
    go(page, service, "streams", "Streams")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == f"narrow-{scheme}":
            break
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=f"narrow-{scheme}", exact=True).wait_for()


_UNNAMED = """() => [...document.querySelectorAll('input, select, textarea, button, a, svg[role=img]')]
  .filter((node) => !node.hidden && !node.closest('[hidden]'))
  .filter((node) => !(node.labels && node.labels.length) && !node.getAttribute('aria-label'))
  .filter((node) => !node.textContent.trim())
  .map((node) => node.outerHTML.slice(0, 100))"""

# text below the 4.5 to 1 of WCAG 2.1, section 1.4.3, against the nearest painted background
_PALE = """() => {
  const parts = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const found = parts(getComputedStyle(node).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const out = [];
  for (const node of document.querySelectorAll('body *')) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.getClientRects().length || node.tagName === 'OPTION') continue;
    const style = getComputedStyle(node);
    const [a, b] = [light(parts(node instanceof SVGElement ? style.fill : style.color)), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) out.push(`${node.tagName} ${node.textContent.slice(0, 30)} ${ratio.toFixed(2)}`);
  }
  return out;
}"""
