#!/usr/bin/env python3
"""Asks the JSON Lines of a sweep a question with pandas: which runs fit, the quickest first?

    trainyard sweep scenarios/what_if/tensor.json --over training.recompute=none,full --journal sweep.jsonl
    tools/read_sweep.py sweep.jsonl [COLUMN ...]

A row is one run: "status", "inputs" (the resolved scenario by path) and "result" (figures by path). Columns are
inputs to show, such as training.recompute; without any, those that differ. Exit code 77: pandas is not there.
"""
import sys

try:
    import pandas
except ImportError:
    print("pandas is not installed (apt install python3-pandas)", file=sys.stderr)
    sys.exit(77)


def flattened(path):
    """A data frame with a column for every input and every figure of the runs that fit."""
    rows = pandas.read_json(path, lines=True)
    rows = rows[rows["status"] == "fits"].reset_index(drop=True)
    inputs = pandas.DataFrame(list(rows["inputs"]))
    figures = pandas.DataFrame(list(rows["result"]))
    return inputs, figures


def main(path, columns):
    inputs, figures = flattened(path)
    if not columns:
        columns = [name for name in inputs if inputs[name].astype(str).nunique() > 1]
    table = inputs[columns].assign(step_time_s=figures["step_time_s"]).sort_values("step_time_s")
    print(table.to_csv(sep="\t", index=False, float_format="%.6g"), end="")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
