"""The language in which MLflow's clients search runs: comparisons joined by AND, and the order of the answer.

metrics.`eval/loss` < 0.5 AND params.lr = '1e-6' AND tags.team LIKE 'rl%' AND attributes.status = 'FINISHED'
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.expressions import OrderBy
from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedInput, UnexpectedToken

from webapp.base.errors import InvalidInput
from webapp.interfaces.mlflow.experiments import STATUS
from webapp.interfaces.tracking.models import ClientMetric, ClientRun
from webapp.interfaces.tracking.selectors import text_in
from webapp.record.runs.models import State

MAX_CONDITIONS = 50
MAX_TEXT = 20_000
# A name may stand in backticks or quotes behind its kind; a value without quotes is a number.
GRAMMAR = r"""
start: [condition (_AND condition)*]
condition: NAME COMPARATOR value | NAME IS_NULL | NAME IN "(" value ("," value)* ")"
value: TEXT | NUMBER
_AND: /AND(?![^\s('"`])/i
COMPARATOR: /<=|>=|!=|<>|=|<|>|I?LIKE(?![^\s'"])/i
IS_NULL: /IS\s+(NOT\s+)?NULL(?!\S)/i
IN: /(NOT\s+)?IN(?![^\s(])/i
NAME: /(?:[a-z]+\.)?(?:`[^`]*`|"[^"]*")|[^\s=<>!(),'"`]+/i
TEXT: /'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"/
NUMBER: /[^\s=<>!(),'"`]+/
%ignore /\s+/
"""
KINDS = {
    **dict.fromkeys(("metric", "metrics"), "metrics"),
    **dict.fromkeys(("param", "params", "parameter", "parameters"), "params"),
    **dict.fromkeys(("tag", "tags"), "tags"),
    **dict.fromkeys(("attribute", "attributes", "attr", "run"), "attributes"),
}
NUMBERS = {"start_time": "start_ms", "end_time": "end_ms", "created": "start_ms", "Created": "start_ms"}
TEXTS = {
    "run_id": "key", "run_name": "name", "run name": "name", "Run name": "name", "Run Name": "name",
    "user_id": "user_name", "status": "run__state",
}  # fmt: skip
LOOKUPS = {"=": "exact", "<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}


@dataclass(frozen=True)
class Condition:
    """`kind`.`name` `comparator` `value`; the value of IN is a tuple, of IS NULL None."""

    kind: str
    name: str
    comparator: str
    value: Any


def narrow(runs: QuerySet[ClientRun], text: str) -> QuerySet[ClientRun]:
    """The runs that a filter leaves. Raises InvalidInput (filter) naming what cannot be read."""
    for place, condition in enumerate(parse(text)):
        runs = _apply(runs, condition, f"found_{place}")
    return runs


class _Builder(Transformer):
    """Builds the conditions while the text is parsed."""

    start = list

    def condition(self, items: list[Any]) -> Condition:
        name, sign, *values = items
        comparator = " ".join(sign.upper().split()).replace("<>", "!=")
        value = tuple(values) if sign.type == "IN" else values[0] if values else None
        return Condition(*_name(name), comparator, value)

    def value(self, items: list[Token]) -> str | float:
        (token,) = items
        if token.type == "TEXT":
            return re.sub(r"\\(.)", r"\1", token[1:-1])
        try:
            return float(token)
        except ValueError:
            raise _bad(f"texts stand in quotes; {token[:40]} does not") from None


_parser = Lark(GRAMMAR, parser="lalr", transformer=_Builder(), maybe_placeholders=False)


def parse(text: str) -> list[Condition]:
    """Raises InvalidInput (filter)."""
    if len(text) > MAX_TEXT:
        raise _bad(f"it may have at most {MAX_TEXT:,} characters")
    try:
        conditions: list[Condition] = _parser.parse(text)  # type: ignore[assignment]
    except UnexpectedInput as error:
        at = error.pos_in_stream or 0
        ended = isinstance(error, UnexpectedToken) and error.token.type == "$END"
        why = "something is missing at its end" if ended else f"{text[at : at + 40]!r} is not possible there"
        raise _bad(why) from None
    if len(conditions) > MAX_CONDITIONS:
        raise _bad(f"it may have at most {MAX_CONDITIONS} comparisons")
    return conditions


def _name(text: str) -> tuple[str, str]:
    """(kind, name) of an identifier; without a kind it is an attribute."""
    kind, dot, name = text.partition(".")
    if not dot or kind.lower() not in KINDS:
        if dot:
            raise _bad(f"{kind!r} is none of metrics, params, tags, attributes")
        kind, name = "attributes", text
    name = name[1:-1] if name[:1] in ("`", '"') else name
    kind = KINDS[kind.lower()]
    if kind == "attributes" and name not in NUMBERS and name not in TEXTS:
        raise _bad(f"there is no attribute {name!r}")
    return kind, name


def _apply(runs: QuerySet[ClientRun], call: Condition, alias: str) -> QuerySet[ClientRun]:
    if call.kind == "metrics":
        return runs.filter(Exists(_newest(call.name).filter(_of_number("value", call))))
    if call.kind == "attributes":
        if call.name in NUMBERS:
            return runs.filter(_of_number(NUMBERS[call.name], call))
        return runs.filter(_of_text(TEXTS[call.name], call))
    return runs.alias(**{alias: text_in(call.kind, call.name)}).filter(_of_text(alias, call))


def _newest(name: str) -> QuerySet[ClientMetric]:
    """A metric of the run that is looked at, unless its value is no number."""
    return ClientMetric.objects.filter(run=OuterRef("pk"), key=name).exclude(value=float("nan"))


def _of_number(column: str, call: Condition) -> Q:
    if not isinstance(call.value, float):
        raise _bad(f"{call.name} is compared with a number")
    if call.comparator == "!=":
        return ~Q(**{column: call.value}) & Q(**{f"{column}__isnull": False})
    if call.comparator not in LOOKUPS:
        raise _bad(f"{call.name} is a number, for which there is no {call.comparator}")
    return Q(**{f"{column}__{LOOKUPS[call.comparator]}": call.value})


def _of_text(column: str, call: Condition) -> Q:
    there = Q(**{f"{column}__isnull": False})
    if call.comparator in ("IS NULL", "IS NOT NULL"):
        return there if call.comparator == "IS NOT NULL" else ~there
    values = call.value if isinstance(call.value, tuple) else (call.value,)
    if not all(isinstance(value, str) for value in values):
        raise _bad(f"{call.name} is compared with a text in quotes")
    if call.comparator in ("LIKE", "ILIKE"):
        sort = "regex" if call.comparator == "LIKE" else "iregex"
        return Q(**{f"{column}__{sort}": _pattern(values[0])})
    if call.comparator not in ("=", "!=", "IN", "NOT IN"):
        raise _bad(f"{call.name} is a text, for which there is no {call.comparator}")
    if column == "run__state":
        values = tuple(state for state in State if STATUS.get(state, "RUNNING") in values)
    found = Q(**{f"{column}__in": values})
    return found if call.comparator in ("=", "IN") else ~found & there


def _pattern(like: str) -> str:
    """A regular expression of PostgreSQL's for what LIKE takes."""
    parts = ({"%": ".*", "_": "."}.get(letter) or re.escape(letter) for letter in like)
    return f"^{''.join(parts)}$"


def ordered(runs: QuerySet[ClientRun], orders: Sequence[str]) -> QuerySet[ClientRun]:
    """In the order that is asked for, what has no such value last; then the newest first. Raises InvalidInput."""
    keys: list[Any] = []
    for place, text in enumerate(orders):
        words = str(text).strip()
        down = words.upper().endswith(" DESC")
        name = re.sub(r"\s+(ASC|DESC)$", "", words, flags=re.IGNORECASE)
        kind, name = _name(name)
        alias = f"order_{place}"
        runs = runs.alias(**{alias: _ordering(kind, name)})
        keys.append(OrderBy(F(alias), descending=down, nulls_last=True))
    return runs.order_by(*keys, "-start_ms", "key")


def _ordering(kind: str, name: str) -> Any:
    if kind == "metrics":
        return Subquery(_newest(name).values("value")[:1])
    if kind == "attributes":
        return F(NUMBERS.get(name) or TEXTS[name])
    return text_in(kind, name)


def _bad(why: str) -> InvalidInput:
    return InvalidInput("filter", f"The filter or order cannot be read: {why}.")
