import re

import numpy as np
import pytest

import scaling
from scaling.forecast import rolling
from scaling.plot import PlotError, ceiling_text, check, compare_figure, forecast_figure, write
from scaling.simulate import rewards


def simulated(last: float = 400.0):
    compute = np.linspace(last / 50, last, 50)
    rng = np.random.default_rng(0)
    return compute, rewards(compute, r0=0.1, a=0.6, b=1.9, c_mid=100.0, sd=0.01, rng=rng)


def test_the_fits_picture_has_points_band_curve_and_ceiling() -> None:
    fit = scaling.fit(*simulated())

    figure = compare_figure({"a.csv": fit})

    points, band, line = figure.data
    assert list(points.x) == list(fit.data.compute) and list(points.y) == list(fit.data.reward)
    assert list(line.y) == pytest.approx(list(fit.predict(line.x)))
    assert max(band.y) == pytest.approx(float(fit.predict_interval(1600.0)[1]))
    assert [shape.y0 for shape in figure.layout.shapes] == [fit.params["A"]]
    lo, hi = fit.interval("A")
    assert figure.layout.title.text == f"a.csv: ceiling {fit.params['A']:.3f} [{lo:.3f}, {hi:.3f}] (90 %)"


def test_no_ceiling_is_drawn_that_is_not_identified() -> None:
    early, flat = scaling.fit(*simulated(60.0)), scaling.fit(np.arange(1.0, 9.0), np.full(8, 0.4))

    figure = compare_figure({"early": early, "flat": flat})

    assert len(figure.layout.shapes) == 0
    assert ceiling_text(early) == early.message and "A is at least" in figure.layout.title.text
    assert len(figure.data) == 4  # the failed one has its points only


def test_a_forecast_stands_at_its_cutoff_with_its_interval() -> None:
    compute, reward = simulated()
    rows = rolling(compute, reward, (0.01, 0.4, 0.6))

    figure = forecast_figure(compute, reward, rows, title="a.csv")

    marks = figure.data[1]
    assert list(marks.x) == [160.0, 240.0]
    assert list(marks.y) == [row.predicted for row in rows[1:]]
    assert list(marks.y + marks.error_y.array) == pytest.approx([row.interval[1] for row in rows[1:]])
    assert list(marks.y - marks.error_y.arrayminus) == pytest.approx([row.interval[0] for row in rows[1:]])
    assert figure.layout.shapes[0].y0 == reward[-1]


def test_the_html_needs_no_network(tmp_path) -> None:
    write(compare_figure({"a": scaling.fit(*simulated())}), tmp_path / "a.html")

    html = (tmp_path / "a.html").read_text()
    assert len(html) > 1_000_000
    assert re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=", html) == []


def test_what_cannot_be_drawn_is_said_in_one_line(tmp_path) -> None:
    with pytest.raises(PlotError, match="a picture is .html or .png"):
        check(tmp_path / "a.pdf")
    with pytest.raises(PlotError, match="No such file"):
        write(compare_figure({"a": scaling.fit(*simulated())}), tmp_path / "none" / "a.html")
