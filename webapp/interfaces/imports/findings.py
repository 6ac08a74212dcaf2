"""The report of the example project: what its runs say to each question of the study file."""

from pathlib import Path

from training.study import corpus
from training.study.corpus import Corpus
from training.study.file import Study as Asked
from training.study.file import load_study
from training.study.findings import finding
from webapp.identity.accounts.models import Project
from webapp.reporting.reports.blocks import text_of
from webapp.reporting.reports.models import Report
from webapp.reporting.reports.services import publish_unsigned
from webapp.science.studies.models import Study

TITLE = "Findings: the paper in miniature"
AUTHOR = "Headroom"
INTRODUCTION = """The questions of [arXiv 2510.13786](https://arxiv.org/abs/2510.13786), asked of models of 0.1 to 3
million parameters on two CPU cores. Each run is real training. Questions, arms, seeds, and what would count as yes, no
and undecided were written down before the first run.

A run's result is the mean of its held-out pass rate over the last eighth of its evaluations. An arm differs from its
baseline where the 90 % interval of the difference of means (over seeds) leaves out zero and the difference is beyond
the margin of its study. None of this says what holds for an 8B model.
"""
X = {"device_hours": "device_hours", "flops": "flops", "tokens": "tokens", "steps": "step"}


def publish_findings(project: Project, folder: Path) -> None:
    """Of the corpus in this folder, once its runs are stored and fitted; where the report is there already, nothing."""
    if Report.objects.filter(project=project, title=TITLE).exists():
        return
    found = corpus.read_corpus(folder)
    parts = [_part(project, found, asked) for asked in load_study(folder / corpus.STUDY).says.studies]
    publish_unsigned(project=project, title=TITLE, text="\n\n".join([INTRODUCTION, *parts]), author=AUTHOR)


def _part(project: Project, found: Corpus, asked: Asked) -> str:
    study = Study.objects.filter(project=project, name__startswith=f"{asked.name}: ").first()
    chart = _chart(study, asked) if study else ""
    return f"## {asked.name.replace('-', ' ').capitalize()}\n\n{finding(found, asked).markdown(chart)}"


def _chart(study: Study, asked: Asked) -> str:
    """A block with all recipes of the study over its axis."""
    revisions = [arm.revision for arm in study.arms.select_related("revision__recipe")]
    names = dict.fromkeys(f"{each.recipe.slug}@{each.number}" for each in revisions if each)
    shown = {
        "chart": "compare",
        "recipes": ", ".join(names),
        "by": "recipe",
        "x": X[asked.axis],
    }  # seeds as one curve
    return text_of(shown | {"caption": asked.question})
