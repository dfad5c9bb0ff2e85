"""Who is let in, and what every answer carries."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from edgecape.studio.security import Access, is_loopback
from edgecape.studio.server import reachable

from service import ADDRESS, USUAL, FakeModel, client, serving


@pytest.fixture
def http(tmp_path: Path):
    with client(tmp_path / "project", load=FakeModel) as made:
        yield made


@pytest.fixture
def locked(tmp_path: Path):
    with client(tmp_path / "project", access=Access(token="open-sesame")) as made:
        yield made


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:7860", 200),
        ("127.0.0.1", 200),
        ("localhost:7860", 200),
        ("LOCALHOST:7860", 200),
        ("localhost:9999", 200),  # a tunnel
        ("[::1]:7860", 200),
        ("evil.example", 403),
        ("evil.example:7860", 403),
        ("127.0.0.1.evil.example:7860", 403),
        ("localhost.evil.example", 403),
        ("localhost@evil.example", 403),
        ("192.168.0.7:7860", 403),
        ("[::1", 403),
        ("", 403),
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/v1/status", "/docs"])
def test_only_its_own_names_are_answered(http, host, status, path):
    answer = http.get(path, headers={"Host": host})
    assert answer.status_code == status
    assert status == 200 or "name" in answer.json()["error"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": ADDRESS}, 200),
        ({"Origin": ADDRESS, "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:8000"}, 403),  # another program of this machine
        ({"Origin": "http://127.0.0.1"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Origin": ""}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 403),
    ],
)
@pytest.mark.parametrize(("method", "path"), [("GET", "/api/v1/status"), ("POST", "/api/v1/project/reset")])
def test_other_sites_are_refused(http, headers, status, method, path):
    assert http.request(method, path, headers=headers).status_code == status


def test_a_link_to_the_page_may_be_followed_but_not_framed(http):
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert http.get("/", headers=link).status_code == 200
    assert http.get("/", headers=link | {"Sec-Fetch-Dest": "iframe"}).status_code == 403
    assert "frame-ancestors 'none'" in http.get("/").headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/", "/api/v1/status", "/api/v1/nothing", "/docs", "/nothing.js"])
def test_every_answer_is_guarded(http, path):
    headers = http.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy and "unsafe" not in policy and "http" not in policy
    assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
    assert "cache-control" in headers and "access-control-allow-origin" not in headers


def test_files_outside_the_page_are_not_served(http):
    for path in ("/../app.py", "/%2e%2e/app.py", "/..%2fapp.py", "/page/../../app.py", "//etc/passwd"):
        assert http.get(path).status_code == 404, path


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer open-sesame"}, 200),
        ({"Authorization": "bearer  open-sesame"}, 200),
        ({"Authorization": "Bearer open"}, 401),
        ({"Authorization": "Bearer "}, 401),
        ({"Authorization": "Basic b3Blbg=="}, 401),
        ({"Cookie": "edgecape_studio=open"}, 401),
        ({"Cookie": "edgecape_studio"}, 401),
        ({"Cookie": "\x01=;;=,"}, 401),
    ],
)
def test_a_token_is_asked_for(locked, headers, status):
    for method, path in (("GET", "/api/v1/status"), ("GET", "/api/v1/project"), ("POST", "/api/v1/project/reset")):
        answer = locked.request(method, path, headers=headers)
        assert answer.status_code == status, answer.text
        assert status == 200 or ("token" in answer.json()["error"] and "WWW-Authenticate" in answer.headers)


def test_the_address_with_the_token_opens_the_page(locked):
    form = locked.get("/")
    assert form.status_code == 401 and '<input name="token"' in form.text
    assert "form-action 'self'" in form.headers["content-security-policy"]
    assert locked.get("/", params={"token": "guess"}).status_code == 403
    assert locked.get("/api/v1/status").status_code == 401
    answer = locked.get("/", params={"token": "open-sesame"}, follow_redirects=False)
    assert answer.status_code == 303 and answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=lax" in cookie and "sesame" not in cookie
    assert locked.get("/api/v1/status").status_code == 200


def test_a_studio_for_other_machines_goes_by_any_name_but_asks_for_the_token(tmp_path):
    with client(tmp_path / "project", access=Access("0.0.0.0", "secret")) as http:
        headers = {"Host": "lab-computer.local:7860"}
        assert http.get("/", headers=headers).status_code == 401  # a form
        assert http.get("/api/v1/status", headers=headers).status_code == 401
        headers["Authorization"] = "Bearer secret"
        assert http.get("/api/v1/status", headers=headers).status_code == 200
        assert http.get("/api/v1/status", headers=headers | {"Origin": "http://evil.example"}).status_code == 403


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_loopback(host, local):
    assert is_loopback(host) == local


@pytest.mark.parametrize("length", ["-1", "1e9", "99999999999999999999999", "x", "²".encode("latin-1")])
def test_strange_lengths(http, length):
    answer = http.post("/api/v1/prompts", content=b"{}", headers={"Content-Length": length})
    assert answer.status_code == 413


def test_a_request_that_never_comes_to_an_end_is_given_up(tmp_path):
    """Somebody could hold a connection open for ever, a byte at a time."""
    hasty = client(tmp_path / "project", limits=USUAL.model_copy(update={"patience": 1}), load=FakeModel)
    with serving(hasty.app) as address, socket.create_connection(urlsplit(address).netloc.split(":")) as line:
        line.sendall(b"POST /api/v1/prompts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
        line.settimeout(60)
        answer = b"".join(iter(lambda: line.recv(4096), b""))
    assert b" 408 " in answer and b"too slowly" in answer


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "lab.example"])
def test_the_printed_address_is_one_that_others_can_use(host):
    name = reachable(host)
    assert name == host if host == "lab.example" else name not in ("0.0.0.0", "::")


def test_without_the_token_the_page_asks_for_it(browser, tmp_path):
    """In a browser: a form that is seen, takes the token, and leads to the studio."""
    locked = client(tmp_path / "project", access=Access(token="open-sesame"), load=FakeModel)
    with serving(locked.app) as address:
        page = browser.new_page()
        page.goto(address)
        field = page.get_by_label("Token")
        assert field.is_visible() and page.locator("header.bar").count() == 0
        field.fill("wrong-one")
        page.keyboard.press("Enter")
        page.get_by_role("alert").get_by_text("not the token of this studio").wait_for()
        page.get_by_label("Token").fill("open-sesame")
        page.get_by_role("button", name="Open").click()
        page.locator("body.ready").wait_for()
        assert "sesame" not in page.url
        page.close()
