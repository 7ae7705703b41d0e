"""Alembic migrations; `migrating.migrate` runs them at start."""
