"""Running the studio until somebody stops it."""

from __future__ import annotations

import os
import re
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

from edgecape.errors import SettingsError, require

if TYPE_CHECKING:
    from edgecape.predictor import EdgeCape

WORD = re.compile(r"[A-Za-z0-9._~-]{8,}")  # what needs no quoting in an address or a header


def require_studio() -> None:
    """FastAPI reads uploads with python_multipart."""
    require("studio", "the studio", "fastapi", "python_multipart", "uvicorn")


class Token(NamedTuple):
    word: str
    place: str | None = None  # where it can be looked up; None: the command line, where everybody sees it anyway


def find_token(given: str | None, file: Path | None) -> Token | None:
    """As given, from the file, or from the environment."""
    if given is not None:
        return Token(given)
    if file is None:
        return Token(word, "the variable EDGECAPE_TOKEN") if (word := os.environ.get("EDGECAPE_TOKEN")) else None
    try:
        return Token(file.read_text(encoding="utf-8").strip(), str(file))
    except (OSError, ValueError) as error:
        raise SettingsError(f"token file {file} cannot be read: {error}; write the token into it") from None


def serve(
    project: Path,
    load: Callable[[], EdgeCape],
    host: str = "127.0.0.1",
    port: int = 7860,
    token: Token | None = None,
    browser: bool = True,
) -> None:
    """Returns when it was interrupted; an error if the model cannot be loaded."""
    require_studio()
    import uvicorn

    from edgecape.studio.app import create_app
    from edgecape.studio.engine import Engine
    from edgecape.studio.limits import Limits
    from edgecape.studio.project import ProjectStore
    from edgecape.studio.security import Access, is_loopback

    if token is None and not is_loopback(host):
        raise SettingsError(f"with --host {host} other machines can use the studio; set a --token that they need")
    if token is not None and not WORD.fullmatch(token.word):
        raise SettingsError("a token has at least 8 letters, digits or any of . _ ~ -; choose one that nobody guesses")
    limits = Limits()
    store = ProjectStore(project, limits)
    listener = _listen(host, port)
    store.open_folder()
    engine = Engine(load, limits.queue)
    config = uvicorn.Config(
        create_app(store, engine, Access(host, token.word if token else None)),
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=60,  # seconds for the batch at hand or an upload; a second Ctrl-C does not wait
    )

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            threading.Thread(target=engine.stop).start()  # so that streams come to an end
            super().handle_exit(sig, frame)

    server = Server(config)
    name = reachable(host)
    shown = f"[{name}]" if ":" in name else name
    address = f"http://{shown}:{listener.getsockname()[1]}/"
    address += f"?token={token.word}" if token and not token.place else ""  # a secret is shown neither here nor to ps
    asked = f"token: in {token.place}, " if token and token.place else ""
    print(f"edgecape studio: {address}  ({asked}project: {project}, stop with Ctrl-C)", flush=True)
    if browser:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    def give_up_without_model() -> None:
        engine.loaded.wait()
        server.should_exit = engine.error is not None

    threading.Thread(target=give_up_without_model, daemon=True).start()
    before, tempfile.tempdir = tempfile.tempdir, str(store.work)  # large uploads are spooled: not elsewhere either
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        pass
    finally:
        tempfile.tempdir = before
        listener.close()
        store.close_folder()
    if engine.estimator is None and engine.error is not None:
        raise engine.error


def reachable(host: str) -> str:
    """An address that other machines can use, of a studio that listens at all of this machine's."""
    if host not in ("0.0.0.0", "::"):
        return host
    family, elsewhere = (socket.AF_INET6, "2001:db8::1") if ":" in host else (socket.AF_INET, "192.0.2.1")
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as way:
            way.connect((elsewhere, 9))  # sends nothing, but chooses the address it would be sent from
            return str(way.getsockname()[0])
    except OSError:  # no network
        return "127.0.0.1"


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise SettingsError(f"port {port} does not exist; choose one from 1 to 65535, or 0 for any that is free")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        if os.name == "posix":  # elsewhere it would let two studios share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        hint = "is a studio running there? choose another --port, or 0 for any that is free"
        raise SettingsError(f"{host}:{port} cannot be used: {error.strerror or error}; {hint}") from None
    return listener
