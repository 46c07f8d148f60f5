"""Headless Chromium, driven by the DevTools protocol over a pipe: what a page shows, and what goes wrong on it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_SHOWN_S = 120.0


class Browser:
    """One page. `failures`: errors of its scripts, and requests that were answered by an error.

    `requested`: the addresses of all that it has asked for, sockets included.
    """

    def __init__(self) -> None:
        assert CHROMIUM is not None
        self.failures: list[str] = []
        self.requested: list[str] = []
        self._profile = tempfile.mkdtemp(prefix="chromium-")
        # Chromium reads commands from descriptor 3 and writes to 4, each message ended by a zero byte.
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        flags = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --remote-debugging-pipe"
        command = (
            f'exec "$0" {flags} --user-data-dir="$1" --window-size=1400,900 about:blank 3<&{to_read} 4>&{to_write}'
        )
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", command, CHROMIUM, self._profile],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._rest = b""
        self._number = 0
        self._session = ""
        target = next(one for one in self._call("Target.getTargets")["targetInfos"] if one["type"] == "page")[
            "targetId"
        ]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")

    def open(self, url: str) -> None:
        """Go to a page."""
        self._call("Page.navigate", url=url)

    def evaluate(self, script: str) -> Any:
        """The value of an expression on the page."""
        answer = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        return answer["result"].get("value")

    def text(self) -> str:
        """What the page shows."""
        return (self.evaluate("document.body ? document.body.innerText : ''") or "").replace("\xa0", " ")

    def wait_for(self, *texts: str) -> str:
        """What the page shows once all of this is there. Raises AssertionError if it does not come."""
        until = time.monotonic() + _SHOWN_S
        shown = self.text()
        while not all(text in shown for text in texts):
            assert time.monotonic() < until, f"the page shows {shown!r}, {self.failures}"
            time.sleep(0.1)
            shown = self.text()
        return shown

    def wait_for_none(self, text: str) -> None:
        """Wait until this is gone. Raises AssertionError if it stays."""
        until = time.monotonic() + _SHOWN_S
        while text in self.text():
            assert time.monotonic() < until, f"the page still shows {text!r}"
            time.sleep(0.1)

    def type(self, field: str, text: str) -> None:
        """Type into the last field that a selector finds."""
        self.evaluate(
            f"(() => {{ const field = [...document.querySelectorAll({json.dumps(field)})].pop();"
            f" field.value = {json.dumps(text)}; field.dispatchEvent(new Event('input', {{bubbles: true}})); }})()"
        )

    def resize(self, width: int, height: int) -> None:
        """Be as wide as a phone, or a wall."""
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def log_in(self, url: str, token: str) -> None:
        """Open an endpoint and type its token in."""
        self.open(url)
        self.wait_for("token")
        self.evaluate(f"document.querySelector('input').value = '{token}'")
        self.evaluate("document.querySelector('form').submit()")

    def click(self, text: str) -> None:
        """Click the last element whose own text this is."""
        found = self.evaluate(
            "(() => { const kinds = 'a, button, [nz-menu-item], .ant-tabs-tab, .q-tab, span';"
            " const all = [...document.querySelectorAll(kinds)]"
            f".filter(e => e.offsetParent && e.innerText && e.innerText.trim() === {json.dumps(text)});"
            " if (!all.length) return false; all[all.length - 1].click(); return true; })()"
        )
        assert found, f"there is no {text!r}: {self.text()!r}"

    def picture(self, path: Path) -> None:
        """Write what is seen, as PNG."""
        import base64

        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(30)
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self._profile, ignore_errors=True)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self._note(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = os.read(self._from, 1 << 20)
            assert data, "Chromium has ended"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def _note(self, event: dict[str, Any]) -> None:
        details = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requested.append(details["request"]["url"])
        elif event.get("method") == "Network.webSocketCreated":
            self.requested.append(details["url"])
        elif event.get("method") == "Runtime.exceptionThrown":
            thrown = details["exceptionDetails"]
            self.failures.append(thrown.get("exception", {}).get("description") or thrown["text"])
        elif event.get("method") == "Network.responseReceived" and details["response"]["status"] >= 400:
            self.failures.append(f"{details['response']['status']} {details['response']['url']}")
