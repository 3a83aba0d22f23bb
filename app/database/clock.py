"""The database's clock as an SQL expression, so that leases do not depend on the clocks of the machines that hold them.

Times are UTC seconds since 1970 as doubles: milliseconds on SQLite, microseconds on PostgreSQL.
"""

from typing import Any

from sqlalchemy import Double
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class now(FunctionElement[float]):  # noqa: N801  used like the SQL functions, which SQLAlchemy writes in lower case
    """The database's time now: UTC seconds since 1970, a double.

    Fixed within one statement. On PostgreSQL it is the start of the statement, not of the transaction.
    """

    type = Double()
    inherit_cache = True


@compiles(now, "sqlite")
def _now_sqlite(element: now, compiler: SQLCompiler, **_: Any) -> str:  # noqa: ARG001  the signature of @compiles
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(now, "postgresql")
def _now_postgresql(element: now, compiler: SQLCompiler, **_: Any) -> str:  # noqa: ARG001  as above
    return "CAST(EXTRACT(EPOCH FROM statement_timestamp()) AS DOUBLE PRECISION)"
