"""Docs and types that repeat the code are written by it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_tables_of_the_recipes_page_are_those_of_the_code() -> None:
    checked = subprocess.run([sys.executable, "scripts/recipes_doc.py", "--check"], cwd=ROOT, timeout=60)

    assert checked.returncode == 0, "run: python scripts/recipes_doc.py"


def test_the_table_of_alarms_is_that_of_the_rules() -> None:
    checked = subprocess.run([sys.executable, "scripts/alarms_doc.py", "--check"], cwd=ROOT, timeout=60)

    assert checked.returncode == 0, "run: python scripts/alarms_doc.py"


def test_table_of_the_settings_is_what_the_code_says():
    checked = subprocess.run([sys.executable, "scripts/settings_doc.py", "--check"], cwd=ROOT, timeout=60)

    assert checked.returncode == 0, "run: python scripts/settings_doc.py"


def test_the_tables_of_permissions_are_those_of_the_code() -> None:
    checked = subprocess.run([sys.executable, "scripts/permissions_doc.py", "--check"], cwd=ROOT, timeout=60)

    assert checked.returncode == 0, "run: python scripts/permissions_doc.py"


def test_the_kill_matrix_is_the_one_that_was_measured() -> None:
    checked = subprocess.run([sys.executable, "scripts/chaos_doc.py", "--check"], cwd=ROOT, timeout=60)

    assert checked.returncode == 0, "run: python scripts/chaos_doc.py"


def test_the_types_of_the_read_client_are_those_of_the_api() -> None:
    checked = subprocess.run([sys.executable, "scripts/api_types.py", "--check"], cwd=ROOT, timeout=60)

    assert checked.returncode == 0, "run: python scripts/api_types.py"
