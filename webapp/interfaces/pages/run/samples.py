"""What the page of a run's samples shows: the responses of a step, or one prompt over the steps."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.http import QueryDict

from training.samples import FLAGS, MOST_STEP, Wanted
from webapp.base.formats import NoAmount, number_in, whole_in
from webapp.interfaces.pages.run.sample_text import MOST_SHOWN, compared, harmless, shown
from webapp.record.runs.models import Run
from webapp.record.samples.models import SampleFile
from webapp.record.samples.selectors import (
    Change,
    Gone,
    Moment,
    changes,
    files_of,
    history,
    rows_of,
    share_of,
)
from webapp.reporting.shares.drawing import Values, side_by_side

Context = dict[str, Any]
A_PAGE = 20  # responses
MOST_OTHERS, MOST_OF_A_WORD = 12, 80  # columns, characters
MOST_OF_A_QUERY = 200  # characters of a text that is looked for
FLAG_WORDS = {
    "correct": "correct",
    "incorrect": "not correct",
    "unjudged": "not judged",
    "truncated": "cut off by length",
    "interrupted": "thinking ended by force",
    "forced": "with forced tokens",
    "left_out": "not in the loss",
}
NUMBERS = ("reward_min", "reward_max", "tokens_min", "tokens_max", "difficulty_min", "difficulty_max")
TITLES = {"eval": "Evaluations", "train": "Batches"}
VERDICTS = {True: "correct", False: "not correct", None: ""}


@dataclass(frozen=True)
class SampleQuery:
    """The query: what cannot be read in it is left out and named in `problems`."""

    kind: str
    step: int | None
    wanted: Wanted
    page: int
    sample: int
    against: str
    since: int | None
    problems: tuple[str, ...]

    @property
    def is_filtered(self) -> bool:
        return replace(self.wanted, prompt_id="") != Wanted()


def asked_of(query: QueryDict) -> SampleQuery:
    problems: list[str] = []
    bounds = {name: _number(query, name, problems) for name in NUMBERS}
    for name in ("tokens_min", "tokens_max"):
        value = bounds[name]
        bounds[name] = None if value is None else math.ceil(value)
    flags = tuple(flag for flag in FLAGS if flag in query.getlist("flag"))
    text, prompt = query.get("q", "")[:MOST_OF_A_QUERY], query.get("prompt", "")[:MOST_OF_A_QUERY]
    return SampleQuery(
        kind=next((kind for kind in TITLES if kind == query.get("kind")), ""),
        step=_whole(query, "step", problems),
        wanted=Wanted(prompt_id=prompt, flags=flags, text=text, **bounds),  # type: ignore[arg-type]
        page=max(1, _whole(query, "page", problems) or 1),
        sample=_whole(query, "sample", problems) or 0,
        against=query.get("against", "")[:MOST_OF_A_QUERY],
        since=_whole(query, "since", problems),
        problems=tuple(problems),
    )


def samples_context(run: Run, query: QueryDict) -> Context:
    """A query for the steps; of an evaluation one for what changed, of a prompt one for its history."""
    asked = asked_of(query)
    files = list(files_of(run))
    kinds = [kind for kind in TITLES if any(file.kind == kind for file in files)]
    context: Context = {
        "run": run, "asked": asked, "kinds": {kind: TITLES[kind] for kind in kinds}, "flags": FLAG_WORDS,
        "problems": list(asked.problems),
        "kept": [(name, value) for name in ("q", *NUMBERS, "flag") for value in query.getlist(name) if value],
    }  # fmt: skip
    if not files:
        return context
    kind = asked.kind if asked.kind in kinds else kinds[0]
    own = [file for file in files if file.kind == kind]
    file = _of_step(own, asked.step)
    if asked.step not in (None, file.step):
        context["problems"].append(
            f"There are no samples of step {asked.step}; these are of step {file.step}."
        )
    page, place = asked.page, own.index(file)
    context |= {
        "kind": kind, "files": own, "file": file, "before": own[place - 1].step if place else None,
        "after": own[place + 1].step if place + 1 < len(own) else None,
    }  # fmt: skip
    try:
        rows, total = rows_of(file, asked.wanted, first=A_PAGE * (page - 1), most=A_PAGE)
        if not rows and total:  # beyond the last page
            page = math.ceil(total / A_PAGE)
            rows, _ = rows_of(file, asked.wanted, first=A_PAGE * (page - 1), most=A_PAGE)
    except Gone as error:
        known = file.prompts.get(asked.wanted.prompt_id, {})
        context |= {"gone": str(error), "prompt_text": harmless(known.get("text", ""))}
        return context | _of_prompt(run, kind, file, asked)
    whole = asked.wanted.prompt_id != "" and len(rows) == 1
    first, last = A_PAGE * (page - 1) + 1, A_PAGE * (page - 1) + len(rows)
    context |= {
        "responses": _responses(rows, whole=whole), "total": total, "first": first, "last": last,
        "next_page": page + 1 if last < total else None, "page_before": page - 1 if page > 1 else None,
    }  # fmt: skip
    if asked.wanted.prompt_id:
        return context | _of_prompt(run, kind, file, asked) | _side_by_side(run, kind, rows, asked)
    return context | _changes(own, file, asked.since)


def _of_step(files: Sequence[SampleFile], step: int | None) -> SampleFile:
    """The newest, or the one nearest to the step that is asked for."""
    return files[-1] if step is None else min(files, key=lambda file: abs(file.step - step))


def _responses(rows: Sequence[Mapping[str, Any]], *, whole: bool) -> list[Context]:
    """Each response as the page shows it; `row` has its numbers, `kept` says how many characters are stored."""
    return [
        {
            "row": row,
            "shown": shown(row["response"], most=None if whole else MOST_SHOWN),
            "starts_group": place == 0 or rows[place - 1]["prompt_id"] != row["prompt_id"],
            "kept": len(row["response"]),
            "flags": _flags(row),
            "others": _others(row),
            "verdict": "not judged" if row["judged"] is False else VERDICTS[row["correct"]],
            "versions": _versions(row),
            **{name: harmless(row[name]) for name in ("prompt", "answer", "why", "part")},
        }
        for place, row in enumerate(rows)
    ]


def _flags(row: Mapping[str, Any]) -> list[str]:
    said = [FLAG_WORDS[name] for name in ("truncated", "interrupted") if row[name]]
    tokens = "token" if row["forced"] == 1 else "tokens"
    return [*said, f"{row['forced']} forced {tokens}"] if row["forced"] else said


def _others(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Columns that only this table has, as far as a line has room: reward functions of TRL, metadata."""
    try:
        found = json.loads(row["extra"] or "{}")
    except ValueError:  # cut, since there was too much
        return []
    said = [(harmless(name), harmless(str(value))) for name, value in found.items() if name != "step"]
    return [(name[:MOST_OF_A_WORD], value[:MOST_OF_A_WORD]) for name, value in said[:MOST_OTHERS]]


def _versions(row: Mapping[str, Any]) -> str:
    old, new = row["version_oldest"], row["version_newest"]
    if old is None or new is None:
        return ""
    return f"weights {old}" if old == new else f"weights {old} to {new}"


def _changes(files: Sequence[SampleFile], file: SampleFile, since: int | None) -> Context:
    """Against the evaluation before, or the earlier one nearest to step `since`. One query."""
    earlier = files[: files.index(file)]
    if file.kind != "eval" or not earlier:
        return {}
    other = _of_step(earlier, since)
    pair = {each.step: each for each in SampleFile.objects.filter(pk__in=[file.pk, other.pk])}
    found = changes(pair[other.step], pair[file.step])
    if found is None:
        return {}
    return {
        "lost": [_harmless(change) for change in found if change.after < change.before],
        "won": [_harmless(change) for change in found if change.after > change.before],
        "compared_with": other.step, "earlier": [each.step for each in earlier],
    }  # fmt: skip


def _harmless(change: Change) -> Change:
    return replace(change, text=harmless(change.text))


def _of_prompt(run: Run, kind: str, file: SampleFile, asked: SampleQuery) -> Context:
    """The prompt's row of rewards over the steps. One query."""
    if not asked.wanted.prompt_id:
        return {}
    moments = history(run, kind, asked.wanted.prompt_id)
    is_judged = any(moment.share is not None for moment in moments)
    known = [(m, value) for m in moments if (value := m.share if is_judged else m.reward) is not None]
    values = [0.0, float(is_judged), *(value for _, value in known)]
    low, span = min(values), (max(values) - min(values)) or 1.0
    levels = {moment.step: (value - low) / span for moment, value in known}
    return {
        "moments": [_bar(moment, levels.get(moment.step), file.step) for moment in moments],
        "history_of": "Share of correct responses" if is_judged else "Mean reward",
        "history_says": _says([(moment.step, value) for moment, value in known], is_judged),
        "history_values": _values(moments),
    }


def _values(moments: Sequence[Moment]) -> Values:
    said: list[tuple[str, dict[float, str]]] = [
        ("Correct", {m.step: f"{100 * m.share:.0f} %" for m in moments if m.share is not None}),
        ("Mean reward", {m.step: f"{m.reward:.3g}" for m in moments if m.reward is not None}),
    ]
    return side_by_side("Step", said, [m.step for m in moments])


def _bar(moment: Moment, level: float | None, step: int) -> Context:
    share, height = moment.share, 2 + 26 * (level or 0.0)
    words = "not judged" if share is None else f"{100 * share:.0f} % of {len(moment.correct)} correct"
    reward = "" if moment.reward is None else f", mean reward {moment.reward:.3g}"
    return {
        "step": moment.step, "is_known": level is not None, "height": f"{height:.1f}", "y": f"{28 - height:.1f}",
        "words": f"step {moment.step}: {words}{reward}", "is_shown": moment.step == step,
    }  # fmt: skip


def _says(known: Sequence[tuple[int, float]], is_judged: bool) -> str:
    if not known:
        return "No response to this prompt was judged."
    (first, was), (last, now) = known[0], known[-1]
    in_words = "{:.0%} correct" if is_judged else "a mean reward of {:.3g}"
    was_said, now_said = (in_words.format(value).replace("%", " %") for value in (was, now))
    if len(known) == 1:
        return f"{now_said.capitalize()} at step {last:,}."
    return f"From {was_said} at step {first:,} to {now_said} at step {last:,}."


def _side_by_side(run: Run, kind: str, rows: Sequence[Mapping[str, Any]], asked: SampleQuery) -> Context:
    """Two responses to the prompt, of two steps or two runs, and what differs between them."""
    if not asked.against:
        return {}
    run_id, _, step = (part.strip() for part in asked.against.rpartition(":"))
    if (number := whole_in(step.replace(",", ""), 18)) is None:
        return {"pair_problem": f"“{harmless(asked.against)}” is no step: write a step, or RUN:STEP."}
    other = Run.objects.filter(pk=run_id, project=run.project_id).first() if run_id else run
    if other is None:
        return {"pair_problem": f"There is no run “{harmless(run_id)}” in this project."}
    file = files_of(other).filter(kind=kind, step=number).first()
    if file is None:
        return {"pair_problem": f"{other.name} has no {kind} samples of step {number:,}."}
    try:
        there, _ = rows_of(file, Wanted(prompt_id=asked.wanted.prompt_id))
    except Gone as error:
        return {"pair_problem": str(error)}
    if not there or not rows:
        return {"pair_problem": f"{other.name} has no response to this prompt at step {number:,}."}
    one, two = (each[min(asked.sample, len(each) - 1)] for each in (there, rows))
    return {
        "pair": _responses([one, two], whole=False), "pair_run": other, "pair_step": number,
        "diff": compared(one["response"], two["response"]), "choices": range(max(len(there), len(rows))),
        "pair_shares": [share_of([row["correct"] for row in each]) for each in (there, rows)],
    }  # fmt: skip


def _number(query: QueryDict, name: str, problems: list[str]) -> float | None:
    text = query.get(name, "").strip()
    if not text:
        return None
    try:
        return number_in(text)
    except NoAmount:
        problems.append(f"{name} is no number: it is left out.")
        return None


def _whole(query: QueryDict, name: str, problems: list[str]) -> int | None:
    text = query.get(name, "").strip().replace(",", "")
    if not text:
        return None
    if (number := whole_in(text, 18)) is not None and number <= MOST_STEP:
        return number
    problems.append(f"{name} is no whole number: it is left out.")
    return None
