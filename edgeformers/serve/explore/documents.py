"""The data card, the report and the model card of a served run, as pages."""

from functools import cache
from pathlib import Path

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.inference.model_card import CARD
from edgeformers.inference.saved_model import model_folder
from edgeformers.report.page import render_html
from edgeformers.serve.service import Service


def data_card(service: Service, model: str) -> str:
    """The data card of a run's network: the file next to it, or a new one."""
    graph = service.graph(model or None)
    page = graph.path / "card.html"
    return page.read_text(encoding="utf-8") if page.is_file() else _new_card(graph)


@cache
def _new_card(graph: EdgeTextGraph) -> str:
    from edgeformers.data.card.describe import describe
    from edgeformers.report.card_page import card_page

    return render_html(card_page(describe(graph)))


def report(service: Service, model: str) -> str:
    """The report that is next to a run, as the quickstart writes it, or a new one of all runs."""
    run = service.versions.find(name=model or None).run
    for page in (run / "report.html", run.parent / "report.html"):
        if page.is_file():
            return page.read_text(encoding="utf-8")
    return _new_report(tuple(served.run for served in service.versions.current))


@cache
def _new_report(runs: tuple[Path, ...]) -> str:
    from edgeformers.experiments.run_report import build_report
    from edgeformers.report.comparison import comparison_page

    return render_html(comparison_page(build_report(runs)))


def model_card(service: Service, model: str) -> str:
    """The model card of a run, as Markdown."""
    run = service.versions.find(name=model or None).run
    return (model_folder(run) / CARD).read_text(encoding="utf-8")
