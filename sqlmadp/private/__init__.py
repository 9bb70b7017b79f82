"""The privacy boundary: the only code that sees data, noise and the ledger."""
