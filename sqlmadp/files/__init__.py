"""The files that people write: TOML, schema, plan, staged statements, drafts, a starter."""
