"""docs/learning.md is run: each of its programs prints what the page shows."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tests.pages import section

PAGE = section("learning.md", "From experience")
PROGRAMS = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_every_program_of_the_page_has_its_output() -> None:
    assert PAGE.count("```python\n") == len(PROGRAMS) == 2


@pytest.mark.parametrize(("code", "shown"), PROGRAMS, ids=["turn", "engine"])
def test_a_program_of_the_page_prints_what_is_shown(
    code: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with redirect_stdout(io.StringIO()) as out:
        exec(compile(code, "docs/learning.md", "exec"), {"__name__": "page"})
    assert out.getvalue() == shown
