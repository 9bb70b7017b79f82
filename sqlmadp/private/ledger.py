"""The ledger: an append-only record of spent epsilon, with what it was spent on.

SQLite in a file of its own.  A charge and its measurement are one row, written in one
transaction that first checks the budget, so neither exists without the other and the sum
of charges never exceeds the budget, however many processes try at once.  Every row carries

    hash  =  sha256(previous hash, the charge, sha256(the measurement))

starting from the hash of the budget, so a row that was changed, removed or put in is
noticed; the last hash (`head`) identifies the whole ledger.

Guarantee  A measurement is returned only after its charge is on disk.  Charges add up to at
           most the budget.  One release has at most one charge and one measurement, for good.
Requires   A local file system with working locks and fsync; nobody forges a whole new chain.
Numerics   Exact: budget and charges are fractions, stored as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import msgspec

from sqlmadp.errors import BudgetExceededError, InterfaceError, LedgerError
from sqlmadp.private.ledger_file import (
    broken,
    chain_hash,
    check_file,
    check_place,
    connect,
    create,
    digest,
    genesis_hash,
    refusing,
    sync_name,
)
from sqlmadp.private.measurement import Measurement


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

    def __init__(self, path: Path, unmade: Fraction | None = None) -> None:
        """Open and verify the ledger at ``path``; use `open`, `prepare` or `read`.

        With a budget, ``unmade``, there is no file yet, and `make` makes it.
        """
        self.path = path
        self._unmade = unmade
        if unmade is None:
            self._connect()

    def _connect(self) -> None:
        self._connection = connect(self.path)
        try:
            self._verify_rows()
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, path: str | Path, *, budget: Fraction, head: str | None = None) -> Ledger:
        """Open the ledger at ``path``, or create it; ``head`` must be a hash of its chain."""
        ledger = cls.prepare(path, budget=budget, head=head)
        ledger.make()
        return ledger

    @classmethod
    def prepare(cls, path: str | Path, *, budget: Fraction, head: str | None = None) -> Ledger:
        """Open the ledger at ``path``; if there is none, one without charges, still to be made.

        So a release that is refused leaves no ledger behind.
        """
        path = Path(path)
        if not isinstance(budget, Fraction) or budget <= 0:
            raise InterfaceError(f"a budget must be a positive Fraction, not {budget!r}")
        if path.exists():
            return cls.read(path, budget=budget, head=head)
        if head is not None:
            raise LedgerError(
                f"ledger {str(path)!r} is missing: the plan pins its head {head}, so it existed "
                "before. Restore it from a backup made after the last release"
            )
        check_place(path)
        return cls(path, unmade=budget)

    def make(self) -> None:
        """Make the file, unless it is there: whatever another process made is opened."""
        if self._unmade is None:
            return
        budget = self._unmade
        create(self.path, budget)
        self._connect()
        self._unmade = None
        try:
            self._check_plan(budget, None)
        except LedgerError:
            self.close()
            raise

    @classmethod
    def read(
        cls, path: str | Path, *, budget: Fraction | None = None, head: str | None = None
    ) -> Ledger:
        """Open an existing ledger, with any budget and head or with the ones given."""
        path = Path(path)
        if not path.exists():
            raise LedgerError(
                f"there is no ledger {str(path)!r}: the first release makes it. Run that, or "
                "correct the path"
            )
        ledger = cls(path)
        try:
            ledger._check_plan(budget, head)
        except LedgerError:
            ledger.close()
            raise
        return ledger

    def close(self) -> None:
        """Close the file."""
        if self._unmade is None:
            self._connection.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def budget(self) -> Fraction:
        """Return the whole epsilon that this ledger may spend."""
        if self._unmade is not None:
            return self._unmade
        return Fraction(self._genesis()[0])

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Return every charge, oldest first, with the chain verified."""
        if self._unmade is not None:
            return ()
        head = self._genesis()[2]
        charges = []
        with refusing(self.path, "cannot be read"):
            rows = self._connection.execute(
                "SELECT number, release, analysts, mechanism, epsilon, time, digest, hash "
                "FROM charges ORDER BY number"
            ).fetchall()
        for expected, (number, *content, stored) in enumerate(rows, start=1):
            head = chain_hash(head, number, *content)
            if number != expected or head != stored:
                raise broken(self.path, f"its hash chain breaks at charge {expected}")
            release, analysts, mechanism, epsilon, time, measured = content
            charges.append(
                Charge(
                    release=release,
                    analysts=tuple(msgspec.json.decode(analysts, type=list[str])),
                    mechanism=mechanism,
                    epsilon=Fraction(epsilon),
                    time=time,
                    digest=measured,
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
        """Return the budget less all charges."""
        return self.budget - self.spent

    @property
    def heads(self) -> tuple[str, ...]:
        """Return every hash of the chain, oldest first; none before the ledger is made.

        Another process may have made it meanwhile, so it is looked for again.
        """
        if self._unmade is not None and self.path.exists():
            self.make()
        if self._unmade is not None:
            return ()
        return (self._genesis()[2], *(charge.hash for charge in self.charges))

    @property
    def head(self) -> str:
        """Return the last hash of the chain; it identifies the whole ledger."""
        return self.heads[-1]

    def find(self, release: str) -> Measurement | None:
        """Return the stored measurement of ``release``, or None if there is none."""
        charge = next((each for each in self.charges if each.release == release), None)
        return None if charge is None else Measurement.decode(self._measurement(charge))

    def require(self, epsilon: Fraction) -> None:
        """Raise unless ``epsilon`` is left and a charge can be recorded safely here."""
        self._require_budget(epsilon, measured=False)
        check_place(self.path)
        if self._unmade is None:
            sync_name(self.path)

    def record(
        self, measurement: Measurement, *, analysts: Sequence[str], mechanism: str
    ) -> Measurement:
        """Charge the measurement's epsilon, store it, and return what is stored.

        If another process completed the same release meanwhile, its measurement is
        returned, nothing is charged, and this one is forgotten unseen.
        """
        encoded = measurement.encode()
        self.make()
        with (
            refusing(
                self.path,
                "could not record the release; nothing is shown. Run it again: "
                "if it was recorded after all, it returns the same answers and spends nothing",
            ),
            self.held(),
        ):
            charges = self.charges
            if all(charge.release != measurement.release for charge in charges):
                self._require_budget(measurement.epsilon, measured=True)
                self._insert(measurement, encoded, analysts, mechanism, len(charges) + 1)
        stored = self.find(measurement.release)
        if stored is None:
            raise broken(self.path, "a release that was just recorded is not there")
        return stored

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold off everybody else's charges in one transaction, which is committed at the end."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def verify(self) -> None:
        """Raise LedgerError unless file, version, chain and every measurement are sound."""
        check_file(self._connection, self.path)
        self._verify_rows()

    def _verify_rows(self) -> None:
        charges = self.charges
        for charge in charges:
            self._measurement(charge)
        if sum((charge.epsilon for charge in charges), Fraction(0)) > self.budget:
            raise broken(self.path, "its charges exceed its budget")

    def _check_plan(self, budget: Fraction | None, head: str | None) -> None:
        if budget is not None and budget != self.budget:
            raise LedgerError(
                f"ledger {str(self.path)!r} was created with budget {self.budget}, but the plan "
                f'says {budget}; a budget never changes. Write budget = "{self.budget}" in the plan'
            )
        if head is not None and head not in self.heads:
            raise LedgerError(
                f"ledger {str(self.path)!r} has head {self.head} and never had the head {head} "
                "that the plan pins: it is another ledger, or an older copy was restored. Nothing "
                "was read or spent. Restore the latest backup"
            )

    def _require_budget(self, epsilon: Fraction, *, measured: bool) -> None:
        budget, spent = self.budget, self.spent
        if epsilon <= 0 or spent + epsilon > budget:
            raise BudgetExceededError(budget=budget, spent=spent, asked=epsilon, measured=measured)

    def _genesis(self) -> tuple[str, str, str]:
        """Return the budget, the time of creation and the hash of the two, verified."""
        with refusing(self.path, "cannot be read"):
            rows = self._connection.execute("SELECT budget, created, hash FROM ledger").fetchall()
        if len(rows) != 1 or genesis_hash(*rows[0][:2]) != rows[0][2]:
            raise broken(self.path, "it has no budget that its hash confirms")
        budget, created, stored = rows[0]
        return budget, created, stored

    def _measurement(self, charge: Charge) -> bytes:
        with refusing(self.path, "cannot be read"):
            row = self._connection.execute(
                "SELECT measurement FROM charges WHERE release = ?", [charge.release]
            ).fetchone()
        if row is None or not isinstance(row[0], bytes) or digest(row[0]) != charge.digest:
            raise broken(self.path, f"the measurement of release {charge.release!r} was changed")
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
            digest(encoded),
        )
        self._connection.execute(
            "INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [number, *content, chain_hash(self.head, number, *content), encoded],
        )
