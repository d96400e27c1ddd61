"""The branch of platform.h for systems without memfd, futex and locks of open files: built here, and read by a compiler
as macOS would read it. No macOS machine runs these tests.
"""

import subprocess

import pytest
from native import programs
from native.build import COMPILERS, NATIVE, PACKAGE, WARNINGS, environment

PORTABLE = ("-DMV_OS_PORTABLE",)


@pytest.mark.parametrize("flavour", ["plain", "sanitized", "threads"])
@pytest.mark.parametrize(
    ("source", "arguments"),
    [
        ("latch_test.c", "stress 96 8 20000 2 processes"),
        ("latch_test.c", "kill latch.mid_payload 3 96"),
        ("slots_test.c", "stress 3 2 2000 threads"),
    ],
)
def test_the_portable_branch(source, arguments, flavour):
    program = programs.program(source, flavour, "gcc", PORTABLE)
    done = subprocess.run([program, *arguments.split()], capture_output=True, text=True, timeout=250, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr


# Linux's headers, which the compiler reads here, declare these; macOS has none of them.
ABSENT = (
    "memfd_create posix_fallocate syscall SYS_futex FUTEX_WAIT O_TMPFILE MFD_CLOEXEC F_ADD_SEALS F_SEAL_SHRINK "
    "F_OFD_SETLK F_OFD_GETLK MAP_POPULATE"
)
SYSTEM = "errno fcntl pthread signal stdatomic stdint stdio stdlib string sys/mman sys/stat sys/sysctl time unistd"


def as_on_macos(compiler: str, code: str) -> str:
    """What the compiler says about `code`. Declarations that only macOS has stand in tests/native/macos."""
    options = ["-std=gnu11", "-fsyntax-only", "-U__linux__", "-D__APPLE__", "-D_GNU_SOURCE", *WARNINGS]
    include = [f"-I{NATIVE / 'macos'}", f"-I{PACKAGE}"]
    source = "".join(f"#include <{name}.h>\n" for name in SYSTEM.split())
    source += "".join(f"#undef {name}\n" for name in ABSENT.split())
    source += f"#pragma GCC poison {ABSENT}\n{code}\nint main(void) {{ return 0; }}\n"
    command = [compiler, *options, *include, "-x", "c", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, timeout=60, check=False)
    return done.stderr if done.returncode else ""


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    "header",
    [
        "sharing/segment/platform.h",
        "memory/futex.h",
        "sharing/segment/byte_lock.h",
        "sharing/snapshot/slots.h",
        "sharing/state/latch.h",
    ],
)
def test_a_compiler_reads_it_as_on_macos(compiler, header):
    assert as_on_macos(compiler, f'#include "{header}"') == ""


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("code", ["int flag = O_TMPFILE;", "int mv = unheard_of(3);", '#include "nowhere.h"'])
def test_that_reading_can_fail(compiler, code):
    assert "error" in as_on_macos(compiler, code)
