"""What cannot be written is found out before anything is measured."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from specproxy.bench.outputs import Outputs
from specproxy.errors import ConfigError


@pytest.mark.parametrize("name", ["plot.png", "PLOT.SVG"])
def test_the_suffix_says_the_kind(
    name: str, tmp_path: Path, made_report: Any, make_answer: Any
) -> None:
    outputs = Outputs(plot=tmp_path / name)
    outputs.check()
    outputs.write_report(made_report({"target alone": [make_answer()] * 4}), "specproxy bench")
    start = (tmp_path / name).read_bytes()[:200]
    assert start.startswith(b"\x89PNG") if name.endswith("png") else b"<?xml" in start


def test_the_same_figures_make_the_same_plot(
    tmp_path: Path, made_report: Any, make_answer: Any
) -> None:
    report = made_report({"target alone": [make_answer()] * 4})
    drawn = []
    for _ in range(2):
        Outputs(plot=tmp_path / "plot.svg").write_report(report, "specproxy bench")
        drawn.append((tmp_path / "plot.svg").read_bytes())
    assert drawn[0] == drawn[1]
    assert b"<?xml" in drawn[0][:200]


def test_another_kind_of_plot_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"plot\.pdf.*\.svg or \.png"):
        Outputs(plot=tmp_path / "plot.pdf").check()


@pytest.mark.parametrize("outputs", [Outputs(plot=Path("a.svg")), Outputs(page=Path("a.html"))])
def test_a_missing_matplotlib_names_its_remedy(
    outputs: Outputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'specproxy\[bench\]'"):
        outputs.check()
    Outputs().check()


@pytest.mark.parametrize(
    "outputs",
    [
        Outputs(json=Path("/nowhere/a.json")),
        Outputs(plot=Path("/nowhere/a.svg")),
        Outputs(page=Path("/nowhere/a.html")),
    ],
)
def test_a_path_that_cannot_be_written_is_said(outputs: Outputs) -> None:
    with pytest.raises(ConfigError, match=r"/nowhere/a\..* cannot be written"):
        outputs.check()
