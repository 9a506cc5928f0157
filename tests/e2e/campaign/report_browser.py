#!/usr/bin/env python3
"""report_browser.py CHROMIUM PAGE [SCREENSHOTS]: checks a report in a real browser, from file://.

In light and dark mode, at the width of a telephone and of a screen, the console must
stay empty, the page may request nothing but itself, it may not scroll sideways, and its
colours must follow the mode and have enough contrast. SCREENSHOTS is a folder for pictures.
The script speaks the DevTools protocol over a pipe, so it needs only Chromium.
"""

import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile

WIDTHS = (360, 1180)


class Browser:
    def __init__(self, program, profile):
        # Chromium reads commands from its descriptor 3 and answers on 4.
        ours, self.write = os.pipe()
        self.read, theirs = os.pipe()

        def arrange():
            a, b = os.dup(ours), os.dup(theirs)
            os.dup2(a, 3)
            os.dup2(b, 4)
            os.close(a)
            os.close(b)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}",
             "about:blank"],
            preexec_fn=arrange, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(ours)
        os.close(theirs)
        self.buffer, self.number, self.events, self.session = b"", 0, [], None

    def message(self):
        while b"\0" not in self.buffer:
            more = os.read(self.read, 1 << 16)
            if not more:
                raise RuntimeError("Chromium has gone")
            self.buffer += more
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.write, json.dumps(request).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, method):
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.message())

    def value(self, expression):
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def close(self):
        self.session = None
        try:
            self.call("Browser.close")
        except (RuntimeError, OSError):
            pass
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def contrast(a, b):
    """The contrast ratio of two colours (r, g, b), as WCAG 2 defines it."""
    def luminance(colour):
        parts = [c / 255 for c in colour]
        parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
    high, low = sorted([luminance(a), luminance(b)], reverse=True)
    return (high + 0.05) / (low + 0.05)


def look(browser, page, scheme, width, shots):
    wrong, where = [], f"{scheme}, {width} px"
    browser.events.clear()
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 500)
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.call("Page.navigate", url=page)
    browser.wait_for("Page.loadEventFired")
    # Folded parts are opened and checked as well.
    browser.value("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    browser.value("1")
    for event in browser.events:
        method, p = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent" and p["request"]["url"] != page:
            wrong.append(f"{where}: a request leaves the page: {p['request']['url']}")
        if method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            wrong.append(f"{where}: the console says: {json.dumps(p)[:300]}")
        if method == "Log.entryAdded":
            wrong.append(f"{where}: the console says: {p['entry'].get('text')}")
    sections = browser.value("[...document.querySelectorAll('section')].map(s => s.id).join(' ')")
    if sections != "findings time lengths audit machine":
        wrong.append(f"{where}: its sections are '{sections}'")
    wide = browser.value("document.documentElement.scrollWidth")
    if wide > width:
        culprit = browser.value(
            f"[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > {width + 1} && "
            "!e.closest('.scroll')).map(e => e.tagName + '.' + e.className).slice(0, 5).join(', ')")
        wrong.append(f"{where}: it scrolls sideways, {wide} px wide: {culprit}")
    colours = browser.value("(() => { const n = s => s.match(/[0-9.]+/g).slice(0, 3).map(Number);"
                            "const b = getComputedStyle(document.body), m = getComputedStyle(document.querySelector('.lead'));"
                            "return [n(b.backgroundColor), n(b.color), n(m.color)]; })()")
    if (sum(colours[0]) > 384) != (scheme == "light"):
        wrong.append(f"{where}: its background is {colours[0]}")
    for text in colours[1:]:
        if contrast(colours[0], text) < 4.5:
            wrong.append(f"{where}: text {text} on {colours[0]} has a contrast of {contrast(colours[0], text):.1f}, wanted 4.5")
    if shots:
        for name, opened in (("", False), ("-open", True)):
            browser.value(f"document.querySelectorAll('details').forEach(d => {{ d.open = {str(opened).lower()} || "
                          "d.hasAttribute('data-open'); })")
            size = browser.call("Page.getLayoutMetrics")["cssContentSize"]
            shot = browser.call("Page.captureScreenshot", captureBeyondViewport=True,
                                clip={"x": 0, "y": 0, "width": width, "height": min(size["height"], 12000), "scale": 1})
            (pathlib.Path(shots) / f"report-{scheme}-{width}{name}.png").write_bytes(base64.b64decode(shot["data"]))
    return wrong


def main():
    if len(sys.argv) not in (3, 4):
        print(__doc__.splitlines()[0])
        return 2
    page = pathlib.Path(sys.argv[2]).resolve().as_uri()
    wrong = []
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(sys.argv[1], profile)
        try:
            target = browser.call("Target.createTarget", url="about:blank")["targetId"]
            browser.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                browser.call(f"{domain}.enable")
            for scheme in ("light", "dark"):
                for width in WIDTHS:
                    wrong += look(browser, page, scheme, width, sys.argv[3] if len(sys.argv) > 3 else None)
        finally:
            browser.close()
    for what in wrong:
        print(what)
    print(f"{len(wrong)} things are wrong" if wrong else "light and dark, narrow and wide: all checks passed")
    return 1 if wrong else 0


sys.exit(main())
