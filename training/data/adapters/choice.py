"""Multiple choice. The text lists the options as `A. ...`; the answer is the letter of the right one.

Short answers compared as text. The answer is a JSON list of the accepted ones.
"""

import hashlib
import json
import random
import string

from training.data.base import Problem, Row


def arc(row: Row) -> Problem:
    """Fields id, question, choices {text, label}, answerKey; the labels are A to E or 1 to 5."""
    choices = row.mapping("choices")
    texts = row.check_texts("choices.text", choices.get("text"), least=2)
    labels = row.check_texts("choices.label", choices.get("label"), least=2)
    key = row.label("answerKey")
    if len(labels) != len(texts):
        raise row.error("choices", f"has {len(texts)} texts and {len(labels)} labels")
    if key not in labels:
        raise row.error("answerKey", f"must be one of {', '.join(labels)}")
    return _problem(row, row.text("question"), texts, labels.index(key), row.optional_label("id"))


def hellaswag(row: Row) -> Problem:
    """Fields ctx, endings (four), label (the right one's number, from 0; blank in the test split), ind."""
    endings, label = row.texts("endings", least=2), row.label("label")
    if not label.isdecimal() or int(label) >= len(endings):
        raise row.error("label", f"must be a number from 0 to {len(endings) - 1}")
    question = f"Which ending fits best?\n\n{row.text('ctx').strip()}"
    return _problem(row, question, endings, int(label), row.optional_label("ind"))


def truthfulqa(row: Row) -> Problem:
    """Fields question, mc1_targets {choices, labels: one 1, else 0}. The right option is always the first one
    there, so the options are shuffled, by the row's content alone."""
    question, targets = row.text("question"), row.mapping("mc1_targets")
    choices = row.check_texts("mc1_targets.choices", targets.get("choices"), least=2)
    labels = targets.get("labels")
    is_list = isinstance(labels, list) and all(label in (0, 1) for label in labels)
    if not isinstance(labels, list) or not is_list or len(labels) != len(choices) or sum(labels) != 1:
        raise row.error("mc1_targets.labels", "must be as many as choices: one 1, the others 0")
    right = choices[labels.index(1)]
    content = hashlib.sha256("\n".join([question, *choices]).encode()).hexdigest()
    shuffled = random.Random(content).sample(choices, len(choices))  # nosec B311  # drawn anew from a seed, kept from nobody
    return _problem(row, question, shuffled, shuffled.index(right), "")


def _problem(row: Row, question: str, options: list[str], right: int, name: str) -> Problem:
    letters = string.ascii_uppercase
    if len(options) > len(letters):
        raise row.error("choices", f"are {len(options)}; there are {len(letters)} letters")
    listed = [f"{letter}. {option.strip()}" for letter, option in zip(letters, options, strict=False)]
    return Problem("\n".join([question.strip(), "", *listed]), letters[right], name)


def natural_questions(row: Row) -> Problem:
    """Fields question, answer (all accepted answers), as in nq_open."""
    return Problem(row.text("question"), json.dumps(row.texts("answer")))
