"""Which SLOs are declared: files before the API."""

from dataclasses import replace

import pytest
from builders import slo

from slo_exporter.daemon.definitions import Definitions
from slo_exporter.slo.policy import OnNoData, ReleasePolicy
from slo_exporter.store.store import Declaration, StoredDocument
from slo_exporter.web.board import FileDefinedError, UnknownSloError

DOCUMENT = '{"name":"made","objective":"99%","window":"30d","indicator":{"requests":{},"good":"e2e <= 80ms"}}'
MADE = Declaration(slo("made"), DOCUMENT)
IN_FILE = slo("latency")


def test_files_come_first() -> None:
    """Then what was made over the API, in its order."""
    definitions = Definitions((IN_FILE,)).put(MADE)

    assert definitions.declarations == (Declaration(IN_FILE, None), MADE)
    assert [definitions.source(one.slo.key) for one in definitions.declarations] == ["file", "api"]


def test_a_name_in_a_file_takes_over_and_gives_back() -> None:
    """The API's definition waits behind the file's."""
    definitions = Definitions().put(MADE)
    taken = definitions.with_files([slo("made", "e2e <= 1s")])

    assert [one.document for one in taken.declarations] == [None]
    assert taken.with_files([]).declarations == (MADE,)


def test_what_a_file_defines_is_not_changed_over_the_api() -> None:
    """Neither put nor deleted."""
    definitions = Definitions((slo("made"),))

    with pytest.raises(FileDefinedError):
        definitions.put(MADE)
    with pytest.raises(FileDefinedError):
        definitions.delete(MADE.slo.key)


def test_what_is_not_there_is_not_deleted() -> None:
    """The name is told."""
    with pytest.raises(UnknownSloError, match="made"):
        Definitions().delete(MADE.slo.key)


def test_putting_the_same_changes_nothing() -> None:
    """Equal definitions are equal values."""
    assert Definitions().put(MADE).put(MADE) == Definitions().put(MADE)
    assert Definitions().put(MADE).delete(MADE.slo.key) == Definitions()


def test_stored_documents_are_read_back() -> None:
    """What was put is what a restart finds."""
    found = Definitions().with_made([StoredDocument("chat", "made", DOCUMENT)])

    assert [one.slo for one in found.declarations] == [MADE.slo]


def test_a_stored_document_that_cannot_be_read_is_left_out() -> None:
    """A server starts without it rather than not at all."""
    broken = StoredDocument("chat", "broken", DOCUMENT.replace("e2e", "no_field"))

    found = Definitions().with_made([broken, StoredDocument("chat", "made", DOCUMENT)])

    assert [one.slo.name for one in found.declarations] == ["made"]


def test_files_say_what_a_release_of_their_service_takes() -> None:
    """For its SLOs that were made over the API too; another service has the default, and so has it without files."""
    strict = replace(IN_FILE, release=ReleasePolicy(on_no_data=OnNoData.DENY))
    other = Declaration(slo("made", service="other"), DOCUMENT)
    definitions = Definitions((strict,)).put(MADE).put(other)

    assert [one.slo.release for one in definitions.declarations] == [strict.release, strict.release, ReleasePolicy()]
    assert definitions.with_files(()).declarations == (MADE, other)
