"""Authentication: bearer tokens of programs, and a signed cookie of people who log in."""

import hashlib
import hmac
import ipaddress
import re
import time
from collections.abc import Sequence
from http.cookies import CookieError, SimpleCookie
from pathlib import Path

from edgeformers.errors import InputError

COOKIE = "edgeformers_session"
SESSION_SECONDS = 12 * 3600
SHORTEST = 16  # characters of a token
#: Paths that need no token: health checks, and what is needed to log in.
PUBLIC = ("/health/live", "/health/ready", "/login")
PUBLIC_FOLDER = "/static/"
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(?::\d+)?")


class Authentication:
    """Accepts requests that carry one of the tokens; all requests if there are none."""

    def __init__(self, tokens: Sequence[str] = ()) -> None:
        self._tokens = [token.encode() for token in tokens]

    @property
    def is_required(self) -> bool:
        return bool(self._tokens)

    def accepts(self, path: str, authorization: str | None, cookie: str | None) -> bool:
        """Whether a request with these headers may pass."""
        if not self._tokens or path in PUBLIC or path.startswith(PUBLIC_FOLDER):
            return True
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() == "bearer":
            return self.has_token(token.strip())
        return cookie is not None and self._has_session(cookie)

    def has_token(self, token: str) -> bool:
        """Whether a token is one of those accepted, compared in constant time."""
        given = token.encode(errors="replace")
        return _is_one_of(given, self._tokens)

    def new_session(self) -> str:
        """The value of a cookie that is accepted for the next hours."""
        expires = str(int(time.time()) + SESSION_SECONDS)
        return f"{expires}.{_signature(self._tokens[0], expires)}"

    def _has_session(self, header: str) -> bool:
        try:
            session = SimpleCookie(header).get(COOKIE)
        except CookieError:
            return False
        expires, _, signature = (session.value if session else "").partition(".")
        if not (expires.isdecimal() and expires.isascii() and len(expires) < 20):
            return False
        given = signature.encode(errors="replace")
        known = [_signature(token, expires).encode() for token in self._tokens]
        return _is_one_of(given, known) and int(expires) > time.time()


def _is_one_of(given: bytes, known: Sequence[bytes]) -> bool:
    """Compares with all, so that the time does not depend on which one it is."""
    return sum(hmac.compare_digest(given, each) for each in known) > 0


def _signature(token: bytes, expires: str) -> str:
    return hmac.new(token, f"session until {expires}".encode(), hashlib.sha256).hexdigest()


def read_tokens(path: Path) -> list[str]:
    """The tokens in a file, one per line; several make it possible to replace one."""
    try:
        lines = path.expanduser().read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the tokens in {path} ({error})") from error
    short = [line for line in lines if len(line) < SHORTEST]
    if short or not lines:
        problem = "has no token" if not lines else f"has a token of {len(short[0])} characters"
        raise InputError(
            f"{path} {problem}; a line needs at least {SHORTEST}, such as: openssl rand -hex 32"
        )
    return lines


def check_address(host: str, *, has_tokens: bool) -> None:
    """Refuse to listen to other machines without tokens."""
    if not has_tokens and not is_local(host):
        raise InputError(
            f"{host} can be reached by other machines; pass a file with a secret token "
            "(`token_file=`), or listen on 127.0.0.1"
        )


def is_local(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def names_local_host(header: str) -> bool:
    """Whether a Host header names this machine; a page that rebinds its DNS name does not."""
    match = HOST.fullmatch(header)
    return match is not None and match[1].lower() in LOCAL_NAMES
