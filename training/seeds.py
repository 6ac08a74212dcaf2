"""Random numbers that depend on names alone: the same in every process, machine and attempt of a run."""

import hashlib


def seed_of(*parts: int | str) -> int:
    """63 bits from the parts, by BLAKE2: Python's own `hash` of text differs from process to process."""
    text = "/".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
