"""Who may ask: a guard before everything else.

A page of another site must not be able to use a studio that runs on this machine, whatever name it gives it (DNS
rebinding), and a studio that other machines reach asks for a token.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edgecape.studio.limits import Limits

COOKIE = "edgecape_studio"
LOCAL = ("localhost", "127.0.0.1", "::1")
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob: data:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
FORM = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>edgecape studio</title>
<link rel="stylesheet" href="/docs.css">
</head>
<body>
<main>
<h1>edgecape studio</h1>
<form action="/">
{told}
<p><label>Token, as whoever started the studio gave it:
<input name="token" type="password" autocomplete="current-password" required autofocus></label></p>
<p><button>Open</button></p>
</form>
</main>
</body>
</html>
"""


def is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    return False


@dataclass(frozen=True)
class Access:
    host: str = "127.0.0.1"  # the studio is bound to
    token: str | None = None

    def knows(self, host_header: str) -> bool:
        """Elsewhere than on this machine, the token is what keeps others out: no page can guess it."""
        name = (_split(f"//{host_header}").hostname or "").lower()  # without port and brackets
        return not is_loopback(self.host) or name in LOCAL or name == self.host

    def cookie(self) -> str:
        return hashlib.sha256(f"edgecape studio {self.token}".encode()).hexdigest()

    def admits(self, headers: Headers) -> bool:
        if self.token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _same(given.strip(), self.token):
            return True
        with suppress(CookieError):
            cookies = SimpleCookie(headers.get("cookie", ""))
            return COOKIE in cookies and _same(cookies[COOKIE].value, self.cookie())
        return False


class Guard:
    """ASGI middleware: refuses, counts bytes, and adds headers to every answer."""

    def __init__(self, app: ASGIApp, access: Access, limits: Limits):
        self.app, self.access, self.limits = app, access, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Accept-Ranges"] = "none"
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store" if scope["path"].startswith("/api") else "no-cache")
            await send(message)

        # parts of a file are not given: nobody needs them, and starlette's refusals of strange ones are not JSON
        scope = {**scope, "headers": [(name, value) for name, value in scope["headers"] if name != b"range"]}
        answer = self._answer(scope) or self.app
        await answer(scope, self._counting(scope, receive), send_with_headers)

    def _answer(self, scope: Scope) -> Response | None:
        """What to say instead of asking the app; None if all is well."""
        headers, path = Headers(scope=scope), scope["path"]
        host = headers.get("host", "")
        if not self.access.knows(host):
            return problem(403, f"the studio does not go by the name '{host[:100]}'; open it by the address it printed")
        origin = headers.get("origin")
        if origin is not None and _split(origin).netloc.lower() != host.lower():
            return problem(403, f"requests from other sites ('{origin[:100]}') are refused; use the studio's own page")
        site = headers.get("sec-fetch-site", "none")
        opens_page = scope["method"] == "GET" and headers.get("sec-fetch-dest") == "document" and not _is_api(path)
        if site not in ("none", "same-origin") and not opens_page:
            return problem(403, "requests from other sites are refused; use the studio's own page")
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token") if path == "/" else None
        if given and self.access.token is not None:
            if not _same(given[0], self.access.token):
                return _form(403, "<p role=alert>That is not the token of this studio.</p>")
            answer = RedirectResponse("/", status_code=303)
            answer.set_cookie(COOKIE, self.access.cookie(), httponly=True, samesite="lax")
            return answer
        if path in ("/", "/index.html") and not self.access.admits(headers):
            return _form(401)
        if _is_api(path) and not self.access.admits(headers):
            told = "open the studio by the address with ?token=…, or send 'Authorization: Bearer TOKEN'"
            return problem(401, f"a token is needed; {told}", {"WWW-Authenticate": "Bearer"})
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or int(length) > self._most(headers):
            return problem(413, f"the request has {length[:30]} bytes; it may have {self._most(headers):,}")
        return None

    def _most(self, headers: Headers) -> int:
        files = headers.get("content-type", "").startswith("multipart/form-data")
        return self.limits.request_bytes if files else self.limits.json_bytes

    def _counting(self, scope: Scope, receive: Receive) -> Receive:
        """For bodies that do not tell their length before, and those that never come to an end."""
        most, seen, arriving = self._most(Headers(scope=scope)), 0, True
        begun = time.monotonic()

        async def counted() -> Message:
            nonlocal seen, arriving
            left = begun + self.limits.patience + seen / self.limits.slowest - time.monotonic()
            try:
                message = await asyncio.wait_for(receive(), max(left, 0.01) if arriving else None)
            except asyncio.TimeoutError:
                raise HTTPException(408, "the request came too slowly; send it again, in smaller parts") from None
            seen += len(message.get("body", b""))
            arriving = message.get("more_body", False)
            if seen > most:
                raise HTTPException(413, f"the request has more than {most:,} bytes; send less at once")
            return message

        return counted


def schemes() -> dict[str, Any]:
    """As OpenAPI describes what `Access.admits`."""
    given = "The token that the studio was started with. Without one, nothing is asked for."
    cookie = "Set when the page is opened with ?token=TOKEN or the token is entered there."
    return {
        "token": {"type": "http", "scheme": "bearer", "description": given},
        "cookie": {"type": "apiKey", "in": "cookie", "name": COOKIE, "description": cookie},
    }


def _form(status: int, told: str = "") -> Response:
    """That asks for the token."""
    policy = HEADERS["Content-Security-Policy"].replace("form-action 'none'", "form-action 'self'")
    return HTMLResponse(FORM.format(told=told), status_code=status, headers={"Content-Security-Policy": policy})


def _is_api(path: str) -> bool:
    return path == "/api" or path.startswith("/api/")


def _split(address: str) -> SplitResult:
    with suppress(ValueError):
        return urlsplit(address)
    return urlsplit("")


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def problem(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    clean = message.encode("utf-8", "replace").decode("utf-8")  # half a character may be quoted
    return JSONResponse({"error": clean}, status_code=status, headers=headers)
