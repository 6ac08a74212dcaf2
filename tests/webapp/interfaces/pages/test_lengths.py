"""How many words each page says to its reader: what grows above its measure has to say why, or to be cut."""

from html.parser import HTMLParser

from django.test import Client

from tests.webapp.interfaces.pages.addresses import PAGES, WITHOUT_ACCOUNT, make_things

UNSEEN = {
    "script",
    "style",
    "template",
    "svg",
    "head",
    "dialog",
    "select",
    "datalist",
    "pre",
    "textarea",
    "nav",
}
VOID = {
    "input",
    "option",
    "br",
    "meta",
    "link",
    "col",
    "img",
    "hr",
    "path",
    "circle",
    "rect",
    "line",
    "source",
}
MOST = {
    "overview": 130, "connect": 30, "runs": 80, "launch": 80, "run": 210, "run-samples": 40, "compare": 190,
    "leaderboard": 140, "studies": 50, "study": 250, "new-study": 170, "planner": 190, "predictions": 60,
    "prediction": 210, "new-prediction": 120, "calibration": 50, "forecast-record": 70, "recipes": 250,
    "recipe": 110, "new-revision": 40, "shares": 60, "new-share": 50, "shared": 50, "embed": 20, "members": 60,
    "project-settings": 160, "organisation": 40, "audit": 140, "alerts": 270, "new-alert-rule": 80,
    "new-alert-channel": 40, "alert-preferences": 70, "notices": 40, "automation": 240, "status": 120,
    "tokens": 80, "api-docs": 1140, "sign-in": 20, "decisions": 50, "reports": 30, "report": 50,
    "edit-report": 60, "report-history": 40, "report-links": 50, "imports": 30, "new-import": 120, "import": 80,
    "shared-report": 50, "profile": 70, "change-password": 30, "forgot-password": 20,
}  # fmt: skip


class Words(HTMLParser):
    """The words outside of what is hidden, or folded away, at first."""

    def __init__(self):
        super().__init__()
        self.number, self.open = (
            0,
            [(True, False)],
        )  # of each element: whether it is seen, and folds its content away

    def handle_starttag(self, tag, attrs):
        if tag in VOID:
            return
        names = {name for name, _ in attrs}
        seen, folds = self.open[-1]
        seen = (
            seen
            and tag not in UNSEEN
            and not {"hidden", "popover"} & names
            and (tag == "summary" or not folds)
        )
        self.open.append((seen, tag == "details" and "open" not in names))

    def handle_endtag(self, tag):
        if tag not in VOID:
            self.open.pop()

    def handle_data(self, data):
        seen, folds = self.open[-1]
        if seen and not folds:
            self.number += sum(any(map(str.isalpha, word)) for word in data.split())


def count(page: str) -> int:
    words = Words()
    words.feed(page)
    return words.number


def test_words_are_counted_but_for_what_is_hidden():
    assert count("<p>Two words <b hidden>not</b> <input> 0.7 <select><option>no</option></select></p>") == 2
    assert (
        count(
            "<details><summary>More</summary>and <p>folded away</p></details><details open><p>two here</p></details>"
        )
        == 3
    )


def test_no_page_says_more_than_its_measure(ada, user, make_run, settings):
    settings.EMAIL_CONFIGURED = True
    things = make_things(user, make_run)
    found = {
        name: count((Client() if name in WITHOUT_ACCOUNT else ada).get(address(things)).content.decode())
        for name, address in PAGES.items()
    }

    assert {name: words for name, words in found.items() if words > MOST[name]} == {}
