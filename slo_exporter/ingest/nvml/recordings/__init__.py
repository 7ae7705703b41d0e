"""
What a child wrote, kept in a file.

| module | is |
|---|---|
| recorder | makes one |
| draft | where it is written, so that no good one is lost for one that does not begin |
| recording | reads one, line by line |
| replay | plays one as if it happened now |
"""
