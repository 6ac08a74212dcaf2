"""First contentful paint, layout shift and script of each page in Chromium on a slowed processor, against the goals.

    .venv/bin/python -m benchmarks.bench_paint [--home DIR] [--runs 500] [--points 2000000] [--slower 4] [--repeats 3]

The web server is started as `manage.py up` does it. Each visit has an empty cache; Chromium slows the processor of the
page (Emulation.setCPUThrottlingRate), not that of the server. What shifted is named, so that it can be mended.
"""

import argparse
import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.bench_pages import COMPARED, web_server
from benchmarks.home import PROJECT, add_options, made_home, session_key

GOAL_PAINT_MS, GOAL_SHIFT, GOAL_SCRIPT_BYTES = 1000.0, 0.0, 1_200_000
SETTLE_MS = 1500  # after the page is loaded: charts draw, lists refresh
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
# Set before the page's own scripts run.
OBSERVE = """
window.__shifts = [];
new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
        if (entry.hadRecentInput) continue;
        const names = entry.sources.map(({ node }) => {
            const one = node?.nodeType === Node.TEXT_NODE ? node.parentElement : node;
            if (!one) return "?";
            const id = one.id ? "#" + one.id : "";
            return one.tagName.toLowerCase() + id + (one.className?.length ? "." + one.className : "");
        });
        window.__shifts.push({ value: entry.value, names });
    }
}).observe({ type: "layout-shift", buffered: true });
"""
MEASURE = """() => ({
    paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null,
    loaded: performance.getEntriesByType("navigation")[0].loadEventEnd,
    shifts: window.__shifts,
})"""


@dataclass(frozen=True)
class Visit:
    """One visit with an empty cache. Times in milliseconds since the navigation, bytes as they came over the wire."""

    paint_ms: float
    loaded_ms: float
    shift: float
    shifted: tuple[str, ...]
    script_bytes: int
    all_bytes: int


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_options(parser)
    parser.add_argument(
        "--slower", type=float, default=4.0, help="the processor of the page, this many times (4)"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", help="one page, by its name in the table")
    options = parser.parse_args(arguments)
    chromium = shutil.which("chromium")
    if chromium is None:
        print("no chromium on the PATH: nothing is measured")
        return
    with made_home(options) as folder, web_server(folder) as url:
        chosen = {name: path for name, path in pages().items() if options.only in (None, name)}
        visits = measure(chromium, url, chosen, options.slower, options.repeats)
    show(visits, options.slower)


def pages() -> dict[str, str]:
    """Name -> path of each page."""
    from webapp.record.runs.models import Run

    done = Run.objects.filter(project__slug=PROJECT, state="succeeded").order_by("-created_at", "id")
    ids = list(done.values_list("pk", flat=True)[:COMPARED])
    many = "&".join(f"run={pk}" for pk in ids)
    return {
        "sign-in": "/sign-in",
        "list of runs": "/runs",
        "run page": f"/runs/{ids[0]}",
        "compare of 4": "/compare?" + "&".join(f"run={pk}" for pk in ids[:4]),
        f"compare of {len(ids)}": f"/compare?{many}",
        f"metrics of {len(ids)}": f"/compare?{many}&tab=metrics&m=train/*",  # 14 panels
        f"settings of {len(ids)}": f"/compare?{many}&tab=settings",
        "leaderboard": "/leaderboard",
        "launch": "/runs/new",
    }


def measure(
    chromium: str, url: str, paths: dict[str, str], slower: float, repeats: int
) -> dict[str, list[Visit]]:
    """Visits of each page, after one that warms the server."""
    from playwright.sync_api import sync_playwright

    key = session_key()  # before the browser: its loop forbids Django's queries
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        found = {}
        for name, path in paths.items():
            signed_in = key if name != "sign-in" else None
            visits = [visit(browser, url, path, signed_in, slower) for _ in range(repeats + 1)]
            found[name] = visits[1:]
        browser.close()
    return found


def visit(browser, url: str, path: str, key: str | None, slower: float) -> Visit:
    """Load a page in a context of its own."""
    context = browser.new_context(base_url=url, viewport={"width": 1440, "height": 900})
    if key:
        context.add_cookies([{"name": "sessionid", "value": key, "url": url}])
    context.add_init_script(OBSERVE)
    page = context.new_page()
    wire = context.new_cdp_session(page)
    wire.send("Network.enable")
    wire.send("Emulation.setCPUThrottlingRate", {"rate": slower})
    kinds: dict[str, str] = {}
    sizes: dict[str, int] = {}
    wire.on("Network.responseReceived", lambda event: kinds.update({event["requestId"]: event["type"]}))
    wire.on(
        "Network.loadingFinished",
        lambda event: sizes.update({event["requestId"]: int(event["encodedDataLength"])}),
    )
    page.goto(path, wait_until="load")
    page.wait_for_timeout(SETTLE_MS)
    seen = page.evaluate(MEASURE)
    context.close()
    return Visit(
        paint_ms=seen["paint"] if seen["paint"] is not None else float("nan"),
        loaded_ms=seen["loaded"],
        shift=sum(shift["value"] for shift in seen["shifts"]),
        shifted=tuple(dict.fromkeys(name for shift in seen["shifts"] for name in shift["names"])),
        script_bytes=sum(size for request, size in sizes.items() if kinds.get(request) == "Script"),
        all_bytes=sum(sizes.values()),
    )


def show(found: dict[str, list[Visit]], slower: float) -> None:
    """The table; medians of the times, the worst of the shifts."""
    goals = f"paint {GOAL_PAINT_MS:.0f} ms, no shift, script {GOAL_SCRIPT_BYTES / 1000:.0f} KB"
    print(f"processor {slower:g} times slower; goals: {goals}")
    print(f"{'':18}{'paint ms':>10}{'loaded ms':>11}{'shift':>8}{'script KB':>11}{'all KB':>8}")
    for name, visits in found.items():
        paint = statistics.median(visit.paint_ms for visit in visits)
        loaded = statistics.median(visit.loaded_ms for visit in visits)
        worst = max(visits, key=lambda visit: visit.shift)
        script = max(visit.script_bytes for visit in visits)
        total = max(visit.all_bytes for visit in visits)
        over = [
            word
            for word, true in (
                ("paint over", not paint <= GOAL_PAINT_MS),
                ("shifts: " + ", ".join(worst.shifted), worst.shift > GOAL_SHIFT),
                ("script over", script > GOAL_SCRIPT_BYTES),
            )
            if true
        ]
        row = (
            f"{name:18}{paint:10.0f}{loaded:11.0f}{worst.shift:8.3f}{script / 1000:11.0f}{total / 1000:8.0f}"
        )
        print(f"{row}  {'; '.join(over) or 'reached'}")


if __name__ == "__main__":
    main()
