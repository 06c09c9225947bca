"""Debian's chromium, without a window, driven through its debugging pipe: pages as a user sees and types into them.

    with headless.browser() as open_page:
        page = open_page(path)
        page.press("Tab")
        page.value("document.title")
        page.errors          # what went to the console as an error, exceptions included

Nothing but Python's own library is needed. The browser is found as `chromium`; CRESSET_CHROMIUM names another.
"""
from __future__ import annotations

import base64
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

TIMEOUT = 60
_KEYS = {"Enter": (13, "\r"), "Tab": (9, ""), "Escape": (27, ""), "ArrowDown": (40, ""), "ArrowUp": (38, ""),
         "ArrowLeft": (37, ""), "ArrowRight": (39, ""), "Home": (36, ""), "End": (35, "")}


def find():
    return shutil.which(os.environ.get("CRESSET_CHROMIUM", "chromium"))


class Pipe:
    """Messages of the DevTools protocol, one at a time."""

    def __init__(self, process, to_browser, from_browser):
        self.process, self.to, self.number, self.events, self.rest = process, to_browser, 0, [], b""
        self.fd = from_browser
        os.set_blocking(from_browser, False)

    def receive(self, until):
        while b"\0" not in self.rest:
            if time.monotonic() > until:
                raise TimeoutError("the browser does not answer")
            try:
                piece = os.read(self.fd, 1 << 20)
                if not piece:
                    raise RuntimeError("the browser has gone")
                self.rest += piece
            except BlockingIOError:
                time.sleep(0.002)
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def call(self, method, session=None, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + TIMEOUT
        while True:
            answer = self.receive(until)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)


class Page:
    def __init__(self, pipe, path, width, height, dark):
        self.pipe = pipe
        target = pipe.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = pipe.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.began = time.monotonic()
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        self.wait("document.readyState === 'complete' && !!document.querySelector('[data-drawn]')")
        # two frames later what was made has been laid out and painted
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
        self.seconds = time.monotonic() - self.began

    def call(self, method, **params):
        return self.pipe.call(method, self.session, **params)

    def value(self, script):
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"].get("exception", {}).get("description", script))
        return found["result"].get("value")

    def wait(self, script):
        until = time.monotonic() + TIMEOUT
        while not self.value(script):
            if time.monotonic() > until:
                raise TimeoutError(f"never came true: {script}; errors: {self.errors}")
            time.sleep(0.01)

    def press(self, key, times=1):
        code, text = _KEYS[key] if key in _KEYS else (ord(key.upper()), key)
        for _ in range(times):
            for kind in ("keyDown" if text else "rawKeyDown", "keyUp"):
                extra = {"text": text} if kind == "keyDown" else {}
                self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **extra)

    def type(self, text):
        for letter in text:
            self.press(letter)

    def _events(self, method):
        self.value("0")
        return [e["params"] for e in self.pipe.events if e.get("method") == method and
                e.get("sessionId") == self.session]

    @property
    def errors(self):
        entries = [e["entry"] for e in self._events("Log.entryAdded")]
        logged = [entry["text"] for entry in entries if entry["level"] in ("error", "warning")]
        said = [str(e["args"]) for e in self._events("Runtime.consoleAPICalled") if e["type"] in ("error", "assert")]
        return logged + said + [str(e["exceptionDetails"]) for e in self._events("Runtime.exceptionThrown")]

    @property
    def requests(self):
        return [e["request"]["url"] for e in self._events("Network.requestWillBeSent")]

    def screenshot(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


@contextlib.contextmanager
def browser():
    with tempfile.TemporaryDirectory() as home:
        to_read, to_write = os.pipe()
        from_read, from_write = os.pipe()

        def take_pipes():  # the protocol is spoken on descriptors 3 and 4
            a, b = os.dup(to_read), os.dup(from_write)
            os.dup2(a, 3)
            os.dup2(b, 4)
        command = [find(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--no-first-run", "--disable-extensions", "--remote-debugging-pipe", f"--user-data-dir={home}",
                   "about:blank"]
        process = subprocess.Popen(command, preexec_fn=take_pipes, close_fds=False, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        pipe = Pipe(process, to_write, from_read)

        def open_page(path, width=1400, height=900, dark=False):
            return Page(pipe, path, width, height, dark)
        try:
            yield open_page
        finally:
            with contextlib.suppress(Exception):
                pipe.call("Browser.close")
            process.terminate()
            process.wait(TIMEOUT)
            os.close(to_write)
            os.close(from_read)
