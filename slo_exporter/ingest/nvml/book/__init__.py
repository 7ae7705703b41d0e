"""
The parent's side of the GPUs: what is known of them.

| module | is |
|---|---|
| book | the newest state, under one lock |
| sifting, shapes | what of a frame is believed |
| roster, groups | which GPUs there are, and which ought to be |
| newest, counters, xids, costs | what is kept of each |
| records | seconds of GPUs, for SLOs |
| source | how all of them are read |
| states, told | what others are told |
"""
