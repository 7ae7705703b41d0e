"""What a service asks of its error budgets before a release."""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum


class OnNoData(StrEnum):
    """What a release check says where the data cannot decide: none, stale, or not enough of it."""

    DENY = "deny"
    UNDECIDED = "undecided"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True)
class ReleasePolicy:
    """What every SLO of a service has to keep."""

    min_remaining: Decimal = Decimal(0)
    """Least remaining_ratio that allows a release, at most 1."""
    max_burn_1h: Decimal | None = None
    """The burn rate of the last hour that is still allowed; None: any."""
    on_no_data: OnNoData = OnNoData.UNDECIDED
