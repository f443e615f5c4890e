"""Sweeps: many runs, in worker processes of this machine or on an engine that exists."""

from __future__ import annotations

import concurrent.futures
import itertools
import json
import os
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, Sequence, Union

from . import _core
from ._points import Point, Progress, ScenarioLike, overrides_of, point_of, progress_bar
from ._work import simulate_point, state
from .errors import RunError

if TYPE_CHECKING:
    import pandas

Axes = Mapping[Union[str, "tuple[str, ...]"], Sequence[Any]]


class Grid(Sequence[Point]):
    """The points of a sweep: a scenario with every combination of values. The last axis changes fastest.

    Grid("a.json", {"parallelism.tensor": [4, 8], "training.recompute": ["none", "full"]}) has four
    points. Fields that change together are one axis: {("parallelism.tensor", "parallelism.data"):
    [(4, 2), (8, 1)]}. Keywords are axes, too: Grid("a.json", training__micro_batch_size=[1, 2]).
    Grids add up: Grid(...) + Grid(...).
    """

    def __init__(self, scenario: ScenarioLike, axes: Axes | None = None,
                 overrides: Mapping[str, Any] | None = None, **named: Sequence[Any]) -> None:
        base = point_of(scenario, overrides, for_rows=True)
        every: dict[Any, Sequence[Any]] = {**(axes or {}), **overrides_of(None, named)}
        steps = [_axis(paths, values) for paths, values in every.items()]
        self._points = [base.changed({path: value for step in combination for path, value in step.items()})
                        for combination in itertools.product(*steps)]

    @classmethod
    def of(cls, points: Iterable[Point]) -> Grid:
        grid = cls.__new__(cls)
        grid._points = list(points)
        return grid

    def __getitem__(self, index: Any) -> Any:
        found = self._points[index]
        return Grid.of(found) if isinstance(index, slice) else found

    def __len__(self) -> int:
        return len(self._points)

    def __add__(self, other: Grid) -> Grid:
        return Grid.of([*self, *other])


def _axis(paths: str | tuple[str, ...], values: Sequence[Any]) -> list[dict[str, Any]]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"the values of {paths} are a list, not {values!r}")
    if isinstance(paths, str):
        return [{paths: value} for value in values]
    for value in values:
        if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != len(paths):
            raise ValueError(f"{value!r} must have a value for each of {', '.join(paths)}")
    return [dict(zip(paths, value)) for value in values]


def sweep(grid: Iterable[Point], *, executor: Any = None, client: Any = None,
          journal: str | os.PathLike[str] | None = None, processes: int = 0,
          progress: Progress = None) -> pandas.DataFrame:
    """Simulates every point and returns a row for each, in their order.

    Without `executor` the points run in worker processes, `processes` at a time (0: one for each
    core); a worker that crashes leaves a row with status "crashed". `executor` is a
    concurrent.futures.Executor, a distributed.Client of Dask (`client` is the same), a joblib.Parallel,
    or anything with their submit(). Every point has a key, and each key is simulated once.

    journal: JSON Lines, one for each point, written as it ends. Started again, the sweep goes on where
    it stopped. `trainyard sweep` writes the same format, but is another program: each simulates the
    rows of the other again.

    Columns: the changed fields by path; key, status ("fits", "does_not_fit", "deadlock", "refused",
    "crashed") and message; the figures of the result by path, such as step_time_s and
    memory.0.peak_bytes; every input by path, as in.training.micro_batch_size.
    """
    if executor is not None and client is not None:
        raise TypeError("`client` is another name of `executor`: give one of them")
    executor = client if executor is None else executor
    points = list(grid)
    file = os.fspath(journal) if journal else ""
    with progress_bar(progress, "sweeping") as bar:
        if executor is None:
            lines = _core.sweep([point.variant() for point in points], file, processes, bar)
            rows = [json.loads(line) for line in lines]
        else:
            rows = _elsewhere(points, executor, file, bar)
    return _frame(points, rows)


def _frame(points: list[Point], rows: list[dict[str, Any]]) -> pandas.DataFrame:
    import pandas

    return pandas.DataFrame([
        {**point.values, **{key: row[key] for key in ("key", "status", "message")},
         **(row["result"] or {"step_time_s": None}),
         **{f"in.{path}": value for path, value in (row["inputs"] or {}).items()}}
        for point, row in zip(points, rows)])


def _elsewhere(points: list[Point], executor: Any, file: str,
               bar: Callable[[float, float], object] | None) -> list[dict[str, Any]]:
    journal = _core.Journal(file)
    try:
        journal.drop_outdated([point.variant() for point in points])
        keys = [point.key for point in points]
        todo = {key: point for key, point in zip(keys, points) if not journal.has(key)}
        every = len(set(keys))
        done = every - len(todo)
        for key, row in _rows(executor, todo, journal.state):
            if journal.has(key):  # an engine that ran a point twice
                continue
            journal.append(row)
            done += 1
            if bar is not None:
                bar(done, every)
        rows = {row["key"]: row for row in map(json.loads, journal.rows())}
        return [rows[key] for key in keys]
    finally:
        del journal  # gives its lock back, which the traceback of an error would keep


def _rows(executor: Any, todo: Mapping[str, Point], journal_state: str) -> Iterator[tuple[str, str]]:
    module = type(executor).__module__.partition(".")[0]
    if module == "distributed":
        return _dask_rows(executor, todo, journal_state)
    if module == "joblib":
        return _joblib_rows(executor, todo, journal_state)
    if hasattr(executor, "submit"):
        return _future_rows(executor, todo, journal_state)
    raise TypeError(f"{type(executor).__name__} has no submit(): give an Executor of "
                    "concurrent.futures, a distributed.Client or a joblib.Parallel")


def _future_rows(executor: Any, todo: Mapping[str, Point],
                 journal_state: str) -> Iterator[tuple[str, str]]:
    futures = {executor.submit(simulate_point, point, state(), journal_state): key
               for key, point in todo.items()}
    try:
        for future in concurrent.futures.as_completed(futures):
            yield futures[future], future.result()
    except concurrent.futures.BrokenExecutor as error:
        raise RunError(f"the executor has lost a worker process ({error}); with a journal, a new "
                       "executor goes on where this one stopped") from error
    finally:
        for future in futures:
            future.cancel()


def _dask_rows(client: Any, todo: Mapping[str, Point],
               journal_state: str) -> Iterator[tuple[str, str]]:
    from distributed import as_completed

    # Equal keys are one task for Dask, so that two sweeps share what they have in common.
    keys = {f"trainyard-{_core.fingerprint(state() + journal_state + key)}": key for key in todo}
    futures = [client.submit(simulate_point, todo[key], state(), journal_state, key=name, retries=3)
               for name, key in keys.items()]
    try:
        for future in as_completed(futures):  # type: ignore[no-untyped-call]
            key = keys[future.key]
            if future.status == "error" and type(future.exception()).__name__ == "KilledWorker":
                row = _core.crashed_row(todo[key].variant(), str(future.exception()))
            else:
                row = future.result()
            # A result that Dask no longer holds is not computed again when its worker ends.
            future.release()
            yield key, row
    finally:
        client.cancel([future for future in futures if not future.done()])


def _joblib_rows(parallel: Any, todo: Mapping[str, Point],
                 journal_state: str) -> Iterator[tuple[str, str]]:
    from joblib import delayed, effective_n_jobs

    # joblib returns when all calls have ended; parts let the journal grow meanwhile.
    keys = list(todo)
    size = 8 * max(1, effective_n_jobs(parallel.n_jobs))
    for begin in range(0, len(keys), size):
        part = keys[begin:begin + size]
        rows = parallel(delayed(simulate_point)(todo[key], state(), journal_state) for key in part)
        yield from zip(part, rows)
