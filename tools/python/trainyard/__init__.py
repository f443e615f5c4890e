"""Trainyard predicts how long a training step of a large model takes on a GPU cluster.

    import trainyard as ty

    result = ty.run("scenarios/llama3/llama3_8b_8xh100.json", training__recompute="full")
    result.step_time_s, result.fits, result.breakdown
"""

from __future__ import annotations

from typing import Any, Mapping

from . import _core
from . import scenario as _scenario
from ._points import Point, Progress, ScenarioLike, point_of, progress_bar
from .errors import InputError, Problem, RunError, TrainyardError
from .result import Result, WhatIf, clear_memo, simulated
from .scenario import *  # noqa: F403  every section of a scenario
from .scenario import Scenario
from .studies import (Collective, Comparison, Explanation, Goodput, Jobs, Memory, Search, Study,
                      Validation, collective, compare, explain, goodput, jobs, memory, search, validate)
from .sweeps import Grid, sweep

__version__: str = _core.version
__all__ = [
    "Collective", "Comparison", "Explanation", "Goodput", "Grid", "InputError", "Jobs", "Memory", "Point", "Problem", "Result", "RunError",
    "Search", "Study", "TrainyardError", "Validation", "WhatIf", "clear_memo", "collective", "compare", "explain",
    "goodput", "jobs", "list_models", "memory", "names", "run", "search", "sweep", "validate",
]
__all__ += _scenario.__all__


def run(scenario: ScenarioLike, overrides: Mapping[str, Any] | None = None, *,
        what_if: WhatIf | None = None, progress: Progress = False, **named: Any) -> Result:
    """Simulates one training step.

    scenario: a file, a dict as in a file, or a Scenario. overrides: fields to change by path, as --set
    of the command: {"training.micro_batch_size": 2}; or as keywords, with two underscores for the dot:
    training__micro_batch_size=2. None removes a field. Runs of one process share what they have in
    common. Raises InputError with every problem of the scenario, and RunError if the step cannot run.
    """
    with progress_bar(progress, "simulating") as bar:
        return simulated(point_of(scenario, overrides, named), what_if or WhatIf(), bar)


def names(kind: str) -> list[str]:
    """Every name that a scenario may use of a kind: models, nodes, fabrics, gpus, frameworks, hosts,
    schedules, engines."""
    return _core.names(kind)


def list_models() -> list[str]:
    """The models that a scenario may name."""
    return names("models")
