"""The environment that scripts/setup.sh makes."""

import csv
from collections import defaultdict
from importlib import metadata


def test_no_two_packages_install_the_same_file_with_another_content():
    """Which of them is there would be a matter of chance: they are unpacked side by side, as ninja and django-ninja."""
    contents = defaultdict(dict)
    for distribution in metadata.distributions():
        name, rows = distribution.name, csv.reader((distribution.read_text("RECORD") or "").splitlines())
        for file, digest, _ in rows:
            if digest:
                contents[file][name] = digest

    clashes = {file: sorted(owners) for file, owners in contents.items() if len(set(owners.values())) > 1}

    assert len(contents) > 10_000  # the lists were found
    assert clashes == {}
