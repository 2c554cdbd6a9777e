"""The exact values that gated reflection has to give."""

from typing import Any

from reflector.gated import ReflectionBundle

WORLD, TABS = "Hello, World! This is a Test.", "don't_stop  café — naïve\n\ttabs"
#: utterance, snippets, topk, tokens, summary, summary_len, used_topk
SUMMARIES: list[tuple[str, list[Any], int, int, str, int, int]] = [
    (WORLD, ["Alpha--beta", "Gamma... delta"], 2, 8, "hello world this is a test alpha beta", 8, 2),
    ("A B C D E F G H I J", ["k", "l", "m"], 1, 5, "a b c d e", 5, 1),
    ("Hello THERE!", ["alpha", "beta", "gamma"], 3, 128, "hello there alpha beta gamma", 5, 3),
    ("", [], 3, 128, "", 0, 0),
    ("Budget test", ["x", "y"], 3, 0, "", 0, 2),
    (TABS, ["snake_case OK"], 3, 128, "don t_stop café naïve tabs snake_case ok", 7, 1),
    ("日本語、テスト！", ["a\u00a0b"], 3, 128, "日本語 テスト a b", 4, 1),
    ("hi", ["a", None, "b"], 2, 128, "hi a", 2, 1),
]
FIRST_FOUR = {
    "x": [-0.218560, 0.050570, -0.214722, 0.247740],
    "hello there alpha beta gamma": [0.011143, -0.042809, 0.260036, -0.147501],
    "hello world this is a test alpha beta": [0.195402, -0.104970, 0.167898, 0.242115],
    "日本語": [-0.028702, 0.048048, 0.083354, 0.214307],
}
IDS = {
    ("AgentA", 1, 0, "alpha"): "refl-1-AgentA-0-83965f01588e",
    ("AgentA", 1, 1, "beta"): "refl-1-AgentA-1-b1adf3aa9872",
}
DOCUMENTED = ReflectionBundle(
    {}, {}, {}, ("assistant: summary: . next: question"), ["example snippet"]
)
DOCUMENTED_SHA256 = "3482df95edf61a9160ee3b7284d0500bca8da41db91462b657c115bad495b5b1"
BENCH = (
    '{"allow_reflection":true,"backend":"rulebased","embed":true,"ms":0.0,"ops":1,"ops_cap":5,'
    '"reason":null,'
    '"summary_len":21,"time_budget_ms":6000,"tokens_budget":128}'
)
BENCH_FIXTURES = (
    '{"allow_reflection":true,"backend":"llm","embed":true,"fixture_key":"3295db869434","ms":0.0,'
    '"ops":1,"ops_cap":5,'
    '"reason":null,"summary_len":11,"time_budget_ms":6000,"tokens_budget":128}'
)
