"""
The parent's side of the child: its life.

| module | is |
|---|---|
| process | a child, as its parent holds it |
| watchdog | starts it, judges it, ends it, replaces it |
| backoff, quarantine | when the next one starts, and without what |
| messages | what it said, checked |
| news, hints | what people are told |
"""
