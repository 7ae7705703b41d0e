"""Runs the migrations on the connection, and inside the transaction, of `migrating.migrate`."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
context.run_migrations()
