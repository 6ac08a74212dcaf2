"""What the tiny base models are taught: worked problems of a family of tasks, with mistakes. No torch needed."""

from training.teaching.base import Family
from training.teaching.families import FAMILIES

__all__ = ["FAMILIES", "Family"]
