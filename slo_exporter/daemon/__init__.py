"""
The running program: the one place that knows every stage.

| module | does |
|---|---|
| wiring | builds the stages and joins them |
| inbox | hands exports from the event loop to the writer, and answers back |
| writer | the one thread that writes: group commit, refusal, recovery |
| committer | what one commit does: SQL first, then memory |
| board | what the web may read |
| http_server | uvicorn without its habits |
| supervisor | signals, memory, the demo's process |
| logs | how the daemon speaks |
"""
