"""What a study would be, for its form: the choices that can be taken back, and each variant with its difference."""

from typing import Any

from training.recipe import Recipe, RecipeError, apply_overrides
from webapp.base.errors import InvalidInput
from webapp.interfaces.pages.configuration import Change, differences
from webapp.science.studies.axes import CHOICES, Alternative, change_of
from webapp.science.studies.planning import SAYS_NOTHING, Plan, Variant, what_it_trains

Payload = dict[str, Any]


def choices_for(base: Recipe, ticked: set[str] | None) -> list[Payload]:
    """Choices with their alternatives for this base; the paper's own are ticked unless `ticked` says which are."""
    return [
        {
            "choice": choice,
            "alternatives": [_offer(base, choice.key, one, ticked) for one in choice.alternatives],
        }
        for choice in CHOICES.values()
    ]


def _offer(base: Recipe, key: str, one: Alternative, ticked: set[str] | None) -> Payload:
    token = f"{key}={one.value}"
    reason, changes = "", []
    try:
        varied = apply_overrides(base, change_of(token, base).overrides)
        changes = _differences(base, varied)
        reason = "" if changes else "as in the base"
    except RecipeError as error:
        reason = f"cannot run with this base: {error.reason}"
    except InvalidInput as error:
        reason = error.message
    chosen = bool(one.recipe) if ticked is None else token in ticked
    return {
        "token": token,
        "label": one.label,
        "papers": bool(one.recipe),
        "reason": reason,
        "detail": ", ".join(f"{c.path} {c.after if c.after is not None else 'unset'}" for c in changes),
        "checked": chosen and not reason,
    }


def preview_rows(plan: Plan) -> list[Payload]:
    """Each variant with its differences from the base."""
    base = plan.variants[0]
    return [
        {"label": variant.label, "variant": variant, "changes": _of_variant(base, variant)}
        for variant in plan.variants
    ]


def _of_variant(base: Variant, variant: Variant) -> list[Change]:
    found = _differences(base.config, variant.config)
    if variant.model != base.model:
        found.append(Change("model", base.model, variant.model))
    return found


def _differences(before: Recipe, after: Recipe) -> list[Change]:
    names = {name: getattr(before, name) for name in SAYS_NOTHING}
    return differences(what_it_trains(before) | names, what_it_trains(after) | names)
