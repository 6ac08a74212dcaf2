"""Problems from files and from the Hugging Face hub; `adapters` knows the fields of the known data sets. Light."""

from training.data.base import DataError, Problem, ProblemKind, Row

__all__ = ["DataError", "Problem", "ProblemKind", "Row"]
