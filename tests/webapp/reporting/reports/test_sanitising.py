"""Hostile Markdown: no script, no handler, no address but http, https and our own paths, whatever is typed."""

from html.parser import HTMLParser
from urllib.parse import unquote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.deep import examples
from webapp.reporting.reports.document import ATTRIBUTES, TAGS, Prose, clean, html_of, is_allowed_link, read

VECTORS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<iframe src='javascript:alert(1)'></iframe>",
    "<a href='javascript:alert(1)'>x</a>",
    "<style>@import 'http://evil'</style>",
    "<base href='http://evil'>",
    "<meta http-equiv=refresh content='0;url=http://evil'>",
    "<form action='http://evil'><button>x</button></form>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<!--><img src=x onerror=alert(1)>-->",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<div style='background:url(javascript:alert(1))'>x</div>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](javascript&colon;alert(1))",
    "[x](vbscript:msgbox(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](file:///etc/passwd)",
    "[x](//evil.example/x)",
    "[x](/\\evil.example)",
    "[x](\\\\evil.example)",
    "[x](/\t/evil.example)",
    "[x](</%5C/evil.example>)",
    "[x](mailto:a@b.example)",
    "[x](http:evil)",
    "[x][y]\n\n[y]: javascript:alert(1)",
    "<javascript:alert(1)>",
    "![x](http://evil.example/pixel.png)",
    "![x](javascript:alert(1))",
    "[![x](http://evil.example/p.png)](javascript:alert(1))",
    '[x](http://a.example "onmouseover=alert(1)")',
    "[x](http://a.example '\"><script>alert(1)</script>')",
    "`<script>alert(1)</script>`",
    "```html\n<script>alert(1)</script>\n```",
    '```"><script>alert(1)</script>\nx\n```',
    "| a |\n|---|\n| <img src=x onerror=alert(1)> |",
    "# <img src=x onerror=alert(1)>",
    "x\u2028<script>alert(1)</script>",
    "\0<scr\0ipt>alert(1)</scr\0ipt>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "[x](https://a.example/?q=<script>)",
]


class Audit(HTMLParser):
    """Everything that is markup: tags and their attributes."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.others = [], [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_comment(self, data):
        self.others.append(data)

    handle_decl = handle_pi = unknown_decl = handle_comment


def check(html):
    found = Audit(html)
    assert set(found.tags) <= TAGS
    assert not found.others
    for tag, name, value in found.attributes:
        if name == "href":
            assert value.startswith(("http://", "https://", "/", "#")), value
            assert not unquote(value).replace("\t", "").replace("\n", "").startswith(("//", "/\\")), value
        elif name == "rel":
            assert value == "noopener noreferrer"
        elif name == "class":
            assert (tag in ("td", "th")) and value in ("num", "")
        else:
            assert name in ATTRIBUTES.get(tag, set()), (tag, name)
    links = found.tags.count("a")
    assert sum(name == "rel" for _, name, _ in found.attributes) == links


def rendered(text):
    return "".join(html_of(part) for part in read(text) if isinstance(part, Prose))


@pytest.mark.parametrize("vector", VECTORS)
def test_a_known_attack_is_only_text(vector):
    check(rendered(vector))
    check(rendered(f"- a\n- > {vector}\n\n| t |\n|---|\n| {vector} |"))
    check(clean(vector))  # also were the reader of Markdown ever to let it pass


PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            ["[", "](", ")", "<", ">", "javascript:", "//", "/", "\\", "![", "`", "```", "\n", "\n\n", "|", "---", "- ",
             "> ", "# ", "*", "**", "~~", "&#106;", "&colon;", "onerror=", '"', "'", "http://a", "<script>", "<!--",
             "]: ", "\t", "\0", "headroom\n", "style=", "data:", "1. "]
        ),
        st.text(max_size=6),
    ),
    max_size=25,
)  # fmt: skip


@settings(max_examples=examples(400), deadline=None)
@given(PIECES)
@example(["[", "x", "](", "/", "\\", "evil", ")"])
def test_no_text_becomes_more_than_markdown(pieces):
    check(rendered("".join(pieces)))


@settings(max_examples=examples(300))
@given(st.text(max_size=60))
def test_a_link_that_is_allowed_leads_to_http_or_to_us(url):
    if is_allowed_link(url):
        assert url.lower().startswith(("http://", "https://")) or url[:1] in "/#"
        assert "\\" not in url
        assert url[:2] != "//"


def test_headings_leave_no_level_out():
    assert [part for part in rendered("## a\n\n#### b\n\n## c\n\n###### d").split("<") if part[:1] == "h"] == [
        "h2>a", "h3>b", "h2>c", "h3>d",
    ]  # fmt: skip


def test_what_is_allowed_is_drawn():
    html = rendered(
        '# One\n\n**b** *i* `c` ~~s~~ [out](https://a.example/x "t") [own](/runs)\n\n- a\n\n3. b\n\n> q\n\n---\n\n'
        "| a | b |\n|---|--:|\n| 1 | 2 |\n"
    )

    assert "<h2>One</h2>" in html
    for piece in ("<strong>b</strong>", "<em>i</em>", "<code>c</code>", "<s>s</s>", "<blockquote>", "<hr>"):
        assert piece in html
    assert '<a href="https://a.example/x" title="t" rel="noopener noreferrer">out</a>' in html
    assert '<a href="/runs" rel="noopener noreferrer">own</a>' in html
    assert '<ol start="3">' in html
    assert '<td class="num">2</td>' in html
