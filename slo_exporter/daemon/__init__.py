"""
The running program: the one place that knows every stage.

| module | does |
|---|---|
| wiring | builds the stages and joins them |
| inbox | hands exports and errands from the event loop to the writer, and answers back |
| writer | the one thread that writes: group commit, refusal, recovery |
| committer | what one commit does: SQL first, then memory |
| loaded | the SLOs that are counted, and what whatever comes changes |
| housekeeping | what is let go of |
| hearing | metrics of requests and the breakdown hear what was committed |
| definitions | which SLOs are declared, by files and over the API |
| accepting | uptime and age, in the face of clocks that are set |
| board | what the web may read |
| editor | what the web and SIGHUP may change |
| http_server | uvicorn without its habits |
| supervisor | signals, memory, the demo's process |
| logs | how the daemon speaks |
"""
