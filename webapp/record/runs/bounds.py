"""What the numbers and texts of a run may be: the same for a launch, a longer budget and a run tracked elsewhere."""

import math

from webapp.base.errors import InvalidInput

MAX_SEED = 2**31 - 1
MAX_BUDGET_HOURS = 1e6  # 114 device-years: more is a slip of the pen
MAX_NAME = 120
MAX_RETRIES = 100
SPENT_SHARE = 0.999  # of the budget: nothing worth another attempt is left


def check_budget(budget_hours: float) -> None:
    """Raises InvalidInput (budget_hours)."""
    if isinstance(budget_hours, bool) or not isinstance(budget_hours, int | float):
        raise InvalidInput("budget_hours", "budget_hours must be a number of device-hours.")
    if not math.isfinite(budget_hours) or not 0 < budget_hours <= MAX_BUDGET_HOURS:
        raise InvalidInput(
            "budget_hours", f"budget_hours must be above 0 and at most {MAX_BUDGET_HOURS:,.0f} device-hours."
        )


def check_retries(retries: int | None) -> None:
    """None is as the installation says. Raises InvalidInput (retries)."""
    if retries is not None and (isinstance(retries, bool) or not 0 <= retries <= MAX_RETRIES):
        raise InvalidInput("retries", f"retries must be a whole number from 0 to {MAX_RETRIES}, or empty.")


def check_seed(seed: int) -> None:
    """Raises InvalidInput (seed)."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED:
        raise InvalidInput("seed", f"seed must be a whole number from 0 to {MAX_SEED}.")


def clean_name(name: str) -> str:
    """The name without blanks around it. Raises InvalidInput (name)."""
    return clean_text("name", name, MAX_NAME)


def clean_text(field: str, value: str, limit: int) -> str:
    """The text without blanks around it. Raises InvalidInput for `field` where it is too long or cannot be printed."""
    text = value.strip()
    if len(text) > limit or not text.isprintable():
        raise InvalidInput(field, f"{field} must have at most {limit} characters, all of them printable.")
    return text
