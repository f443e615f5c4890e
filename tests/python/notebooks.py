"""Runs docs/notebooks and compares what they print with the outputs that are kept in them.

    notebooks.py           fails where a notebook fails or prints something else
    notebooks.py --write   keeps what they print now
"""
import pathlib
import sys

import nbformat
from nbconvert.preprocessors import ExecutePreprocessor

TREE = pathlib.Path(__file__).resolve().parents[2]


def executed(notebook):
    """The notebook with its outputs, without the times at which its cells ran."""
    processor = ExecutePreprocessor(timeout=300, kernel_name="python3")
    done, _ = processor.preprocess(notebook, {"metadata": {"path": str(TREE)}})
    for cell in done.cells:
        cell.metadata.pop("execution", None)
    done.metadata["language_info"] = {"name": "python"}
    return done


def main(write):
    notebooks = sorted((TREE / "docs/notebooks").glob("*.ipynb"))
    assert len(notebooks) == 3, notebooks
    stale = []
    for file in notebooks:
        kept = nbformat.read(file, as_version=4)
        found = executed(nbformat.from_dict(kept.copy()))
        if write:
            nbformat.write(found, file)
        elif found.cells != nbformat.read(file, as_version=4).cells:
            stale.append(file.name)
        print(f"{file.name}: {file.stat().st_size / 1024:.0f} KiB")
    if stale:
        sys.exit(f"{', '.join(stale)}: other outputs than those kept; read what changed after notebooks.py --write")


if __name__ == "__main__":
    main(sys.argv[1:] == ["--write"])
