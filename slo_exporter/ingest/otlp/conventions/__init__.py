"""
How frameworks write requests into spans: one file a framework, mostly a table.

| file | what |
|---|---|
| vllm.py, training.py, gen_ai.py, http_server.py | a framework: its `Convention` and its few functions |
| registry.py | the list of them, in order: the first that matches a span claims it |
| convention.py, match.py | the shape of the table, and which spans it means |
| records.py, fields.py, parts.py | request spans and their parts → `RequestBatch`, the same for all |
| numbers.py, texts.py | whole columns: units, names, hashes |

To add a framework: a file with a `Convention`, a line in registry.py, a test
file. Units stand in the table, never guessed from magnitude; missing is not 0;
message content (prompts, completions) is never asked for.
"""
