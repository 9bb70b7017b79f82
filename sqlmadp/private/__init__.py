"""The privacy boundary: the only code that sees data, noise and the ledger.

Guarantee  All measurements recorded in one ledger are together budget-differentially
           private (pure), for everyone who sees any of them; PROOF.md says why.
Requires   Callers use `measure`; the data vector and exact answers have no other way out.
Numerics   Integers and fractions; the noise scale is the only floating-point number.
"""

from sqlmadp.private.ledger import Ledger
from sqlmadp.private.measure import measure
from sqlmadp.private.measurement import Measurement

__all__ = ["Ledger", "Measurement", "measure"]
