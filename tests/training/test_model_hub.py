import hashlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fake_model import safetensors
from tests.hub_server import HubHandler, nobodys_address, serving
from training import model_hub
from training.model_hub import fetch_model
from training.models import ModelError, check_model, is_to_be_made
from training.recipe import RecipeError, apply_overrides, check_runnable, load_recipe

INDEX = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
WHOLE = {
    "config.json": b'{"model_type": "qwen2", "max_position_embeddings": 64, "eos_token_id": 1}',
    "generation_config.json": b"{}",
    "tokenizer.json": b"{}",
    "tokenizer_config.json": b"{}",
    "chat_template.jinja": b"{{ messages }}",
    "model.safetensors.index.json": json.dumps(INDEX).encode(),
    "model-00001-of-00002.safetensors": safetensors({"a": [2, 3]}),
    "model-00002-of-00002.safetensors": safetensors({"b": [4]}),
}
UNWANTED = {
    "README.md": b"words",
    "pytorch_model.bin": b"weights again",
    "original/consolidated.00.safetensors": safetensors({"c": [5]}),
    "consolidated.safetensors": safetensors({"c": [5]}),
}
MODELS = {
    ("org/whole", "main"): WHOLE | UNWANTED,
    ("org/whole", "v2"): {**WHOLE, "generation_config.json": b'{"v": 2}'},
    ("org/pickled", "main"): {name: WHOLE[name] for name in ("config.json", "tokenizer.json")},
    ("org/lost", "main"): {k: v for k, v in WHOLE.items() if k != "model-00002-of-00002.safetensors"},
}


class Hub(HubHandler):
    """As much of the hub's API as listing and downloading models need."""

    broken = ""  # a file that is never sent
    sent: list[str] = []

    def answer(self, path: str) -> None:
        for (repo, revision), files in MODELS.items():
            sha = hashlib.sha1(f"{repo}{revision}".encode()).hexdigest()
            if path == f"/api/models/{repo}/revision/{revision}":
                names = [{"rfilename": name} for name in files]
                body = {"id": repo, "sha": sha, "siblings": names, "private": False}
                return self.send(200, json.dumps(body).encode())
            for commit in (revision, sha):
                if path == f"/api/models/{repo}/tree/{commit}":
                    listed = [
                        {"type": "file", "path": name, "size": len(files[name]), "oid": "0"} for name in files
                    ]
                    return self.send(200, json.dumps(listed).encode())
                name = path.removeprefix(f"/{repo}/resolve/{commit}/")
                if name == self.broken:
                    return self.send(404, b"", {"X-Error-Code": "EntryNotFound"})
                if name in files:
                    self.sent += [name] * self.with_body
                    return self.send_file(files[name], sha)


@pytest.fixture
def hub() -> Iterator[str]:
    """Address of a hub that answers."""
    with serving(Hub) as address:
        yield address


@pytest.fixture
def nobody() -> str:
    return nobodys_address()


def test_model_is_downloaded_once(hub: str, nobody: str, tmp_path: Path) -> None:
    folder = fetch_model("org/whole", tmp_path, endpoint=hub)

    assert folder == tmp_path / "models" / "org--whole"
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == WHOLE
    assert {path.name for path in folder.parent.iterdir()} == {"org--whole", ".org--whole.lock"}
    assert fetch_model("org/whole", tmp_path, endpoint=nobody) == folder
    assert check_model("org/whole", tmp_path, min_context=64) == folder


def test_models_that_are_here_are_not_asked_for(nobody: str, tmp_path: Path, toy_model: Path) -> None:
    assert fetch_model(str(toy_model), tmp_path, endpoint=nobody) == toy_model
    with pytest.raises(ModelError, match="no model named 'toy'"):
        fetch_model("toy", tmp_path, endpoint=nobody)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("org/nothing", "http://127.0.0.1:.* says: "),
        ("org/pickled", r"org/pickled at http://127.0.0.1:\d+ has no weights"),
        ("org/lost", r"lacks model-00002-of-00002.safetensors, which .* names"),
    ],
)
def test_unknown_or_incomplete_model(name: str, reason: str, hub: str, tmp_path: Path) -> None:
    folder = tmp_path / "models" / name.replace("/", "--")

    with pytest.raises(ModelError, match=reason) as raised:
        fetch_model(name, tmp_path, endpoint=hub)

    assert f"put its config.json, tokenizer files and *.safetensors into {folder}" in str(raised.value)
    assert not folder.exists()


def test_unreachable_hub_says_what_to_do(nobody: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as raised:
        fetch_model("org/whole", tmp_path, endpoint=nobody)

    message = str(raised.value)
    assert f"model org/whole is not here, and {nobody} cannot be reached" in message
    assert f"into {tmp_path / 'models' / 'org--whole'}" in message


def test_download_that_broke_off_is_taken_up_again(hub: str, tmp_path: Path) -> None:
    Hub.broken = "model-00002-of-00002.safetensors"
    with pytest.raises(ModelError, match="says: "):
        fetch_model("org/whole", tmp_path, endpoint=hub)
    assert not (tmp_path / "models" / "org--whole").exists()
    Hub.broken = ""
    Hub.sent.clear()

    folder = fetch_model("org/whole", tmp_path, endpoint=hub)

    assert {file.name for file in folder.iterdir()} == set(WHOLE)
    assert Hub.sent == ["model-00002-of-00002.safetensors"]


def test_revisions_have_folders_of_their_own(hub: str, tmp_path: Path) -> None:
    folder = fetch_model("org/whole@v2", tmp_path, endpoint=hub)

    assert folder == tmp_path / "models" / "org--whole@v2"
    assert (folder / "generation_config.json").read_bytes() == b'{"v": 2}'


def test_launch_accepts_what_looks_like_an_id_of_the_hub(tmp_path: Path) -> None:
    recipe = load_recipe("tiny/scalerl")

    check_runnable(apply_overrides(recipe, {"model": "org/whole"}), tmp_path)
    with pytest.raises(RecipeError, match="model: no model named 'whole'"):
        check_runnable(apply_overrides(recipe, {"model": "whole"}), tmp_path)


@pytest.mark.deep
def test_a_tiny_model_is_made_once_by_whoever_starts_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, run = [], subprocess.run
    monkeypatch.setattr(
        model_hub.subprocess,
        "run",
        lambda command, **how: started.append(run([*command, "--steps", "1"], **how)) or started[-1],
    )

    assert is_to_be_made("tiny-arithmetic-0.1m", tmp_path)
    folder = fetch_model("tiny-arithmetic-0.1m", tmp_path)

    assert folder == check_model("tiny-arithmetic-0.1m", tmp_path, min_context=64)
    assert not is_to_be_made("tiny-arithmetic-0.1m", tmp_path)
    assert fetch_model("tiny-arithmetic-0.1m", tmp_path) == folder
    assert len(started) == 1


def test_a_tiny_model_that_cannot_be_made_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_hub.sys, "executable", "false")

    with pytest.raises(ModelError, match="tiny-arithmetic could not be made"):
        fetch_model("tiny-arithmetic", tmp_path)


def test_launch_accepts_tiny_models_that_are_still_to_be_made(tmp_path: Path) -> None:
    recipe = load_recipe("tiny/scalerl")
    long = apply_overrides(recipe, {"rollout.max_thinking_tokens": 4000})

    check_runnable(recipe, tmp_path)
    with pytest.raises(RecipeError, match="model: the model tiny-arithmetic has a context of 192 tokens"):
        check_runnable(long, tmp_path)
