"""The driver's secrets: out of the file into its environment, and the file away."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hub_server import serving
from tests.training.test_model_hub import Hub
from training.job_secrets import FILE_VARIABLE, take_secrets
from training.model_hub import fetch_model
from training.models import ModelError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "secrets.json"
    path.write_text(json.dumps({"HF_TOKEN": "hf_value_of_it"}))
    monkeypatch.setenv(FILE_VARIABLE, str(path))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    yield path
    os.environ.pop("HF_TOKEN", None)


def test_they_are_in_the_environment_and_the_file_is_gone(file):
    assert take_secrets() == ["HF_TOKEN"]

    assert os.environ["HF_TOKEN"] == "hf_value_of_it"
    assert not file.exists() and FILE_VARIABLE not in os.environ


def test_the_hub_library_finds_its_token(file):
    take_secrets()
    from huggingface_hub import get_token

    assert get_token() == "hf_value_of_it"


def test_nothing_happens_without_the_variable_or_the_file(file, monkeypatch):
    file.unlink()
    assert take_secrets() == []
    monkeypatch.delenv(FILE_VARIABLE, raising=False)
    assert take_secrets() == []
    assert "HF_TOKEN" not in os.environ


def test_another_content_is_refused_without_printing_it(file):
    file.write_text('["hf_value_of_it"]')

    with pytest.raises(ValueError, match="JSON object") as error:
        take_secrets()
    assert "hf_value" not in str(error.value)


def test_the_command_takes_them_before_anything_else(file):
    """A recipe that does not exist: what comes after the secrets fails, and the file is gone already."""
    words = [sys.executable, "-m", "training", "run", "no-such-recipe", "--run-dir", str(file.parent / "run")]
    result = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120)

    assert result.returncode == 1 and "no-such-recipe" in result.stderr
    assert not file.exists()
    assert "hf_value_of_it" not in result.stdout + result.stderr


def test_what_the_driver_starts_for_code_of_a_model_does_not_inherit_them(file):
    from training.verifiers.service import _environment

    take_secrets()

    assert "HF_TOKEN" not in _environment()


class GatedHub(Hub):
    """The same hub, which opens to one token only."""

    def _answer(self) -> None:
        if self.path != "/" and self.headers["Authorization"] != "Bearer hf_value_of_it":
            self.send(401, b"", {"X-Error-Code": "GatedRepo"})
        else:
            super()._answer()


def test_a_gated_model_is_downloaded_with_the_secret(file, tmp_path):
    with serving(GatedHub) as hub:
        with pytest.raises(ModelError):
            fetch_model("org/whole", tmp_path, endpoint=hub)
        take_secrets()

        assert (fetch_model("org/whole", tmp_path, endpoint=hub) / "config.json").is_file()
