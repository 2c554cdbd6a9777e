"""Questions in SQL: docs/machines.md is executed, nothing can be changed, whatever is asked, on
both engines.
"""

import json
import re
import signal
import subprocess
from contextlib import suppress

import pytest

from reflector.ledger.migration import VIEWS
from reflector.ledger.readonly_sql import NotAQuestion, asking
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.ledger import sql
from tests.ledger.events import added, history
from tests.reading import section
from tests.road.agent import Agent

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Agent:
    folder = tmp_path_factory.mktemp("demo")
    agent = Agent(folder / "demo", folder / "home")
    agent.home.mkdir()
    agent.call("demo", agent.project)
    return agent


def ask(demo: Agent, *arguments: str, code: int = 0, typed: str | None = None) -> tuple[str, str]:
    ran = demo.call("sql", *arguments, code=code, typed=typed)
    return ran.out, ran.err


def test_page_lists_each_column_and_type_of_views(ledger: Ledger) -> None:
    for view in VIEWS[1:]:
        rows = re.findall(
            r"^\| `(\w+)` \| (\w+) \|", section("events.md", f"`{view}`"), re.MULTILINE
        )
        with asking(ledger) as asker:
            answer = asker.ask(f"SELECT * FROM {view}")
            assert list(answer.columns) == [name for name, _ in rows]
            for values in answer.rows:
                for (name, type_), value in zip(rows, values, strict=True):
                    assert value is None or type_ in _types_of(value), (view, name, value)


def _types_of(value: object) -> set[str]:
    """Return the words of the page that may say what a value is."""
    if isinstance(value, str):
        return {"time"} if re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", value) else {"text"}
    return {"number"} if isinstance(value, int) else {"fraction"}


def test_every_writing_query_is_refused(ledger: Ledger) -> None:
    queries = [
        "DELETE FROM event",
        "WITH x AS (SELECT 1) DELETE FROM event",
        "WITH x AS (DELETE FROM event RETURNING 1) SELECT * FROM x",
        "SELECT 1; DELETE FROM event",
        "SELECT 1; COMMIT; DELETE FROM tag; SELECT 1",
        "SELECT 1\n;\n-- and\nDROP VIEW tags",
        "INSERT INTO tag SELECT * FROM tag",
        "UPDATE bullet SET helpful = 9",
        "DROP VIEW tags",
        "CREATE TABLE mine (id INTEGER)",
        "CREATE TEMPORARY TABLE mine (id INTEGER)",
        "SELECT 1 AS a INTO mine",
        "BEGIN",
        "COMMIT",
        "PRAGMA query_only = OFF",
        "PRAGMA writable_schema = ON",
        "ATTACH 'other.db' AS other",
        "VACUUM INTO 'other.db'",
        "SELECT load_extension('x')",
        "EXPLAIN DELETE FROM event",
        "SET TRANSACTION READ WRITE",
        "SELECT set_config('transaction_read_only', 'off', false)",
        "COPY event TO '/tmp/other'",
        "SELECT * FROM bullets FOR UPDATE",
        "TRUNCATE tag",
        "/* SELECT */ DELETE FROM tag",
        "(DELETE FROM tag)",
        "VALUES (1); DELETE FROM tag",
    ]

    def content() -> list[tuple[object, ...]]:
        return (
            sql.content(ledger)
            + sql.rows(ledger, "SELECT * FROM tag")
            + sql.rows(ledger, "SELECT * FROM bullet")
        )

    ledger.append(history())
    for number, query in enumerate(queries):
        before = content()
        with asking(ledger) as asker, pytest.raises(NotAQuestion):
            pytest.fail(f"answered {query!r} with {list(asker.ask(query).rows)}")
        assert content() == before, query
        ledger.append([added(f"oth-{number:03d}")])  # and no lock is held
    assert [finding for finding in verify(ledger) if "view" in finding.message] == []


def test_writing_function_changes_nothing_on_a_server(ledger: Ledger) -> None:
    if not sql.is_postgres(ledger):
        pytest.skip("SQLite has no functions of its own in a database")
    ledger.append(history())
    sql.run(
        ledger,
        "CREATE FUNCTION sly() RETURNS int LANGUAGE sql AS $$ DELETE FROM tag; SELECT 1 $$",
    )
    with asking(ledger) as asker, pytest.raises(NotAQuestion, match="read-only transaction"):
        asker.ask("SELECT sly()")
    assert sql.rows(ledger, "SELECT count(*) FROM tag") != [(0,)]


def test_question_in_memory_only_reads() -> None:
    with Ledger.open("sqlite://") as ledger:
        ledger.append(history())
        with asking(ledger) as asker:
            with pytest.raises(NotAQuestion):
                asker.ask("WITH x AS (SELECT 1) DELETE FROM tag")
            assert list(asker.ask("SELECT count(*) FROM tags").rows) == [(6,)]
        ledger.append([added("oth-001")])


def test_bad_query_is_refused_with_the_engines_words(ledger: Ledger) -> None:
    for query, told in (
        ("SELECT * FRM bullets", "refuses the query: .*(syntax error|near)"),
        (
            "SELECT * FROM nothing",
            "nothing.*`reflector sql` runs one statement that only reads",
        ),
        ("SELECT nothing FROM bullets", "nothing"),
        ("", "the query is empty; try: reflector sql"),
        (" -- only words", "the query is empty"),
        ("SELECT 'open", "refuses the query"),
        ("SELECT ?, %s", "refuses|number of bindings"),
    ):
        with asking(ledger) as asker, pytest.raises(NotAQuestion, match=told):
            pytest.fail(f"answered {query!r}: {asker.ask(query)}")


@pytest.mark.slow
def test_ctrl_c_ends_a_query(demo: Agent) -> None:
    process = demo.start("sql", ENDLESS)
    # It is not asked whether the query runs yet: Ctrl-C comes again until it ends, at most for as
    # long as a test may.
    for _ in range(40):
        with suppress(subprocess.TimeoutExpired):
            process.wait(1.5)
            break
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=5)
    assert process.returncode == 130
    assert "stopped" in err


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (["DELETE FROM event"], "`reflector add`, `undo`"),
        (
            ["--format", "csv", "--json", "SELECT 1"],
            "--json and --format csv cannot be used together",
        ),
    ],
)
def test_write_or_two_formats_are_refused_with_alternatives(
    demo: Agent, query: list[str], told: str
) -> None:
    assert told in ask(demo, *query, code=2)[1]


def test_json_is_one_document_with_every_column(demo: Agent) -> None:
    query = (
        "SELECT 1 AS a, 2 AS a, 2.5 AS b, NULL AS c, x'00ff' AS d, 9e999 AS e, char(27, 8238) "
        "|| '<' AS f"
    )
    out, _ = ask(demo, "--json", query)
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert json.loads(out) == [
        {"a": 1, "a_2": 2, "b": 2.5, "c": None, "d": "00ff", "e": "inf", "f": "\x1b\u202e<"}
    ]
    assert json.loads(ask(demo, "--json", "SELECT 1 AS a WHERE 0")[0]) == []
    many = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500) SELECT "
        "i FROM n"
    )
    assert [row["i"] for row in json.loads(ask(demo, "--json", many)[0])] == list(range(1, 2501))
    assert ask(demo, "--format", "csv", many)[0].split() == ["i", *map(str, range(1, 2501))]
    out, err = ask(demo, many)
    assert len(out.splitlines()) == 1001
    assert "ends after 1,000 rows" in err


def test_table_has_no_control_character_csv_no_formula(demo: Agent) -> None:
    out, _ = ask(demo, "SELECT char(27) || '[31mred' AS a, 'two' || char(10) || 'lines' AS b")
    assert ("\x1b" in out, len(out.splitlines())) == (False, 2)
    assert (
        ask(demo, "--format", "csv", "SELECT '=1+1' AS a, -1 AS b, NULL AS c")[0]
        == "a,b,c\r\n'=1+1,-1,\r\n"
    )


def test_query_comes_from_stdin_or_views_are_listed(demo: Agent) -> None:
    assert ask(demo, typed="SELECT count(*) AS bullets\nFROM bullets;\n")[0] == "bullets\n      4\n"
    listed = json.loads(ask(demo, "--json", typed="")[0])
    assert [one["view"] for one in listed] == list(VIEWS[1:])
    assert "rationale" in listed[1]["columns"]
