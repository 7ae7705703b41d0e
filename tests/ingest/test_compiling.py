"""From a kernel's source to a decoder that runs here: the child, what it makes, and every way in which it fails."""

import importlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_packages
from toy_packages import DECLINING, ENDLESS, SMALL, TRUSTING

from slo_exporter.ingest.otlp.native.code_cache import CodeCache
from slo_exporter.ingest.otlp.native.compiling import Compiled, Compiler, CompilingError
from slo_exporter.ingest.otlp.native.linking import KernelError
from slo_exporter.ingest.otlp.native.trial import TrialError, attempt

SOON_S = 30
BODY = b"twenty bytes of text"


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose packages are found here and in children."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    yield folder
    toy_packages.forget("small")
    importlib.invalidate_caches()


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Compiled, Path]]:
    """The toy, compiled once for the tests of this file, and where it is kept."""
    folder, cache = tmp_path_factory.mktemp("packages"), tmp_path_factory.mktemp("cache") / "code"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", str(folder))
        made = Compiler(CodeCache(cache), toy_packages.write(folder, "toy")).make()
        yield made, cache
    toy_packages.forget("toy")


def fails(packages: Path, cache: Path | None = None, **modules: str) -> str:
    """Why a package cannot be compiled."""
    name = toy_packages.write(packages, "small", **modules)
    with pytest.raises(CompilingError) as caught:
        Compiler(CodeCache(cache), name).make()
    return str(caught.value)


def pid_in(package: Path) -> int:
    """The process that compiles an endless kernel, once it is there."""
    note, turns = package / "pid", threading.Event()
    for _ in range(int(SOON_S / 0.02)):
        if note.exists() and note.read_text().endswith("\n"):
            return int(note.read_text())
        turns.wait(0.02)
    pytest.fail("the child does not compile")


def ends(pid: int) -> bool:
    """Whether a process ends soon, and does not only wait to be."""
    turns = threading.Event()
    for _ in range(int(SOON_S / 0.02)):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state in "ZX":
            return True
        turns.wait(0.02)
    return False


def test_what_was_compiled_runs_here_without_numba(toy: tuple[Compiled, Path]) -> None:
    """The child compiles, tries and hands over; arrays, tuples and numbers go in, numbers come out."""
    made, _ = toy
    decoder: Any = made.decoder

    (total, size), sums = decoder.total(BODY)

    assert (made.origin, made.not_kept) == ("compiled", "")
    assert (total, size) == (sum(BODY) + 7, len(BODY))
    assert sums.tolist() == [[0, int.from_bytes(BODY[1:9], "little")], [sum(BODY), 0]]
    assert "toy.kernel" not in sys.modules


def test_the_next_start_links_what_was_kept(toy: tuple[Compiled, Path]) -> None:
    """No child is started: it could not be."""
    _, cache = toy
    compiler = Compiler(CodeCache(cache), "toy", patience_s=0)

    made = compiler.make()

    attempt(made.decoder)
    assert made.origin == "kept"


def test_another_source_is_compiled_anew(toy: tuple[Compiled, Path], packages: Path) -> None:
    """Code is kept under what it was made from."""
    _, cache = toy

    assert "RuntimeError: of another kind" in fails(packages, cache, kernel="raise RuntimeError('of another kind')\n")


def test_damaged_code_is_compiled_anew(toy: tuple[Compiled, Path]) -> None:
    """A file that lost its end, or holds something else, is never linked, and is replaced."""
    _, cache = toy
    (kept,) = cache.iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-100])

    made = Compiler(CodeCache(cache), "toy").make()

    assert made.origin == "compiled"
    assert len(kept.read_bytes()) == len(whole)


def test_a_link_in_the_place_of_code_is_replaced(toy: tuple[Compiled, Path]) -> None:
    """It is not followed, and keeps nobody from the compiled decoder."""
    _, cache = toy
    (kept,) = cache.iterdir()
    kept.rename(cache.parent / "elsewhere")
    kept.symlink_to(cache.parent / "elsewhere")

    made = Compiler(CodeCache(cache), "toy").make()

    assert (made.origin, made.not_kept) == ("compiled", "")
    assert not kept.is_symlink()


@pytest.mark.parametrize(
    "sums",
    [
        np.zeros((2, 2), dtype=np.int32),
        np.zeros(4, dtype=np.int64),
        np.zeros((2, 4), dtype=np.int64)[:, ::2],
        np.zeros((2, 2), dtype=">i8"),
        [[0, 0], [0, 0]],
        None.__class__,
    ],
)
def test_an_array_that_is_not_as_declared_is_refused(toy: tuple[Compiled, Path], sums: object) -> None:
    """Of another dtype, with other dimensions, with gaps, or none at all: the machine code never sees it."""
    decoder: Any = toy[0].decoder

    with pytest.raises(TypeError, match="not of the dtype"):
        decoder.total(BODY, sums=sums)


def test_an_array_that_is_written_must_be_writable(toy: tuple[Compiled, Path]) -> None:
    """What is read only stays as it is."""
    decoder: Any = toy[0].decoder
    sums = np.zeros((2, 2), dtype=np.int64)
    sums.flags.writeable = False

    with pytest.raises(TypeError, match="not of the dtype"):
        decoder.total(BODY, sums=sums)


@pytest.mark.parametrize("sums", [np.zeros((1, 1), dtype=np.int64), np.zeros((2, 0), dtype=np.int64)])
def test_an_index_out_of_bounds_is_an_exception(toy: tuple[Compiled, Path], sums: object) -> None:
    """Bounds are checked in the machine code as well."""
    decoder: Any = toy[0].decoder

    with pytest.raises(KernelError):
        decoder.total(BODY, sums=sums)
    with pytest.raises(KernelError):
        decoder.total(BODY, size=len(BODY) + 1)


def test_without_a_folder_it_is_compiled_at_each_start(packages: Path, tmp_path: Path) -> None:
    """It decodes all the same, and says why the next start has to compile again."""
    (tmp_path / "file").touch()
    name = toy_packages.write(packages, "small", kernel=SMALL, decoder=TRUSTING)

    made = Compiler(CodeCache(tmp_path / "file" / "inside"), name).make()

    attempt(made.decoder)
    assert "Not a directory" in made.not_kept


def test_a_decoder_that_declines_everything_fails_its_trial(packages: Path) -> None:
    """Before the daemon hears of it."""
    assert fails(packages, kernel=SMALL, decoder=DECLINING).endswith(
        "TrialError: the compiled decoder declines an ordinary export"
    )


def test_a_decoder_that_reads_something_else_fails_its_trial() -> None:
    """Equal columns and equal refusals, or none."""

    class Wrong:
        def decode(self, body: bytes, keys: Any, *, now_ns: int, lateness_ns: int) -> Any:
            from slo_exporter.ingest.otlp.decode import decode  # noqa: PLC0415

            return decode(body, keys, now_ns=now_ns - 1, lateness_ns=lateness_ns + 1)

    with pytest.raises(TrialError, match="as another one"):
        attempt(Wrong())


def test_without_numba_there_is_no_decoder(packages: Path) -> None:
    """The reason is the child's own."""
    (packages / "numba.py").write_text("raise ModuleNotFoundError(\"No module named 'numba'\")\n")

    assert fails(packages) == "exit code 1: ModuleNotFoundError: No module named 'numba'"


def test_a_kernel_without_entry_points_is_told(packages: Path) -> None:
    """There would be nothing to call."""
    assert fails(packages, kernel="ENTRIES = ()\n") == "exit code 1: ValueError: the kernel has no entry points"


def test_a_child_that_crashes_takes_nobody_along(packages: Path) -> None:
    """Nor one that dies in the machine code of its trial."""
    assert fails(packages, kernel="import os\nos.abort()\n") == "the compiler was killed by SIGABRT"


def test_a_missing_package_is_told(packages: Path) -> None:
    """As any import that fails."""
    assert packages.is_dir()
    with pytest.raises(CompilingError, match="No module named 'no_such'"):
        Compiler(CodeCache(None), "no_such").make()


def test_compiling_has_a_limit(packages: Path) -> None:
    """Then the child is killed."""
    name = toy_packages.write(packages, "toy", kernel=ENDLESS)

    with pytest.raises(CompilingError, match=r"more than 0\.1 s"):
        Compiler(CodeCache(None), name, patience_s=0.1).make()


def test_a_compiler_that_is_cancelled_ends_at_once(packages: Path) -> None:
    """The child is gone when the call returns."""
    compiler = Compiler(CodeCache(None), toy_packages.write(packages, "toy", kernel=ENDLESS))
    failed: list[BaseException] = []

    def make() -> None:
        try:
            compiler.make()
        except CompilingError as error:
            failed.append(error)

    thread = threading.Thread(target=make)
    thread.start()
    pid = pid_in(packages / "toy")
    compiler.cancel()
    thread.join(SOON_S)

    assert not thread.is_alive()
    assert [str(error) for error in failed] == ["the compiler was killed by SIGKILL; was memory short?"]
    assert ends(pid)


def test_a_cancelled_compiler_starts_no_child(packages: Path) -> None:
    """Whoever stops before the thread came so far."""
    compiler = Compiler(CodeCache(None), toy_packages.write(packages, "toy", kernel=ENDLESS))
    compiler.cancel()

    with pytest.raises(CompilingError, match="cancelled"):
        compiler.make()
    assert not (packages / "toy" / "pid").exists()


def test_the_child_ends_with_a_parent_that_is_killed(packages: Path) -> None:
    """Nobody can catch SIGKILL: the child notices the end of its standard input."""
    name = toy_packages.write(packages, "toy", kernel=ENDLESS)
    program = (
        "from slo_exporter.ingest.otlp.native.compiling import Compiler\n"
        "from slo_exporter.ingest.otlp.native.code_cache import CodeCache\n"
        f"Compiler(CodeCache(None), {name!r}).make()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as parent:
        child = pid_in(packages / "toy")
        os.kill(parent.pid, signal.SIGKILL)

    assert ends(child)
