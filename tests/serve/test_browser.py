"""The explorer in a real browser: Debian's Chromium, driven by Playwright."""

import os
import socket
import threading
from pathlib import Path
from shutil import copytree

import pytest
import uvicorn

from edgeformers.serve.app import create_app
from edgeformers.serve.service import Service

pytestmark = pytest.mark.slow
CHROMIUM = Path("/usr/bin/chromium")
TOKEN = "a-secret-of-many-letters"
SOURCE, TARGET = "user-000003", "item-000001"
NODE = f"node?id={SOURCE}&side=source"
WIDTHS = (390, 768, 1000, 1600)
PAGES = ("", "search?query=item", NODE, "new", "playground", "map", "compare", "model-card")

#: The texts whose contrast with their background is below 4.5 (3 for large ones), as WCAG AA asks.
LOW_CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (color) => color.slice(0, 3).map((value) => value / 255)
    .map((value) => value <= .04045 ? value / 12.92 : ((value + .055) / 1.055) ** 2.4)
    .reduce((sum, value, i) => sum + value * [.2126, .7152, .0722][i], 0);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = rgba(getComputedStyle(at).backgroundColor);
      if (color[3] === 255) return color;
    }
    return rgba("Canvas");
  };
  const low = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !element.checkVisibility()) continue;
    const style = getComputedStyle(element), isSvg = element.closest("svg");
    const ink = light(rgba(isSvg ? style.fill : style.color)), paper = light(ground(element));
    const contrast = (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05);
    const size = parseFloat(style.fontSize), isBold = style.fontWeight >= 700;
    const least = size >= (isBold ? 18.6 : 24) ? 3 : 4.5;
    if (contrast < least) low.push(`${walk.currentNode.data.trim()} (${contrast.toFixed(2)})`);
  }
  return low;
}"""


@pytest.fixture(scope="module")
def browser():
    """Chromium; it must be there if EDGEFORMERS_NEEDS_BROWSER is set, as CI sets it."""
    if not CHROMIUM.exists():
        missing = f"{CHROMIUM} is missing; install it with: apt-get install chromium"
        if os.environ.get("EDGEFORMERS_NEEDS_BROWSER"):
            pytest.fail(missing)
        pytest.skip(missing)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


def start(service, **options):
    """The address of a server in this process, and what stops it."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(create_app(service, **options), log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()

    def stop():
        server.should_exit = True
        thread.join(10)
        listener.close()

    return f"http://127.0.0.1:{listener.getsockname()[1]}", stop


@pytest.fixture(scope="module")
def address(runs, tmp_path_factory):
    """A server of an edge run and two link runs."""
    other = copytree(runs[1], tmp_path_factory.mktemp("second") / "other-links")
    service = Service([*runs, other], device="cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edgeformers.serve.explore.map_page.SAMPLE", 60)
        address, stop = start(service)
        yield address
        stop()
    service.close()


@pytest.fixture
def visit(browser, address):
    """Opens a page of the server; fails on errors of scripts and on requests to other servers."""
    contexts, problems = [], []

    def open_page(path="", *, width=1000, base=address, **options):
        context = browser.new_context(
            viewport={"width": width, "height": 800}, base_url=f"{base}/", **options
        )
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda line: line.type == "error" and problems.append(line.text))
        page.on(
            "request",
            lambda request: request.url.startswith(base) or problems.append(request.url),
        )
        page.goto(path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


def test_a_node_is_found_with_the_keyboard(visit):
    page = visit()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.focus("#find")
    page.keyboard.type("000003")
    page.locator("[role=option]").first.wait_for()
    assert page.get_attribute("#find", "aria-expanded") == "true"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    chosen = page.get_attribute("#find", "aria-activedescendant")
    name = page.locator(f"#{chosen}").evaluate("option => option.firstChild.data")
    page.keyboard.press("Enter")
    page.wait_for_url("**/node?*")
    assert page.locator("h1").inner_text() == name


@pytest.mark.parametrize("path", PAGES)
def test_a_page_fits_every_screen_and_is_readable_in_light_and_dark(visit, path):
    page = visit(path)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if path == NODE:
            graphs = page.locator("svg.graph:visible")
            assert graphs.count() == 1
            assert graphs.evaluate("svg => 13 * svg.getScreenCTM().a") >= 11.5  # size of its texts
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        assert page.evaluate(LOW_CONTRAST) == []


def test_the_theme_can_be_switched_and_is_remembered(visit):
    page = visit(color_scheme="light")
    paper = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(paper)
    page.click("#theme")
    dark = page.evaluate(paper)
    assert dark != before
    page.goto("map")
    assert page.evaluate(paper) == dark
    page.click("#theme")
    assert page.evaluate(paper) == before


def test_the_ego_graph_leads_to_neighbors(visit):
    page = visit(NODE, width=1600)
    link = page.locator("svg.graph:visible a").first
    color = "path => getComputedStyle(path).stroke"
    before = link.locator("path").evaluate(color)
    link.locator(".name").hover()
    assert link.locator("path").evaluate(color) != before
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**side=target")
    assert page.locator("h1").inner_text().startswith("item-")


def test_an_edge_is_removed_in_place(visit):
    page = visit(NODE)
    page.locator("text=What if this edge were removed?").first.click()
    page.locator(".what-if table").wait_for()
    assert "without the edge" in page.locator(".what-if").inner_text()
    assert "/node" in page.url


def test_someone_new_gets_recommendations_while_typing(visit):
    page = visit("new")
    page.fill("#target-1", TARGET)
    page.fill("#text-1", "My tent is excellent.")
    page.locator("#answer .recommendations > li").first.wait_for()
    page.click("text=Add an edge")
    assert page.evaluate("document.activeElement.id") == "target-4"
    page.keyboard.type("item-00000")
    page.locator("[role=option]:visible").first.click()
    assert page.input_value("#target-4").startswith("item-00000")


def test_the_playground_answers_while_typing(visit):
    page = visit("playground")
    page.fill("#source", SOURCE)
    page.fill("#target", TARGET)
    page.fill("#text", "Terrible.")
    page.locator(".prediction").nth(2).wait_for()
    before = page.locator(".prediction").first.inner_text()
    page.fill("#text", "My tent is excellent, great, wonderful.")
    page.wait_for_function(
        "before => document.querySelector('.prediction').innerText !== before", arg=before
    )
    titles = page.locator(".prediction h3").all_inner_texts()
    assert titles == ["Text and nodes", "Text only", "Nodes only"]


def test_the_map_zooms_explains_and_leads_to_nodes(visit):
    page = visit("map?what=target&color=label")
    box = page.get_attribute("#map", "viewBox")
    page.click("[data-zoom=in]")
    assert page.get_attribute("#map", "viewBox") != box
    page.click("[data-zoom=reset]")
    assert [float(x) for x in page.get_attribute("#map", "viewBox").split()] == [0, 0, 1000, 640]
    point = page.locator("#map a").first
    point.hover(force=True)
    assert "item-" in page.locator(".tip").inner_text()
    page.select_option("#color", "cluster")
    assert page.locator("[data-legend]:visible").get_attribute("data-legend") == "cluster"
    page.focus("#map")
    page.keyboard.press("+")
    assert page.get_attribute("#map", "viewBox") != box
    page.keyboard.press("ArrowRight")
    name = page.evaluate("document.activeElement.getAttribute('aria-label')").split(" · ")[0]
    page.keyboard.press("Enter")
    page.wait_for_url("**/node?*")
    assert page.locator("h1").inner_text() == name


def test_the_map_is_dragged_without_opening_a_node(visit):
    page = visit("map?what=target")
    page.click("[data-zoom=in]")
    before = page.get_attribute("#map", "viewBox")
    area = page.locator("#map").bounding_box()
    page.mouse.move(area["x"] + 200, area["y"] + 200)
    page.mouse.down()
    page.mouse.move(area["x"] + 260, area["y"] + 240, steps=3)
    page.mouse.up()
    assert page.get_attribute("#map", "viewBox") != before
    assert "/map" in page.url


def test_two_runs_are_compared(visit):
    page = visit("compare")
    page.fill("#id", SOURCE)
    page.locator("#id").press("Escape")
    page.select_option("#first", "links")
    page.select_option("#second", "other-links")
    page.click("main button")
    page.locator("table.compared").wait_for()
    assert "of the same" in page.locator(".lead").inner_text()


def test_everything_works_without_scripts(visit):
    page = visit(java_script_enabled=False)
    page.fill("#find", SOURCE)
    page.click("main form button")
    page.click(f"main >> text={SOURCE}")
    assert page.locator("h1").inner_text() == SOURCE
    page.goto("playground")
    page.fill("#text", "Excellent.")
    page.click("main button")
    assert page.locator(".prediction").count() == 3
    page.goto(NODE)
    page.locator("text=What if this edge were removed?").first.click()
    assert page.locator("h1").inner_text().startswith(f"{SOURCE} without")
    page.goto("new")
    page.fill("#text-1", "Excellent.")
    page.click("main button")
    assert page.locator(".recommendations > li").count() > 0
    assert page.locator("#theme").is_hidden()


def test_a_token_is_asked_for_once(visit, service):
    address, stop = start(service, tokens=[TOKEN])
    try:
        page = visit("new", base=address)
        assert "/login" in page.url
        page.fill("#token", TOKEN)
        page.keyboard.press("Enter")
        page.locator("#new").wait_for()
        page.goto(NODE)
        assert page.locator("h1").inner_text() == SOURCE
        assert TOKEN not in page.evaluate("document.cookie")
        page.click("text=Log out")
        page.wait_for_url("**/login")
    finally:
        stop()
