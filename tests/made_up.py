"""Made-up values for fields that take something else: what no caller sends on purpose, and attackers send first."""

import random
from typing import Any

ODD: list[Any] = [
    "", " ", "\0", "%00", "'", '"; DROP TABLE runs', "é" * 300, "x" * 5000, "../../etc/passwd", "-1", "0", "1e999",
    "nan", "-inf", "1e308", "9" * 5000, "2001-99-99", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59",
    "[" * 2000, "{}", "a: &a [*a]", "\ud7ff", "\u202e", "<script>alert(1)</script>", "{{ 7 * 7 }}", "${7*7}", "=1+1",
    "true", "null", "1,5", "1.000.000", "\uff12", "\u0663", "\r\nX-Odd: 1", "a" * 63 + ".example", "http://[::1",
    "//example.com", "javascript:1",
]  # fmt: skip
ODD_JSON = [
    None, True, False, -1, 0, 2**31, 2**63, 10**400, 1.5, -0.0, 1e308, [], [[]], [None], {}, {"": None},
    {"a": {"b": ["\0"]}}, [{}] * 50, [[[[[[[[]]]]]]]], {"$ne": 1}, *ODD,
]  # fmt: skip


def changed(body: dict[str, Any], rng: random.Random, odd: list[Any]) -> dict[str, Any]:
    """The same with one to three values dropped, replaced or added, at any depth."""
    found = dict(body)
    for _ in range(rng.randint(1, 3)):
        name = rng.choice([*found, "odd", "id"])
        inner = found.get(name)
        if rng.random() < 0.1:
            found.pop(name, None)
        elif isinstance(inner, dict) and rng.random() < 0.7:
            found[name] = changed(inner, rng, odd)
        elif isinstance(inner, list) and inner and rng.random() < 0.7:
            found[name] = [
                changed(one, rng, odd) if isinstance(one, dict) else rng.choice(odd) for one in inner[:3]
            ]
        else:
            found[name] = rng.choice(odd)
    return found
