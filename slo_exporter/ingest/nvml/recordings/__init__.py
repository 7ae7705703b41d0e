"""
What a child wrote, kept in a file.

| module | is |
|---|---|
| recorder | makes one |
| recording | reads one, line by line |
| replay | plays one as if it happened now |
"""
