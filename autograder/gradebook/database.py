"""Transactions on nbgrader's database: patient while it is locked, one clear line when it fails."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from alembic.script import ScriptDirectory
from nbgrader import api
from nbgrader.dbutil import ALEMBIC_DIR
from sqlalchemy import create_engine, event, inspect, pool, text
from sqlalchemy.engine import Engine, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    IntegrityError,
    NoSuchModuleError,
    SQLAlchemyError,
)
from sqlalchemy.orm import Session

from ..errors import EngineError

_KEPT = "no result is lost: repair this and run the same command again"

# What SQLite says, and what the instructor can do about it.
_SQLITE = (
    ("readonly database", "{where} is read-only: give it, and its folder, write permission"),
    ("unable to open", "{where} cannot be opened: is its folder there, and may you write to it?"),
    ("not a database", "{where} is not an SQLite database: move it away, or name another"),
    ("malformed", "{where} is damaged: restore it from a copy"),
    ("is full", "there is no space left on the disk of {where}"),
    ("disk i/o error", "the disk of {where} reports an error"),
    ("no such column", "{where} has old tables: back it up and run `nbgrader db upgrade`"),
    ("no such table", "{where} has old tables: back it up and run `nbgrader db upgrade`"),
)
_LOCKED_SQLITE = ("is locked", "busy")
# PostgreSQL: lock not available, deadlock, serialization, starting up, too many connections.
_LOCKED_POSTGRESQL = ("55P03", "40P01", "40001", "57P03", "53300")


class GradebookError(EngineError):
    """The gradebook or autograded/ could not be written; the text is one line saying why."""

    of_one_submission = False  # whether others can be recorded


class Unrecordable(GradebookError):
    """One submission cannot be recorded."""

    of_one_submission = True


class Database:
    """nbgrader's database at `url`.

    patience: seconds to go on trying while another program holds a lock.
    Raises GradebookError when the url makes no sense or its driver is missing.
    """

    def __init__(self, url: str, root: Path, *, patience: float = 30.0) -> None:
        self.patience = patience
        self._engine = _engine(url, root)
        self._ready = False

    @property
    def where(self) -> str:
        """The database in words, without its password."""
        url = self._engine.url
        is_file = url.get_backend_name() == "sqlite"
        return f"the gradebook {url.database if is_file else url.render_as_string()}"

    def close(self) -> None:
        self._engine.dispose()

    def transaction(self, action: Callable[[Session], Any]) -> Any:
        """Run `action` and commit once; while the database is locked, roll back and run it again.

        Raises GradebookError; the database is then as it was before.
        """
        deadline, delay = time.monotonic() + self.patience, 0.05
        collided = False
        while True:
            try:
                with Session(self._engine) as session, session.begin():
                    if not self._ready:
                        self._check_schema(session)
                    given = action(session)
                self._ready = True
                return given
            except (SQLAlchemyError, OSError, UnicodeError) as error:
                if isinstance(error, IntegrityError) and not collided:
                    collided = True  # another program made the same row a moment ago
                elif not _is_locked(error) or time.monotonic() + delay > deadline:
                    reason = _explain(error, self.where, self.patience)
                    one = isinstance(error, DataError | UnicodeError)
                    kind = Unrecordable if one else GradebookError
                    raise kind(f"{reason}; {_KEPT}") from error
            time.sleep(delay)
            delay = min(delay * 2, 1.0)

    def _check_schema(self, session: Session) -> None:
        """Make the tables in an empty database; refuse the tables of another nbgrader version."""
        connection = session.connection()
        tables = set(inspect(connection).get_table_names())
        if not tables:
            api.Base.metadata.create_all(connection)
            session.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
            insert = text("INSERT INTO alembic_version (version_num) VALUES (:head)")
            session.execute(insert, {"head": _schema_head()})
            return
        if "submitted_assignment" not in tables:
            raise GradebookError(f"{self.where} is a database, but not a gradebook of nbgrader")
        version = None
        if "alembic_version" in tables:
            version = session.scalar(text("SELECT version_num FROM alembic_version"))
        if version != _schema_head():
            raise GradebookError(
                f"{self.where} has the tables of another nbgrader version: back it up and run "
                f"`nbgrader db upgrade`; {_KEPT}"
            )


def _schema_head() -> str | None:
    # nbgrader asks the `alembic` program for this, and fails when it is not on PATH.
    return ScriptDirectory(ALEMBIC_DIR).get_current_head()


def _engine(url: str, root: Path) -> Engine:
    try:
        address = make_url(url)
        if address.drivername in ("postgres", "postgresql"):
            address = address.set(drivername="postgresql+psycopg")
        if address.get_backend_name() != "sqlite":
            # A lock is waited for in `transaction`, as with SQLite.
            waiting = {"connect_timeout": 10, "options": "-c lock_timeout=1000"}
            arguments = waiting if address.get_backend_name() == "postgresql" else {}
            return create_engine(address, connect_args=arguments, pool_pre_ping=True)
        file = address.database or ""
        if file and not file.startswith((":memory:", "file:")):
            address = address.set(database=str(root / file))
        # Short waits in the driver, long ones in `transaction`: a new try sees new data.
        engine = create_engine(address, connect_args={"timeout": 1.0}, poolclass=pool.NullPool)
    except ArgumentError:
        raise GradebookError("the database url (COURSE_DB_URL) is not a valid url") from None
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        name = getattr(error, "name", None) or str(error)
        raise GradebookError(
            f"the driver of the database url is missing ({name}): `pip install 'psycopg[binary]'` "
            "for PostgreSQL"
        ) from None

    # Take the write lock at the start. A transaction that reads first and writes later fails at
    # once, without waiting, when another program wrote in between.
    @event.listens_for(engine, "connect")
    def _no_implicit_begin(connection: Any, _: Any) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _is_locked(error: BaseException) -> bool:
    cause = getattr(error, "orig", None)
    if cause is None:
        return False
    state = getattr(cause, "sqlstate", None)
    if state is not None:
        return state in _LOCKED_POSTGRESQL
    words = str(cause).lower()
    return type(cause).__module__.startswith("sqlite3") and any(w in words for w in _LOCKED_SQLITE)


def _explain(error: BaseException, where: str, patience: float) -> str:
    """One line for the instructor: what is wrong, and where there is one, what to do."""
    if _is_locked(error):
        return f"{where} was locked by another program for {patience:g} seconds"
    if isinstance(error, UnicodeError):
        return f"{where} cannot store a name with undecodable characters"
    if isinstance(error, OSError):
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return f"there is no space left on the disk of {error.filename or 'autograded/'}"
        return f"{error.filename or 'autograded/'}: {error.strerror or type(error).__name__}"
    cause = getattr(error, "orig", None) or error
    words = str(cause).lower()
    for symptom, advice in _SQLITE:
        if symptom in words:
            return advice.format(where=where)
    first = str(cause).strip().split("\n")[0][:200]
    if isinstance(error, DataError):
        return f"{where} refuses a value: {first}"
    return f"{where} cannot be used: {first}"
