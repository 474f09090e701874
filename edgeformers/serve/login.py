"""Pages to log in and out, for people; programs send a token with each request."""

from urllib.parse import parse_qs

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response

from edgeformers.serve.auth import COOKIE, SESSION_SECONDS, Authentication
from edgeformers.serve.explore.rendering import html, theme_of


def add_login(app: FastAPI, authentication: Authentication) -> None:
    """Add the routes /login and /logout."""

    @app.get("/login", include_in_schema=False)
    async def show(request: Request, next: str = "/") -> Response:
        return login_page(request, next)

    @app.post("/login", include_in_schema=False)
    async def login(request: Request) -> Response:
        form = parse_qs((await request.body()).decode("utf-8", "replace"))
        token, page = (form.get(name, [""])[0] for name in ("token", "next"))
        if not authentication.has_token(token):
            return login_page(request, page, "This is not the token of the server.")
        response = RedirectResponse(local_page(page), 303)
        response.set_cookie(
            COOKIE,
            authentication.new_session(),
            max_age=SESSION_SECONDS,
            httponly=True,
            samesite="lax",  # a link from elsewhere works; only GET, which changes nothing
            secure=request.url.scheme == "https",
        )
        return response

    @app.post("/logout", include_in_schema=False)
    async def logout() -> Response:
        response = RedirectResponse("/login", 303)
        response.delete_cookie(COOKIE, httponly=True, samesite="lax")
        return response


def login_page(request: Request, page: str, problem: str = "") -> Response:
    """The form; `page` is opened after logging in."""
    values = {"title": "Log in", "next": local_page(page), "problem": problem}
    return html("login.html.j2", {**values, "theme": theme_of(request)}, 401 if problem else 200)


def local_page(page: str) -> str:
    """A page of this server; the start page if it is another address."""
    is_local = page.startswith("/") and page[1:2] not in ("/", "\\") and page.isprintable()
    return page if is_local else "/"
