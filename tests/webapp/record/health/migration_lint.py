"""What of a migration's SQL would hold up a database at work, or break the release before, which goes on meanwhile."""

import re

# Tables that grow with use: a lock that lasts as long as one of them is read is a lock for minutes.
BIG = (
    "audit_event",
    "curves_fit",
    "logs_logchunk",
    "runs_attempt",
    "runs_point",
    "runs_record",
    "runs_run",
    "runs_series",
    "runs_summary",
    "runs_transition",
    "tracking_clientmetric",
    "tracking_notfinite",
    "tracking_receipt",
)
STEADY = r"(?:now|current_timestamp|statement_timestamp|transaction_timestamp)\s*\("  # one value for all rows
ON_BIG = (
    (r"\bADD COLUMN\b[^,]*\b(?:BIG|SMALL)?SERIAL\b|\bGENERATED\b", "a value for each row rewrites the table"),
    (r"\bALTER COLUMN \S+ (?:SET DATA )?TYPE\b", "another type rewrites the table"),
    (r"\bSET NOT NULL\b", "it reads the whole table: add a CHECK ... NOT VALID, validate it, then this"),
    (r"\bADD CONSTRAINT\b.*\b(?:CHECK|FOREIGN KEY)\b(?!.*\bNOT VALID\b)", "add it NOT VALID, and validate it after"),
    (r"\bADD CONSTRAINT\b.*\b(?:UNIQUE|PRIMARY KEY)\b(?!.*\bUSING INDEX\b)", "make its index CONCURRENTLY before"),
    (r"\bADD CONSTRAINT\b.*\bEXCLUDE\b", "it makes an index under a lock"),
    (r"\bSET (?:TABLESPACE|LOGGED|UNLOGGED|ACCESS METHOD)\b", "it rewrites the table"),
)  # fmt: skip
ANYWHERE = (
    (r"^DROP TABLE\b", "the release before still uses the table"),
    (r"^ALTER TABLE\b.*\bDROP COLUMN\b", "the release before still uses the column"),
    (r"^ALTER TABLE\b.*\bRENAME\b(?! CONSTRAINT)", "the release before knows the old name"),
    (r"^(?:CLUSTER|VACUUM FULL|REINDEX(?!.*CONCURRENTLY)|LOCK TABLE)\b", "it locks a whole table"),
)
UNREADABLE = "THIS OPERATION CANNOT BE WRITTEN AS SQL"


def findings(statements: list[str]) -> list[str]:
    """Sentences; empty for a migration that is safe. `statements`: what `sqlmigrate` collects."""
    told: list[str] = []
    lines = [_plain(each) for each in statements]
    own = set(re.findall(r"CREATE TABLE (\S+)", " ".join(lines)))
    dropped = set(re.findall(r"DROP INDEX CONCURRENTLY IF EXISTS (\S+?);?(?=\s|$)", " ".join(lines)))
    checked = _validated(lines)
    for line in lines:
        if UNREADABLE in line:
            told.append("Python code: say in ALLOWED why it is quick and can be run twice")
        told += [f"{why}: {line}" for pattern, why in ANYWHERE if re.search(pattern, line, re.I)]
        told += _of_index(line, own, dropped)
        told += _of_column(line, lines, own)
        told += _of_big(line, own, checked)
    return told


def _of_index(line: str, own: set[str], dropped: set[str]) -> list[str]:
    found = re.match(
        r"CREATE (?:UNIQUE )?INDEX (CONCURRENTLY )?(?:IF NOT EXISTS )?(\S+) ON (\S+)", line, re.I
    )
    if not found or found[3] in own or found[3] not in BIG:
        return []
    if not found[1]:
        return [f"nobody writes while it is made, so make it CONCURRENTLY: {line}"]
    if found[2] not in dropped:
        return [
            f"what an interrupted attempt left stands in its way, so DROP INDEX CONCURRENTLY IF EXISTS first: {line}"
        ]
    return []


def _of_column(line: str, lines: list[str], own: set[str]) -> list[str]:
    """A new column that the release before, which does not know it, could not leave out."""
    found = re.match(r"ALTER TABLE (\S+) ADD COLUMN (\S+) (.*)", line, re.I)
    if not found or found[1] in own:
        return []
    table, column, rest = found.groups()
    forgotten = any(
        re.match(rf"ALTER TABLE {table} ALTER COLUMN {column} DROP DEFAULT", each, re.I) for each in lines
    )
    told = []
    if re.search(r"\bNOT NULL\b", rest, re.I) and (forgotten or not re.search(r"\bDEFAULT\b", rest, re.I)):
        told.append(
            f"the release before cannot add rows without a db_default, so give one or allow null: {line}"
        )
    default = re.search(r"\bDEFAULT\b(.*)", rest, re.I)
    if table in BIG and default and "(" in re.sub(STEADY, "", default[1], flags=re.I):
        told.append(f"a default that is worked out for each row rewrites the table: {line}")
    return told


def _of_big(line: str, own: set[str], checked: set[str]) -> list[str]:
    found = re.match(r"(?:ALTER TABLE (?:ONLY )?|UPDATE |DELETE FROM )(\S+)", line, re.I)
    if not found or found[1] in own or found[1] not in BIG:
        return []
    if not line.upper().startswith("ALTER"):
        return [
            f"it changes a big table in one transaction, so do it in pieces, in a command or task: {line}"
        ]
    told = [(pattern, why) for pattern, why in ON_BIG if re.search(pattern, line, re.I)]
    return [f"{why}: {line}" for pattern, why in told if "NOT NULL" not in pattern or found[1] not in checked]


def _validated(lines: list[str]) -> set[str]:
    """Tables of which a check was validated before."""
    return {
        found[1]
        for each in lines
        if (found := re.match(r"ALTER TABLE (\S+) VALIDATE CONSTRAINT", each, re.I))
    }


def _plain(statement: str) -> str:
    """On one line, without quotes around names."""
    return " ".join(statement.replace('"', "").split())
