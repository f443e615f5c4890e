"""The exceptions of this package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with an input."""

    file: str
    """The file as it was named, or the option; empty if the problem is in neither."""
    pointer: str
    """The place in the file as a JSON pointer, such as /parallelism/tensor; empty for the whole file."""
    problem: str
    """A sentence with the value that is wrong."""
    hint: str
    """The remedy; may be empty."""

    def __str__(self) -> str:
        place = "".join(part + ": " for part in (self.file, self.pointer) if part)
        return place + self.problem + (f" ({self.hint})" if self.hint else "")


class TrainyardError(Exception):
    """Every error that this package raises on purpose."""


class InputError(TrainyardError, ValueError):
    """An input is wrong: a scenario, a data file, an option. `problems` has all that was found.

    `file`, `pointer`, `problem` and `hint` are those of the first problem.
    """

    def __init__(self, problems: Sequence[Problem | tuple[str, str, str, str]]) -> None:
        self.problems = [one if isinstance(one, Problem) else Problem(*one) for one in problems]
        super().__init__("\n".join(str(problem) for problem in self.problems))

    @property
    def file(self) -> str:
        return self.problems[0].file

    @property
    def pointer(self) -> str:
        return self.problems[0].pointer

    @property
    def problem(self) -> str:
        return self.problems[0].problem

    @property
    def hint(self) -> str:
        return self.problems[0].hint

    def __reduce__(self) -> tuple[type[InputError], tuple[list[Problem]]]:
        return (type(self), (self.problems,))


class RunError(TrainyardError, RuntimeError):
    """The input is well-formed, but the run cannot proceed: a deadlock, or a limit that is exceeded."""
