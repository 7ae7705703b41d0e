"""
The book of counts in SQL: what survives everything.

| reads | deltas, receipts, uptime, definitions |
| gives | one transaction per commit; the `Opening` of a `Ledger` at start |

SQLAlchemy lives here and nowhere else. One thread uses it, the writer.
"""
