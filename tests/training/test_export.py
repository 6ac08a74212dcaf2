"""A checkpoint's model as a folder that transformers reads."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from training.__main__ import main
from training.checkpoints import MARKER, TRAINER, CheckpointError
from training.digests import digests_of
from training.export import export_model
from training.models import check_model
from training.pretrain import Lessons, new_model, save
from training.recipe import Recipe
from training.trainer.trainer import Trainer

TOKENS = torch.tensor([[4, 14, 5, 15, 2, 6]])


def make_model(folder: Path, *, tied: bool) -> Path:
    torch.manual_seed(3)
    lessons = Lessons(hidden=16, layers=2, heads=2, mlp=16, context=64)
    model = new_model(lessons)
    if tied:
        model.config.tie_word_embeddings = True
        model.tie_weights()
    save(model, lessons, folder)
    return folder


def trained(recipe: Recipe, base: Path, into: Path, change: float = 0.01) -> Trainer:
    """A trainer with weights that no file has but its checkpoint."""
    trainer = Trainer(recipe.model_dump(mode="json"), str(base))
    with torch.no_grad():
        for parameter in trainer._networks.policy.parameters():
            parameter.add_(change * torch.randn_like(parameter))
    trainer.save(str(into))
    return trainer


@torch.no_grad()
def logits(model: torch.nn.Module) -> torch.Tensor:
    return model(input_ids=TOKENS, use_cache=False).logits


def assert_same(one: torch.nn.Module, other: torch.nn.Module) -> None:
    """The same weights, bit for bit; a trainer's layers may compute in another order."""
    torch.testing.assert_close(dict(one.state_dict()), dict(other.state_dict()), rtol=0, atol=0)
    torch.testing.assert_close(logits(one), logits(other))


@pytest.mark.parametrize("tied", [False, True])
def test_exported_model_is_the_trained_one(toy_recipe: Recipe, tmp_path: Path, tied: bool) -> None:
    base = make_model(tmp_path / "base", tied=tied)
    (base / "generation_config.json").write_text('{"temperature": 0.6, "do_sample": true}')
    (base / "chat_template.jinja").write_text("{{ messages }}")
    trainer = trained(toy_recipe, base, tmp_path / "trainer")

    export_model(tmp_path / "trainer", base, tmp_path / "out", dtype="float32")

    read, report = AutoModelForCausalLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert_same(read, trainer._networks.policy)
    assert not torch.equal(logits(read), logits(AutoModelForCausalLM.from_pretrained(base)))
    assert (read.lm_head.weight is read.model.embed_tokens.weight) == tied
    assert AutoTokenizer.from_pretrained(tmp_path / "out")("1+2=")["input_ids"] == [5, 14, 6, 15]
    assert check_model(str(tmp_path / "out"), min_context=64) == tmp_path / "out"
    assert (tmp_path / "out" / "chat_template.jinja").read_text() == "{{ messages }}"
    assert json.loads((tmp_path / "out" / "generation_config.json").read_text())["temperature"] == 0.6
    again = Trainer(toy_recipe.model_dump(mode="json"), str(tmp_path / "out"))  # `model:` of a new run
    assert_same(again._networks.policy, trainer._networks.policy)


def test_an_exported_mixture_has_a_tensor_for_each_expert(
    toy_recipe: Recipe, mixture: Path, tmp_path: Path
) -> None:
    trainer = trained(toy_recipe, mixture, tmp_path / "trainer")

    export_model(tmp_path / "trainer", mixture, tmp_path / "out", dtype="float32")

    written, base = (load_file(folder / "model.safetensors") for folder in (tmp_path / "out", mixture))
    assert {name: value.shape for name, value in written.items()} == {
        name: value.shape for name, value in base.items()
    }
    assert_same(AutoModelForCausalLM.from_pretrained(tmp_path / "out"), trainer._networks.policy)


def test_tied_head_is_written_once(toy_recipe: Recipe, tmp_path: Path) -> None:
    base = make_model(tmp_path / "base", tied=True)
    trained(toy_recipe, base, tmp_path / "trainer")

    export_model(tmp_path / "trainer", base, tmp_path / "out")

    from safetensors import safe_open

    with safe_open(tmp_path / "out" / "model.safetensors", "pt") as file:
        names = set(file.keys())
        dtypes = {file.get_tensor(name).dtype for name in names}
    assert "lm_head.weight" not in names and "model.embed_tokens.weight" in names
    assert dtypes == {torch.bfloat16}
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "bfloat16"


def test_damaged_checkpoint_or_one_of_another_model(toy_recipe: Recipe, tmp_path: Path) -> None:
    base = make_model(tmp_path / "base", tied=False)
    trained(toy_recipe, base, tmp_path / "trainer")
    other = tmp_path / "other"
    save(new_model(Lessons(hidden=8, layers=1, heads=1, mlp=8)), Lessons(hidden=8), other)

    with pytest.raises(CheckpointError, match="is of another model: lm_head.weight is .*23, 16.*has .*23, 8"):
        export_model(tmp_path / "trainer", other, tmp_path / "out")
    shutil.rmtree(tmp_path / "trainer")
    with pytest.raises(CheckpointError, match="trainer cannot be read"):
        export_model(tmp_path / "trainer", base, tmp_path / "out")
    assert not (tmp_path / "out").exists() and not (tmp_path / ".out.partial").exists()


@pytest.fixture
def run_dir(toy_recipe: Recipe, tmp_path: Path) -> Path:
    """Folder of a run with checkpoints of steps 2 and 4."""
    base = make_model(tmp_path / "base", tied=False)
    for step in (2, 4):
        folder = tmp_path / "run" / "checkpoints" / f"step-{step:08d}"
        folder.mkdir(parents=True)
        trained(toy_recipe, base, folder / TRAINER, change=0.1 * step)
        (folder / MARKER).write_bytes(digests_of(folder))
    (tmp_path / "run" / "checkpoints" / "step-00000006").mkdir()  # no marker: not complete
    (tmp_path / "run" / "driver.json").write_text(json.dumps({"model": str(base)}))
    return tmp_path / "run"


def test_damaged_checkpoint_is_not_exported(
    run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shard = run_dir / "checkpoints" / "step-00000004" / TRAINER / "__0_0.distcp"
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(bytes(content))

    assert main(["export", "--run-dir", str(run_dir), "--out", str(tmp_path / "out")]) == 1
    assert "__0_0.distcp is damaged" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_command_takes_the_newest_checkpoint_or_that_of_a_step(run_dir: Path, tmp_path: Path) -> None:
    assert main(["export", "--run-dir", str(run_dir), "--out", str(tmp_path / "new" / "four")]) == 0
    assert main(["export", "--run-dir", str(run_dir), "--step", "2", "--out", str(tmp_path / "two")]) == 0
    assert main(["export", "--run-dir", str(run_dir), "--step", "4", "--out", str(tmp_path / "four"),
                 "--dtype", "float32"]) == 0  # fmt: skip

    two, four, exact = (
        AutoModelForCausalLM.from_pretrained(tmp_path / name, dtype=torch.float32)
        for name in ("two", "new/four", "four")
    )
    assert torch.equal(four.lm_head.weight, exact.lm_head.weight.bfloat16().float())
    assert not torch.equal(two.lm_head.weight, four.lm_head.weight)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--step", "6"], "has no checkpoint of step 6; there are: 2, 4"),
        (["--run-dir", "ELSEWHERE"], "has no complete checkpoint"),
        (["--out", "RUN"], "run is there already"),
        (["--base-model", "ELSEWHERE"], "is not there; --base-model says where it is now"),
    ],
)
def test_command_says_what_is_missing(
    run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], reason: str
) -> None:
    places = {"ELSEWHERE": str(tmp_path / "elsewhere"), "RUN": str(run_dir)}
    options = [places.get(option, option) for option in options]

    status = main(["export", "--run-dir", str(run_dir), "--out", str(tmp_path / "out"), *options])

    assert status == 1
    assert reason in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "out").exists()


def test_run_folder_that_does_not_know_its_model(
    run_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run_dir / "driver.json").unlink()

    assert main(["export", "--run-dir", str(run_dir), "--out", str(tmp_path / "out")]) == 1
    assert "does not say which model the run started from; --base-model does" in capsys.readouterr().err


def test_full_disk_leaves_what_was_there(run_dir: Path, tmp_path: Path) -> None:
    """Here a file where the folder would be made."""
    out = tmp_path / "out"
    export_model(run_dir / "checkpoints" / "step-00000002" / TRAINER, tmp_path / "base", out)
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    (tmp_path / ".out.partial").write_text("in the way")

    with pytest.raises(OSError, match=r"\.out\.partial"):
        export_model(run_dir / "checkpoints" / "step-00000004" / TRAINER, tmp_path / "base", out)

    assert {file.name: file.read_bytes() for file in out.iterdir()} == before
