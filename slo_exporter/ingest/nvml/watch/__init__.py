"""
The parent's side of the child: its life.

| module | is |
|---|---|
| process, running | a child, as its parent holds it, and what is expected of it |
| watchdog | starts it, ends it, replaces it |
| judge | why it failed, and who is to blame |
| stuck | those that do not die |
| backoff, quarantine | when the next one starts, and without what |
| messages | what it said, checked |
| news, hints | what people are told |
"""
