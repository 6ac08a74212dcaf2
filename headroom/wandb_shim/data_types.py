"""Tables, images, histograms and the like: of each, the numbers that a chart can show, and a file to keep."""

import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Self

from headroom.values import to_number

MOST_COLUMNS = 50  # of a table, whose numbers are recorded


class Media:
    """Something to look at. Its numbers are recorded beside the other metrics, `write` makes the file that is kept."""

    suffix: ClassVar[str] = ""

    def __init__(
        self, data_or_path: Any = None, *args: Any, caption: str | None = None, **others: Any
    ) -> None:
        self.data: Any = data_or_path
        self.caption = caption

    def numbers(self) -> dict[str, int | float]:
        return {}

    def write(self, stem: Path) -> Path | None:
        """A file whose name begins with `stem`; None where it cannot be made of these data. Raises what a library
        does that makes it."""
        if isinstance(self.data, str | Path) and os.path.isfile(self.data):
            return Path(shutil.copyfile(self.data, stem.with_name(stem.name + Path(self.data).suffix)))
        path = stem.with_name(stem.name + self.suffix)
        self._write(path)
        return path if path.exists() else None

    def _write(self, path: Path) -> None:
        text = self._text()
        if text is not None:
            path.write_text(text)

    def _text(self) -> str | None:
        return None


class Image(Media):
    """Of a file, a PIL image, an array (height, width[, channels]; floats from 0 to 1, or 0 to 255), or a matplotlib
    figure, also as what is drawn on (`plt` itself, axes)."""

    suffix = ".png"

    def _write(self, path: Path) -> None:
        figure = self.data.gcf() if hasattr(self.data, "gcf") else getattr(self.data, "figure", self.data)
        if hasattr(figure, "savefig"):
            figure.savefig(path)
        elif hasattr(self.data, "save"):
            self.data.save(path)
        elif hasattr(self.data, "shape"):
            _picture(self.data).save(path)


class Html(Media):
    suffix = ".html"

    def _text(self) -> str | None:
        return str(self.data.read() if hasattr(self.data, "read") else self.data)


class Plotly(Media):
    suffix = ".plotly.json"

    def _text(self) -> str | None:
        return self.data.to_json() if hasattr(self.data, "to_json") else None


class Video(Media):
    """Of a file alone."""


class Audio(Media):
    """Of a file alone."""


class Object3D(Media):
    suffix = ".json"

    def _text(self) -> str | None:
        data = self.data.tolist() if hasattr(self.data, "tolist") else self.data
        return json.dumps(data, default=str) if isinstance(data, dict | list) else None

    @classmethod
    def _of(cls, data: Any, *args: Any, **others: Any) -> Self:
        return cls(data, **others)

    from_file = from_numpy = from_point_cloud = from_rdkit = from_smiles = _of


class Molecule(Object3D):
    """As an Object3D."""


class Histogram(Media):
    """Of a sequence, or of `np_histogram`: (counts, edges). Its bins are not recorded: count, min, max, mean and std
    are, of a ready histogram count, min and max."""

    def __init__(self, sequence: Any = None, np_histogram: Any = None, num_bins: int = 64) -> None:
        super().__init__()
        if np_histogram is None:
            self._numbers = spread(numbers_in(sequence))
        else:
            counts, edges = np_histogram
            self._numbers = {"count": sum(counts), "min": min(edges), "max": max(edges)}

    def numbers(self) -> dict[str, int | float]:
        return {
            name: number for name, each in self._numbers.items() if (number := to_number(each)) is not None
        }


class Table(Media):
    """Rows and columns. Recorded are the number of rows and, of columns of numbers, their mean, min and max."""

    suffix = ".table.json"
    MAX_ROWS = 10_000
    MAX_ARTIFACT_ROWS = 200_000

    def __init__(
        self,
        columns: Sequence[Any] | None = None,
        data: Any = None,
        rows: Any = None,
        dataframe: Any = None,
        **others: Any,
    ) -> None:
        super().__init__()
        given = data if data is not None else rows
        frame = given if dataframe is None else dataframe
        if hasattr(frame, "columns") and hasattr(frame, "itertuples"):
            self.columns = list(frame.columns) if columns is None else list(columns)
            self.data: list[list[Any]] = [list(row) for row in frame.itertuples(index=False, name=None)]
        else:
            self.data = [list(row) for row in (given if given is not None else ())]
            names = list(range(len(self.data[0]))) if self.data else ["Input", "Output", "Expected"]
            self.columns = list(columns) if columns is not None else names

    def add_data(self, *row: Any) -> None:
        self.data.append(list(row))

    add_row = add_data

    def add_column(self, name: Any, data: Iterable[Any], optional: bool = False) -> None:
        values = list(data)
        if not self.data:
            self.data = [[] for _ in values]
        self.columns.append(name)
        for row, value in zip(self.data, values, strict=False):
            row.append(value)

    def add_computed_columns(self, fn: Callable[[int, dict[Any, Any]], Mapping[str, Any]]) -> None:
        made = [fn(i, dict(zip(self.columns, row, strict=False))) for i, row in enumerate(self.data)]
        for name in made[0] if made else ():
            self.add_column(name, [each.get(name) for each in made])

    def get_column(self, name: Any, convert_to: str | None = None) -> Any:
        """A list; with "numpy" an array. Raises ValueError for a column that is not there."""
        place = self.columns.index(name)
        values = [row[place] if place < len(row) else None for row in self.data]
        if convert_to != "numpy":
            return values
        import numpy as np

        return np.array(values)

    def get_dataframe(self) -> Any:
        import pandas as pd

        return pd.DataFrame(self.data, columns=self.columns)

    def get_index(self) -> list[int]:
        return list(range(len(self.data)))

    def iterrows(self) -> Iterator[tuple[int, list[Any]]]:
        return iter(enumerate(self.data))

    def cast(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to do: values stay as they are."""

    set_pk = set_fk = cast

    def numbers(self) -> dict[str, int | float]:
        found: dict[str, int | float] = {"rows": len(self.data)}
        for name in self.columns[:MOST_COLUMNS]:
            values = [value for value in self.get_column(name) if value is not None]
            numbers = [number for value in values if (number := _plain(value)) is not None]
            if numbers and len(numbers) == len(values):
                all_of_it = spread(numbers)
                found |= {f"{name}.{which}": all_of_it[which] for which in ("mean", "min", "max")}
        return found

    def _text(self) -> str | None:
        return json.dumps({"columns": self.columns, "data": self.data}, default=str)


EvalTable = Table
Classes = Graph = JoinedTable = Media  # of these a file is kept, and nothing else


class CustomChart(Media):
    """What `wandb.plot` makes: the table that is drawn, and how."""

    suffix = ".table.json"

    def __init__(self, kind: str, table: Any, fields: Mapping[str, Any], title: str = "") -> None:
        super().__init__()
        self.table, self.kind, self.fields, self.title = table, kind, dict(fields), title

    def _text(self) -> str | None:
        shown = {"columns": self.table.columns, "data": self.table.data}
        return json.dumps(
            {"chart": self.kind, "title": self.title, "fields": self.fields, **shown}, default=str
        )


def as_media(value: Any) -> Media | None:
    """What is logged as it is, without a class of wandb's: arrays and lists of numbers, data frames, figures, pictures.
    None for anything else."""
    if isinstance(value, Media):
        return value
    if hasattr(value, "itertuples"):
        return Table(dataframe=value)
    if hasattr(value, "savefig") or hasattr(value, "getbands"):
        return Image(value)
    if hasattr(value, "to_plotly_json"):
        return Plotly(value)
    if (hasattr(value, "shape") or isinstance(value, list | tuple)) and numbers_in(value):
        return Histogram(value)
    return None


def numbers_in(values: Any) -> list[float]:
    """The finite numbers in an array, a tensor, or nested sequences, in a row; empty where there is anything else."""
    if hasattr(values, "detach"):
        values = values.detach().float().cpu()
    if hasattr(values, "reshape"):
        return _finite(values)
    found: list[float] = []
    is_list = isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping)
    for value in values if is_list else ():
        if isinstance(value, float) and not math.isfinite(value):
            continue
        is_nested = isinstance(value, list | tuple) or getattr(value, "shape", None)
        inner: list[Any] = numbers_in(value) if is_nested else [to_number(value)]
        if not inner or None in inner:
            return []
        found += inner
    return found


def _finite(array: Any) -> list[float]:
    import numpy as np

    given = np.asarray(array)
    if given.dtype.kind in "OSUmM":
        return []
    flat = given.astype(float).reshape(-1)
    found: list[float] = flat[np.isfinite(flat)].tolist()
    return found


def spread(values: Sequence[float]) -> dict[str, int | float]:
    """count, and where there is any min, max, mean and std [of the population]."""
    if not values:
        return {"count": 0}
    mean = fmean(values)
    std = math.sqrt(fmean((value - mean) ** 2 for value in values))
    return {"count": len(values), "min": min(values), "max": max(values), "mean": mean, "std": std}


def _plain(value: Any) -> int | float | None:
    return None if isinstance(value, bool) or getattr(value, "shape", None) else to_number(value)


def _picture(array: Any) -> Any:
    import numpy as np
    from PIL import Image as Pictures

    is_tensor = hasattr(array, "detach")
    values = np.asarray(array.detach().cpu() if is_tensor else array)
    if is_tensor and values.ndim == 3 and values.shape[0] in (1, 3, 4):
        values = np.moveaxis(values, 0, -1)  # tensors have their channels first
    values = values.squeeze(-1) if values.ndim == 3 and values.shape[-1] == 1 else values
    if values.dtype.kind == "f" and values.size and values.max() <= 1:
        values = values * 255
    return Pictures.fromarray(np.clip(values, 0, 255).astype("uint8"))
