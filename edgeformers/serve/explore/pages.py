"""The routes of the explorer: each gathers the values of a page and renders it."""

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute

from edgeformers.data.types import Side
from edgeformers.errors import EdgeformersError, InputError
from edgeformers.serve.explore import documents
from edgeformers.serve.explore.map_page import Maps
from edgeformers.serve.explore.node_page import node_page
from edgeformers.serve.explore.playground import playground
from edgeformers.serve.explore.recommendations import compare, new_recommendations, what_if
from edgeformers.serve.explore.rendering import HEADERS, document, html, static_file, theme_of
from edgeformers.serve.explore.start import Values, frame, home, search, suggest
from edgeformers.serve.problems import error_status
from edgeformers.serve.service import Service

MAX_FIELDS = 100  # of a form
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


async def read_form(request: Request) -> dict[str, list[str]]:
    """The fields of a form that was posted."""
    body = (await request.body()).decode("utf-8", "replace")
    try:
        return parse_qs(body, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise InputError(f"a form may have {MAX_FIELDS} fields") from None


Form = Annotated[dict[str, list[str]], Depends(read_form)]


def add_explorer(app: FastAPI, service: Service, *, has_login: bool) -> None:
    """Add the pages to the application of a service."""
    pages = Pages(service, has_login=has_login)
    router = APIRouter(include_in_schema=False, route_class=_route_class(pages))
    _add_start(router, pages)
    _add_nodes(router, pages)
    _add_forms(router, pages)
    _add_documents(router, pages)
    app.include_router(router)


class Pages:
    """Renders pages within the frame that all of them share."""

    def __init__(self, service: Service, *, has_login: bool) -> None:
        self.service = service
        self.has_login = has_login

    def page(self, request: Request, template: str, values: Values, status: int = 200) -> Response:
        """A page with header and footer."""
        current = request.url.path.rpartition("/")[2] or "./"
        shared = {"theme": theme_of(request), "current": current, "has_login": self.has_login}
        return html(template, {**shared, **frame(self.service), **values}, status)

    def part(self, request: Request, template: str, page: str, values: Values) -> Response:
        """A part of a page for the script that asks for it, otherwise the page."""
        if "X-Fragment" in request.headers:
            return html(template, values)
        return self.page(request, page, values)

    def error(self, request: Request, error: EdgeformersError) -> Response:
        """A page, or a part of one, that says what is wrong."""
        status, sentence = error_status(error), f"{str(error)[:1].upper()}{str(error)[1:]}."
        if "X-Fragment" in request.headers:
            return html("problem.html.j2", {"problem": sentence}, status)
        title = HTTPStatus(status).phrase
        values = {"kind": "Error", "title": title, "sentence": sentence}
        return self.page(request, "message.html.j2", values, status)


def _route_class(pages: Pages) -> type[APIRoute]:
    """Routes that answer an error of the library with a page instead of problem details."""

    class PageRoute(APIRoute):
        def get_route_handler(self) -> Handler:
            handle = super().get_route_handler()

            async def handle_with_page(request: Request) -> Response:
                try:
                    return await handle(request)
                except EdgeformersError as error:
                    return pages.error(request, error)

            return handle_with_page

    return PageRoute


def _add_start(router: APIRouter, pages: Pages) -> None:
    service = pages.service

    @router.get("/")
    def start(request: Request) -> Response:
        return pages.page(request, "home.html.j2", home(service))

    @router.get("/search")
    def find(request: Request, query: str = "") -> Response:
        return pages.page(request, "search.html.j2", search(service, query))

    @router.get("/suggest")
    def suggestions(query: str = "", side: Side | None = None) -> Response:
        return JSONResponse(suggest(service, query, side), headers=HEADERS)

    @router.get("/static/{name}")
    def static(name: str) -> Response:
        if (file := static_file(name)) is None:
            raise HTTPException(404, f"there is no file '{name}'")
        return file


def _add_nodes(router: APIRouter, pages: Pages) -> None:
    service, maps = pages.service, Maps(pages.service)

    @router.get("/node")
    def node(
        request: Request, id: str = "", side: Side | None = None, model: str = "", cursor: str = ""
    ) -> Response:
        values = node_page(service, id, side, model, cursor)
        return pages.page(request, "node.html.j2", values)

    @router.get("/what-if")
    def without_edge(
        request: Request, id: str = "", without: str = "", model: str = ""
    ) -> Response:
        values = {"title": "What if", "what_if": what_if(service, id, without, model)}
        return pages.part(request, "what_if.html.j2", "what_if_page.html.j2", values)

    @router.get("/map")
    def draw_map(request: Request, what: str = "", color: str = "") -> Response:
        return pages.page(request, "map.html.j2", maps.page(what, color))

    @router.get("/compare")
    def compare_runs(request: Request, id: str = "", first: str = "", second: str = "") -> Response:
        return pages.page(request, "compare.html.j2", compare(service, id, first, second))


def _add_forms(router: APIRouter, pages: Pages) -> None:
    service = pages.service

    @router.get("/new")
    def describe(request: Request) -> Response:
        return pages.page(request, "new.html.j2", new_recommendations(service, []))

    @router.post("/new")
    def recommend(request: Request, form: Form) -> Response:
        edges = list(zip(form.get("target", []), form.get("text", []), strict=False))
        values = new_recommendations(service, edges)
        return pages.part(request, "new_answer.html.j2", "new.html.j2", values)

    @router.get("/playground")
    def play(
        request: Request, source: str = "", target: str = "", text: str = "", model: str = ""
    ) -> Response:
        values = playground(service, source, target, text, model)
        return pages.page(request, "playground.html.j2", values)

    @router.post("/playground")
    def predict(request: Request, form: Form) -> Response:
        fields = [form.get(name, [""])[0] for name in ("source", "target", "text", "model")]
        values = playground(service, *fields)
        return pages.part(request, "playground_answer.html.j2", "playground.html.j2", values)


def _add_documents(router: APIRouter, pages: Pages) -> None:
    service = pages.service

    @router.get("/data-card")
    def data_card(model: str = "") -> Response:
        return document(documents.data_card(service, model))

    @router.get("/report")
    def report(model: str = "") -> Response:
        return document(documents.report(service, model))

    @router.get("/model-card")
    def model_card(request: Request, model: str = "") -> Response:
        name = service.versions.find(name=model or None).name
        card = documents.model_card(service, name)
        values = {"title": f"Model card of {name}", "name": name, "card": card}
        return pages.page(request, "model_card.html.j2", values)
