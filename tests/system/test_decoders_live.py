"""The compiled decoder in a real server: it takes over, it costs little, and it can be left out."""

import re
import signal
import threading
import urllib.request
from pathlib import Path

import pytest
from otlp_load import SPANS, numbered_export
from server_process import PATIENCE_S, Server


def post(server: Server, number: int) -> int:
    """Send a numbered export over HTTP; the status of the answer."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.http}/v1/traces",
        data=numbered_export(number),
        headers={"Content-Type": "application/x-protobuf"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310 - loopback
        return int(answer.status)


def told(server: Server) -> dict[str, float]:
    """What /metrics says of decoders: labels, and the number."""
    found = re.findall(
        r"^slo_exporter_(?:decoder_info|decoded_exports_total)\{(.*)\} (\S+)$", server.get("/metrics"), re.MULTILINE
    )
    return {labels: float(number) for labels, number in found}


def mapped(server: Server) -> set[str]:
    """Which of the compiler's libraries are in the server's memory."""
    assert server.process is not None
    maps = Path(f"/proc/{server.process.pid}/maps").read_text()
    return set(re.findall(r"/(numba|llvmlite)/", maps))


def test_the_compiled_decoder_takes_over(server: Server) -> None:
    """What it decoded is counted by its name and as any other; numba stays in the child."""
    server.start().says("decoder_ready")
    server.becomes_ready()

    assert post(server, 1) == 200

    assert server.events()["total"] == SPANS
    assert told(server) == {'decoder="compiled",state="ready"': 1, 'decoder="compiled"': 1}
    assert mapped(server) == {"llvmlite"}


def test_nothing_is_compiled_for_whoever_wants_the_authority(server: Server) -> None:
    """``otlp.decoder: protobuf``: the same counts, without LLVM."""
    server.environment["SLO_EXPORTER_OTLP__DECODER"] = "protobuf"
    server.start().becomes_ready()

    assert post(server, 1) == 200

    assert server.events()["total"] == SPANS
    assert told(server) == {'decoder="protobuf",state="off"': 1, 'decoder="protobuf"': 1}
    assert mapped(server) == set()


def compilers_of(server: Server) -> set[int]:
    """Children of the server that compile, once there is one."""
    assert server.process is not None
    for _ in range(int(PATIENCE_S / 0.05)):
        tasks = Path(f"/proc/{server.process.pid}/task").iterdir()
        pids = {int(pid) for task in tasks for pid in (task / "children").read_text().split()}
        found = {pid for pid in pids if b"otlp.native.emitting" in Path(f"/proc/{pid}/cmdline").read_bytes()}
        if found:
            return found
        server.lives_for(0.05)
    pytest.fail("nothing compiles")


def is_gone(pid: int) -> bool:
    """Wait for the end of a process that is not ours."""
    turns = threading.Event()
    for _ in range(int(PATIENCE_S / 0.05)):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state in "ZX":
            return True
        turns.wait(0.05)
    return False


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_server_that_ends_while_it_compiles_leaves_no_child(
    server: Server, tmp_path: Path, number: int, code: int
) -> None:
    """It ends as soon as any other, and so does its compiler."""
    server.environment["NUMBA_CACHE_DIR"] = str(tmp_path / "empty")
    server.start().becomes_ready()
    compilers = compilers_of(server)

    assert server.end(number) == code
    assert all(map(is_gone, compilers))
