"""What the run page says of the forecast: its ceiling beside the paper's, and the table at more compute."""

from typing import Any

from django.template.loader import render_to_string

from webapp.science.curves import ahead, words


def words_of(figure: dict[str, Any]) -> dict[str, Any]:
    """{"forecast_ceiling", "paper_text", "forecast_html"} of the payload of `run_figure`."""
    forecast, paper = figure["forecast"], figure["ceiling"]
    ceiling = forecast["ceiling"] if forecast else ahead.ceiling(None)
    context = {
        "forecast": forecast,
        "level": words.percent(forecast["level"]) if forecast else "",
        "ends": words.span((ceiling["lo"], ceiling["hi"])),
        "recalibrated": forecast["recalibrated"] if forecast else "",
    }
    return {
        "forecast_ceiling": ceiling,
        "paper_text": f"{paper['text']}, {paper['interval_text']}"
        if paper["lo"] is not None
        else "no fit yet",
        "forecast_html": render_to_string("run/_forecast.html", context).strip(),
    }
