"""How long the tests are that could go on for ever (property tests, made-up requests, the kill matrix): a short form in
`make test`, the long one in `make test-deep`.
"""

import os

import hypothesis

IS_DEEP = os.environ.get("TEST_DEEP") == "1"
SHORTER = 8  # times fewer examples in the short form
LEAST = 5  # examples


def examples(deep: int) -> int:
    """How many examples a property test tries that tries `deep` in its long form."""
    return deep if IS_DEEP else max(LEAST, deep // SHORTER)


def load_profile() -> None:
    """Examples of tests that name no number, the same each time where CI runs: what one change brings is told apart
    from luck. None has a deadline: a busy machine would miss it.
    """
    is_ci = os.environ.get("CI") or os.environ.get("REQUIRE_BROWSER") == "1"
    hypothesis.settings.register_profile(
        "headroom", deadline=None, derandomize=bool(is_ci), max_examples=examples(100)
    )
    hypothesis.settings.load_profile("headroom")
