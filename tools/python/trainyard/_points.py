"""Scenarios with changes, as the extension module takes them, and progress bars."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Mapping, Union

from . import _core
from .scenario import Scenario, plain

ScenarioLike = Union[str, "os.PathLike[str]", Mapping[str, Any], Scenario]
"""A file, a document as in a file, or a Scenario."""

Progress = Union[bool, None, Callable[[float, float], object]]
"""True or None: a bar of tqdm, None only where someone looks (a terminal, a notebook). False: nothing.
A function receives the numbers of done and of all pieces of work."""


@dataclass(frozen=True)
class Point:
    """A scenario with changes: one run of a sweep. It pickles."""

    file: str
    """The file, or the name of the document in messages and rows."""
    changes: tuple[tuple[str, str], ...] = ()
    """Paths and values, as text of --set."""
    document: str | None = None
    """The scenario in memory as JSON; None: it is read from the file."""
    values: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The changes as Python values."""

    @property
    def key(self) -> str:
        """What identifies the point in a journal. Two documents with one name have two keys."""
        return self.variant().key

    def variant(self) -> _core.Variant:
        return _core.Variant(self.file, list(self.changes), self.document)

    def scenario(self) -> _core.Scenario:
        """Reads and checks the scenario. Raises InputError with all its problems."""
        return _core.Scenario(self.variant())

    def changed(self, values: Mapping[str, Any]) -> Point:
        """The point with more changes."""
        more = tuple((path, override_text(value)) for path, value in values.items())
        return Point(self.file, self.changes + more, self.document, {**self.values, **values})


def override_text(value: Any) -> str:
    """A value as the text of --set: words as they are, everything else, and "8", as JSON."""
    value = plain(value)
    if isinstance(value, str) and not value.lstrip().startswith(("{", "[", '"')):
        try:
            json.loads(value)
        except ValueError:
            return value
    return json.dumps(value)


def override_value(text: str) -> Any:
    """The value of a text of --set: the inverse of override_text()."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def overrides_of(changes: Mapping[str, Any] | None, named: Mapping[str, Any]) -> dict[str, Any]:
    """Changes by path, from a mapping and from keywords: training__recompute is training.recompute."""
    return {**(changes or {}), **{name.replace("__", "."): value for name, value in named.items()}}


def point_of(
    scenario: ScenarioLike | Point,
    changes: Mapping[str, Any] | None = None,
    named: Mapping[str, Any] | None = None,
    *,
    for_rows: bool = False,
) -> Point:
    """The point of a scenario. `for_rows`: the name of a document has a hash of its contents."""
    values = overrides_of(changes, named or {})
    if isinstance(scenario, Point):
        return scenario.changed(values)
    if isinstance(scenario, (str, os.PathLike)):
        return Point(os.fspath(scenario)).changed(values)
    if isinstance(scenario, Scenario):
        name, document = scenario.file or "scenario", scenario.to_dict()
    elif isinstance(scenario, Mapping):
        name, document = "scenario", plain(scenario)
    else:
        raise TypeError(
            f"a scenario is a path, a dict or a trainyard.Scenario, not {type(scenario).__name__}"
        )
    text = json.dumps(document)
    if for_rows:
        name += "#" + _core.fingerprint(text)
    return Point(name, document=text).changed(values)


def _someone_looks() -> bool:
    if sys.stderr is not None and sys.stderr.isatty():
        return True
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


@contextmanager
def progress_bar(progress: Progress, what: str) -> Iterator[Callable[[float, float], object] | None]:
    """What the extension module calls with the work done and all of it."""
    if callable(progress):
        yield progress
        return
    if progress is False or (progress is None and not _someone_looks()):
        yield None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield None
        return
    with tqdm(total=1.0, desc=what, delay=0.0 if progress else 1.0, leave=False,
              bar_format="{desc} {percentage:3.0f} % {bar} {elapsed}") as bar:

        def show(done: float, total: float) -> None:
            bar.update(done / total - bar.n)

        yield show
