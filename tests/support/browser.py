"""A headless chromium that a test talks to: pages are opened from files, asked, clicked and typed into.

    with Browser(folder) as browser:
        browser.open(path)
        browser.ask("document.title")

What the page asked of the network is in browser.requests, what its policy or its script complained of in browser.complaints.
It speaks the DevTools protocol over two pipes, so nothing listens anywhere.
"""

import base64
import json
import os
import select
import shutil
import signal
import subprocess

from runtimes import Missing

WORDS = (
    "--headless=new --no-sandbox --no-first-run --disable-dev-shm-usage --disable-gpu --disable-background-networking "
    "--disable-component-update --hide-scrollbars --remote-debugging-pipe"
).split()
WAIT = 120


class Browser:
    def __init__(self, folder):
        self.folder = folder
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        if not program:
            raise Missing("chromium is not installed")
        to_read, self.to_write = os.pipe()
        self.to_hear, to_say = os.pipe()
        alone = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        # It reads from 3 and writes to 4.
        script = 'exec "$@" 3<&"$FROM" 4>&"$TO"'
        with open(folder / "browser.log", "w") as log:
            words = [*alone, "bash", "-c", script, "bash", program, *WORDS, f"--user-data-dir={folder}/profile", "about:blank"]
            self.running = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(to_read, to_say),
                env={**os.environ, "FROM": str(to_read), "TO": str(to_say)},
            )
        os.close(to_read)
        os.close(to_say)
        self.number, self.heard, self.session = 0, b"", None
        self.requests, self.complaints, self.events = [], [], []

    def __enter__(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_):
        os.close(self.to_write)
        os.close(self.to_hear)
        if self.running.poll() is None:
            os.killpg(self.running.pid, signal.SIGKILL)
        self.running.wait()

    def next_message(self):
        while b"\0" not in self.heard:
            ready, _, _ = select.select([self.to_hear], [], [], WAIT)
            piece = os.read(self.to_hear, 1 << 20) if ready else b""
            assert piece, f"chromium: {(self.folder / 'browser.log').read_text()[-2000:]}"
            self.heard += piece
        one, self.heard = self.heard.split(b"\0", 1)
        return json.loads(one)

    def note(self, message):
        method, params = message.get("method"), message.get("params", {})
        self.events.append(method)
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(params["exceptionDetails"]["text"])
        elif method == "Log.entryAdded":
            self.complaints.append(params["entry"]["text"])

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.next_message()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self.note(answer)

    def open(self, path):
        """A file, or an address of this machine as text."""
        self.events.clear()
        self.call("Page.navigate", url=path if isinstance(path, str) else path.as_uri())
        while "Page.loadEventFired" not in self.events:
            self.note(self.next_message())

    def ask(self, expression):
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def looks(self, width, height=900, dark=False, mobile=False, paper=False):
        """How wide its window is, and what the page is told of its medium."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", media="print" if paper else "", features=scheme)

    def scripts(self, allowed):
        self.call("Emulation.setScriptExecutionDisabled", value=not allowed)

    def key(self, name, code, text=""):
        more = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, code=name, windowsVirtualKeyCode=code, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, code=name, windowsVirtualKeyCode=code)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def picture(self, path, whole=False):
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def paper(self):
        """What it prints, as PDF."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])
