"""What a run and its recipe are called."""

from webapp.record.runs.models import Run


def label_of(run: Run) -> str:
    """Name and seed, as legends show a run."""
    return f"{run.name}, seed {run.seed}" if f"seed {run.seed}" not in run.name else run.name


def recipe_key(run: Run) -> tuple:
    """What runs of one recipe share; tracked runs without a recipe go by their name."""
    return run.task, run.model, run.revision_id or run.name


def recipe_name(run: Run) -> str:
    """ "ScaleRL rev 2", or the name of a run without a recipe."""
    return str(run.revision) if run.revision else run.name
