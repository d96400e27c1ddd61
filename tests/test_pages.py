"""The code blocks of README and docs run as printed: page by page, one after the other, in a fresh interpreter."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\S+)[^\n]*\n(.*?)^```", re.S | re.M)
OPTIONAL = ("numba",)  # what a block may need beyond the extras test and mojo
RUNNER = """
import doctest, json, sys, traceback
page, blocks = sys.argv[1], json.loads(sys.stdin.read())
names, failed = {"__name__": "__main__"}, 0
for line, code in blocks:
    if ">>>" in code:
        test = doctest.DocTestParser().get_doctest(code, names, f"{page}:{line}", page, line)
        test.globs = names
        failed += doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, clear_globs=False).failed
    else:
        try:
            exec(compile("\\n" * line + code, page, "exec"), names)
        except Exception:
            traceback.print_exc(file=sys.stdout)
            failed += 1
sys.exit(bool(failed))
"""


def blocks_of(page, *languages):
    """Return (line, text) of the page's blocks in these languages."""
    text = page.read_text()
    return [(text[: m.start()].count("\n") + 1, m[2]) for m in BLOCK.finditer(text) if m[1] in languages]


PYTHON = {page: blocks_of(page, "python", "{doctest}") for page in PAGES}
NEEDS_MOJO = re.compile(r'\bmv\.load\(|enable_hook|\.mojo"|load_library\("\./stats\.so')


def run(page, place):
    """Write the files that pages show, then run the page's Python in `place`."""
    for other in PAGES:
        for _, text in blocks_of(other, "mojo"):
            (place / re.match(r"# (\w+\.mojo)\n", text)[1]).write_text(text)
    for example in (ROOT / "docs/examples").glob("*.mojo"):
        shutil.copy(example, place)
    (place / "mykernels").mkdir()
    shutil.copy(place / "stats.mojo", place / "mykernels")
    for _, text in blocks_of(page, "c"):
        name, command = re.match(r"/\* (\w+\.c): (.*) \*/", text).groups()
        (place / name).write_text(text)
        subprocess.run(command.split(), cwd=place, check=True)
    for _, text in blocks_of(page, "sh"):
        for line in re.findall(r"^python (-m mojoview compile .*)", text, re.M):
            subprocess.run([sys.executable, *line.split()], cwd=place, check=True)
    missing = [name for name in OPTIONAL if subprocess.run([sys.executable, "-c", f"import {name}"]).returncode]
    blocks = [block for block in PYTHON[page] if not any(f"import {name}" in block[1] for name in missing)]
    done = subprocess.run(
        [sys.executable, "-c", RUNNER, page.name],
        input=json.dumps(blocks),
        capture_output=True,
        text=True,
        timeout=200,
        cwd=place,
        env=os.environ | {"MOJOVIEW_SHM_DIR": str(place / "shm")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if len(blocks) < len(PYTHON[page]):
        pytest.skip(f"{len(PYTHON[page]) - len(blocks)} block(s) of {page.name} not run: no {', '.join(missing)}")


@pytest.fixture
def place(tmp_path):
    (tmp_path / "shm").mkdir(mode=0o700)
    return tmp_path


def needs_mojo(page):
    return any(NEEDS_MOJO.search(text) for _, text in PYTHON[page])


@pytest.mark.parametrize("page", [p for p in PAGES if PYTHON[p] and not needs_mojo(p)], ids=lambda page: page.stem)
def test_pages_without_mojo(page, place):
    run(page, place)


@pytest.mark.slow
@pytest.mark.mojo
@pytest.mark.parametrize("page", [p for p in PAGES if needs_mojo(p)], ids=lambda page: page.stem)
def test_pages_with_mojo(page, place):
    run(page, place)


@pytest.mark.parametrize(
    "block",
    ["```python\n1 / 0\n```\n", "```{doctest}\n>>> 1 + 1\n3\n```\n", "```python\nkernels.sum\n```\n"],
    ids=["an exception", "another result", "a missing import"],
)
def test_a_wrong_block_is_noticed(block, place, monkeypatch):
    page = place / "page.md"
    page.write_text(block)
    monkeypatch.setitem(PYTHON, page, blocks_of(page, "python", "{doctest}"))
    with pytest.raises(AssertionError):
        run(page, place)
