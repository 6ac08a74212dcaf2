"""The same again is known as such: clients repeat a request whose answer got lost, and have no key for it.

MLflow's own key of a value is all that it consists of: (run, name, time, step, value, is it NaN). A digest of each
request or record would take the same values for new ones where a client cuts its batches elsewhere the second time; a
row for each value would cost as much as the value. So there is one row for each moment (step and time to the
millisecond, the unit in which clients log), and in it eight bytes of a digest for each (name, value) that has arrived
of that moment. How the values were grouped does not matter, and a repeat reads the rows of its own moments and nothing
else, however much is stored. That two different values of one moment share a digest has odds of 1 in 10^13 where a
moment has a thousand values; the second one would be dropped.

trackio gives each line an id: its row has that as key, and no values.
"""

import hashlib
import struct
from collections.abc import Iterable, Mapping

from django.db import connection

from webapp.interfaces.tracking.models import ClientRun, Receipt

Moment = tuple[int, int]  # step, time in milliseconds
CHUNK = 1000


def digest(name: str, value: float) -> int:
    """Of a name and a value; every NaN is the same value. A signed number of 64 bits."""
    bits = struct.pack("<d", value if value == value else float("nan"))
    given = hashlib.blake2b(name.encode() + b"\0" + bits, digest_size=8).digest()
    return int.from_bytes(given, "big", signed=True)


def key_of(moment: Moment) -> str:
    return f"{moment[0]}:{moment[1]}"


def known_values(run: ClientRun, moments: Iterable[Moment]) -> dict[str, set[int]]:
    """Key of a moment -> the digests that have arrived of it."""
    with connection.cursor() as cursor:
        cursor.execute(
            'SELECT key, "values" FROM tracking_receipt WHERE run_id = %s AND key = ANY(%s)',
            [run.pk, [key_of(moment) for moment in moments]],
        )
        return {key: set(values) for key, values in cursor.fetchall()}


def note_values(run: ClientRun, known: Mapping[str, set[int]]) -> None:
    """Write down all that has arrived by now of these moments; part of the transaction that stores it."""
    rows = [Receipt(run=run, key=key, values=sorted(values)) for key, values in known.items()]
    Receipt.objects.bulk_create(
        rows, CHUNK, update_conflicts=True, unique_fields=["run", "key"], update_fields=["values"]
    )


def new_lines(run: ClientRun, ids: Iterable[str]) -> set[str]:
    """Of these ids of lines those that have not arrived yet, written down as arrived."""
    wanted = dict.fromkeys(ids)
    known = set(Receipt.objects.filter(run=run, key__in=list(wanted)).values_list("key", flat=True))
    fresh = [key for key in wanted if key not in known]
    Receipt.objects.bulk_create([Receipt(run=run, key=key) for key in fresh], CHUNK)
    return set(fresh)
