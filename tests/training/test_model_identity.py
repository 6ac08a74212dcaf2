import json
from pathlib import Path

from training.digests import model_identity


def model(folder: Path, tokenizer: str = "{}", **config: object) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"hidden_size": 8, **config}))
    (folder / "tokenizer.json").write_text(tokenizer)
    return folder


def test_same_model_saved_by_another_library_version_is_the_same(tmp_path: Path) -> None:
    one = model_identity(model(tmp_path / "one", transformers_version="5.16", dtype="float32"))

    assert one == model_identity(model(tmp_path / "two", transformers_version="5.17", torch_dtype="bfloat16"))


def test_sizes_and_tokens_make_another_model(tmp_path: Path) -> None:
    identities = [
        model_identity(model(tmp_path / "one")),
        model_identity(model(tmp_path / "two", tie_word_embeddings=True)),
        model_identity(model(tmp_path / "three", tokenizer='{"model": {}}')),
    ]

    assert all(one != other for i, one in enumerate(identities) for other in identities[:i])
