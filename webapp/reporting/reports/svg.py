"""A chart as inline SVG whose colours are the tokens of the page, so that it follows the reader's theme."""

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from webapp.reporting.reports.scene import Scene, Shape, Words, described, drawing_of, scene_of


def svg_of(payload: dict, name: str, *, legend: bool = True) -> SafeString:
    """The SVG of a frozen or live drawing (JSON). `name` tells its clip path apart from others of the same page."""
    drawing = drawing_of(payload)
    scene = scene_of(drawing, legend=legend)
    left, top, right, bottom = scene.frame
    return format_html(
        '<svg class="drawn" viewBox="0 0 {} {}" role="img" aria-label="{}" xmlns="http://www.w3.org/2000/svg">'
        '<clipPath id="{}"><rect x="{}" y="{}" width="{}" height="{}"/></clipPath>{}{}{}</svg>',
        _n(scene.width), _n(scene.height), described(drawing), name, _n(left), _n(top - 6), _n(right - left + 8),
        _n(bottom - top + 6), _shapes(scene, inside=False), _clipped(scene, name), _words(scene),
    )  # fmt: skip


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _clipped(scene: Scene, name: str) -> SafeString:
    return format_html('<g clip-path="url(#{})">{}</g>', name, _shapes(scene, inside=True))


def _shapes(scene: Scene, *, inside: bool) -> SafeString:
    rows = (_attributes(shape) for shape in scene.shapes if shape.inside == inside)
    return format_html_join("", "<path {}/>", ((row,) for row in rows))


def _attributes(shape: Shape) -> SafeString:
    path = "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in shape.path) + ("Z" if shape.fill else "")
    found = [("d", path), ("fill", f"var(--{shape.fill})" if shape.fill else "none")]
    if shape.opacity < 1:
        found.append(("fill-opacity", _n(shape.opacity)))
    if shape.stroke:
        found += [("stroke", f"var(--{shape.stroke})"), ("stroke-width", _n(shape.width))]
    if shape.dash:
        found.append(("stroke-dasharray", " ".join(_n(size) for size in shape.dash)))
    return format_html_join(" ", '{}="{}"', found)


def _words(scene: Scene) -> SafeString:
    return format_html_join(
        "", '<text x="{}" y="{}" class="w-{}" text-anchor="{}">{}</text>', map(_text, scene.words)
    )


def _text(words: Words) -> tuple[str, str, str, str, str]:
    return _n(words.at[0]), _n(words.at[1]), words.ink, words.align, words.text
