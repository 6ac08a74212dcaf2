"""Ages on the server are those that the script goes on with."""

from datetime import UTC, datetime, timedelta

import pytest

from webapp.interfaces.pages.marks import age_words, ago_words

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("minutes", "words"),
    [
        (0, "now"),
        (1, "1 min"),
        (59, "59 min"),
        (60, "1 h"),
        (2879, "47 h"),
        (2880, "2 d"),
        (-5, "now"),
    ],
)
def test_age_words(minutes, words):
    assert age_words(NOW - timedelta(minutes=minutes), NOW) == words


def test_sentences_say_ago_but_not_just_now_ago():
    assert ago_words(NOW - timedelta(minutes=5), NOW) == "5 min ago"
    assert ago_words(NOW, NOW) == "just now"
