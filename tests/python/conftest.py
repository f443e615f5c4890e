"""What the tests of the Python module share."""
import os
import pathlib
import subprocess
import sys

import pytest

TREE = pathlib.Path(__file__).resolve().parents[2]
SMALL = "scenarios/what_if/tensor.json"


def same(a, b):
    """Whether two JSON values are equal, numbers to 1e-9 (a slack that is none: to 0.1 ns).

    SimGrid's clock goes on from run to run of a process.
    """
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return a == pytest.approx(b, rel=1e-9, abs=1e-10)
    return a == b


@pytest.fixture(scope="session")
def fresh():
    """Runs Python code in a new process and returns what it prints."""

    def run(code, *arguments):
        done = subprocess.run([sys.executable, "-c", "import sys, trainyard as ty\n" + code, *map(str, arguments)],
                              cwd=TREE, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


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
