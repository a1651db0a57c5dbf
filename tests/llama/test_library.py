"""libllama's log, and a library that is not there."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from specproxy.llama.library import NativeLog


def test_log_lines_are_joined_and_only_errors_are_warnings(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = NativeLog()
    with caplog.at_level(logging.DEBUG, logger="llama.cpp"):
        log.write(2, "loading ")
        log.write(5, "tensors\nthen more\n")
        log.write(3, "a warning of theirs\n")
        log.write(4, "cannot read\n")
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("DEBUG", "loading tensors"),
        ("DEBUG", "then more"),
        ("DEBUG", "a warning of theirs"),
        ("WARNING", "cannot read"),
    ]
    assert log.take_errors() == "cannot read"
    assert log.take_errors() == ""


def test_a_missing_library_is_a_setup_error_with_a_remedy(tmp_path: Path) -> None:
    code = (
        "from specproxy.errors import SetupError\n"
        "from specproxy.llama.library import load\n"
        "try:\n    load()\nexcept SetupError as error:\n    print(error)\n"
    )
    environment = os.environ | {"LLAMA_CPP_LIB_PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert str(tmp_path) in done.stdout
    assert "make setup" in done.stdout


@pytest.mark.real
def test_loading_a_model_writes_nothing_to_standard_error(draft_model_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom specproxy.llama.model import Model\n"
        "Model(Path(sys.argv[1]), vocab_only=True).close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(draft_model_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""
    assert done.stderr == ""
