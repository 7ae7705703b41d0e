"""What is learnt of services from the layers of an export."""

import pytest

from slo_exporter.ingest.otlp.layers import LONGEST_SERVICE, roles_of
from slo_exporter.sli.admission import Role
from slo_exporter.sli.records import texts_of


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("name", ["unknown_service", "unknown_service:java", "chat", "x" * (LONGEST_SERVICE + 1)])
def test_a_service_without_a_name_hides_nobody(name: str, role: Role) -> None:
    """It may have an engine; that it stands behind another would hide all others without a name."""
    is_learnt = name == "chat" or (name.startswith("unknown") and role is Role.ENGINE)
    assert roles_of(texts_of([name]), [0, -1], role) == (frozenset({(name, role)}) if is_learnt else frozenset())
