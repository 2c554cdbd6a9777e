"""The views are made from one text for both engines; their rows and columns stay what they were."""

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    pass
