import numpy as np
import pytest

import scaling
from benchmarks.table1 import PublishedFit, published_fits
from scaling import paper
from scaling.simulate import rewards

SCALERL = published_fits()[0]


def test_table_1_is_there_as_published() -> None:
    fits = published_fits()

    assert len(fits) == 10
    assert fits[0] == PublishedFit("ScaleRL", 2542.0, 1.92, 0.61)
    assert fits[-1].b == 1.09


def test_the_grid_is_the_papers() -> None:
    assert len(paper.A_GRID) * len(paper.C_MID_GRID) == 7100
    assert (paper.A_GRID[0], paper.A_GRID[1], paper.A_GRID[-1]) == (0.45, 0.455, 0.8)
    assert paper.C_MID_GRID[1] - paper.C_MID_GRID[0] == pytest.approx(403.03, abs=0.01)


def test_a_cell_of_the_grid_is_found_exactly() -> None:
    compute = np.linspace(200.0, 16000.0, 30)
    c_mid = paper.C_MID_GRID[6]
    reward = rewards(compute, r0=0.1, a=0.61, b=1.92, c_mid=c_mid, sd=0.0, rng=np.random.default_rng(0))
    near = {"a_grid": np.array([0.6, 0.605, 0.61, 0.615]), "c_mid_grid": paper.C_MID_GRID[4:9]}

    grid = paper.fit_grid(compute, reward, r0=0.1, **near)

    assert (grid.a, grid.c_mid, grid.calls, grid.at_edge) == (0.61, c_mid, 20, ())
    assert grid.b == pytest.approx(1.92, abs=1e-6)


def test_the_whole_procedure_stands_beside_ours() -> None:
    compute = np.linspace(200.0, 16000.0, 24)
    truth = {"a": SCALERL.a, "b": SCALERL.b, "c_mid": SCALERL.c_mid}
    reward = rewards(compute, r0=0.1, **truth, sd=0.005, rng=np.random.default_rng(0))

    theirs = scaling.fit(compute, reward, method="paper", r0=0.1)
    ours = scaling.fit(compute, reward, r0=0.1)

    assert (theirs.method, theirs.status) == ("paper", "ok")
    assert theirs.params["A"] in paper.A_GRID and theirs.params["C_mid"] in paper.C_MID_GRID
    assert ours.sse <= theirs.sse
    assert theirs.params["A"] == pytest.approx(ours.params["A"], abs=0.02)


def test_a_best_cell_on_the_edge_of_the_grid_is_not_a_ceiling() -> None:
    compute = np.linspace(20.0, 4000.0, 30)
    reward = rewards(compute, r0=0.1, a=0.95, b=1.5, c_mid=600.0, sd=0.01, rng=np.random.default_rng(0))

    grid = paper.fit_grid(
        compute, reward, r0=0.1, a_grid=np.array([0.5, 0.65, 0.8]), c_mid_grid=paper.C_MID_GRID[:6]
    )

    assert "A" in grid.at_edge
