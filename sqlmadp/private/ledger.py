"""The ledger: an append-only record of spent epsilon, with what it was spent on.

SQLite in a file of its own.  A charge and its measurement are one row, written in one
transaction that first checks the budget, so neither exists without the other and the sum
of charges never exceeds the budget, however many processes try at once.  Every row carries

    hash  =  sha256(previous hash, the charge, sha256(the measurement))

starting from the hash of the budget, so a row that was changed, removed or put in is
noticed; the last hash (`head`) stands for the whole ledger.

Guarantee  A measurement is returned only after its charge is on disk.  Charges add up to at
           most the budget.  One release has at most one charge and one measurement, for good.
Requires   A local file system with working locks and fsync; nobody forges a whole new chain.
Numerics   Exact: budget and charges are fractions, stored as text.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import msgspec

from sqlmadp.errors import BudgetExceededError, InterfaceError, LedgerError
from sqlmadp.private.ledger_file import APPLICATION_ID, TABLES, VERSION, create
from sqlmadp.private.measurement import Measurement

_BUSY_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class Charge:
    """One entry of the ledger: what a release spent, when and for whom."""

    release: str
    analysts: tuple[str, ...]
    mechanism: str
    epsilon: Fraction
    time: str
    """UTC, ISO 8601."""
    digest: str
    """The sha256 of the measurement's bytes."""
    hash: str
    """The chain's hash up to and including this charge."""


class Ledger:
    """Charges against one budget.  Belongs to the thread that opened it."""

    def __init__(self, path: Path) -> None:
        """Open and verify the ledger at ``path``; use `open` or `read`."""
        self.path = path
        with self._refusing("cannot be opened"):
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=rw",
                uri=True,
                timeout=_BUSY_SECONDS,
                isolation_level=None,
            )
        try:
            self._configure()
            self.verify()
        except BaseException:
            self._connection.close()
            raise

    @classmethod
    def open(cls, path: str | Path, *, budget: Fraction) -> Ledger:
        """Open the ledger at ``path``, or create it with ``budget`` if there is none."""
        path = Path(path)
        if not isinstance(budget, Fraction) or budget <= 0:
            raise InterfaceError(f"a budget must be a positive Fraction, not {budget!r}")
        if not path.exists():
            create(path, budget)
        ledger = cls(path)
        if ledger.budget != budget:
            stored = ledger.budget
            ledger.close()
            raise LedgerError(
                f"ledger {str(path)!r} was created with budget {stored}, but the plan says "
                f'{budget}; a budget never changes. Write budget = "{stored}" in the plan'
            )
        return ledger

    @classmethod
    def read(cls, path: str | Path) -> Ledger:
        """Open an existing ledger, whatever its budget."""
        path = Path(path)
        if not path.exists():
            raise LedgerError(
                f"there is no ledger {str(path)!r}; it is made by the first release, "
                "or the path is wrong"
            )
        return cls(path)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def budget(self) -> Fraction:
        """Return the whole epsilon that this ledger may spend."""
        return Fraction(self._genesis()[0])

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Return every charge, oldest first, with the chain verified."""
        head = _hash("sqlmadp ledger", VERSION, *self._genesis())
        charges = []
        with self._refusing("cannot be read"):
            rows = self._connection.execute(
                "SELECT number, release, analysts, mechanism, epsilon, time, digest, hash "
                "FROM charges ORDER BY number"
            ).fetchall()
        for expected, (number, *content, stored) in enumerate(rows, start=1):
            head = _hash(head, number, *content)
            if number != expected or head != stored:
                raise self._broken(f"its hash chain breaks at charge {expected}")
            release, analysts, mechanism, epsilon, time, digest = content
            charges.append(
                Charge(
                    release=release,
                    analysts=tuple(msgspec.json.decode(analysts, type=list[str])),
                    mechanism=mechanism,
                    epsilon=Fraction(epsilon),
                    time=time,
                    digest=digest,
                    hash=head,
                )
            )
        return tuple(charges)

    @property
    def spent(self) -> Fraction:
        """Return the sum of all charges."""
        return sum((charge.epsilon for charge in self.charges), Fraction(0))

    @property
    def left(self) -> Fraction:
        """Return what may still be spent."""
        return self.budget - self.spent

    @property
    def head(self) -> str:
        """Return the last hash of the chain; it stands for the whole ledger."""
        charges = self.charges
        return charges[-1].hash if charges else _hash("sqlmadp ledger", VERSION, *self._genesis())

    def find(self, release: str) -> Measurement | None:
        """Return the stored measurement of ``release``, or None if there is none."""
        charge = next((each for each in self.charges if each.release == release), None)
        return None if charge is None else Measurement.decode(self._measurement(charge))

    def require(self, epsilon: Fraction) -> None:
        """Raise BudgetExceededError unless ``epsilon`` is left."""
        budget, spent = self.budget, self.spent
        if epsilon <= 0 or spent + epsilon > budget:
            raise BudgetExceededError(budget=budget, spent=spent, asked=epsilon)

    def record(
        self, measurement: Measurement, *, analysts: Sequence[str], mechanism: str
    ) -> Measurement:
        """Charge the measurement's epsilon, store it, and return what is stored.

        If another process completed the same release meanwhile, its measurement is
        returned, nothing is charged, and this one is forgotten unseen.
        """
        encoded = measurement.encode()
        with self._refusing(
            "could not record the release; nothing is shown. Run it again: "
            "if it was recorded after all, it returns the same answers and spends nothing"
        ):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                charges = self.charges
                if all(charge.release != measurement.release for charge in charges):
                    self.require(measurement.epsilon)
                    self._insert(measurement, encoded, analysts, mechanism, len(charges) + 1)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        stored = self.find(measurement.release)
        if stored is None:
            raise self._broken("a release that was just recorded is not there")
        return stored

    def verify(self) -> None:
        """Raise LedgerError unless file, version, chain and every measurement are sound."""
        with self._refusing("is not a sound ledger"):
            checks = self._connection.execute("PRAGMA integrity_check").fetchall()
            tables = self._connection.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL")
            found = sorted(row[0] for row in tables.fetchall())
        if checks != [("ok",)]:
            raise self._broken("SQLite's integrity check fails")
        if found != sorted(TABLES):
            raise self._broken("its tables are not those of a ledger")
        charges = self.charges
        for charge in charges:
            self._measurement(charge)
        if sum((charge.epsilon for charge in charges), Fraction(0)) > self.budget:
            raise self._broken("its charges exceed its budget")

    def _configure(self) -> None:
        with self._refusing("cannot be used"):
            application = self._pragma("application_id")
            version = self._pragma("user_version")
            if application != APPLICATION_ID:
                raise LedgerError(
                    f"{str(self.path)!r} is not a ledger of sqlmadp; "
                    "correct the ledger's path, or restore the ledger from a copy"
                )
            if version != VERSION:
                raise LedgerError(
                    f"ledger {str(self.path)!r} has version {version}, and this sqlmadp knows "
                    f"version {VERSION}; use a newer sqlmadp"
                )
            if self._pragma("journal_mode") != "wal":
                raise self._broken("it is not in WAL mode")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA fullfsync = ON")

    def _pragma(self, name: str) -> object:
        return self._connection.execute(f"PRAGMA {name}").fetchone()[0]

    def _genesis(self) -> tuple[str, str]:
        with self._refusing("cannot be read"):
            rows = self._connection.execute("SELECT budget, created FROM ledger").fetchall()
        if len(rows) != 1:
            raise self._broken("it has no budget")
        return str(rows[0][0]), str(rows[0][1])

    def _measurement(self, charge: Charge) -> bytes:
        with self._refusing("cannot be read"):
            row = self._connection.execute(
                "SELECT measurement FROM charges WHERE release = ?", [charge.release]
            ).fetchone()
        if row is None or not isinstance(row[0], bytes) or _sha256(row[0]) != charge.digest:
            raise self._broken(f"the measurement of release {charge.release!r} was changed")
        return row[0]

    def _insert(
        self,
        measurement: Measurement,
        encoded: bytes,
        analysts: Sequence[str],
        mechanism: str,
        number: int,
    ) -> None:
        content = (
            measurement.release,
            msgspec.json.encode(list(analysts)).decode(),
            mechanism,
            str(measurement.epsilon),
            datetime.now(UTC).isoformat(timespec="seconds"),
            _sha256(encoded),
        )
        self._connection.execute(
            "INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [number, *content, _hash(self.head, number, *content), encoded],
        )

    def _broken(self, why: str) -> LedgerError:
        return LedgerError(
            f"ledger {str(self.path)!r} cannot be trusted: {why}. Nothing may be released "
            "against it; restore it from a copy made after the last release"
        )

    @contextmanager
    def _refusing(self, what: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise LedgerError(f"ledger {str(self.path)!r} {what} ({error})") from None


def _hash(*content: object) -> str:
    return _sha256(msgspec.json.encode(content))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
