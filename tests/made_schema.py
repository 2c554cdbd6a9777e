"""Writes the file that keeps what the migrations make on SQLite: `python -m tests.made_schema`."""

from __future__ import annotations

import json

from reflector.proof.schema import MADE, made
from reflector.resources import resource_dir


def main() -> None:
    text = json.dumps(made(), indent=1, ensure_ascii=False)
    (resource_dir("migrations") / MADE).write_text(f"{text}\n", "utf-8")


if __name__ == "__main__":
    main()
