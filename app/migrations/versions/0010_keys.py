"""API keys, their limits and use, the audit log, and who asked for a job, a dataset and a version."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_OWNED = {"jobs": ["owner", "state"], "datasets": ["owner"], "versions": ["owner"]}


def upgrade() -> None:
    """Columns that the release before leaves empty, and tables that it does not know."""
    for table, columns in _OWNED.items():
        op.add_column(table, sa.Column("owner", sa.String(16)))
        op.create_index(op.f(f"ix_{table}_{'_'.join(columns)}"), table, columns)
    op.add_column("jobs", sa.Column("table_bytes", sa.BigInteger()))
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("models", sa.JSON()),
        sa.Column("requests_per_minute", sa.BigInteger()),
        sa.Column("rows_per_minute", sa.BigInteger()),
        sa.Column("queued_jobs", sa.BigInteger()),
        sa.Column("stored_bytes", sa.BigInteger()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("created_by", sa.String(16)),
        sa.Column("expires_at", sa.Double()),
        sa.Column("revoked_at", sa.Double()),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
    )
    op.create_table(
        "key_budgets",
        sa.Column("key_id", sa.String(16), nullable=False),
        sa.Column("unit", sa.String(16), nullable=False),
        sa.Column("minute", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["key_id"], ["api_keys.id"], name=op.f("fk_key_budgets_key_id_api_keys")),
        sa.PrimaryKeyConstraint("key_id", "unit", name=op.f("pk_key_budgets")),
    )
    op.create_table(
        "key_usage",
        sa.Column("minute", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("key_id", sa.String(16), nullable=False),
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("minute", "key_id", "model", "action", name=op.f("pk_key_usage")),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("subject", sa.String(255), nullable=False),
        sa.Column("detail", sa.JSON()),
        sa.Column("key_id", sa.String(16)),
        sa.Column("address", sa.String(64), nullable=False),
        sa.Column("request_id", sa.String(128), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_at"), "audit", ["at"])
    op.create_index(op.f("ix_audit_key_id_id"), "audit", ["key_id", "id"])


def downgrade() -> None:
    """Remove them."""
    for table in ("audit", "key_usage", "key_budgets", "api_keys"):
        op.drop_table(table)
    op.drop_column("jobs", "table_bytes")
    for table, columns in reversed(_OWNED.items()):
        op.drop_index(op.f(f"ix_{table}_{'_'.join(columns)}"), table)
        op.drop_column(table, "owner")
