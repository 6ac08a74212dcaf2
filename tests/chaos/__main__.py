"""The kill matrix: `make chaos`, or `python -m tests.chaos [--short] [--part P]... [--moment M]... [--json FILE]`.

Starts a stack of its own, trains one run undisturbed, then one for each cell, in which something is killed, cut off or
filled up. Ends with status 1 where a cell fails.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.cases import Case, Result, undisturbed
from tests.chaos.parts import MOMENTS, PARTS, SHORT
from tests.chaos.site import own_site


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    options = _parser().parse_args(arguments)
    cells = chosen(options.part, options.moment, short=options.short)
    print(f"{len(cells)} cells; starting a stack", flush=True)
    with own_site() as site:
        print("training undisturbed", flush=True)
        reference = undisturbed(site)
        results = []
        for part, moment in cells:
            result = Case(site, part, moment, reference).run()
            results.append(result)
            print(line(result), flush=True)
            for problem in result.problems:
                print(f"    {problem}", flush=True)
            if options.json:
                keep(options.json, result)
    failed = sum(not result.passed for result in results)
    print(f"{len(results) - failed} of {len(results)} cells hold", flush=True)
    return 1 if failed else 0


def chosen(parts: Sequence[str], moments: Sequence[str], *, short: bool = False) -> list[tuple[str, str]]:
    """The cells asked for, moment by moment, so that no part dies twice in a row."""
    cells = SHORT if short else [(part, moment) for moment in MOMENTS for part in PARTS]
    return [cell for cell in cells if cell[0] in (parts or PARTS) and cell[1] in (moments or MOMENTS)]


def line(result: Result) -> str:
    """A cell in words."""
    if result.skipped:
        return f"{result.part:11} {result.moment:10} skipped: {result.skipped}"
    times = "nothing to be seen"
    if result.detected is not None:
        times = f"seen after {result.detected:5.1f} s, on again after {result.recovered:5.1f} s"
    attempts = (
        f"{result.attempts} attempts ({result.by_hand} by hand)" if result.attempts > 1 else "1 attempt"
    )
    verdict = "holds" if result.passed else "FAILS"
    amounts = f"{attempts}, {result.records} records, {result.seconds:.0f} s"
    return f"{result.part:11} {result.moment:10} {verdict}  {times}  {amounts}"


def keep(path: Path, result: Result) -> None:
    """Put the cell into the file, in place of an earlier one."""
    cells = json.loads(path.read_text()) if path.exists() else {}
    row = result.as_dict() | {"problems": [problem.splitlines()[0] for problem in result.problems]}
    cells[f"{result.part} {result.moment}"] = row
    order = {f"{part} {moment}": None for part in PARTS for moment in MOMENTS}
    path.write_text(json.dumps({key: cells[key] for key in order if key in cells}, indent=1) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="the cells that CI runs")
    parser.add_argument(
        "--part", action="append", default=[], choices=PARTS, help="only this part; repeatable"
    )
    parser.add_argument(
        "--moment", action="append", default=[], choices=MOMENTS, help="only this moment; repeatable"
    )
    parser.add_argument("--json", type=Path, help="keep the cells here, beside those of earlier runs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
