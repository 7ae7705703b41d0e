"""Where machine code is kept, and what is never run."""

import os
import stat
from pathlib import Path

import pytest

from slo_exporter.ingest.otlp.native.code_cache import CodeCache, UnsafeError, place
from slo_exporter.ingest.otlp.native.machine_code import Argument, BadCodeError, Code, Entry

CODE = Code(
    entries=(
        Entry(
            name="fill",
            arguments=(Argument(items=(Argument(dtype="uint8", dimensions=1, flags=1), Argument(dtype="int64"))),),
            results=("bool",),
        ),
    ),
    image=bytes(range(256)),
)


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({"NUMBA_CACHE_DIR": "/n", "CACHE_DIRECTORY": "/c", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/n/slo-exporter"),
        ({"CACHE_DIRECTORY": "/c", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/c/code"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/slo-exporter/code"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/slo-exporter/code"),
        ({"XDG_CACHE_HOME": "", "HOME": ""}, None),
        ({}, None),
    ],
)
def test_the_environment_says_where_code_is_kept(environ: dict[str, str], found: str | None) -> None:
    """The operator's word, systemd's, that of the desktop's convention, then the home; relative ones do not count."""
    assert place(environ) == (None if found is None else Path(found))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """In a folder for us alone, which is made."""
    cache = CodeCache(tmp_path / "a" / "b")

    assert cache.read("one") is None
    cache.write("one", b"code")

    assert cache.read("one") == b"code"
    assert cache.read("two") is None
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    assert [stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "a" / "b").iterdir()] == [0o600]


def test_without_a_folder_nothing_is_kept() -> None:
    """And nothing found."""
    cache = CodeCache(None)
    cache.write("one", b"code")

    assert cache.read("one") is None


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_a_folder_that_others_may_write_is_not_read(tmp_path: Path, mode: int) -> None:
    """Whoever can put a file there could run as us; what is written next makes it ours again."""
    cache = CodeCache(tmp_path / "code")
    cache.write("one", b"code")
    (tmp_path / "code").chmod(mode)

    with pytest.raises(UnsafeError, match="may be written by others"):
        cache.read("one")
    cache.write("one", b"mine")
    assert cache.read("one") == b"mine"


def test_a_file_that_others_may_write_is_not_read(tmp_path: Path) -> None:
    """Its folder alone says nothing of what happened before."""
    cache = CodeCache(tmp_path)
    cache.write("one", b"code")
    (tmp_path / "one.code").chmod(0o620)

    with pytest.raises(UnsafeError, match=r"one\.code may be written by others"):
        cache.read("one")


def test_what_belongs_to_somebody_else_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the folder nor a file."""
    cache = CodeCache(tmp_path)
    cache.write("one", b"code")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    with pytest.raises(UnsafeError, match=f"belongs to user {os.getuid()}"):
        cache.read("one")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """Nor is anything read that is no file."""
    cache = CodeCache(tmp_path / "code")
    cache.write("one", b"code")
    (tmp_path / "code" / "link.code").symlink_to("one.code")
    os.mkfifo(tmp_path / "code" / "pipe.code", 0o600)

    with pytest.raises(OSError, match="symbolic links"):
        cache.read("link")
    with pytest.raises(UnsafeError, match="no plain file"):
        cache.read("pipe")


def test_a_folder_that_is_a_link_is_no_folder(tmp_path: Path) -> None:
    """Whoever made the link would choose where we write, and whose mode we change."""
    (tmp_path / "theirs").mkdir(mode=0o755)
    (tmp_path / "code").symlink_to("theirs")
    CodeCache(tmp_path / "theirs").write("one", b"code")
    (tmp_path / "theirs").chmod(0o755)
    cache = CodeCache(tmp_path / "code")

    assert cache.read("one") is None
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        cache.write("two", b"code")
    assert stat.S_IMODE((tmp_path / "theirs").stat().st_mode) == 0o755


def test_the_oldest_code_is_forgotten(tmp_path: Path) -> None:
    """Hosts that share a home have one each; those of versions before go."""
    cache = CodeCache(tmp_path)
    for number in range(12):
        cache.write(f"{number}", b"code")
        os.utime(tmp_path / f"{number}.code", (number, number))

    kept = {int(file.stem) for file in tmp_path.iterdir()}

    assert len(kept) == 8
    assert 11 in kept
    assert 0 not in kept


def test_code_is_read_as_it_was_packed() -> None:
    """Entries and image."""
    assert Code.unpacked(CODE.packed()) == CODE


@pytest.mark.parametrize("at", [0, 10, 40, 70, 100, -1])
def test_code_with_a_wrong_byte_is_none(at: int) -> None:
    """Wherever it is: none of it is linked."""
    packed = bytearray(CODE.packed())
    packed[at] ^= 1

    with pytest.raises(BadCodeError):
        Code.unpacked(bytes(packed))


@pytest.mark.parametrize("size", [0, 5, 28, 60, 67, 100])
def test_code_without_its_end_is_none(size: int) -> None:
    """As a full disk leaves it."""
    with pytest.raises(BadCodeError):
        Code.unpacked(CODE.packed()[:size])
