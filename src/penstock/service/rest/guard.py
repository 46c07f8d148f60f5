"""Admit requests with the token: in a header, as Flink's clients send it, or in the cookie that /login sets.

Other users of the machine reach the port, and so does any page in the user's browser. A page of another site is
detected by Origin and Sec-Fetch-Site, and browsers do not send it the cookie. A page that uses a name of its own that
resolves to this machine is detected by Host.
"""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlencode

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.service.cluster.rest_tokens import LoginCodes, read_only_token
from penstock.service.rest.answers import bytes_of, error_answer

_LOOPBACK = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?", re.IGNORECASE)
_SCHEMES = ("http", "https")
_SAFE_METHODS = ("GET", "HEAD")
_CHANGES = "POST"
_LOGIN = "/login"
_NEXT = "next"
"""The parameter with the page to open after the login."""
_VERSION = "/v1"
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # Not no-referrer: with it a browser sends our own form with the Origin "null".
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_CACHE = (b"cache-control", b"no-store")
"""The caching of answers that set none: browsers may keep files of a library."""
OWN_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""The Content-Security-Policy of our own page: injected markup of a name or text could not run."""
_LOGIN_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>penstock</title>
<link rel="icon" href="data:,">
<body style="font-family: sans-serif; margin: 4em auto; max-width: 30em"><form method="post">
<p>Enter the token. It is in the file that the program printed when it started.</p>
<p><input name="token" type="password" autocomplete="off" autofocus size="46" aria-label="token">
<button>Open</button></p></form></body></html>"""
_WRONG_TOKEN = "This is not the token of this server."
_USED_CODE = "This link was used, or is older than ten minutes."


class Guard:
    """A guard around an application. `cookie`: its name, which contains the port, since all ports share cookies.

    `policy`: the Content-Security-Policy of all answers; None: pages that are not ours set their own. `pages`: prefixes
    of the paths of pages, in addition to `/`: users without a token get a form for it there.
    """

    def __init__(
        self, app: ASGIApp, token: str, cookie: str, policy: str | None = OWN_POLICY, pages: tuple[str, ...] = ()
    ) -> None:
        self._app = app
        self._token = token.encode()
        self._read_only_token = read_only_token(token).encode()
        self._codes = LoginCodes(token)
        self._cookie = cookie
        self._pages = pages
        self._policy = [] if policy is None else [(b"content-security-policy", policy.encode())]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or forward it without its version: /v1/jobs is /jobs."""
        if scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["path"].startswith(f"{_VERSION}/"):
            scope = {**scope, "path": scope["path"][len(_VERSION) :]}
        answer = self._refusal(scope)
        if answer is None and scope["path"] == _LOGIN:
            answer = await self._login(Request(scope, receive))

        async def send_guarded(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start":
                headers = message.get("headers", [])
                assert isinstance(headers, list)
                cache = [] if any(name.lower() == _CACHE[0] for name, _ in headers) else [_CACHE]
                message = {**message, "headers": [*headers, *_HEADERS, *cache, *self._policy]}
            await send(message)

        await (answer or self._app)(scope, receive, send_guarded)  # type: ignore[arg-type]

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Pages also make changes by sockets, so a token that only reads opens none. A browser opens them without asking
        # the server for permission.
        if self._refusal({**scope, "method": _CHANGES}) is None and "origin" in Headers(scope=scope):
            await self._app(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if not _LOOPBACK.fullmatch(headers.get("host", "")):
            return error_answer(403, "the Host header names another machine")
        if not (_is_same_origin(headers) or (self._is_page(scope) and _is_link(headers))):
            return error_answer(403, "the request comes from another site")
        if scope["path"] == _LOGIN:
            return None
        method = scope["method"]
        given, cookie = _bearer(headers), self._from_cookie(headers)
        if self._admits(given, method) or (self._admits(cookie, method) and _may_use_cookie(method, headers)):
            return None
        if self._admits(given, "GET") or (self._admits(cookie, "GET") and _may_use_cookie(method, headers)):
            return error_answer(403, "this token only reads")
        if self._is_page(scope):
            return RedirectResponse(f"{_LOGIN}?{urlencode({_NEXT: _path_of(scope)})}", 303)
        wrong = "wrong token: see the server's token file" if "authorization" in headers else "missing token"
        refusal = error_answer(401, f"{wrong}; send it as 'Authorization: Bearer …'")
        refusal.headers["www-authenticate"] = "Bearer"
        return refusal

    def _is_page(self, scope: Scope) -> bool:
        """Return whether the request is for a page, as opposed to data, files and changes."""
        return scope["method"] in _SAFE_METHODS and (scope["path"] == _LOGIN or self._has_page(scope["path"]))

    def _has_page(self, path: str) -> bool:
        return path == "/" or path.startswith(self._pages)

    async def _login(self, request: Request) -> Response:
        if request.method != "POST":
            code = request.query_params.get("code")
            if code is None:
                return HTMLResponse(_LOGIN_PAGE)
            return (
                self._logged_in(request, self._token.decode())
                if self._codes.use(code, time.time())
                else _login_again(_USED_CODE)
            )
        try:
            body = (await bytes_of(request)).decode("ascii", "replace")
        except HTTPException as error:
            return error_answer(error.status_code, error.detail)
        # A token has only letters and digits, so nothing in the form is encoded.
        token = body.removeprefix("token=")
        return self._logged_in(request, token) if self._admits(token, "GET") else _login_again(_WRONG_TOKEN)

    def _logged_in(self, request: Request, token: str) -> Response:
        wanted = request.query_params.get(_NEXT, "/")
        # Only pages of this server: a link could name another site.
        answer = RedirectResponse(wanted if self._has_page(wanted) else "/", 303)
        answer.set_cookie(self._cookie, token, httponly=True, samesite="strict", secure=request.url.scheme == "https")
        return answer

    def _admits(self, given: str, method: str) -> bool:
        """Return whether this token allows requests of this method."""
        token = given.encode(errors="replace")
        is_reader = hmac.compare_digest(token, self._read_only_token) and method in _SAFE_METHODS
        return is_reader or hmac.compare_digest(token, self._token)

    def _from_cookie(self, headers: Mapping[str, str]) -> str:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return found.value if found is not None else ""


def _login_again(why: str) -> Response:
    """Return the form for the token, with the reason why it is needed again."""
    return HTMLResponse(_LOGIN_PAGE.replace("<p>", f"<p>{why} ", 1), 401)


def _path_of(scope: Scope) -> str:
    query = scope["query_string"].decode("ascii", "replace")
    return f"{scope['path']}?{query}" if query else str(scope["path"])


def _bearer(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _is_same_origin(headers: Mapping[str, str]) -> bool:
    """Return whether no page of another site makes the request, as far as the headers of browsers tell.

    Other clients send neither header.
    """
    origin = headers.get("origin")
    # Compared as text, so that an invalid URL counts as another site, too.
    if origin is not None and origin.lower() not in (f"{scheme}://{headers['host'].lower()}" for scheme in _SCHEMES):
        return False
    return headers.get("sec-fetch-site", "none") in ("none", "same-origin")


def _is_link(headers: Mapping[str, str]) -> bool:
    """Return whether a browser opens a page by a link on a page of this machine: on the page of a job, for example.

    It changes nothing, and the other page cannot read the answer.
    """
    # The site of a page is its host, at any port.
    wanted = (headers.get("sec-fetch-site"), headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest"))
    return "origin" not in headers and wanted == ("same-site", "navigate", "document")


def _may_use_cookie(method: str, headers: Mapping[str, str]) -> bool:
    """Return whether a browser reports that a page of ours makes a request that changes something."""
    return method in _SAFE_METHODS or "origin" in headers or headers.get("sec-fetch-site") == "same-origin"
