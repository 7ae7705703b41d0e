"""
What can go wrong with the database.

```
StoreError
├── UnavailableError     not now: nothing was committed, try again
│   ├── UnknownError     the outcome of a COMMIT is unknown: repeat the same transaction
│   └── StaleError       SQL says something else than memory: open and load again
└── UnusableError        not at all: wrong schema, held by another server
```
"""


class StoreError(Exception):
    """The database did not do what was asked."""


class UnavailableError(StoreError):
    """Locked, gone or full: nothing was committed, a later try may succeed."""


class UnknownError(UnavailableError):
    """COMMIT failed: only repeating the same transaction tells what happened."""


class StaleError(UnavailableError):
    """
    Somebody else wrote, or an older state of the database came back.

    Nothing was committed. What memory holds is worth nothing until
    `Store.open` and `Store.load` read the database again.
    """


class UnusableError(StoreError):
    """This program must not use this database; the message says why."""
