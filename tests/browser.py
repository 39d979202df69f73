"""A headless Chromium for tests, driven by its pipe: no server, no port, no library."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser") or ""
SECONDS: Final = 60
_FLAGS: Final = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--disable-dev-shm-usage", "--window-size=1500,950",
    "--remote-debugging-pipe",
)  # fmt: skip


class BrowserError(Exception):
    """The browser, or the page in it, said that something is wrong."""


class Browser:
    """One browser with one page; `with Browser(folder) as page: page.open(file)`.

    Attributes:
        said: What the page wrote to its console, and what it threw.
        asked: Addresses that the page tried to load, its own left out.
    """

    def __init__(self, folder: Path) -> None:
        """Start it; its profile is written into `folder`."""
        theirs, self._out = os.pipe()
        self._in, ours = os.pipe()
        shell = f'exec "$0" "$@" 3<&{theirs} 4>&{ours}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, CHROMIUM, *_FLAGS, f"--user-data-dir={folder}", "about:blank"],
            pass_fds=(theirs, ours),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs)
        os.close(ours)
        self._left = b""
        self._count = 0
        self.said: list[str] = []
        self.asked: list[str] = []
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        attached = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})
        self._session: str | None = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    _session: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._out)
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        os.close(self._in)

    def open(self, file: Path, fragment: str = "") -> None:
        """Load a page from a file, and wait until it says that it is ready."""
        self.call("Page.navigate", {"url": file.resolve().as_uri() + fragment})
        self.until("document.documentElement?.dataset.ready === 'yes'")

    def until(self, condition: str, seconds: float = SECONDS) -> None:
        """Wait until something is true."""
        end = time.monotonic() + seconds
        while not self.value(condition):
            if time.monotonic() > end:
                raise BrowserError(f"`{condition}` is not true after {seconds} s: {self.said}")
            time.sleep(0.02)

    def value(self, expression: str) -> Any:
        """The value of an expression of JavaScript, as JSON has it; a promise is awaited."""
        given = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        found = self.call("Runtime.evaluate", given)
        if "exceptionDetails" in found:
            raise BrowserError(json.dumps(found["exceptionDetails"])[:2000])
        return found["result"].get("value")

    def click(self, x: float, y: float) -> None:
        """Press the mouse at a point of the window."""
        for kind in ("mousePressed", "mouseReleased"):
            at = {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}
            self.call("Input.dispatchMouseEvent", at)

    def key(self, key: str, **more: Any) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if len(key) == 1 and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", {"type": kind, "key": key, **text, **more})

    def call(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a command of the DevTools protocol; return its result."""
        self._count += 1
        asked: dict[str, Any] = {"id": self._count, "method": method, "params": params or {}}
        if self._session is not None:
            asked["sessionId"] = self._session
        os.write(self._out, json.dumps(asked).encode() + b"\0")
        end = time.monotonic() + SECONDS
        while True:
            told = self._message(end)
            if told.get("id") == self._count:
                if "error" in told:
                    raise BrowserError(f"{method}: {told['error']}")
                result: dict[str, Any] = told["result"]
                return result
            self._note(told)

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.consoleAPICalled":
                self.said.append(" ".join(str(a.get("value")) for a in params["args"]))
            case "Runtime.exceptionThrown":
                self.said.append(json.dumps(params["exceptionDetails"])[:2000])
            case "Log.entryAdded":
                self.said.append(params["entry"]["text"])
            case "Network.requestWillBeSent":
                url = params["request"]["url"]
                if params.get("type") != "Document":
                    self.asked.append(url)

    def _message(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            more = os.read(self._in, 1 << 20) if ready else b""
            if not more:
                raise BrowserError("the browser does not answer")
            self._left += more
        text, _, self._left = self._left.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message
