"""Writes the tables and figures of docs/findings.md from the corpus: `python scripts/findings_doc.py [--check]`.

One block a study, between `<!-- table: STUDY -->` and `<!-- end -->`, and docs/images/findings/STUDY.svg (--check looks
at the tables alone). The rule is the one that the study file states, so nothing here is chosen after the runs.
"""

import sys
from functools import cache
from itertools import cycle
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from doc_tables import main  # noqa: E402

from training.study.corpus import Corpus, read_corpus  # noqa: E402
from training.study.file import Study, Written, load_study  # noqa: E402
from training.study.findings import Finding, finding, markdown_table  # noqa: E402
from training.study.plan import plan  # noqa: E402

CORPUS = ROOT / "corpus" / "miniature"
PAGE = ROOT / "docs" / "findings.md"
PICTURES = ROOT / "docs" / "images" / "findings"
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf")


@cache
def read() -> tuple[Corpus, Written]:
    """The corpus, and the file that asked for it."""
    return read_corpus(CORPUS), load_study(CORPUS / "study.yaml")


@cache
def found(name: str) -> Finding:
    """Of one study."""
    corpus, written = read()
    return finding(corpus, next(study for study in written.says.studies if study.name == name))


def study_block(study: Study) -> str:
    """Question, the paper's answer, table, answer and figure."""
    return found(study.name).markdown(f"![{study.name}](images/findings/{study.name}.svg)")


def draw(study: Study) -> None:
    """PICTURES/STUDY.svg: every run's evaluations, a colour an arm. Nothing where nothing can be compared."""
    import plotly.graph_objects as go

    trained = found(study.name).arms
    if not trained:
        return
    figure = go.Figure()
    for arm, colour in zip(study.arms, cycle(COLOURS), strict=False):
        for number, one in enumerate(trained.get(arm, ())):
            x, y = np.r_[0.0, one.x], np.r_[one.start, one.y]
            line = {"color": colour, "width": 1.3}
            figure.add_scatter(
                x=x,
                y=y,
                name=arm,
                legendgroup=arm,
                showlegend=number == 0,
                mode="lines",
                line=line,
                opacity=0.8,
            )
    figure.update_layout(
        template="simple_white",
        width=760,
        height=380,
        margin={"l": 60, "r": 20, "t": 20, "b": 50},
        xaxis_title=study.axis.replace("_", "-"),
        yaxis_title="held-out pass rate",
        font={"size": 12},
    )
    PICTURES.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(suffix=".svg", dir=PICTURES, delete=False) as partial:
        figure.write_image(partial.name)
    Path(partial.name).replace(PICTURES / f"{study.name}.svg")


def size_table() -> str:
    """How much was run."""
    corpus, written = read()
    runs = list(corpus.runs.values())
    done = [run for run in runs if run.state == "succeeded"]
    planned = len(plan(written))
    hours = sum(run.wall_seconds for run in done) / 3600
    rows = [
        ["studies", str(len(written.says.studies))],
        [
            "runs finished",
            f"{len(done)} of {planned} (a run that stands in several studies is trained once)",
        ],
        ["runs lost", str(len(runs) - len(done))],
        ["hours on two cores", f"{hours:.1f}"],
        ["processors", "; ".join(sorted({str(run.machine["processor"]) for run in done}))],
    ]
    return markdown_table(["", ""], rows)


def blocks() -> dict[str, object]:
    """Name of a block -> what makes it."""
    return {"runs": size_table} | {
        study.name: lambda study=study: study_block(study) for study in read()[1].says.studies
    }


if __name__ == "__main__":
    if "--check" not in sys.argv[1:]:
        for one in read()[1].says.studies:
            draw(one)
    sys.exit(main(PAGE, blocks()))  # type: ignore[arg-type]
