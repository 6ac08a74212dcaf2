from pathlib import Path

import torch

from tests.training.test_transfer import tensors
from training.engines.shared_files import as_files
from training.transfer import Slot, map_file, pack, tensors_in


def test_files_hold_the_buckets_while_the_context_lasts(tmp_path: Path) -> None:
    sent = tensors()
    with as_files(pack(sent.items(), 100).buckets, tmp_path) as files:
        read = {
            name: tensor.clone()
            for path, slots in files
            for name, tensor in tensors_in(
                map_file(path), [Slot(name, kind, tuple(shape), at) for name, kind, shape, at in slots]
            )
        }
        assert len(files) > 1 and all(Path(path).is_relative_to(tmp_path) for path, _ in files)

    assert list(read) == list(sent) and all(torch.equal(read[name], sent[name]) for name in sent)
    assert not list(tmp_path.iterdir())


def test_without_shared_memory_they_lie_in_a_temporary_folder(tmp_path: Path) -> None:
    buckets = pack(tensors().items()).buckets
    with as_files(buckets, tmp_path / "nowhere") as ((path, _),):
        assert Path(path).stat().st_size == buckets[0].data.nbytes
