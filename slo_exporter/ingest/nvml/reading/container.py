"""Whether this process runs in a container."""

import os
from typing import Final

_MARKS: Final = ("/.dockerenv", "/run/.containerenv")
"""Of Docker and Podman."""
_VARIABLES: Final = ("container", "KUBERNETES_SERVICE_HOST")
"""Of systemd-nspawn, Podman and LXC; of Kubernetes."""


def is_inside() -> bool:
    """Judge by the marks that container engines leave."""
    return any(os.environ.get(name) for name in _VARIABLES) or any(os.access(mark, os.F_OK) for mark in _MARKS)
