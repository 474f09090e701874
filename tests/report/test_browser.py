"""The comparison page in a browser: phone and desktop widths, dark mode, requests, print."""

import json
import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from edgeformers.report.comparison import comparison_page
from edgeformers.report.page import render_html
from tests.report.examples import edges, links, make_comparison

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
WIDTHS = (390, 1200)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

#: Added to a copy of the page: reports its width and requests, and blocks all requests.
SPY = """<meta http-equiv="Content-Security-Policy" content="default-src 'none';
 style-src 'unsafe-inline'; img-src data:; script-src 'unsafe-inline'">
<script>
const wrong = [];
addEventListener("securitypolicyviolation", event => wrong.push("asked for " + event.blockedURI));
addEventListener("error", event => wrong.push("error " + event.message), true);
console.error = console.warn = (...words) => wrong.push(words.join(" "));
addEventListener("load", () => {
  const asked = performance.getEntriesByType("resource").map(entry => entry.name);
  const outside = [...document.querySelectorAll("main *")].filter(one =>
    !one.closest(".scroll") && !one.closest("svg") && !one.closest("details") &&
    one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML.slice(0, 80));
  parent.postMessage({width: innerWidth, scrolls: document.documentElement.scrollWidth, outside,
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


def test_the_page_fits_phones_and_desktops_and_fetches_nothing(tmp_path):
    page = tmp_path / "page.html"
    page.write_text(long_page().replace("<head>", f"<head>{SPY}"), encoding="utf-8")
    frames = "".join(
        f'<iframe src="{page.as_uri()}" width="{width}" height="900"></iframe>' for width in WIDTHS
    )
    (tmp_path / "frames.html").write_text(FRAMES.format(frames), encoding="utf-8")
    dom = browse(
        tmp_path,
        "--virtual-time-budget=4000",
        "--dump-dom",
        (tmp_path / "frames.html").as_uri(),
    )
    lines = re.search(r'<pre id="told">(.*?)</pre>', dom, re.DOTALL)[1].split("\n")
    told = [json.loads(line) for line in lines if line]
    assert sorted(one["width"] for one in told) == sorted(WIDTHS)
    for one in told:
        assert one["scrolls"] <= one["width"], one["outside"]
        assert (one["outside"], one["wrong"], one["asked"]) == ([], [], [])


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
