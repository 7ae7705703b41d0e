"""That a process ends with its parent: one that hangs in the driver sees no end of its standard input."""

import signal
from ctypes import CDLL, c_int, c_ulong
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
"""Source: <linux/prctl.h>; prctl(2): the signal that the calling process gets when its parent dies."""


def follow_parent() -> None:
    """
    Have the kernel send us SIGKILL when the thread that started us ends.

    A parent that was killed cannot end anyone. Whether it died before this call is for the caller to see.
    """
    prctl = CDLL(None).prctl
    prctl.argtypes = (c_int, *(c_ulong,) * 4)
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
