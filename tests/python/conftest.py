"""What the tests of the Python module share."""
import os
import pathlib
import subprocess

import pytest

TREE = pathlib.Path(__file__).resolve().parents[2]
SMALL = "scenarios/what_if/tensor.json"


@pytest.fixture(autouse=True)
def in_the_tree(monkeypatch):
    monkeypatch.chdir(TREE)


@pytest.fixture(scope="session")
def command():
    """Runs the command `trainyard` of the same build and returns what it prints."""

    def run(*arguments):
        done = subprocess.run([os.environ["TRAINYARD_COMMAND"], *map(str, arguments)], cwd=TREE,
                              capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    return run
