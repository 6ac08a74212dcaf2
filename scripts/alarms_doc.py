"""Writes the table of docs/alarms.md from the rules: `python scripts/alarms_doc.py [--check]`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from doc_tables import main, table  # noqa: E402

from webapp.record.alarm_rules import DEFAULTS, Comparison, Rule  # noqa: E402

WHERE = {
    Comparison.ABOVE: "at or above {:g}",
    Comparison.BELOW: "at or below {:g}",
    Comparison.ABOVE_EARLY: "at or above {:g} times its early median",
    Comparison.BELOW_EARLY: "at or below {:g} times its early median",
}


def rule_table() -> str:
    """Every rule with its defaults and what it means."""
    return table(["rule", "metric", "alarms", "records", "level", "meaning", "look at"], map(row, DEFAULTS))


def row(rule: Rule) -> list[str]:
    """One rule; `records` also says how many values make its early median."""
    metric = "any metric" if rule.metric == "*" else f"`{rule.metric}`"
    where = "reported as null" if rule.threshold is None else WHERE[rule.comparison].format(rule.threshold)
    records = f"{rule.records} (early: {rule.early})" if rule.comparison.relative else f"{rule.records}"
    return [f"`{rule.name}`", metric, where, records, rule.level, rule.meaning, rule.look_at]


if __name__ == "__main__":
    sys.exit(main(ROOT / "docs" / "alarms.md", {"rules": rule_table}))
