"""First and largest paint, blocked time, layout shift and script of each page in Chromium on a slowed processor.

    .venv/bin/python -m benchmarks.bench_paint [--home DIR] [--runs 500] [--points 2000000] [--slower 4] [--repeats 3]
    .venv/bin/python -m benchmarks.bench_paint --site http://127.0.0.1:8000 --user admin --password ...

The web server is started as `manage.py up` does it; with `--site` it is one that runs, of which every page is visited
that links lead to, once of each kind. Each visit has an empty cache; Chromium slows the processor of the
page (Emulation.setCPUThrottlingRate), not that of the server. What shifted is named, so that it can be mended.
The score is that of Lighthouse 10 for phones, of 100, by its weights and curves, without its speed index, and without a
slow network: the pages come from this machine.
"""

import argparse
import math
import os
import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs

from scipy.special import ndtr, ndtri

from benchmarks.bench_pages import COMPARED, web_server
from benchmarks.home import PROJECT, add_options, made_home, session_key

GOAL_PAINT_MS, GOAL_SHIFT, GOAL_SCRIPT_BYTES, GOAL_SCORE = 1000.0, 0.0, 1_200_000, 95.0
# Weight, and where a tenth and where half of all pages are better, of: first paint, largest paint, blocked time, shift.
CURVES = ((10, 1800.0, 3000.0), (25, 2500.0, 4000.0), (30, 200.0, 600.0), (25, 0.1, 0.25))
SETTLE_MS = 1500  # after the page is loaded: charts draw, lists refresh
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
NO_PAGES = ("-csv", "-json", "-jsonl", "-parquet", "-html", "-picture")
LINKS = "(links) => links.map((link) => link.getAttribute('href'))"
# Set before the page's own scripts run.
OBSERVE = """
window.__shifts = [];
window.__largest = 0;
window.__tasks = [];
new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.__largest = entry.startTime;
}).observe({ type: "largest-contentful-paint", buffered: true });
new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.__tasks.push([entry.startTime, entry.duration]);
}).observe({ type: "longtask", buffered: true });
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
    largest: window.__largest,
    tasks: window.__tasks,
})"""


@dataclass(frozen=True)
class Visit:
    """One visit with an empty cache. Times in milliseconds since the navigation, bytes as they came over the wire."""

    paint_ms: float
    largest_ms: float
    blocked_ms: float  # of tasks after the first paint, what is over 50 ms of each
    loaded_ms: float
    shift: float
    shifted: tuple[str, ...]
    script_bytes: int
    all_bytes: int

    @property
    def score(self) -> float:
        """Of 100, as Lighthouse has it (see the module)."""
        found = (self.paint_ms, self.largest_ms, self.blocked_ms, self.shift)
        parts = [
            weight * _share(x, good, middling)
            for x, (weight, good, middling) in zip(found, CURVES, strict=True)
        ]
        return 100.0 * sum(parts) / sum(weight for weight, *_ in CURVES)


def _share(x: float, good: float, middling: float) -> float:
    """1 less a log-normal distribution: 0.9 at `good`, 0.5 at `middling`."""
    if x <= 0:
        return 1.0
    sd = (math.log(middling) - math.log(good)) / float(ndtri(0.9))
    return 1.0 - float(ndtr((math.log(x) - math.log(middling)) / sd))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_options(parser)
    parser.add_argument(
        "--slower", type=float, default=4.0, help="the processor of the page, this many times (4)"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", help="one page, by its name in the table")
    parser.add_argument("--site", help="address of a server that runs, in place of made data")
    parser.add_argument("--user", default="admin", help="who signs in there (admin)")
    parser.add_argument("--password")
    parser.add_argument("--also", nargs="*", default=[], help="paths that no link leads to")
    options = parser.parse_args(arguments)
    chromium = shutil.which("chromium")
    if chromium is None:
        print("no chromium on the PATH: nothing is measured")
        return
    if options.site:
        key, found = linked_pages(chromium, options)
        visits = measure(chromium, options.site, found, key, options)
    else:
        with made_home(options) as folder, web_server(folder) as url:
            visits = measure(chromium, url, pages(), session_key(), options)
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
        "overview": "/",
        "studies": "/studies",
        "planner": "/planner",
        "predictions": "/predictions",
        "recipes": "/recipes",
        "reports": "/reports",
        "status": "/status",
    }


def linked_pages(chromium: str, options: argparse.Namespace) -> tuple[str, dict[str, str]]:
    """Key of a session, and name -> path of one page of each kind that links lead to from the overview."""
    import django
    from playwright.sync_api import sync_playwright

    os.environ["DJANGO_SETTINGS_MODULE"] = "webapp.settings"
    django.setup()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_context(base_url=options.site).new_page()
        page.goto("/sign-in")
        page.fill("[name=username]", options.user)
        page.fill("[type=password]", options.password)
        page.press("[type=password]", "Enter")
        page.wait_for_url("/")
        found, waiting = {"sign-in": "/sign-in"}, ["/", *options.also]
        for path in waiting:
            name = kind_of(path)
            if name is None or name in found:
                continue
            answer = page.goto(path)
            if answer is None or not (answer.header_value("content-type") or "").startswith("text/html"):
                continue
            found[name] = path
            waiting += page.eval_on_selector_all("a[href^='/']:not([download])", LINKS)
        (key,) = (cookie["value"] for cookie in page.context.cookies() if cookie["name"] == "sessionid")
        browser.close()
    return key, found


def kind_of(path: str) -> str | None:
    """Name of the view of a path, and its tab; None: what is no page."""
    from django.urls import Resolver404, resolve

    address, _, query = path.partition("#")[0].partition("?")
    try:
        name = resolve(address).url_name
    except Resolver404:
        return None
    tab = parse_qs(query).get("tab", [""])[0]
    is_page = name and not name.endswith(NO_PAGES)
    return f"{name} {tab}".strip() if is_page else None


def measure(
    chromium: str, url: str, paths: dict[str, str], key: str, options: argparse.Namespace
) -> dict[str, list[Visit]]:
    """Visits of each page, after one that warms the server."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        found = {}
        for name, path in paths.items():
            if options.only in (None, name):
                signed_in = key if name != "sign-in" else None
                visits = [
                    visit(browser, url, path, signed_in, options.slower) for _ in range(options.repeats + 1)
                ]
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
    paint = seen["paint"] if seen["paint"] is not None else float("nan")
    return Visit(
        paint_ms=paint,
        largest_ms=seen["largest"],
        blocked_ms=sum(
            max(duration - 50.0, 0.0) for start, duration in seen["tasks"] if start + duration > paint
        ),
        loaded_ms=seen["loaded"],
        shift=sum(shift["value"] for shift in seen["shifts"]),
        shifted=tuple(dict.fromkeys(name for shift in seen["shifts"] for name in shift["names"])),
        script_bytes=sum(size for request, size in sizes.items() if kinds.get(request) == "Script"),
        all_bytes=sum(sizes.values()),
    )


def show(found: dict[str, list[Visit]], slower: float) -> None:
    """The table; medians of the times, the worst of the shifts."""
    goals = f"score {GOAL_SCORE:.0f}, paint {GOAL_PAINT_MS:.0f} ms, no shift, script {GOAL_SCRIPT_BYTES / 1000:.0f} KB"
    print(f"processor {slower:g} times slower; goals: {goals}")
    columns = f"{'score':>7}{'paint ms':>10}{'largest':>9}{'blocked':>9}{'loaded ms':>11}{'shift':>8}"
    print(f"{'':24}{columns}{'script KB':>11}{'all KB':>8}")
    for name, visits in found.items():
        paint, largest, blocked, loaded, score = (
            statistics.median(getattr(visit, name) for visit in visits)
            for name in ("paint_ms", "largest_ms", "blocked_ms", "loaded_ms", "score")
        )
        worst = max(visits, key=lambda visit: visit.shift)
        script = max(visit.script_bytes for visit in visits)
        total = max(visit.all_bytes for visit in visits)
        over = [
            word
            for word, true in (
                ("score under", not score >= GOAL_SCORE),
                ("paint over", not paint <= GOAL_PAINT_MS),
                ("shifts: " + ", ".join(worst.shifted), worst.shift > GOAL_SHIFT),
                ("script over", script > GOAL_SCRIPT_BYTES),
            )
            if true
        ]
        row = (
            f"{name:24}{score:7.1f}{paint:10.0f}{largest:9.0f}{blocked:9.0f}{loaded:11.0f}{worst.shift:8.3f}"
            f"{script / 1000:11.0f}{total / 1000:8.0f}"
        )
        print(f"{row}  {'; '.join(over) or 'reached'}")


if __name__ == "__main__":
    main()
