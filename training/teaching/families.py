"""The families by name."""

from training.teaching.arithmetic import Sums
from training.teaching.base import Family
from training.teaching.countdown import Search
from training.teaching.expressions import Expressions

FAMILIES: dict[str, Family] = {"arithmetic": Sums(), "countdown": Search(), "expressions": Expressions()}
