"""The report in Debian's Chromium: it looks right at every width, works by keyboard, asks
nobody, and is accessible.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.report.conftest import DATASETTE, HOSTILE, Reader, report
from tests.road.agent import Agent

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

_QUIET = (
    "--no-sandbox --disable-gpu --no-first-run --disable-background-networking "
    "--disable-component-update"
)
_AXE = Path(os.environ.get("AXE_CORE") or f"{sys.prefix}/axe", "node_modules/axe-core/axe.min.js")
_DOCS = Path(__file__).parents[2] / "docs"
_OPEN_ALL = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or "/usr/bin/chromium"
    os.environ["HOME"] = str(tmp_path_factory.mktemp("browser"))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=[*_QUIET.split(), "--disable-sync"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def file(agent: Agent) -> Path:
    report(agent)
    return agent.project.parent / "report.html"


@contextmanager
def shown(
    chromium: Any, file: Path, width: int = 1000, scheme: str = "light", **more: Any
) -> Iterator[Any]:
    """The page in a window; it fails for whatever the page asks for, and for what the browser
    complains of.
    """
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, **more
    )
    page, asked = context.new_page(), list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: asked.append(message.text))
    page.on("pageerror", lambda error: asked.append(str(error)))
    page.goto(file.as_uri())
    yield page
    assert [one for one in asked if not one.startswith(file.as_uri())] == []
    context.close()


def violations(page: Any) -> list[str]:
    """What axe-core finds on a page, of every rule that it has."""
    page.evaluate(_AXE.read_text("utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {node['html'][:200]}"
        for one in found["violations"]
        for node in one["nodes"][:3]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1000, 2000])
def test_it_fits_and_is_accessible_at_every_width(
    chromium: Any, file: Path, width: int, scheme: str
) -> None:
    with shown(chromium, file, width, scheme) as page:
        assert violations(page) == []
        page.evaluate(_OPEN_ALL)
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.locator("figure svg:visible").count() == 3
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor").startswith("rgb(1")
        assert dark == (scheme == "dark")


def test_browser_shows_the_content_of_the_file(chromium: Any, file: Path) -> None:
    with shown(chromium, file) as page:
        there, read = Reader(page.content()), Reader(file.read_text("utf-8"))
        assert (there.tables, there.bullets) == (read.tables, read.bullets)


def test_it_filters_and_sorts(chromium: Any, file: Path) -> None:
    def names(page: Any) -> list[str]:
        return [str(one) for one in page.locator("#rules > li:visible .name").all_text_contents()]

    with shown(chromium, file) as page:
        everything = names(page)
        page.get_by_label("Find").fill("invoice pdf")
        assert 0 < len(names(page)) < len(everything)
        assert page.locator("output").text_content() == (
            f"{len(names(page))} of {len(everything)} rules"
        )
        assert all(
            "invoice PDF" in one
            for one in page.locator("#rules > li:visible .text").all_text_contents()
        )
        page.get_by_label("Find").fill("")
        page.get_by_label("Section").select_option("MISTAKES TO AVOID")
        assert {one[:4] for one in names(page)} == {"mis-"}
        page.get_by_label("Section").select_option("")
        page.get_by_label("contested only").check()
        assert len(names(page)) == page.locator("mark.warn").count() > 0
        hidden = page.locator("#rules > li[hidden] .open").first.get_attribute("id")
        for _ in range(2):  # the second time the address is the same
            page.get_by_label("Find").fill("no rule says this")
            page.locator(f"#shown a[href='#{hidden}']").last.evaluate("(one) => one.click()")
            assert page.locator(f"[id='{hidden}']").is_visible()
            assert names(page) == everything
        for key, wanted in (("name", sorted(everything)), ("name", sorted(everything)[::-1])):
            page.locator("#heads button", has_text=key).click()
            assert names(page) == wanted
        for at, key in enumerate(("helpful", "harmful")):
            page.locator("#heads").get_by_role("button", name=key, exact=True).click()
            cells = page.locator(f"#rules .count b:nth-of-type({at + 1})").all_text_contents()
            assert [*map(int, cells)] == sorted(map(int, cells), reverse=True)
        judges = page.locator("#judges table").first
        judges.get_by_role("button", name="helpful").click()
        column = [
            int(one.replace(",", ""))
            for one in judges.locator("tbody td:nth-child(2)").all_text_contents()
        ]
        assert column == sorted(column, reverse=True)
        assert (
            judges.get_by_role("columnheader", name="helpful").get_attribute("aria-sort")
            == "descending"
        )


def test_it_works_by_keyboard_alone(chromium: Any, file: Path) -> None:
    with shown(chromium, file) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the playbook"
        seen = []
        for _ in range(60):
            page.keyboard.press("Tab")
            seen.append(page.evaluate("document.activeElement.outerHTML.slice(0, 60)"))
            assert (
                page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            ), seen[-1]
            if seen[-1].startswith('<summary class="row"'):
                break
        assert any('id="find"' in one for one in seen)
        page.keyboard.press("Enter")
        assert page.locator("#rules > li").first.locator("table").is_visible()
        link = page.locator("#playbook a").first
        link.focus()
        page.keyboard.press("Enter")
        opened = page.locator(f"[id='{link.text_content()}']")
        assert opened.is_visible()
        assert opened.evaluate("(one) => one.getBoundingClientRect().top < innerHeight")


def test_it_reads_without_its_script_and_prints(chromium: Any, file: Path) -> None:
    with shown(chromium, file, java_script_enabled=False) as page:
        assert page.locator("#rules > li:visible").count() == len(
            Reader(file.read_text("utf-8")).bullets
        )
        assert not page.locator(".tools").is_visible()
        page.locator("#rules summary").first.click()
        assert page.locator("#rules table").first.is_visible()
        page.emulate_media(media="print")
        assert not page.locator("nav").is_visible()
        assert page.locator("#rules > li:visible").count() > 20


@pytest.mark.parametrize("share", [[], ["--share"]])
def test_sixty_hostile_texts_run_nothing_and_load_nothing(
    chromium: Any, attacked: Agent, share: list[str]
) -> None:
    html = report(attacked, *share)
    with shown(chromium, attacked.project.parent / "report.html") as page:
        page.evaluate(_OPEN_ALL)
        for one in range(0, 6000, 600):
            page.mouse.wheel(0, one)
        page.mouse.move(300, 300)
        assert page.evaluate("window.ran") is None
        assert page.locator("#rules > li").count() == len(HOSTILE)
        assert page.locator("script").count() == 1
        assert page.locator("main section").count() == html.count("<section")
        assert (
            page.locator(
                "iframe, object, embed, img, link, base, [style], [onload], [onerror]"
            ).count()
            == 0
        )
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert violations(page) == []


def test_the_picture_of_the_demo(chromium: Any, tmp_path: Path) -> None:
    """With PICTURES in the environment, the picture of README is drawn anew."""
    agent = Agent(tmp_path / "shop", tmp_path / "home")
    agent.home.mkdir()
    agent.call("demo", agent.project)
    report(agent)
    with shown(chromium, tmp_path / "report.html", 1000, device_scale_factor=1.25) as page:
        page.locator("summary.row", has_text="pat-002").click()
        page.set_viewport_size({"width": 1000, "height": 930})
        picture = page.screenshot(path=_DOCS / "report.png" if "PICTURES" in os.environ else None)
        assert len(picture) > 50_000


def test_plain_datasette_shows_the_ledger_read_only(agent: Agent, tmp_path: Path) -> None:
    port = 8000 + os.getpid() % 1000
    before = agent.ledger.read_bytes()
    server = [sys.executable, "-m", "datasette", str(agent.ledger), "--metadata", str(DATASETTE)]
    server += ["--port", str(port)]
    with subprocess.Popen(
        server, env={"HOME": str(tmp_path)}, stderr=subprocess.DEVNULL
    ) as running:

        def got(path: str) -> str:
            for _ in range(100):
                with (
                    suppress(URLError),
                    urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer,
                ):
                    return str(answer.read().decode())
                time.sleep(0.2)
            raise AssertionError(path)

        try:
            front = got("/ledger")
            assert 'href="/ledger/bullets"' in front
            assert '<h2><a href="/ledger/' not in front, (
                "tables are hidden, so the views come first"
            )
            assert json.loads(got("/ledger/why.json?name=pat-001&_shape=array"))
            assert "Bullets that sessions disagree on" in got("/ledger/contested")
            assert got("/ledger/sessions").count("<tr>") > 50
            assert "The playbook at a glance" in got("/-/dashboards/playbook")
        finally:
            running.terminate()
    assert agent.ledger.read_bytes() == before
