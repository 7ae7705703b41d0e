"""What stands under ``release:``: what a service asks of its budgets before a release."""

import re
from decimal import Decimal
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, PlainValidator

from slo_exporter.config import values
from slo_exporter.slo.policy import OnNoData, ReleasePolicy

MOST_DECIMALS: Final = 12
_NUMBER: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,12})?")


def _min_remaining(plain: object) -> Decimal:
    parts = values.share(plain) * 10**MOST_DECIMALS
    if parts.denominator != 1:
        raise ValueError(f"{plain} has more than {MOST_DECIMALS} decimals as a ratio")
    return Decimal(parts.numerator).scaleb(-MOST_DECIMALS).normalize()


def _max_burn(plain: object) -> Decimal:
    written = values.text(plain)
    if not _NUMBER.fullmatch(written) or not Decimal(written):
        raise ValueError(f"{values.shown(written)} is no burn rate; write a number above 0, such as 2")
    return Decimal(written)


def _on_no_data(plain: object) -> OnNoData:
    word, words = values.text(plain), [one.value for one in OnNoData]
    if word not in words:
        raise ValueError(f"must be one of {', '.join(words)}, not {values.shown(word)}")
    return OnNoData(word)


class ReleaseForm(BaseModel):
    """Of a document, for all SLOs of its service."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    min_remaining: Annotated[Decimal, PlainValidator(_min_remaining)] = Decimal(0)
    max_burn_1h: Annotated[Decimal | None, PlainValidator(_max_burn)] = None
    on_no_data: Annotated[OnNoData, PlainValidator(_on_no_data)] = OnNoData.UNDECIDED

    @property
    def policy(self) -> ReleasePolicy:
        """What it says."""
        return ReleasePolicy(self.min_remaining, self.max_burn_1h, self.on_no_data)
