"""What `make test` prints and returns at the end."""

import importlib.util
from collections import Counter

import pytest
from django.conf import settings

_spec = importlib.util.spec_from_file_location("run_tests", settings.BASE_DIR / "scripts" / "run_tests.py")
run_tests = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(run_tests)


def test_the_last_line_reads_like_pytests():
    line = run_tests.closing_line(Counter(passed=20, failed=1, skipped=2, warning=3), 3725.5)

    assert line.strip("=") == " 1 failed, 20 passed, 2 skipped, 3 warnings in 3725.50s (1:02:05) "
    assert line.startswith("=") and line.endswith("=")


@pytest.mark.parametrize(
    ("body", "status", "counted"),
    [
        ("def test_a(): pass\ndef test_b(): pass", 0, {"passed": 2}),
        ("def test_a(): assert 0\ndef test_b(): pass", 1, {"failed": 1, "passed": 1}),
        (
            "import pytest\n@pytest.mark.skip\ndef test_a(): pass\ndef test_b(x): pass",
            1,
            {"skipped": 1, "error": 1},
        ),
    ],
)
def test_counts_and_status_are_pytests(tmp_path, body, status, counted, capfd):
    (tmp_path / "test_it.py").write_text(body)

    result = run_tests.run([str(tmp_path), "-c", "/dev/null", f"--rootdir={tmp_path}", "-p", "no:django"])

    assert result == (status, Counter(counted))
    assert "test_it.py" in capfd.readouterr().out


def test_every_folder_of_tests_is_in_one_of_the_two_parts():
    assert all((settings.BASE_DIR / path).exists() for path in run_tests.SIDE_BY_SIDE)
