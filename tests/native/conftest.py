"""Compiles C programs against the headers of the package, with each compiler and sanitizer that the machine has."""

import functools
import shutil
import subprocess
from pathlib import Path

import pytest

import mojoview

HERE = Path(__file__).parent
ROOMS = Path(mojoview.__file__).parent
STRICT = ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Wno-unused-function", "-Werror", "-pthread"]
VARIANTS = {
    "plain": [],
    "address,undefined": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    "thread": ["-fsanitize=thread", "-Wno-tsan"],  # it warns that it does not model fences; every shared word is atomic
}


@functools.cache
def works(compiler: str, variant: str) -> str:
    """Empty, or why this compiler cannot build and run programs of this variant."""
    if shutil.which(compiler) is None:
        return f"{compiler} is not installed"
    with_source = subprocess.run(
        [compiler, *VARIANTS[variant], "-x", "c", "-", "-o", "/dev/null"],
        input="int main(void) { return 0; }",
        text=True,
        capture_output=True,
    )
    return "" if with_source.returncode == 0 else f"{compiler} has no runtime for -fsanitize={variant}"


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """build(source, variant="plain", compiler="gcc", *flags): the path of a program; skips where the tool is missing."""
    place = tmp_path_factory.mktemp("native")

    @functools.cache
    def compile_program(source: str, variant: str = "plain", compiler: str = "gcc", *flags: str) -> Path:
        if reason := works(compiler, variant):
            pytest.skip(reason)
        extra = [flag for flag in VARIANTS[variant] if compiler == "gcc" or flag != "-Wno-tsan"]
        program = place / "-".join([Path(source).stem, compiler, variant, *flags]).replace("/", "_").replace(",", "+")
        includes = [f"-I{ROOMS / room}" for room in ("sharing", "memory")]
        command = [compiler, *STRICT, *extra, *flags, *includes, str(HERE / source), "-o", str(program), "-lm"]
        result = subprocess.run(command, text=True, capture_output=True)
        assert result.returncode == 0, f"{' '.join(command)}\n{result.stderr}"
        return program

    return compile_program
