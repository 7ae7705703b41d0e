"""
GPUs that do not exist, for machines without one and for the demo.

| module | is |
|---|---|
| physics | what they do at an instant: pure |
| metrics | that in the metrics of real ones |
| simulated | the frames |
"""
