"""Releases and decisions of a real server, on both databases, across a kill."""

from otlp_load import numbered_export
from server_process import Server
from test_defined_over_the_api import send


def test_what_was_decided_is_there_after_a_kill(either: Server) -> None:
    """With its inputs, beside the release that it was about; the same release is not made twice."""
    either.start()
    send(either, numbered_export(1))
    release = either.write("POST", "/api/v1/releases", {"service": "chat", "version": "v1.0.0", "note": "canary"})
    check = "/api/v1/release-check?service=chat&always200=1"
    decided = either.write("POST", check)
    overridden = either.write("POST", f"{check}&min_remaining=1&on_no_data=deny&override=outage")
    listed = either.get("/api/v1/decisions")["items"]

    either.kill()
    either.start()

    assert [(one["id"], one["who"], one["override"]) for one in listed] == [
        (overridden["id"], "ci", "outage"),
        (decided["id"], "ci", None),
    ]
    assert either.get("/api/v1/decisions")["items"] == listed
    for kept in (decided, overridden):
        assert either.get(f"/api/v1/decisions/{kept['id']}")["answer"] == kept
    told = {name: release[name] for name in ("service", "version", "at", "note")}
    assert either.write("POST", "/api/v1/releases", told)["id"] == release["id"]
    assert [one["id"] for one in either.get("/api/v1/releases?service=chat")["items"]] == [release["id"]]
    assert either.metric("slo_release_timestamp_seconds") > 1.7e9
