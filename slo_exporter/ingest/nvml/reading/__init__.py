"""
The child's side: one GPU after the other, in tiers.

| module | is |
|---|---|
| capabilities | the table of everything that may be read; capability its shape, quantities its units and ranges |
| readings, fields, events, gpm, rings, links, processes | how it is read |
| identity, device, gpu | one GPU: who it is, what it gives, when it is down |
| plan, integrals | what it is asked for, and what is integrated where it has no counter |
| poller, rhythm, xid_events | all of them, in time |
| faults, container | when nothing can be read, and why |
| death | this process ends with its parent |
"""
