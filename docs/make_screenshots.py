"""Take the screenshots of the explorer that docs/serve.md and the README show.

    edgeformers quickstart -o quickstart
    edgeformers serve quickstart/edges quickstart/links --port 8000 &
    python docs/make_screenshots.py http://127.0.0.1:8000

Needs the extra `dev` and Debian's Chromium.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = "/usr/bin/chromium"
IMAGES = Path(__file__).parent / "images"
COLORS = 64  # in a file; more are hardly visible and take more space
NODE = "node?id={source}&side=source"
EDGE = "playground?source={source}&target={target}&text=I+miss+sailing.+A+good+read."


@dataclass(frozen=True)
class Shot:
    """A page at a width, from `at` downwards, in a theme."""

    name: str
    path: str
    width: int
    height: int
    theme: str = "light"
    at: str = ""  # a selector


SHOTS = [
    Shot("explorer-start", "", 1000, 820),
    Shot("explorer-node", NODE, 1600, 1100),
    Shot("explorer-node-dark", NODE, 1000, 1000, "dark"),
    Shot("explorer-node-phone", NODE, 390, 900),
    Shot("explorer-reasons", NODE, 1000, 900, at="#recommendations"),
    Shot("explorer-reasons-phone", NODE, 390, 900, "dark", at="#recommendations"),
    Shot("explorer-new", "new", 1600, 900),
    Shot("explorer-playground", EDGE, 1000, 760),
    Shot("explorer-playground-phone", EDGE, 390, 900, "dark"),
    Shot("explorer-map", "map?what=target&color=label", 1600, 1150),
    Shot("explorer-map-dark", "map?what=edge&color=label", 1000, 900, "dark"),
]


def main() -> None:
    """Take all screenshots, or some."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", help="address of a running server")
    parser.add_argument("--source", default="Jonas Eriksen")
    parser.add_argument("--target", default="The Crooked Current")
    parser.add_argument("--only", default="", help="part of the names of the shots to take")
    parser.add_argument("--out", type=Path, default=IMAGES)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for shot in SHOTS:
            if options.only in shot.name:
                path = shot.path.format(source=options.source, target=options.target)
                take(browser, shot, f"{options.server.rstrip('/')}/{path}", options.out)
        browser.close()


def take(browser: Browser, shot: Shot, address: str, folder: Path) -> None:
    """Write one screenshot with few colors."""
    size = {"width": shot.width, "height": shot.height}
    page = browser.new_page(viewport=size, color_scheme=shot.theme)
    page.goto(address, wait_until="networkidle", timeout=120_000)
    if shot.name == "explorer-new":
        fill_new(page)
    if shot.at:
        page.locator(shot.at).evaluate("element => element.scrollIntoView()")
    file = folder / f"{shot.name}.png"
    page.screenshot(path=file)
    page.close()
    with Image.open(file) as image:
        image.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE).save(file, optimize=True)


def fill_new(page: Page) -> None:
    """Describe someone new, and wait for the recommendations."""
    notes = {
        "The Lost Reef": "I miss sailing. Pure magic.",
        "The Gentle Tide": "A fine tale of the sea.",
    }
    for number, (book, text) in enumerate(notes.items(), start=1):
        page.fill(f"#target-{number}", book)
        page.press(f"#target-{number}", "Escape")  # closes the suggestions
        page.fill(f"#text-{number}", text)
    page.locator("#answer .recommendations").wait_for(timeout=60_000)
    page.wait_for_timeout(500)


if __name__ == "__main__":
    main()
