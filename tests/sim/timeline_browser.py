"""A headless Chromium, driven through its debugging pipe with nothing but Python's own library."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")


class BrowserError(Exception):
    pass


def find_browser():
    for name in NAMES:
        path = shutil.which(name)
        if path:
            return path
    raise BrowserError(
        "there is no Chromium here (looked for %s): run tools/setup --tests, which installs it"
        % ", ".join(NAMES)
    )


class Page:
    """One page. What its scripts complain about is collected in `errors`."""

    def __init__(self, path, width=1600, height=900, dark=False, ready="!!window.timeline"):
        self.errors = []
        self.next_id = 0
        self.events = []
        self.buffer = b""
        browser = find_browser()
        self.home = tempfile.mkdtemp(prefix="leasehold-browser-")
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()
        command = [
            browser,
            "--headless=new",
            # The page is our own; and root, and many a container, cannot have Chromium's sandbox.
            "--no-sandbox",
            "--remote-debugging-pipe",
            "--user-data-dir=" + os.path.join(self.home, "profile"),
            "--no-first-run",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-extensions",
            "--disable-background-networking",
            "--hide-scrollbars",
            "--force-device-scale-factor=1",
            "--window-size=%d,%d" % (width, height),
            "about:blank",
        ]
        environment = dict(os.environ, HOME=self.home)
        log = open(os.path.join(self.home, "log"), "wb")
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", 'exec "$@" 3<&%d 4>&%d' % (to_browser, from_browser), "bash"]
            + command,
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            env=environment,
        )
        log.close()
        os.close(to_browser)
        os.close(from_browser)
        self.session = None
        targets = self.call("Target.getTargets")["targetInfos"]
        page = [t for t in targets if t["type"] == "page"][0]
        self.session = self.call(
            "Target.attachToTarget", targetId=page["targetId"], flatten=True
        )["sessionId"]
        self.call("Runtime.enable")
        self.call("Log.enable")
        self.call("Page.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.call(
            "Emulation.setEmulatedMedia",
            features=[
                {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            ],
        )
        self.call("Page.navigate", url=path if "://" in path else "file://" + path)
        self.wait_for("document.readyState === 'complete' && " + ready)

    def close(self):
        try:
            self.call("Browser.close", whole_browser=True)
        except BrowserError:
            pass
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        shutil.rmtree(self.home, ignore_errors=True)

    def receive(self):
        while b"\0" not in self.buffer:
            part = os.read(self.read_end, 1 << 20)
            if not part:
                with open(os.path.join(self.home, "log"), errors="replace") as log:
                    raise BrowserError("the browser has ended: " + log.read()[-2000:])
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, whole_browser=False, **parameters):
        self.next_id += 1
        message = {"id": self.next_id, "method": method, "params": parameters}
        if self.session and not whole_browser:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.next_id:
                if "error" in answer:
                    raise BrowserError("%s: %s" % (method, answer["error"]))
                return answer["result"]
            self.note(answer)

    def note(self, event):
        method, about = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.errors.append(about["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and about["type"] == "error":
            self.errors.append(json.dumps(about["args"]))

    def run(self, script):
        """The value of a JavaScript expression."""
        result = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in result:
            raise BrowserError("%s: %s" % (script, result["exceptionDetails"]))
        return result["result"].get("value")

    def settle(self):
        """Until what was asked for has been drawn."""
        self.run(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"
        )

    def wait_for(self, script, seconds=60):
        end = time.monotonic() + seconds
        while not self.run(script):
            if self.errors or time.monotonic() > end:
                raise BrowserError("waited for %s; errors: %s" % (script, self.errors))
            time.sleep(0.05)

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)
        self.settle()

    def key(self, key, **more):
        text = key if len(key) == 1 else ""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **more)
        self.settle()

    def screenshot(self, whole=False):
        """A PNG's bytes; `whole`: also of what is below the window's end."""
        return base64.b64decode(self.call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"])
