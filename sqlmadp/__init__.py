"""Answer several analysts' SQL in one differentially private release."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlmadp.mechanism.compare import compare

__all__ = ["compare"]


def __getattr__(name: str) -> Any:
    """Import the heavy parts only when they are used: they dominate start-up."""
    if name == "compare":
        from sqlmadp.mechanism.compare import compare  # noqa: PLC0415

        return compare
    raise AttributeError(f"module 'sqlmadp' has no attribute {name!r}")
