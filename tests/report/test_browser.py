"""Pages in a browser: phone and desktop widths, dark mode, requests, print."""

import json
import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from edgeformers.data.card.describe import describe
from edgeformers.report.card_page import card_page
from edgeformers.report.comparison import comparison_page
from edgeformers.report.page import render_html
from tests.data.fake_graph import six_edges
from tests.report.examples import edges, links, make_comparison

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
WIDTHS = (390, 1200)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

#: Added to a copy of the page: reports its width, its requests and text with a contrast below that
#: of WCAG AA, and blocks all requests.
SPY = """<meta http-equiv="Content-Security-Policy" content="default-src 'none';
 style-src 'unsafe-inline'; img-src data:; script-src 'unsafe-inline'">
<script>
const wrong = [];
addEventListener("securitypolicyviolation", event => wrong.push("asked for " + event.blockedURI));
addEventListener("error", event => wrong.push("error " + event.message), true);
console.error = console.warn = (...words) => wrong.push(words.join(" "));
const channels = color => color.match(/[\\d.]+/g).map(Number);
const luminance = color => channels(color).slice(0, 3).map(c => c / 255)
  .map(c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
  .reduce((sum, c, i) => sum + [.2126, .7152, .0722][i] * c, 0);
const background = one => {
  const color = one ? getComputedStyle(one).backgroundColor : "rgb(255, 255, 255)";
  return channels(color)[3] === 0 ? background(one.parentElement) : color;
};
const contrast = one => {
  const [low, high] = [getComputedStyle(one).color, background(one)].map(luminance)
    .sort((a, b) => a - b);
  return (high + .05) / (low + .05);
};
addEventListener("load", () => {
  const faint = [...document.querySelectorAll("main *")].filter(one => !one.closest("svg") &&
    [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim()) &&
    contrast(one) < 4.5).map(one => one.outerHTML.slice(0, 80));
  const asked = performance.getEntriesByType("resource").map(entry => entry.name);
  const outside = [...document.querySelectorAll("main *")].filter(one =>
    !one.closest(".scroll") && !one.closest("svg") && !one.closest("details") &&
    one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML.slice(0, 80));
  parent.postMessage({faint, paper: luminance(getComputedStyle(document.body).backgroundColor),
    width: innerWidth, scrolls: document.documentElement.scrollWidth, outside,
    wrong, asked: asked.filter(name => !name.startsWith("data:"))}, "*");
});
</script>"""
FRAMES = """<body><pre id="told"></pre><script>
addEventListener("message", event =>
  document.getElementById("told").append(JSON.stringify(event.data) + "\\n"));
</script>{}</body>"""


def browse(tmp_path, *arguments):
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--no-first-run",
            f"--user-data-dir={tmp_path / 'profile'}",
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def long_page():
    """A page with names and tables that are wider than a phone."""
    group = edges()
    (task,) = group.scores
    wide = [f"{protocol}/hit@{k}" for protocol in ("full", "paper") for k in (1, 5, 10)]
    models = [
        replace(
            model,
            model=f"{model.model}-with-a-name-as-long-as-{'no-' * 20}other",
            metrics={**model.metrics, **dict.fromkeys(wide, model.metrics["macro_f1"])},
        )
        for model in task.models
    ]
    long = replace(task, models=models, metrics=["macro_f1", *wide], gains={})
    return render_html(
        comparison_page(make_comparison(groups=[replace(group, scores=[long], curves=[]), links()]))
    )


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_pages_fit_any_screen_are_legible_and_fetch_nothing(is_dark, tmp_path):
    frames = ""
    for number, html in enumerate([long_page(), render_html(card_page(describe(six_edges())))]):
        page = tmp_path / f"page-{number}.html"
        page.write_text(html.replace("<head>", f"<head>{SPY}"), encoding="utf-8")
        for width in WIDTHS:
            frames += f'<iframe src="{page.as_uri()}" width="{width}" height="900"></iframe>'
    (tmp_path / "frames.html").write_text(FRAMES.format(frames), encoding="utf-8")
    dom = browse(
        tmp_path,
        "--virtual-time-budget=4000",
        f"--blink-settings=preferredColorScheme={0 if is_dark else 1}",
        "--dump-dom",
        (tmp_path / "frames.html").as_uri(),
    )
    lines = re.search(r'<pre id="told">(.*?)</pre>', dom, re.DOTALL)[1].split("\n")
    told = [json.loads(line) for line in lines if line]
    assert sorted(one["width"] for one in told) == sorted(2 * WIDTHS)
    for one in told:
        assert one["scrolls"] <= one["width"], one["outside"]
        assert (one["outside"], one["wrong"], one["asked"], one["faint"]) == ([], [], [], [])
        assert (one["paper"] < 0.1) == is_dark


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="pdftotext is not installed")
def test_folded_details_are_printed(tmp_path):
    page = tmp_path / "page.html"
    page.write_text(render_html(comparison_page(make_comparison())), encoding="utf-8")
    browse(tmp_path, f"--print-to-pdf={tmp_path / 'page.pdf'}", page.as_uri())
    printed = subprocess.run(
        ["pdftotext", tmp_path / "page.pdf", "-"], capture_output=True, text=True, check=True
    ).stdout
    for words in ("Full data card", "Shared with training", "runs/Edgeformer-E", "train.lr"):
        assert words in printed
