"""Tables, pictures, histograms and charts: the numbers that are recorded, the files that are kept."""

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import headroom.wandb_shim as wandb
from headroom.run import Run
from tests.headroom.wandb_shim.conftest import logged, said

np = pytest.importorskip("numpy")


class Frame:
    """What is used of a pandas data frame."""

    columns = ("prompt", "reward")

    def itertuples(self, index: bool, name: None) -> Any:
        return iter([("1+1", 1.0), ("2+2", 0.0)])


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """A client that keeps files: name -> content."""
    files: dict[str, bytes] = {}

    def keep(run: Run, path: str, name: str) -> None:
        files[name] = Path(path).read_bytes()

    monkeypatch.setattr(Run, "log_artifact", keep, raising=False)
    return files


def test_a_table_is_put_together_and_read() -> None:
    table = wandb.Table(columns=["a", "b"], data=np.array([[1, 2], [3, 4]]))
    table.add_data(5, 6)
    table.add_row(7, 8)
    table.add_column("c", ["w", "x", "y", "z"])
    table.add_computed_columns(lambda i, row: {"sum": row["a"] + row["b"] + i})

    assert table.columns == ["a", "b", "c", "sum"] and len(table.data) == 4
    assert table.get_column("sum") == [3, 8, 13, 18] and table.get_column("a", convert_to="numpy").sum() == 16
    assert table.get_index() == [0, 1, 2, 3] and list(table.iterrows())[0] == (0, [1, 2, "w", 3])
    assert wandb.Table(data=[[1, 2, 3]]).columns == [0, 1, 2]
    assert wandb.Table().columns == ["Input", "Output", "Expected"]
    empty = wandb.Table(columns=[])
    empty.add_column("a", np.arange(2))
    assert empty.data == [[0], [1]]
    assert (
        wandb.Table(dataframe=Frame()).data == wandb.Table(data=Frame()).data == [["1+1", 1.0], ["2+2", 0.0]]
    )


def test_of_a_table_rows_and_columns_of_numbers_are_recorded() -> None:
    wandb.init()
    table = wandb.Table(columns=["prompt", "reward", "passed", "gap"])
    for row in [("1+1", 1.0, True, None), ("2+2", 0.5, False, 3), ("3+3", 0.0, True, 5)]:
        table.add_data(*row)
    wandb.log({"samples": table, "frame": Frame()})
    wandb.log({"samples": table})

    assert logged() == {
        "samples.rows": 3, "samples.reward.mean": 0.5, "samples.reward.min": 0.0, "samples.reward.max": 1.0,
        "samples.gap.mean": 4, "samples.gap.min": 3, "samples.gap.max": 5, "frame.rows": 2,
        "frame.reward.mean": 0.5, "frame.reward.min": 0.0, "frame.reward.max": 1.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    "values", [[1, 2, 3, 4], (1, [2, 3], 4), np.array([[1, 2], [3, 4]]), [np.array([1, 2]), np.array([3, 4])]]
)
def test_of_a_histogram_the_spread_is_recorded(values: Any, caplog: pytest.LogCaptureFixture) -> None:
    wandb.init()
    wandb.log(
        {"h": wandb.Histogram(values), "ready": wandb.Histogram(np_histogram=np.histogram([1, 2, 4], bins=3))}
    )

    found = logged()
    assert found["h.std"] == pytest.approx(math.sqrt(1.25))
    assert {name: found[f"h.{name}"] for name in ("count", "min", "max", "mean")} == {
        "count": 4, "min": 1, "max": 4, "mean": 2.5,
    }  # fmt: skip
    assert {name: found.get(f"ready.{name}") for name in ("count", "min", "max", "mean")} == {
        "count": 3, "min": 1, "max": 4, "mean": None,
    }  # fmt: skip
    assert caplog.text.count("is a Histogram") == 1


def test_a_histogram_of_nothing_has_a_count() -> None:
    assert wandb.Histogram([], num_bins=4).numbers() == {"count": 0}


def test_a_tensor_is_an_array() -> None:
    torch = pytest.importorskip("torch")
    wandb.init()
    weights = torch.tensor([1.0, 3.0], dtype=torch.bfloat16, requires_grad=True)
    wandb.log({"weights": weights, "h": wandb.Histogram(weights), "loss": torch.tensor([0.25])})

    assert (logged()["weights.mean"], logged()["h.max"], logged()["loss"]) == (2.0, 3.0, 0.25)
    assert wandb.Table(columns=["w"], data=[[weights]]).numbers() == {"rows": 1}


def test_what_holds_no_numbers_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    wandb.init()
    odd = {
        "words": ["a", "b"],
        "mixed": [1, "b"],
        "empty": [],
        "objects": np.array([object()]),
        "text": np.array(["a"]),
        "nothing": None,
    }
    wandb.log(odd | {"good": 1})

    assert said() == [(0, {"good": 1})]
    assert all(caplog.text.count(f"{name!r} (") == 1 for name in odd)


def test_media_are_kept(kept: dict[str, bytes], caplog: pytest.LogCaptureFixture) -> None:
    from PIL import Image

    Path("shown.gif").write_bytes(b"GIF89a")
    Path("page.html").write_text("<b>file</b>")
    wandb.init()
    figure = SimpleNamespace(to_json=lambda: '{"data": []}', to_plotly_json=dict)
    drawing = SimpleNamespace(savefig=lambda path: path.write_bytes(b"drawn"))
    wandb.log(
        {
            "samples/table": wandb.Table(columns=["a"], data=[[1], ["x"]]),
            "clip": wandb.Video("shown.gif"),
            "array": wandb.Image(np.zeros((2, 3, 3), dtype="uint8")),
            "grey": wandb.Image(np.ones((2, 3))),
            "picture": Image.new("RGB", (4, 5)),
            "text": wandb.Html("<b>text</b>"),
            "page": wandb.Html("page.html"),
            "figure": figure,
            "cloud": wandb.Object3D.from_numpy(np.zeros((2, 3))),
            "drawn": SimpleNamespace(gcf=lambda: drawing, figure=print, savefig=print),  # as `plt`
            "many": [wandb.Image("shown.gif")],
            "bars": wandb.plot.bar(wandb.Table(columns=["a", "b"], data=[["x", 1]]), "a", "b"),
        },
        step=7,
    )

    assert json.loads(kept["media/samples/table_7.table.json"]) == {"columns": ["a"], "data": [[1], ["x"]]}
    assert kept["media/clip_7.gif"] == kept["media/many_0_7.gif"] == b"GIF89a"
    assert (kept["media/text_7.html"], kept["media/page_7.html"]) == (b"<b>text</b>", b"<b>file</b>")
    assert json.loads(kept["media/figure_7.plotly.json"]) == {"data": []}
    assert json.loads(kept["media/cloud_7.json"]) == [[0, 0, 0], [0, 0, 0]]
    assert kept["media/drawn_7.png"] == b"drawn"
    assert json.loads(kept["media/bars_7.table.json"])["data"] == [["x", 1]]
    for name, size, white in [("array", (3, 2), False), ("grey", (3, 2), True), ("picture", (4, 5), False)]:
        Path("kept.png").write_bytes(kept[f"media/{name}_7.png"])
        shown = Image.open("kept.png")
        assert shown.size == size and (shown.convert("L").getpixel((0, 0)) == 255) == white
    assert caplog.text == ""


def test_what_no_file_can_be_made_of_is_named(
    kept: dict[str, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    wandb.init()
    wandb.log({"sound": wandb.Audio(np.zeros(10), sample_rate=8), "gone": wandb.Image("none.png")})
    wandb.log({"broken": wandb.Image(np.zeros((2, 2, 2, 2, 2))), "ring": wandb.Molecule.from_smiles("C1CC1")})

    assert kept == {}
    wandb.log({"gallery": wandb.Table(columns=["shown"], data=[[wandb.Image("none.png")]])})
    assert "in the table 'gallery' are not kept" in caplog.text and len(kept) == 1
    assert "'sound' (Audio)" in caplog.text and "'gone' (Image)" in caplog.text
    assert "'ring' (Molecule)" in caplog.text
    assert "'broken' could not be written" in caplog.text


def test_each_chart_has_its_table() -> None:
    table = wandb.Table(columns=["x", "y"], data=[[1, 2]])
    plots = wandb.plot
    charts = [
        plots.line(table, "x", "y", stroke="s", title="t"), plots.scatter(table, "x", "y"), plots.bar(table, "x", "y"),
        plots.histogram(table, "x"), plots.plot_table("mine", table, {"x": "x"}), wandb.plot_table("mine", table, {}),
        wandb.visualize("mine", table),
    ]  # fmt: skip
    assert all(chart.table is table for chart in charts)
    series = plots.line_series([0, 1], [[2, 3], [4, 5]], keys=["a", "b"], xname="step").table
    assert series.data == [[0, "a", 2], [1, "a", 3], [0, "b", 4], [1, "b", 5]]
    assert plots.line_series([[0], [1]], [[2], [3]]).table.data == [[0, "line_0", 2], [1, "line_1", 3]]


def test_an_artifact_is_gathered_logged_and_used_again(
    kept: dict[str, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    Path("data/sub").mkdir(parents=True)
    Path("data/a.txt").write_text("a")
    Path("data/sub/b.txt").write_text("b")
    run = wandb.init()
    artifact = wandb.Artifact("set", type="dataset", description="d", metadata={"rows": 2})
    artifact.add_file("data/a.txt")
    artifact.add_file("data/a.txt", name="copy/a.txt")
    artifact.add_dir("data", name="all")
    artifact.add(wandb.Table(columns=["x"], data=[[1]]), "samples")
    with artifact.new_file("notes/read.me") as file:
        file.write("made here")
    logged_one = run.log_artifact(artifact, aliases=["best"])

    names = {"a.txt", "copy/a.txt", "all/a.txt", "all/sub/b.txt", "samples.table.json", "notes/read.me"}
    assert logged_one.wait() is artifact and {entry.path for entry in artifact.files()} == names
    assert {name.removeprefix("set/") for name in kept} == names | {"artifact.json"}
    assert kept["set/notes/read.me"] == b"made here"
    assert json.loads(kept["set/artifact.json"]) == {
        "type": "dataset", "description": "d", "metadata": {"rows": 2}, "aliases": ["best"], "references": [],
    }  # fmt: skip
    run.finish()

    used = wandb.init().use_artifact("us/math/set:latest", type="dataset")
    folder = Path(used.download(root="here"))
    assert (folder / "all/sub/b.txt").read_text() == "b" and used.metadata["rows"] == 2
    assert Path(used.get_path("copy/a.txt").download()).read_text() == "a"
    assert used.get("samples").data == [[1]]
    assert (used.file_count, used.size, len(used.digest)) == (
        6,
        sum(map(len, kept.values())) - len(kept["set/artifact.json"]),
        64,
    )
    assert caplog.text == ""


def test_files_and_folders_are_logged_by_path(kept: dict[str, bytes]) -> None:
    Path("out").mkdir()
    Path("out/model.pt").write_bytes(b"weights")
    run = wandb.init()
    wandb.log_artifact("out/model.pt", name="model", type="model")
    wandb.log_model("out", name="folder")
    assert wandb.save("out/*.pt") == ["out/model.pt"]
    (Path(run.dir) / "late.txt").write_text("at the end")
    run.finish()

    assert {name for name in kept if not name.endswith("artifact.json")} == {
        "model/model.pt", "folder/model.pt", "out/model.pt", "late.txt",
    }  # fmt: skip


def test_what_is_not_there_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    Path("model.pt").write_bytes(b"weights")
    run = wandb.init()
    for _ in range(2):
        run.log_artifact("model.pt")
        run.save("model.pt")
        assert run.use_artifact("other:latest").files() == []
        artifact = wandb.Artifact("a", "b")
        artifact.add_file("none.txt")
        artifact.add(object(), "thing")
        artifact.add_reference("s3://bucket/x")
        assert artifact.get_path("none.txt") is None
    assert Path(run.use_model("other")).is_dir() and run.restore("model.pt").read() == "weights"
    assert run.restore("none.pt") is None
    run.finish()

    assert caplog.text.count("the artifact other") == 1
    for words in (
        "no file none.txt",
        "a object is not kept",
        "references of artifacts",
        "has no 'none.txt'",
        "'none.pt'",
    ):
        assert caplog.text.count(words) == 1, words
