"""What is wrong with a filter, and where."""

from difflib import get_close_matches

from webapp.base.errors import InvalidInput

SHOWN_BEFORE, SHOWN_AFTER = 48, 24  # characters around the place at fault


class FilterError(InvalidInput):
    """A filter that cannot be read. `at` is the place in `text` (from 0), `reason` what was found, and `expected`
    what would do, in words; either may end the sentence."""

    def __init__(self, text: str, at: int, reason: str, expected: str = "") -> None:
        self.text = text
        self.at = min(max(at, 0), len(text))
        self.reason = reason
        self.expected = expected
        hint = f"; expected {expected}" if expected else ""
        self.said = f"{reason}{hint}" if reason.endswith("?") and not hint else f"{reason}{hint}."
        super().__init__("filter", f"filter, character {self.at + 1}: {self.said}", status=422)

    @property
    def pointer(self) -> str:
        """Two lines: the filter around the place at fault, and a caret under it."""
        start = max(0, self.at - SHOWN_BEFORE)
        end = min(len(self.text), self.at + SHOWN_AFTER)
        before, after = "…" if start else "", "…" if end < len(self.text) else ""
        line = "".join(c if c.isprintable() else " " for c in self.text[start:end])
        return f"{before}{line}{after}\n{' ' * (len(before) + self.at - start)}^"


def nearest(name: str, known: list[str]) -> str:
    """`did you mean "state"?` for a name that is nearly known; empty for one that is not."""
    found = get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    return f'did you mean "{found[0]}"?' if found else ""
