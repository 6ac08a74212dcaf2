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
    "overview": 180, "connect": 40, "runs": 130, "launch": 100, "run": 290, "run-samples": 60, "compare": 300,
    "leaderboard": 160,
    "studies": 80, "study": 360, "new-study": 300, "planner": 260, "predictions": 80, "prediction": 330,
    "new-prediction": 170, "calibration": 80, "forecast-record": 110, "recipes": 320, "recipe": 290, "new-revision":
    50, "shares": 90, "new-share": 60, "shared": 80, "embed": 20, "members": 80, "project-settings": 190,
    "organisation": 70, "audit": 200, "alerts": 380, "new-alert-rule": 110, "new-alert-channel": 70,
    "alert-preferences": 90, "notices": 80, "automation": 240, "status": 180, "tokens": 90, "api-docs": 1140,
    "sign-in": 30, "decisions": 70, "reports": 50, "report": 80, "edit-report": 90, "report-history": 80,
    "report-links": 70, "imports": 50, "new-import": 190, "import": 140, "shared-report": 70, "profile": 100,
    "change-password": 60, "forgot-password": 30,
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
        if self.open[-1][0]:
            self.number += sum(any(map(str.isalpha, word)) for word in data.split())


def count(page: str) -> int:
    words = Words()
    words.feed(page)
    return words.number


def test_words_are_counted_but_for_what_is_hidden():
    assert count("<p>Two words <b hidden>not</b> <input> 0.7 <select><option>no</option></select></p>") == 2
    assert (
        count(
            "<details><summary>More</summary><p>folded away</p></details><details open><p>two here</p></details>"
        )
        == 3
    )


def test_no_page_says_more_than_its_measure(ada, user, make_run):
    things = make_things(user, make_run)
    found = {
        name: count((Client() if name in WITHOUT_ACCOUNT else ada).get(address(things)).content.decode())
        for name, address in PAGES.items()
    }

    assert {name: words for name, words in found.items() if words > MOST[name]} == {}
