"""From the tree of a filter to a condition over columns of runs and their summaries; of points only the newest of a
metric that is named.

`!=` and NOT are exact complements: a run without the value (no budget, no fit yet) is in them. So a NOT is
carried down to the single conditions, and each of those is turned around as a whole (`_opposite`).
"""

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import reduce

from django.db.models import BooleanField, Case, FloatField, Q, QuerySet, When
from django.db.models import Value as Constant
from django.db.models.functions import Coalesce
from django.db.models.lookups import IsNull
from django.utils import timezone

from webapp.identity.accounts.models import Project, User
from webapp.record.alarm_rules import rules_by_name
from webapp.record.recipes.models import Revision
from webapp.record.runs.filtering import fields
from webapp.record.runs.filtering.fields import (
    ALARM_WORDS,
    BY_NAME,
    CONFIG,
    CONFIG_PREFIX,
    FLAGS,
    MAX_PATH,
    METRIC,
    METRIC_PREFIX,
    OPERATORS,
    ORDER,
    ORIGINS,
    STATE_GROUPS,
    Field,
    FieldType,
    config_path,
    field_names,
    metric_name,
)
from webapp.record.runs.filtering.parsing import (
    And,
    Comparison,
    FilterError,
    Node,
    Not,
    Value,
    Word,
    comparisons,
    nearest,
    parse,
)
from webapp.record.runs.models import Run
from webapp.record.runs.selectors import newest_value
from webapp.record.runs.states import ACTIVE

LOOKUPS = {"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}
NOTHING = Q(pk__in=[])
FLAG_HOLDS = {
    "archived": Q(archived_at__isnull=False),
    "deleted": Q(deleted_at__isnull=False),
    "identified": Q(summary__fit_status="ok"),
}
SHOWN = Q(archived_at=None) | Q(
    state__in=ACTIVE
)  # unless asked for others; what spends compute is never hidden


@dataclass(frozen=True)
class Compiled:
    """A filter that was understood: its tree and the condition."""

    text: str
    node: Node | None
    condition: Q

    def names(self, field: str) -> bool:
        """Whether the filter says anything of this field."""
        return any(comparison.field == field for comparison in comparisons(self.node))

    def runs(self, project: Project) -> QuerySet[Run]:
        """The project's runs that it leaves; deleted ones only where it names `deleted`."""
        among = Run.with_deleted if self.names("deleted") else Run.objects
        return among.filter(project=project).filter(self.condition)


@dataclass(frozen=True)
class _Context:
    text: str
    user: User | None
    now: datetime


def compile_filter(text: str, *, user: User | None, now: datetime | None = None) -> Compiled:
    """Read a filter; `user` is who `me` is. Archived runs are left out unless the filter names `archived`.

    Raises FilterError.
    """
    node = parse(text)
    context = _Context(text, user, now or timezone.now())
    compiled = Compiled(text, node, _condition(node, context) if node is not None else Q())
    if compiled.names("archived"):
        return compiled
    shown = SHOWN | FLAG_HOLDS["deleted"] if compiled.names("deleted") else SHOWN
    return Compiled(text, node, shown & compiled.condition)


def narrow(runs: QuerySet[Run], text: str, *, user: User | None) -> QuerySet[Run]:
    """The runs that the filter leaves. Raises FilterError."""
    return runs.filter(compile_filter(text, user=user).condition)


def _condition(node: Node, context: _Context, *, holds: bool = True) -> Q:
    """The condition that a node holds, or that it does not."""
    if isinstance(node, Not):
        return _condition(node.item, context, holds=not holds)
    if isinstance(node, Word):
        return _word(node.text) if holds else _opposite(_word(node.text))
    if isinstance(node, Comparison):
        found = _comparison(node, context)
        return found if holds == (node.op != "!=") else _opposite(found)
    parts = [_condition(item, context, holds=holds) for item in node.items]
    return reduce(operator.and_ if isinstance(node, And) == holds else operator.or_, parts)


def _opposite(condition: Q) -> Q:
    """Everything that the condition leaves out; SQL's NOT, and Django's ~, lose rows where a joined value is null."""
    return Q(Case(When(condition, then=Constant(False)), default=Constant(True), output_field=BooleanField()))


def _word(text: str) -> Q:
    """Recipes are searched once, not once for each of their runs."""
    recipes = Q(recipe__name__icontains=text) | Q(recipe__slug__icontains=text)
    return (
        Q(name__icontains=text)
        | Q(pk__startswith=text.lower())
        | Q(revision__in=Revision.objects.filter(recipes).values("pk"))
        | Q(tags__contains=[text.lower()])
    )


def _comparison(node: Comparison, context: _Context) -> Q:
    """Whether any of the values fits; != is turned around by the caller."""
    field = _field(node, context)
    if node.op not in OPERATORS[field.kind]:
        allowed = " ".join(OPERATORS[field.kind])
        reason = f"{node.field} cannot be compared by {node.op}"
        raise FilterError(context.text, node.at, reason, f"one of {allowed}")
    if node.op in ORDER and len(node.values) > 1:
        raise FilterError(context.text, node.values[1].at, f"{node.op} takes one value")
    return reduce(operator.or_, (_one(field, node, value, context) for value in node.values))


def _field(node: Comparison, context: _Context) -> Field:
    if node.field in BY_NAME:
        return BY_NAME[node.field]
    if node.field.startswith(CONFIG_PREFIX):
        path = config_path(node.field)
        if not all(path) or len(path) > MAX_PATH:
            reason = f"{node.field} is not the path of a setting"
            raise FilterError(context.text, node.at, reason, "a path such as config.loss.type")
        return CONFIG
    if node.field.startswith(METRIC_PREFIX):
        if not metric_name(node.field):
            reason = "metric. needs the name of a metric"
            raise FilterError(context.text, node.at, reason, "a name such as metric.train/entropy")
        return METRIC
    hint = nearest(node.field, field_names())
    reason = f"there is no field “{node.field}”{'; ' + hint if hint else ''}"
    raise FilterError(
        context.text, node.at, reason, "" if hint else "a field such as state, recipe or ceiling"
    )


def _one(field: Field, node: Comparison, value: Value, context: _Context) -> Q:
    if _is_none(field, value) and node.op not in ORDER + ("~",):
        return Q(**dict.fromkeys(field.columns, None)) if field.kind is not FieldType.TAG else Q(tags=[])
    try:
        return _KINDS[field.kind](field, node, value, context)
    except ValueError as error:
        raise FilterError(context.text, value.at, f"{node.field}: “{value.text[:40]}” {error}") from None


def _is_none(field: Field, value: Value) -> bool:
    nothing = value.text.lower() == "none" and not value.quoted
    return nothing and (field.nullable or field.kind is FieldType.TAG)


def _text(field: Field, node: Comparison, value: Value, context: _Context) -> Q:
    text = value.text
    if field.name == "by" and text.lower() == "me" and not value.quoted:
        return Q(created_by=context.user) if context.user is not None else NOTHING
    if node.op == "~":
        lookup = "icontains"
    elif "*" in text and not value.quoted:
        lookup, text = "iregex", pattern(text)
    else:
        lookup = "istartswith" if field.name == "id" and node.op == ":" else "iexact"
    return reduce(operator.or_, (Q(**{f"{column}__{lookup}": text}) for column in field.columns))


def pattern(text: str) -> str:
    """A text with * for anything as a regular expression."""
    return f"^{'.*'.join(re.escape(part) for part in re.split(r'[*]+', text))}$"


def _choice(field: Field, node: Comparison, value: Value, context: _Context) -> Q:
    known = STATE_GROUPS if field.name == "state" else ORIGINS
    if value.text.lower() not in known:
        hint = nearest(value.text, list(known))
        raise ValueError(f"is no {field.name}; {hint or 'expected ' + ', '.join(known)}")
    return Q(**{f"{field.columns[0]}__in": sorted(known[value.text.lower()])})


def _number(field: Field, node: Comparison, value: Value, context: _Context) -> Q:
    read = fields.whole if field.kind is FieldType.WHOLE else fields.number
    lookup = LOOKUPS.get(node.op, "exact")
    return Q(**{f"{field.columns[0]}__{lookup}": read(value.text)})


def _time(field: Field, node: Comparison, value: Value, context: _Context) -> Q:
    """A day is a span: > is after it, >= from its start."""
    column = field.columns[0]
    start, end = fields.moment(value.text, context.now)
    if node.op not in ORDER:
        if start == end:
            raise ValueError(f"is an instant; compare {field.name} with < or >, or give a day")
        return Q(**{f"{column}__gte": start, f"{column}__lt": end})
    if start == end:
        return Q(**{f"{column}__{LOOKUPS[node.op]}": start})
    lookup = "gte" if node.op.startswith(">") else "lt"
    return Q(**{f"{column}__{lookup}": end if node.op in (">", "<=") else start})


def _age(field: Field, node: Comparison, value: Value, context: _Context) -> Q:
    try:
        since = context.now - fields.duration(value.text)
    except OverflowError:
        raise ValueError("is too long") from None
    turned = {"<": "gt", "<=": "gte", ">": "lt", ">=": "lte"}[node.op]
    return Q(**{f"{field.columns[0]}__{turned}": since})


def _flag(field: Field, node: Comparison, value: Value, context: _Context) -> Q:
    if value.text.lower() not in FLAGS:
        raise ValueError("is neither yes nor no")
    condition = FLAG_HOLDS[field.name]
    return condition if FLAGS[value.text.lower()] else _opposite(condition)


def _tag(field: Field, node: Comparison, value: Value, context: _Context) -> Q:
    text = value.text.lower()
    if node.op == "~":
        return Q(fields.fits(fields.text_of("tags", []), "icontains", text))
    return Q(tags__contains=[text])


def _alarm(field: Field, node: Comparison, value: Value, context: _Context) -> Q:
    text = value.text.lower()
    rules = list(rules_by_name())
    if text not in ALARM_WORDS and text not in rules:
        hint = nearest(text, [*ALARM_WORDS, *rules])
        raise ValueError(
            f"is no alarm; {hint or 'expected ' + ', '.join(ALARM_WORDS) + ' or the name of a rule'}"
        )
    wanted: dict[str, object] = {"alarms__rule__in": rules}
    if text != "any":
        wanted["alarms__active"] = True  # of the same alarm: one filter() joins once
    if text in rules:
        wanted["alarms__rule"] = text
    elif text in ("critical", "warning"):
        wanted["alarms__level"] = text
    found = Q(pk__in=Run.objects.filter(**wanted).values("pk"))
    return _opposite(found) if text == "none" else found


def _config(field: Field, node: Comparison, value: Value, context: _Context) -> Q:
    path = config_path(node.field)
    if value.text.lower() == "none" and not value.quoted and node.op not in ORDER + ("~",):
        return Q(fields.missing("config", path))
    if node.op in ORDER:
        return Q(fields.number_fits("config", path, LOOKUPS[node.op], fields.number(value.text)))
    text = fields.text_of("config", path)
    if node.op == "~":
        return Q(fields.fits(text, "icontains", value.text))
    if "*" in value.text and not value.quoted:
        return Q(fields.fits(text, "iregex", pattern(value.text)))
    found = Q(fields.fits(text, "iexact", value.text))
    try:
        same = fields.number_fits("config", path, "exact", fields.number(value.text))
    except ValueError:
        return found
    return found | Q(same)


def _metric(field: Field, node: Comparison, value: Value, context: _Context) -> Q:
    """By the newest value, one index entry a run. A metric that a run does not have compares with nothing."""
    newest = newest_value(metric_name(node.field))
    if value.text.lower() == "none" and not value.quoted and node.op not in ORDER:
        return Q(IsNull(newest, True))
    compare = fields.COMPARE[LOOKUPS.get(node.op, "exact")]
    number = Constant(fields.number(value.text), output_field=FloatField())
    return Q(Coalesce(compare(newest, number), Constant(False), output_field=BooleanField()))


_KINDS: dict[FieldType, Callable[[Field, Comparison, Value, _Context], Q]] = {
    FieldType.TEXT: _text,
    FieldType.CHOICE: _choice,
    FieldType.NUMBER: _number,
    FieldType.WHOLE: _number,
    FieldType.TIME: _time,
    FieldType.AGE: _age,
    FieldType.FLAG: _flag,
    FieldType.TAG: _tag,
    FieldType.ALARM: _alarm,
    FieldType.CONFIG: _config,
    FieldType.METRIC: _metric,
}
