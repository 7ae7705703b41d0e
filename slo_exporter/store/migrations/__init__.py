"""Alembic migrations; `database.migrate` runs them at start."""
