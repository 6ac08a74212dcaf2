"""Charts are sketches until somebody points at one: then they are Plotly's."""

from playwright.sync_api import Page


def live(page: Page, chart: str = "#chart") -> None:
    """Points at a chart once it is drawn, and waits until Plotly has drawn it."""
    page.wait_for_selector(f"{chart} svg")
    page.locator(chart).first.dispatch_event("pointerover")
    page.wait_for_selector(f"{chart} .main-svg")
