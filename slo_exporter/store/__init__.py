"""
The book of counts in SQL: what survives everything.

| reads | deltas, receipts, uptime, time slices, definitions, corrections |
| gives | one transaction per commit; the ledger at start, and again when memory may be wrong |

SQLAlchemy lives here and nowhere else, SQLite's and PostgreSQL's drivers too.
One thread uses it, the writer.
"""
