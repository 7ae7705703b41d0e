"""
What this machine's GPUs give, capability by capability: behind ``slo-exporter doctor``.

| module | is |
|---|---|
| survey | the child: reads each capability on its own |
| finding | what it says |
| examination, listening | the parent: goes on where a child hung or died |
| surroundings | drivers, devices and containers around, and what to do |
"""
