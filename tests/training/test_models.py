import json
from pathlib import Path

import pytest

from tests.fake_model import make_model, safetensors
from training.models import (
    ModelError,
    available_models,
    check_model,
    eos_token_ids,
    families,
    find_model,
    is_to_be_downloaded,
    parameter_count,
)


def add_model(home: Path, name: str, config: dict) -> Path:
    folder = home / "models" / name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_available_models_are_the_folders_with_a_config(tmp_path: Path) -> None:
    folder = add_model(tmp_path, "a", {})
    (tmp_path / "models" / "half-made").mkdir()

    assert available_models(tmp_path) == {"a": folder}
    assert available_models(tmp_path / "nowhere") == {}


def test_find_by_name_and_by_path(tmp_path: Path) -> None:
    folder = add_model(tmp_path, "a", {})

    assert find_model("a", tmp_path) == folder
    assert find_model(str(folder), tmp_path / "nowhere") == folder


def test_find_by_id_of_the_hub(tmp_path: Path) -> None:
    folder = add_model(tmp_path, "org--a", {})
    other = add_model(tmp_path, "org--a@v2--x", {})

    assert find_model("org/a", tmp_path) == folder
    assert find_model("org/a@v2/x", tmp_path) == other
    assert not is_to_be_downloaded("org/a", tmp_path)
    assert is_to_be_downloaded("org/a@v3", tmp_path)
    with pytest.raises(
        ModelError, match=r"no model named 'org/b'; .* of the hub, it would be in .*/org--b; a"
    ):
        find_model("org/b", tmp_path)


def test_what_looks_like_an_id_is_one_wherever_a_program_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = add_model(tmp_path, "a", {})
    monkeypatch.chdir(tmp_path)

    assert is_to_be_downloaded("models/a", tmp_path / "home")
    with pytest.raises(ModelError, match="a path begins with / or ./"):
        find_model("models/a", tmp_path / "home")
    assert find_model("./models/a", tmp_path / "home") == folder
    assert find_model("a", Path()) == folder


@pytest.mark.parametrize(
    "name", ["a", "/org/a", "./org/a", "org/", "org/a/b", "org/a@", "../a", "org/..", "o rg/a"]
)
def test_what_is_no_id_of_the_hub_is_not_downloaded(name: str, tmp_path: Path) -> None:
    assert not is_to_be_downloaded(name, tmp_path)


def test_offline_nothing_is_to_be_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    assert not is_to_be_downloaded("org/a", tmp_path)


@pytest.mark.parametrize("name", ["half", "org/half", "PATH"])
def test_folder_without_configuration_is_named(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "models" / ("org--half" if name == "org/half" else "half")
    folder.mkdir(parents=True)
    name = str(folder) if name == "PATH" else name

    assert not is_to_be_downloaded(name, tmp_path)
    with pytest.raises(ModelError, match=f"^{folder} has no config.json$"):
        find_model(name, tmp_path)


def test_missing_base_model_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="none yet; `python -m training pretrain` makes it"):
        find_model("tiny-arithmetic", tmp_path)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"max_position_embeddings": 16}, "context of 16 tokens"),
        ({"max_position_embeddings": None}, "does not say max_position_embeddings"),
        ({"eos_token_id": None}, "neither config.json nor generation_config.json says eos_token_id"),
        ({"model_type": "qwen99"}, "says model_type 'qwen99': transformers has no such language model"),
        ({"model_type": ["qwen2"]}, "transformers has no such language model"),
        ({"model_type": None}, "does not say model_type"),
        ({"model_type": "gpt_oss"}, "'gpt_oss': transformers has no such language model that can be trained"),
        ({"model_type": "whisper"}, "'whisper': transformers has no such language model"),
        ({"model_type": "cohere"}, "'cohere': transformers has no such language model"),
        (
            {"model_type": "granite", "logits_scaling": 8.0},
            "config.json sets logits_scaling to 8.0: log-prob",
        ),
        ({"model_type": "cohere", "logit_scale": 0.0625}, "config.json sets logit_scale to 0.0625"),
        ({"text_config": {"final_logit_softcapping": 30.0}}, "sets final_logit_softcapping to 30.0"),
    ],
)
def test_check_refuses_a_configuration(tmp_path: Path, config: dict, reason: str) -> None:
    make_model(tmp_path, "a", 64, config)

    with pytest.raises(ModelError, match=reason):
        check_model("a", tmp_path, min_context=24)


@pytest.mark.parametrize("value", [None, 1, 1.0])
def test_a_head_setting_without_effect_is_not_refused(tmp_path: Path, value: float | None) -> None:
    folder = make_model(tmp_path, "a", 64, {"model_type": "granite", "logits_scaling": value})

    assert check_model("a", tmp_path, min_context=24) == folder


def test_families_are_among_those_of_transformers() -> None:
    """Which of them, says `test_heads.py`."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    assert families() <= set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    assert {"qwen2", "qwen3", "qwen3_moe", "llama", "deepseek_v3"} <= families()


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ("tokenizer.json", "has no tokenizer.json"),
        ("model.safetensors", r"has no weights \(\*.safetensors\)"),
    ],
)
def test_check_refuses_a_folder_without(tmp_path: Path, missing: str, reason: str) -> None:
    (make_model(tmp_path, "a", 64) / missing).unlink()

    with pytest.raises(ModelError, match=reason):
        check_model("a", tmp_path, min_context=24)


def test_end_of_sequence_may_be_in_the_generation_configuration(tmp_path: Path) -> None:
    folder = make_model(tmp_path, "a", 64, {"eos_token_id": None})
    (folder / "generation_config.json").write_text('{"eos_token_id": [106, 1]}')

    assert check_model("a", tmp_path, min_context=24) == folder
    assert eos_token_ids(folder) == [106, 1]


def test_end_of_sequence_ids_of_both_files_count(tmp_path: Path) -> None:
    folder = make_model(tmp_path, "a", 64, {"eos_token_id": 1})
    (folder / "generation_config.json").write_text('{"eos_token_id": [1, 106]}')

    assert eos_token_ids(folder) == [1, 106]


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (None, "has no chat template"),
        ("{% for message in messages %}", "the chat template of .* fails"),
        ("{{ raise_exception('no users') }}", "the chat template of .* fails: no users"),
        ("{{ messages[5].content.upper() }}", "the chat template of .* fails"),
    ],
)
def test_chat_template_is_tried_before_the_run(tmp_path: Path, template: str | None, reason: str) -> None:
    folder = make_model(tmp_path, "a", 64)
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))

    assert check_model("a", tmp_path, min_context=24) == folder
    with pytest.raises(ModelError, match=reason):
        check_model("a", tmp_path, min_context=24, chat_template=True)


def test_parameters_are_counted_from_the_headers(tmp_path: Path) -> None:
    folder = make_model(tmp_path, "a", 64)
    assert parameter_count(folder) == 6

    (folder / "model.safetensors").unlink()
    for name, shapes in {"one": {"a": [4, 5], "scalar": []}, "two": {"b": [7]}}.items():
        (folder / f"{name}.safetensors").write_bytes(safetensors(shapes))
    index = {"weight_map": {"a": "one.safetensors", "scalar": "one.safetensors", "b": "two.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    assert parameter_count(folder) == 28


def test_parameters_of_a_real_model(toy_model: Path) -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(toy_model)

    assert parameter_count(toy_model) == sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("model.safetensors", safetensors({"a": [100]})[:-1]),  # a download that broke off
        ("model.safetensors", b"version https://git-lfs.github.com/spec/v1"),
        ("model.safetensors", b"\x05"),
        ("model.safetensors", safetensors({})[:8] + b"[]"),
        ("model.safetensors.index.json", b"{"),
        ("model.safetensors.index.json", b'{"weight_map": {"a": "elsewhere.safetensors"}}'),
    ],
)
def test_broken_weights(tmp_path: Path, name: str, content: bytes) -> None:
    folder = make_model(tmp_path, "a", 64)
    (folder / name).write_bytes(content)

    assert parameter_count(folder) is None
    with pytest.raises(ModelError, match="cut off or no safetensors|cannot be read|lacks elsewhere"):
        check_model("a", tmp_path, min_context=24)


@pytest.mark.parametrize("name", ["x" * 5000, "a/" + "b" * 5000, "\0", "a\0/b", ""])
def test_what_cannot_be_a_name_is_no_model(name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no model named"):
        find_model(name, tmp_path)
