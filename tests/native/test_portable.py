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
        ("pins_test.c", "stress 3 2 2000 threads"),
    ],
)
def test_the_portable_branch(source, arguments, flavour):
    program = programs.program(source, flavour, "gcc", PORTABLE)
    done = subprocess.run([program, *arguments.split()], capture_output=True, text=True, timeout=250, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("header", ["platform.h", "parking.h", "owner.h", "pins.h", "latch.h"])
def test_a_compiler_reads_it_as_on_macos(compiler, header):
    """The declarations that only macOS has stand in tests/native/macos, as its headers give them."""
    options = ["-std=gnu11", "-fsyntax-only", "-U__linux__", "-D__APPLE__", *WARNINGS]
    include = [f"-I{NATIVE / 'macos'}", f"-I{PACKAGE / 'sharing'}"]
    source = f'#include "{header}"\nint main(void) {{ return 0; }}\n'
    command = [compiler, *options, *include, "-x", "c", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr[-8000:]
