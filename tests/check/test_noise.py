"""False results and found ones over whole files, drawn with a seed."""

import pytest

from benchmarks.noise import Study, run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("is_daily", [False, True])
@pytest.mark.parametrize("per_branch", [1, 4])
@pytest.mark.parametrize("sessions", [14, 50])
def test_few_files_without_influence_get_a_result(
    sessions: int, per_branch: int, is_daily: bool
) -> None:
    assert run(Study(sessions, per_branch, is_daily=is_daily), files=100, seed=3).any_false <= 0.05


@pytest.mark.parametrize("per_branch", [1, 2])
def test_most_followed_rules_get_a_result(per_branch: int) -> None:
    assert run(Study(30, per_branch, followed=30), files=30).found >= 0.6
