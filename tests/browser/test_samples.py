"""Formulas in samples: drawn where they are some, in view and harmless; everything else stays as a model wrote it."""

import re

from playwright.sync_api import expect

from tests.browser.look import look
from tests.webapp.interfaces.pages.run.test_samples import put, row

FINE = r"""The roots are $x = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a}$ and they cost $5 or $6, not \$7.
\[ \sum_{i=1}^{n} i^2 = \frac{n(n+1)(2n+1)}{6} \]
By \(a_1 \le a_2\) and $$\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}$$ the answer is $\boxed{\frac{3}{4}}$."""
WIDE = "$$" + " + ".join(f"x_{{{i}}}" for i in range(60)) + "$$"
HOSTILE = {
    "link": r"$\href{javascript:alert(1)}{here}$",
    "picture": r"$\includegraphics{https://example.org/a.png}$",
    "attribute": r"$\htmlStyle{position:fixed}{x}$",
    "bomb": r"$\def\a{\b\b}\def\b{\a\a}\a$",
    "hidden": r"$\phantom{cheated}$",
    "comment": "$$x % cheated\n$$",
    "moved": r"$\kern-9em x$",
    "unknown": r"$\nosuchcommand{x}$",
    "markup": "$<img src=x onerror=alert(1)>$",
    "unfinished": r"$\frac{1}{$",
    "deep": f"${'{' * 900}x{'}' * 900}$",
    "tower": "$" + r"\frac{" * 150 + "x" + "}{2}" * 150 + "$",
    "never closed": "\\[ x " + r"\( " * 2000,
    "two lines": "$a\nb$",
}

# What is left of a text beside its formulas.
WRITTEN = """text => {
    for (const node of text.querySelectorAll(".formula")) node.remove();
    return text.textContent;
}"""


def drawn(page):
    return page.locator(".from-model .formula")


def test_formulas_are_drawn(page, make_run):
    run = make_run(0)
    put(run, 10, [row("roots of $x^2 = 2$", f"<think>Is it \\(\\pi\\)?</think>{FINE}", True)])

    page.goto(f"/runs/{run.pk}/samples")
    expect(drawn(page)).to_have_count(6)  # one in the prompt; not the one in the folded thought
    expect(page.locator(".formula.final")).to_have_text(re.compile("3"))
    expect(page.locator(".from-model").last).to_contain_text("and they cost $5 or $6, not \\$7.")
    page.wait_for_function("document.fonts.check('16px KaTeX_Main')")
    page.get_by_text("Thinking, 3 words").click()
    expect(drawn(page)).to_have_count(7)
    look(page, "run-samples-formulas")
    expect(page.locator(".sample .from-model").last).to_have_js_property("tabIndex", -1)

    page.get_by_role("button", name="Formulas").click()
    expect(drawn(page)).to_have_count(0)
    assert page.locator(".sample .from-model").last.text_content() == FINE
    expect(page.locator("mark")).to_have_text(r"\frac{3}{4}")


def test_a_wide_formula_is_scrolled(page, make_run):
    run = make_run(0)
    put(run, 10, [row("wide", WIDE, True)])

    page.goto(f"/runs/{run.pk}/samples")
    expect(drawn(page)).to_have_count(1)
    expect(page.locator(".sample .from-model")).to_have_attribute("tabindex", "0")
    look(page, "run-samples-wide-formula")


def test_what_is_hostile_or_no_formula_stays_as_it_was_written(page, make_run):
    run = make_run(0)
    put(run, 10, [row(name, f"{text}\nand $y$", False, prompt=name) for name, text in HOSTILE.items()])

    page.goto(f"/runs/{run.pk}/samples")
    for name, text in HOSTILE.items():
        sample = page.locator("section", has=page.locator(".prompt", has_text=re.compile(f"^{name}$")))
        response = sample.locator(".sample .from-model")
        response.scroll_into_view_if_needed()
        if name not in ("never closed", "markup"):
            expect(response.locator(".formula")).to_have_count(1)
        if name != "markup":  # drawn as the letters that they are
            assert text in response.evaluate(WRITTEN)
    assert page.locator(".from-model :is(img, a, script)").count() == 0


def test_formulas_without_number_hold_up_no_page(page, make_run):
    run = make_run(0)
    put(run, 10, [row("crowd", " ".join([f"${'x+' * 990}y$"] * 8), False)])

    page.goto(f"/runs/{run.pk}/samples")
    expect(drawn(page)).to_have_count(1)  # the others stay as they were written
