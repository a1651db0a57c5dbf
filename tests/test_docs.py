"""What docs/ names exists."""

import re
from pathlib import Path

TESTS = Path(__file__).parent
DOCS = TESTS.parent / "docs"


def test_cases_name_tests_that_exist() -> None:
    file, num_checked = "", 0
    text = (DOCS / "cases.md").read_text(encoding="utf-8")
    for path, pattern in re.findall(r"`([\w/]*\.py|[\w/]*/)?(?:::([\w*]+))?`", text):
        if path:
            file = path
            assert (TESTS / path).exists(), path
        if pattern and file:
            wanted = re.compile(r"def " + pattern.replace("*", r"\w*") + r"\(")
            assert wanted.search((TESTS / file).read_text(encoding="utf-8")), f"{file}::{pattern}"
        num_checked += bool(path or pattern)
    assert num_checked > 80
