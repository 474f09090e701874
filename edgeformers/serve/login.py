"""Pages to log in and out, for people; programs send a token with each request."""

from html import escape
from urllib.parse import parse_qs

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from edgeformers.serve.auth import COOKIE, SESSION_SECONDS, Authentication

PAGE = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>Log in · edgeformers</title>
<main><h1>Log in</h1>
<form method="post" action="login">
<label>Token <input name="token" type="password" autocomplete="current-password" required></label>
<input type="hidden" name="next" value="{next}">
<button>Log in</button> {problem}
</form></main></html>
"""


def add_login(app: FastAPI, authentication: Authentication) -> None:
    """Add the routes /login and /logout."""

    @app.get("/login", include_in_schema=False)
    async def show(next: str = "/") -> Response:
        return login_page(next)

    @app.post("/login", include_in_schema=False)
    async def login(request: Request) -> Response:
        form = parse_qs((await request.body()).decode("utf-8", "replace"))
        token, page = (form.get(name, [""])[0] for name in ("token", "next"))
        if not authentication.has_token(token):
            return login_page(page, "This is not the token of the server.")
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


def login_page(page: str, problem: str = "") -> Response:
    """The form; `page` is opened after logging in."""
    status = 401 if problem else 200
    text = PAGE.format(next=escape(local_page(page)), problem=escape(problem))
    return HTMLResponse(text, status, {"Content-Security-Policy": "default-src 'none'"})


def local_page(page: str) -> str:
    """A page of this server; the start page if it is another address."""
    is_local = page.startswith("/") and page[1:2] not in ("/", "\\") and page.isprintable()
    return page if is_local else "/"
