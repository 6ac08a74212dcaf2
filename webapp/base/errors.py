"""Errors that services raise for their callers. Pages show them beside the field, the API as {"error": {...}}."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

if TYPE_CHECKING:
    from django.db.models import Model, QuerySet

M = TypeVar("M", bound="Model")

MOST_NAMED = 20  # values at fault in one answer; the others are counted
MOST_OF_PATH = 300  # characters of each
MOST_LISTED = 2000  # listing more than these costs too much: they are counted alone

SENTENCES = {
    "missing": "is required",
    "extra_forbidden": "is not a known field",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "is too large a number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "list_type": "must be a list",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length:,} characters",
    "too_short": "must have at least {min_length} items",
    "too_long": "must have at most {max_length:,} items",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
}


class ServiceError(Exception):
    """A request that cannot be done. `message` is a sentence for people, `field` a dotted path or None."""

    status = 400
    code = "error"

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field


class InvalidInput(ServiceError):
    """A value that cannot be used; `field` names it."""

    code = "invalid_input"

    def __init__(self, field: str | None, message: str, status: int = 422) -> None:
        super().__init__(message, field=field)
        self.status = status

    @classmethod
    def from_problems(
        cls, problems: Iterable[Mapping[str, Any]], *, under: str = "", count: int = 0
    ) -> "InvalidInput":
        """The first of a pydantic error's `.errors()` as one sentence with the dotted field. Of `count` problems (where
        it is said) up to MOST_NAMED are named."""
        if not (problems := list(problems)):
            return cls(None, f"The body holds {count:,} values that cannot be used.")
        prefix = [part for part in under.split(".") if part]
        paths = [".".join([*prefix, *(str(part) for part in each["loc"])]) for each in problems]
        said = f"{paths[0] or 'The body'} {sentence(problems[0])}."
        also = list(dict.fromkeys(path for path in paths[1:MOST_NAMED] if path and path != paths[0]))
        if count > 1 and also:
            said += f" Wrong, too: {', '.join(path[:MOST_OF_PATH] for path in also)}"
            said += f" and {count - MOST_NAMED:,} more." if count > MOST_NAMED else "."
        return cls(paths[0] or None, said)


def refuse(*rules: tuple[bool, str | None, str]) -> None:
    """Raises InvalidInput for the first broken rule: (whether it is broken, the field, what is said)."""
    for is_broken, field, message in rules:
        if is_broken:
            raise InvalidInput(field, message)


class NoRoom(InvalidInput):
    """Nothing can be begun now: what it would write has no room. Waiting, or making room, helps."""

    code = "no_room"

    def __init__(self, message: str) -> None:
        super().__init__(None, message, status=507)


class Unauthorized(ServiceError):
    status, code = 401, "unauthorized"


class Forbidden(ServiceError):
    status, code = 403, "forbidden"


class NotFound(ServiceError):
    status, code = 404, "not_found"


def first_of(rows: "QuerySet[M]", missing: str, *, field: str | None = None) -> "M":
    """The first of these rows. Raises NotFound, in these words, where there is none."""
    if (found := rows.first()) is None:
        raise NotFound(missing, field=field)
    return found


class Conflict(ServiceError):
    """The request does not fit the present state."""

    status, code = 409, "conflict"


# What a page says beside its form; a NotFound or a Forbidden is a 404 or a 403 everywhere.
REFUSED = (Conflict, InvalidInput)


def found_in(error: ValidationError) -> tuple[list[dict[str, Any]], int]:
    """The problems that a pydantic error lists, without what was given, and how many there are; beyond MOST_LISTED the
    list stays empty."""
    count = error.error_count()
    if count > MOST_LISTED:
        return [], count
    return [dict(each) for each in error.errors(include_url=False, include_input=False)], count


def sentence(problem: Mapping[str, Any]) -> str:
    """What is wrong, in stable words that follow the field's name ("must be a whole number")."""
    context = problem.get("ctx") or {}
    if problem["type"] in SENTENCES:
        return SENTENCES[problem["type"]].format(**context)
    if problem["type"] == "value_error" and "error" in context:
        return f"is not valid: {context['error']}".rstrip(".")
    return f"is not valid: {problem['msg'][:1].lower()}{problem['msg'][1:]}".rstrip(".")
