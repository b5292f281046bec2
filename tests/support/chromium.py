"""A headless Chromium, driven by the DevTools protocol over two pipes: no driver and no port."""

import fcntl
import json
import os
import select
import shutil
import subprocess
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING = "no Chromium is here: apt-get install chromium (or put chromium, chromium-browser or google-chrome on PATH)"
LONGEST = 60.0  # seconds for one command: two cores may be busy with other tests


def find():
    """The path of the browser; None without one."""
    return next((result for name in NAMES if (result := shutil.which(name))), None)


class Chromium:
    """One browser with one page. `problems` has what the page reported as errors since it was opened."""

    def __init__(self, home):
        """home: an empty folder for its profile and downloads."""
        self.problems = []
        self.downloads = home / "downloads"
        self.downloads.mkdir(parents=True)
        # It reads commands at descriptor 3 and writes answers at 4. Ours must not be these when bash moves them there.
        ours = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for pair in (os.pipe(), os.pipe()) for end in pair]
        theirs_in, self._out, self._in, theirs_out = ours
        move = 'in=$1 out=$2; shift 2; exec "$@" 3<&"$in" 4>&"$out"'
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        options += ["--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={home / 'profile'}"]
        moved = ["bash", "-c", move, "chromium", str(theirs_in), str(theirs_out)]
        command = [*moved, str(find()), *options, "about:blank"]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(command, pass_fds=(theirs_in, theirs_out), stdout=quiet, stderr=quiet)
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer, self._count, self._session = b"", 0, ""
        self._events = []
        (target,) = [one for one in self.send("Target.getTargets")["targetInfos"] if one["type"] == "page"][:1]
        attached = self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method, **parameters):
        """The result of a command; AssertionError with what the browser says if it fails."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session and not method.startswith(("Target.", "Browser.")):
            message["sessionId"] = self._session
        rest = memoryview(json.dumps(message).encode() + b"\0")
        while rest:  # a library does not fit into a pipe at once
            rest = rest[os.write(self._out, rest) :]
        while (answer := self._next()).get("id") != self._count:
            self._note(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return dict(answer["result"])

    def open(self, path):
        """Show a page, and wait until it is loaded."""
        self.problems.clear()
        self._events.clear()
        self.send("Page.navigate", url=path.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._note(self._next())

    def run(self, script):
        """The value of an expression in the page, after its promise if it is one."""
        options = {"awaitPromise": True, "returnByValue": True, "userGesture": True}
        answer = self.send("Runtime.evaluate", expression=script, **options)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key):
        """Press and release a key that is called so in KeyboardEvent.key, such as Tab."""
        codes = {"Tab": 9, "Enter": 13, "ArrowRight": 39, "ArrowLeft": 37}
        for kind in ("rawKeyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key])

    def point_at(self, selector):
        """Move the pointer onto the middle of the first element that matches."""
        self.run(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
        box = self.run(
            f"(() => {{ const box = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])

    def downloaded(self, click):
        """(name, text) of the file that a click on the first element that matches downloads."""
        behaviour = {"behavior": "allow", "downloadPath": str(self.downloads)}
        self.send("Browser.setDownloadBehavior", **behaviour)
        self.run(f"document.querySelector({json.dumps(click)}).click()")
        until = time.monotonic() + LONGEST
        while time.monotonic() < until:
            done = [one for one in self.downloads.iterdir() if one.suffix in (".csv", ".yaml")]  # else it is under way
            if done and (text := done[0].read_text(encoding="utf-8")):
                done[0].unlink()
                return done[0].name, text
            time.sleep(0.05)
        raise AssertionError(f"a click on {click} downloaded nothing")

    def close(self):
        self.send("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._out)
        os.close(self._in)

    def _next(self):
        until = time.monotonic() + LONGEST
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(until - time.monotonic(), 0))
            assert ready, "Chromium does not answer"
            piece = os.read(self._in, 1 << 16)
            assert piece, "Chromium ended"
            self._buffer += piece
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))

    def _note(self, event):
        if "method" not in event:
            return
        self._events.append(event)
        details = event.get("params", {})
        if event["method"] == "Runtime.exceptionThrown":
            self.problems.append(str(details["exceptionDetails"]))
        elif event["method"] == "Runtime.consoleAPICalled" and details["type"] in ("error", "warning", "assert"):
            self.problems.append(str(details["args"]))
        elif event["method"] == "Log.entryAdded" and details["entry"]["level"] in ("error", "warning"):
            self.problems.append(str(details["entry"]))
