"""The page holds all it shows, and asks nobody for anything."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from specproxy.bench.judge import Finding, Verdict
from specproxy.bench.page import Page, report_page
from specproxy.bench.report import Report

FACTS = {"system": "Linux <test>", "cores": 2}


@pytest.fixture(scope="module")
def report(made_report: Any, make_answer: Any) -> Report:
    tie = Verdict(ties=(Finding(3, " <sea>", " sun", 0.01),))
    answers = {
        "target alone": [make_answer()] * 6,
        "own draft, n=8": [make_answer(num_proposed=8, num_accepted=5)] * 6,
        "specproxy (seeding)": [make_answer(num_proposed=8, num_accepted=6)] * 6,
    }
    verdicts = {"specproxy (seeding)": [tie, *[Verdict()] * 5]}
    found: Report = made_report(answers, verdicts=verdicts)
    return found


@pytest.fixture(scope="module")
def page(report: Report) -> Page:
    """Drawn once, for drawing takes most of the time."""
    return report_page(report, "specproxy bench --demo --tokens <n>", FACTS)


class Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_it_is_well_formed_and_has_its_plots_inside(page: Page) -> None:
    elements = Elements(page.html())
    assert elements.open == []
    assert [tag for tag, _ in elements.seen].count("svg") == 2


def test_nothing_is_fetched(page: Page) -> None:
    text = page.html()
    elements = Elements(text)
    assert not {"script", "img", "link", "iframe", "image"} & {tag for tag, _ in elements.seen}
    for tag, attributes in elements.seen:
        for name, value in attributes.items():
            if name in ("src", "href", "xlink:href"):
                assert (value or "").startswith("#"), (tag, value)
    assert not re.search(r"@import|url\((?!#)", text)
    policy = [one["content"] for _, one in elements.seen if one.get("http-equiv")]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_inner_references_are_there_and_unique(page: Page) -> None:
    text = page.html()
    names = [one["id"] for _, one in Elements(text).seen if "id" in one]
    assert len(names) == len(set(names))
    assert set(re.findall(r"""(?:xlink:href="|url\()#([\w-]+)""", text)) <= set(names)


def test_plots_take_the_pages_own_colours(page: Page) -> None:
    text = page.html()
    assert "prefers-color-scheme: dark" in text
    assert "currentColor" in text
    assert "#010203" not in text
    assert "#ffffff" not in text
    assert "#000000" not in text


def test_all_that_matters_is_said(page: Page, report: Report) -> None:
    text = page.html()
    assert "Every answer of every arm is the target's own." in text
    assert all(result.arm.label in text for result in report.results)
    assert all(prompt.kind in text for prompt in report.prompts)
    assert "tie in specproxy (seeding), explain, token 3: &#39; &lt;sea&gt;&#39;" in text
    assert "--tokens &lt;n&gt;" in text
    assert "Linux &lt;test&gt;" in text
    assert "speculation pays here" in text


def test_a_difference_is_said_first(made_report: Any, make_answer: Any) -> None:
    different = [Verdict(Finding(3, " sea", " sun", None))] * 4
    report = made_report(
        {"target alone": [make_answer()] * 4, "specproxy": [make_answer()] * 4},
        verdicts={"specproxy": different},
    )
    text = report_page(report, "specproxy bench", FACTS).html()
    assert '<p class="bad">Not every answer is the target\'s own.</p>' in text
    assert "DIFFERENCE in specproxy" in text
