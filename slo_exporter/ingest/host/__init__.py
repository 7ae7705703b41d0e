"""
The machine beside its GPUs: without it an idle GPU cannot be told from a starved one.

| module | is |
|---|---|
| kernel | what the kernel writes in /proc and /sys, as samples: pure |
| cgroup | which group of processes we are in, and what it may use and uses |
| processes | what processes that hold a GPU use of the CPU and of memory |
| reader | the files themselves, bounded, from a root directory |

What is missing or malformed is absent: nothing here raises.
"""
