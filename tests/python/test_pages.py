"""Every block of Python in the documentation runs, in its order, in one namespace; examples run, too."""
import pathlib
import re
import runpy

import pytest

from conftest import TREE

EXAMPLES = sorted((TREE / "tools/python/examples").glob("*.py"))


def test_the_page_about_python_runs(monkeypatch):
    page = (TREE / "docs/how_to/python.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    names = {}
    journal = TREE / "build/python_sweep.jsonl"
    journal.unlink(missing_ok=True)
    ran = 0
    for block in blocks:
        if block.startswith("# not run here"):
            compile(block, "docs/how_to/python.md", "exec")
            continue
        exec(compile(block, "docs/how_to/python.md", "exec"), names)
        ran += 1
    assert (ran, len(blocks)) == (7, 9)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.name)
def test_an_example_runs(example, capsys):
    if "not run by the tests" in example.read_text():
        compile(example.read_text(), str(example), "exec")
        return
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_there_are_examples():
    assert len(EXAMPLES) == 3
