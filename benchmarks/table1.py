"""Table 1 of arXiv 2510.13786: the published fits, which benchmarks and tests take curves from."""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_suffix(".csv")


@dataclass(frozen=True)
class PublishedFit:
    """One row; c_mid in GPU-hours."""

    name: str
    c_mid: float
    b: float
    a: float


@cache
def published_fits() -> tuple[PublishedFit, ...]:
    """In the order of the table."""
    return tuple(
        PublishedFit(row["experiment"], float(row["C_mid"]), float(row["B"]), float(row["A"]))
        for row in csv.DictReader(FILE.read_text().splitlines())
    )
