"""Two reflectors over recorded sessions: what is compared, what it may cost, and that nothing comes of it."""

from __future__ import annotations

import json
import os
import pty
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from reflector.ledger.store import Ledger
from reflector.reflection.backends.fixtures import request_sha256
from reflector.reflection.judging import case_of
from tests.processes import REFLECTOR, Popen
from tests.road.agent import Agent
from tests.road.sessions import Session

KEY = {"ANTHROPIC_API_KEY": "sk-test"}


@pytest.fixture
def judged(agent: Agent, tmp_path: Path) -> Agent:
    """Three sessions that the rules judged: helpful, harmful, neutral; and one that cites nothing."""
    for number, (name, verdict) in enumerate([("pat-001", "helpful"), ("pat-002", "harmful"), ("mis-001", None)]):
        agent.call("ingest", Session(f"s-{number}").cites(name, verdict).write(tmp_path / f"{number}.jsonl"))
    agent.call("ingest", Session("s-3").user("Hello.").agent("Hello.").write(tmp_path / "3.jsonl"))
    return agent


def said(*tags: tuple[str, str]) -> str:
    entries = [{"name": name, "tag": tag, "rationale": f"{name} was {tag}, I say"} for name, tag in tags]
    return json.dumps({"analysis": "So it went.", "bullet_tags": entries})


@pytest.fixture
def fixtures(judged: Agent, tmp_path: Path) -> Callable[..., Path]:
    """Writes a file of recorded answers: `{"s-0": text}`."""

    def write(**answers: str) -> Path:
        lines = []
        with Ledger.open_file(judged.ledger) as ledger:
            for window in ledger.windows():
                case = case_of(ledger, window)
                assert case is not None
                if (text := answers.get((window.session_id or "").replace("-", "_"))) is not None:
                    lines.append(json.dumps({"prompt_hash": request_sha256(case.request), "completion": text}))
        path = tmp_path / "fixtures.jsonl"
        path.write_text("\n".join(lines) + "\n")
        return path

    return write


@pytest.fixture
def three(fixtures: Callable[..., Path]) -> str:
    """A SPEC that agrees with the rules on s-0, not on s-1, and says nothing of what s-2 cites."""
    return f"fixtures:{fixtures(s_0=said(('pat-001', 'helpful')), s_1=said(('pat-002', 'neutral')), s_2=said())}"


class Api:
    """A stand-in for the Messages API that gives every bullet one tag, and can be told to fail."""

    def __init__(self, server: HTTPServer) -> None:
        self.asked: list[str] = []
        self.tag = "helpful"
        self.status = 200
        self.url = server.url_for("").rstrip("/")
        server.expect_request("/v1/messages").respond_with_handler(self._answer)

    def _answer(self, request: Request) -> Response:
        prompt = json.dumps(request.get_json())
        self.asked.append(prompt)
        if self.status != 200:
            error = {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}
            return Response(json.dumps(error), self.status, content_type="application/json")
        tags = [(name, self.tag) for name in ("pat-001", "pat-002", "mis-001", "ctx-404") if f"[{name}] says" in prompt]
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-haiku-4-5-20251001",
            "content": [{"type": "text", "text": said(*tags, ("ctx-404", "helpful"))}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1000, "output_tokens": 100},
        }
        return Response(json.dumps(message), 200, content_type="application/json")


@pytest.fixture
def api(judged: Agent) -> Iterator[Api]:
    with HTTPServer() as server:
        api = Api(server)
        judged.environ = {**KEY, "ANTHROPIC_BASE_URL": api.url}
        yield api


HAIKU = "anthropic:claude-haiku-4-5"


def test_two_reflectors_are_compared_in_figures(judged: Agent, three: str) -> None:
    found = judged.json("compare", "--a", "rules", "--b", three)
    assert (found["windows"], found["pairs"], found["agreed"]) == (3, 3, 1)
    assert found["agreement"] == 0.3333
    # By hand: rows helpful, harmful, neutral; columns helpful, neutral, none; chance (1·1 + 0·1 + 1·1) / 9.
    assert found["kappa"] == pytest.approx((1 / 3 - 2 / 9) / (7 / 9), abs=5e-5)
    assert found["both_judged"] == {"pairs": 2, "agreed": 1, "agreement": 0.5, "kappa": pytest.approx(1 / 3, abs=5e-5)}
    cells = {(a, b): count for a, row in found["matrix"].items() for b, count in row.items() if count}
    assert cells == {("helpful", "helpful"): 1, ("harmful", "neutral"): 1, ("neutral", "none"): 1}
    assert [(pair["name"], pair["a"], pair["b"]) for pair in found["verdicts"]] == [
        ("pat-001", "helpful", "helpful"),
        ("pat-002", "harmful", "neutral"),
        ("mis-001", "neutral", "none"),
    ]
    first, second = found["disagreements"]
    assert (first["session_id"], first["name"], first["b_rationale"]) == (
        "s-1",
        "pat-002",
        "pat-002 was neutral, I say",
    )
    assert "objected" in first["a_rationale"]
    assert (second["session_id"], second["b"], second["b_rationale"]) == ("s-2", "none", "")
    # Where nothing is cited the rules have nothing to judge.
    assert found["passed_over"] == 1


def test_the_same_is_shown_as_tables(judged: Agent, three: str) -> None:
    ran = judged.call("compare", "--a", "rules", "--b", three)
    assert ran.out.startswith(
        f"3 windows compared: a = rules, b = {three}\n3 verdict pairs: 1 agree (33%), Cohen's kappa"
    )
    assert "2 of them judged by both: 1 agree (50%)" in ran.out
    lines = [line.split() for line in ran.out.splitlines()]
    assert ["a", "\\", "b", "helpful", "harmful", "neutral", "none", "total"] in lines
    assert ["harmful", "0", "0", "1", "0", "1"] in lines
    assert ["total", "1", "0", "1", "1", "3"] in lines
    assert any(line[:4] == ["s-1", "pat-002", "a", "harmful"] for line in lines)
    assert ["b", "neutral", "pat-002", "was", "neutral,", "I", "say"] in lines
    assert "1 window passed over" in ran.err


def test_the_matrix_has_no_row_for_silence_where_nobody_is_silent(judged: Agent) -> None:
    told = judged.call("compare", "--a", "rules", "--b", "recorded").out
    assert "Cohen's kappa 1.00" in told
    assert "none" not in told


def test_comparing_leaves_ledger_and_playbook_as_they_are(judged: Agent, three: str, api: Api) -> None:
    before = judged.call("verify", "--head").out, judged.playbook.read_bytes(), judged.counters()
    for b in (three, "recorded", HAIKU):
        judged.call("compare", "--a", "rules", "--b", b, "--yes")
    assert (judged.call("verify", "--head").out, judged.playbook.read_bytes(), judged.counters()) == before
    assert len(api.asked) == 3
    assert judged.call("verify").out == ""


def test_only_the_named_sessions_are_compared(judged: Agent, three: str) -> None:
    found = judged.json("compare", "--a", "rules", "--b", three, "s-1", "s-0", "s-1")
    assert [pair["session_id"] for pair in found["verdicts"]] == ["s-1", "s-0"]
    assert "See 'reflector log'" in judged.call("compare", "--a", "rules", "--b", three, "nothing", code=2).err


def test_a_window_that_a_side_cannot_judge_is_told_and_not_counted(
    judged: Agent, fixtures: Callable[..., Path], tmp_path: Path
) -> None:
    spec = f"fixtures:{fixtures(s_0=said(('pat-001', 'helpful')), s_1='I am sorry, I cannot.', s_2=said())}"
    (tmp_path / "2.jsonl").unlink()
    found = judged.json("compare", "--a", "rules", "--b", spec)
    assert (found["windows"], found["pairs"]) == (1, 1)
    a, b = (
        [(one["session_id"], one["reason"].partition(":")[0]) for one in side["failures"]] for side in found["sides"]
    )
    assert a == [("s-2", "transcript")]
    assert b == [("s-1", "parse"), ("s-2", "transcript")]
    told = judged.call("compare", "--a", "rules", "--b", spec).err
    assert "a could not judge 1 window (s-2): transcript:" in told
    assert "b could not judge 1 window (s-1): parse:" in told


def test_recorded_answers_need_neither_transcript_nor_call_and_are_read_anew(judged: Agent, tmp_path: Path) -> None:
    for path in tmp_path.glob("*.jsonl"):
        path.unlink()
    found = judged.json("compare", "--a", "recorded", "--b", "recorded:rules")
    assert (found["windows"], found["kappa"]) == (3, 1.0)
    assert [side["answers_recorded"] for side in found["sides"]] == [3, 3]
    nobody = judged.json("compare", "--a", "recorded", "--b", "recorded:anthropic")
    assert nobody["windows"] == 0
    assert {failure["reason"] for failure in nobody["sides"][1]["failures"]} == {
        "the ledger has no answer of anthropic"
    }
    assert (nobody["agreement"], nobody["kappa"]) == (None, None)


def test_a_citation_carried_into_a_window_is_judged_as_it_was_then(agent: Agent, tmp_path: Path) -> None:
    """A window that decided what was carried into it must not count as one that cites nothing."""
    session = Session("s-0").cites("pat-001", None)
    agent.call("ingest", session.write(tmp_path / "0.jsonl"))
    session.user("Perfect, that works. Thanks!").agent("Glad to hear it.")
    agent.call("ingest", session.write(tmp_path / "0.jsonl"))
    assert agent.counters()["pat-001"] == (1, 0)
    found = agent.json("compare", "--a", "rules", "--b", "recorded")
    assert [(pair["a"], pair["b"]) for pair in found["verdicts"]] == [("neutral", "neutral"), ("helpful", "helpful")]


def test_labels_give_precision_and_recall(judged: Agent, three: str, tmp_path: Path) -> None:
    labels = tmp_path / "labels.jsonl"
    lines = [
        {"session": "s-0", "name": "pat-001", "tag": "helpful", "why": "I was there"},
        {"session": "s-1", "name": "pat-002", "tag": "harmful"},
        {"session": "s-2", "name": "mis-001", "tag": "neutral"},
        {"session": "s-99", "name": "pat-001", "tag": "helpful"},
    ]
    labels.write_text("\n\n".join(map(json.dumps, lines)))
    found = judged.json("compare", "--a", "rules", "--b", three, "--labels", labels)["labels"]
    assert (found["used"], found["unused"]) == (3, 1)
    assert [(s["tag"], s["precision"], s["recall"]) for s in found["a"]] == [
        ("helpful", 1.0, 1.0),
        ("harmful", 1.0, 1.0),
        ("neutral", 1.0, 1.0),
    ]
    assert [(s["tag"], s["precision"], s["recall"]) for s in found["b"]] == [
        ("helpful", 1.0, 1.0),
        ("harmful", None, 0.0),
        ("neutral", 0.0, 0.0),
    ]
    told = judged.call("compare", "--a", "rules", "--b", three, "--labels", labels).out
    assert "3 labels of sessions that were compared, 1 of others" in told
    assert ["b", "neutral", "1", "1", "0", "0%", "0%"] in [line.split() for line in told.splitlines()]


def test_a_bad_label_is_an_error_that_names_its_line(judged: Agent, tmp_path: Path) -> None:
    labels = tmp_path / "labels.jsonl"
    for second, wanted in (
        ("{", "line 2: is not JSON"),
        ("[" * 100_000, "line 2: is not JSON"),
        ('"pat-001"', "line 2: is not an object"),
        ('{"session": "s-0", "name": "pat-1x", "tag": "helpful"}', "line 2: name is 'pat-1x'"),
        ('{"session": "s-0", "name": "pat-002", "tag": "good"}', "line 2: tag is 'good'"),
        ('{"name": "pat-002", "tag": "helpful"}', "line 2: session is None"),
        ('{"session": "s-0", "name": "pat-001", "tag": "harmful"}', "line 2: pat-001 of s-0 is harmful here"),
    ):
        labels.write_text('{"session": "s-0", "name": "pat-001", "tag": "helpful"}\n' + second)
        ran = judged.call("compare", "--a", "rules", "--b", "recorded", "--labels", labels, code=2)
        assert (ran.out, wanted in ran.err) == ("", True), ran.err


def test_a_usage_error_says_what_would_be_right(judged: Agent) -> None:
    for arguments, wanted in (
        (["--a", "rules"], "--b"),
        (["--a", "rules", "--b", "rulez"], "rules, fixtures[:FILE], anthropic[:MODEL] or recorded[:BACKEND]"),
        (["--a", "rules:2", "--b", "rules"], "nothing follows rules"),
        (["--a", "rules", "--b", "anthropic:"], "a name is missing"),
        (["--a", "rules", "--b", "recorded:openai"], "'openai' is not a backend"),
        (["--a", "rules", "--b", "fixtures"], "needs a file"),
        (["--a", "rules", "--b", "fixtures:/no/such/file"], "there is no file /no/such/file"),
        (["--a", "rules", "--b", "rules", "--template-b", "x"], "--template-b is for a model"),
        (["--a", "rules", "--b", "anthropic", "--template-b", "/no/such"], "/no/such: cannot be read"),
        (["--a", "rules", "--b", "rules", "--labels", "/no/such"], "/no/such"),
        (["--a", "rules", "--b", "anthropic"], "ANTHROPIC_API_KEY"),
    ):
        ran = judged.call("compare", *arguments, code=2)
        assert ran.out == "", arguments
        assert wanted in " ".join(ran.err.split()), arguments


def test_a_model_is_asked_after_yes_and_its_cost_is_told(judged: Agent, api: Api) -> None:
    ran = judged.call("compare", "--a", "rules", "--b", HAIKU, "--yes", "--json")
    assert "b (anthropic:claude-haiku-4-5): 3 calls to claude-haiku-4-5, about " in ran.err
    assert "at most 12,288 out, at most about $0.0" in ran.err
    found = json.loads(ran.out)
    assert len(api.asked) == 3
    assert [(pair["a"], pair["b"]) for pair in found["verdicts"]] == [
        ("helpful", "helpful"),
        ("harmful", "helpful"),
        ("neutral", "helpful"),
    ]
    side = found["sides"][1]
    assert (side["answers_asked"], side["tokens"], side["cost_usd"]) == (3, 3300, "0.004500")
    assert (side["models"], side["strays"], side["unpriced"]) == (["claude-haiku-4-5-20251001"], 3, 0)


def test_calls_that_nobody_agreed_to_are_not_made(judged: Agent, api: Api) -> None:
    ran = judged.call("compare", "--a", "rules", "--b", HAIKU, code=2)
    assert "--yes" in ran.err
    assert "3 calls to claude-haiku-4-5" in ran.err
    assert (ran.out, api.asked) == ("", [])


def test_an_answer_of_the_same_model_to_the_same_template_is_not_asked_for_again(
    judged: Agent, api: Api, tmp_path: Path
) -> None:
    judged.environ["REFLECTOR_MODEL"] = "claude-haiku-4-5"
    path = Session("s-4").cites("pat-001").write(tmp_path / "4.jsonl")
    judged.call("ingest", "--backend", "anthropic", path)
    assert len(api.asked) == 1
    found = judged.json("compare", "--a", "recorded:anthropic", "--b", HAIKU, "s-4")
    assert len(api.asked) == 1
    assert (found["kappa"], found["agreement"]) == (None, 1.0)
    assert [side["answers_recorded"] for side in found["sides"]] == [1, 1]
    assert [side["cost_usd"] for side in found["sides"]] == ["0.001500", "0.001500"]
    # Another model, another template, or the wish for it: another call.
    template = tmp_path / "own.txt"
    template.write_text("Judge {cited_ids} of {playbook} by {transcript}.")
    for more in (["anthropic:claude-haiku-4"], [HAIKU, "--template-b", template], [HAIKU, "--fresh"]):
        asked = len(api.asked)
        assert "--yes" in judged.call("compare", "--a", "rules", "s-4", "--b", *more, code=2).err
        judged.call("compare", "--a", "rules", "s-4", "--b", *more, "--yes")
        assert len(api.asked) == asked + 1
    assert "Judge " in api.asked[-2]


def test_no_call_is_made_that_leads_to_no_comparison(judged: Agent, fixtures: Callable[..., Path], api: Api) -> None:
    spec = f"fixtures:{fixtures(s_1=said(('pat-002', 'harmful')))}"
    for order in (["--a", spec, "--b", HAIKU], ["--a", HAIKU, "--b", spec]):
        api.asked.clear()
        ran = judged.call("compare", *order, "--yes", "--json")
        assert "1 call to claude-haiku-4-5" in ran.err
        assert len(api.asked) == 1
        found = json.loads(ran.out)
        assert found["windows"] == 1
        sides = sorted(found["sides"], key=lambda side: str(side["spec"]))
        assert [len(side["failures"]) for side in sides] == [0, 3]


def test_two_models_also_judge_what_cites_nothing(judged: Agent, api: Api) -> None:
    found = judged.json("compare", "--a", HAIKU, "--b", "anthropic:claude-haiku-4", "--yes")
    assert (found["windows"], found["passed_over"]) == (4, 0)
    assert len(api.asked) == 8


def test_an_api_that_refuses_us_is_not_asked_about_every_window(judged: Agent, api: Api) -> None:
    api.status = 401
    found = judged.json("compare", "--a", "rules", "--b", HAIKU, "--yes")
    assert len(api.asked) == 1
    assert found["windows"] == 0
    reasons = [failure["reason"] for failure in found["sides"][1]["failures"]]
    assert "HTTP 401" in reasons[0]
    assert all(reason.startswith("not asked after another window's") for reason in reasons[1:])
    assert len(reasons) == 3


@pytest.mark.parametrize(("typed", "calls", "code"), [("n", 0, 1), ("y", 3, 0)])
@pytest.mark.slow
def test_on_a_terminal_the_person_is_asked(judged: Agent, api: Api, typed: str, calls: int, code: int) -> None:
    master, slave = pty.openpty()
    process = Popen(
        [*REFLECTOR, "compare", "--a", "rules", "--b", HAIKU],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={"TERM": "dumb", **judged.env()},
        cwd=judged.project,
    )
    os.close(slave)
    os.write(master, f"{typed}\n".encode())
    told = b""
    with suppress(OSError):  # the last one closed its end
        while piece := os.read(master, 65536):
            told += piece
    os.close(master)
    assert process.wait() == code, told
    assert b"Make these calls? [y/N]" in told
    assert (b"Nothing was asked." in told) == (typed == "n")
    assert len(api.asked) == calls


def test_the_document_has_all_of_its_parts(judged: Agent, three: str, tmp_path: Path) -> None:
    labels = tmp_path / "labels.jsonl"
    labels.write_text('{"session": "s-0", "name": "pat-001", "tag": "helpful"}\n')
    (tmp_path / "2.jsonl").unlink()
    found = judged.json("compare", "--a", three, "--b", "rules", "--labels", labels)
    assert all(found[part] for part in ("verdicts", "disagreements", "sides"))
    assert found["labels"]["a"] + found["labels"]["b"]
    assert [len(side["failures"]) for side in found["sides"]] == [1, 1]


def test_where_nothing_is_there_is_nothing_to_compare(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    agent = Agent(tmp_path / "empty", tmp_path)
    found = agent.json("--project", tmp_path / "empty", "compare", "--a", "rules", "--b", "recorded")
    assert (found["windows"], found["kappa"]) == (0, None)
    assert list((tmp_path / "empty").iterdir()) == []
