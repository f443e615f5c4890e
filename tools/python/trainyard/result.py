"""The result of a simulated step."""

from __future__ import annotations

import html
import json
import os
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Iterable, Sequence

from . import _core
from ._points import Point

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class WhatIf:
    """Changes of hardware or software that no scenario can express, for one simulation."""

    nvlink: float = 1.0
    """Factor on the rate of links within nodes except PCIe: 2 is twice as fast."""
    network: float = 1.0
    """Factor on the rate of NICs, the fabric, and PCIe between GPU and NIC."""
    latency: float = 1.0
    """Factor on the latency of communication; 0: none."""
    gemm: float = 1.0
    """Factor on the time of GEMMs: 0.5 is twice as fast."""
    attention: float = 1.0
    """Factor on the time of attention kernels."""
    memory_bound: float = 1.0
    """Factor on the time of memory-bound kernels."""
    free: Sequence[str] = ()
    """Kinds of groups whose communication takes no time: tensor, pipeline, data, ..."""
    interference: bool = True
    """False: communication never slows computation."""
    contention: bool = True
    """False: every transfer has its links to itself."""

    def arguments(self) -> dict[str, Any]:
        return {**asdict(self), "free": list(self.free)}


_memo = _core.Memo()


def clear_memo() -> None:
    """Forgets the stages of earlier runs. Needed after a data file, such as a GPU profile, changed."""
    global _memo
    _memo = _core.Memo()


def table(rows: Any) -> pandas.DataFrame:
    """A data frame of JSON objects. Objects within them become columns such as by_category_bytes.weights."""
    import pandas

    return pandas.json_normalize(rows)


def inline_svg(document: str) -> str:
    """An SVG document as part of a page: without its XML declaration."""
    return document[document.find("<svg"):] if "<svg" in document else ""


def simulated(point: Point, what_if: WhatIf, progress: Any) -> Result:
    run = _core.simulate(point.scenario(), _memo, progress, **what_if.arguments())
    return Result(None, point, what_if, run)


class Result:
    """What one simulated step takes. Attributes have the names of the keys of the result, with units.

    A result that was pickled or read from JSON holds its figures. What needs the simulated step itself
    (a trace, a page, a picture) simulates it again, from the scenario in the result.
    """

    def __init__(self, document: dict[str, Any] | None, point: Point, what_if: WhatIf,
                 run: _core.Run | None = None) -> None:
        self._document = document
        self._point = point
        self._what_if = what_if
        self._run = run

    # --- figures ---

    @property
    def document(self) -> dict[str, Any]:
        """The JSON of `trainyard run --json`, as Python objects."""
        if self._document is None:
            assert self._run is not None
            self._document = json.loads(self._run.json())
        return self._document

    @property
    def scenario(self) -> dict[str, Any]:
        """The scenario with every default filled in."""
        scenario: dict[str, Any] = self.document["scenario"]
        return scenario

    @property
    def fits(self) -> bool:
        """Whether every stage fits its GPU, and offloaded state its host."""
        return bool(self.document["fits"])

    @property
    def step_time_s(self) -> float:
        return float(self.document["step_time_s"])

    @property
    def interval(self) -> tuple[float, float] | None:
        """The ends between which nine of ten measured steps lie, in seconds.

        None for an ideal run, which corresponds to no real one.
        """
        interval = self.document["interval"]
        return None if interval is None else (float(interval["low_s"]), float(interval["high_s"]))

    def _figure(self, key: str) -> float | None:
        value = self.document.get(key)
        return None if value is None else float(value)

    @property
    def tokens_per_s(self) -> float | None:
        return self._figure("tokens_per_s")

    @property
    def tokens_per_s_per_gpu(self) -> float | None:
        return self._figure("tokens_per_s_per_gpu")

    @property
    def model_tflops_per_gpu(self) -> float | None:
        return self._figure("model_tflops_per_gpu")

    @property
    def hardware_tflops_per_gpu(self) -> float | None:
        return self._figure("hardware_tflops_per_gpu")

    @property
    def mfu(self) -> float | None:
        return self._figure("mfu")

    @property
    def hfu(self) -> float | None:
        return self._figure("hfu")

    @property
    def peak_bytes(self) -> int:
        """The peak of the stage that needs most memory."""
        return max((int(stage["peak_bytes"]) for stage in self.document["memory"]), default=0)

    # --- tables ---

    @property
    def breakdown(self) -> pandas.DataFrame:
        """Where the time goes, in seconds: a row for each class of ranks."""
        return table(self.document["breakdown_s"])

    @property
    def uncertainty(self) -> pandas.DataFrame:
        """The parts of the interval, the largest first; empty for an ideal run."""
        interval = self.document["interval"]
        return table([] if interval is None else interval["parts"])

    @property
    def memory(self) -> pandas.DataFrame:
        """The peak memory, in bytes: a row for each pipeline stage."""
        return table(self.document["memory"])

    @property
    def collectives(self) -> pandas.DataFrame:
        """A row for each kind of group, operation, algorithm and group size."""
        return table(self.document["collectives"])

    @property
    def links(self) -> pandas.DataFrame:
        """A row for each kind of link."""
        return table(self.document["links"])

    @property
    def placement(self) -> pandas.DataFrame:
        """Which groups cross nodes: a row for each kind of group and size."""
        return table(self.document["placement"])

    # --- files and text; they need the simulated step ---

    @property
    def _live(self) -> _core.Run:
        if self._run is None:
            self._run = simulated(self._point, self._what_if, None)._run
            assert self._run is not None
        return self._run

    def trace(self, file: str | os.PathLike[str], ranks: Iterable[int] | None = None, *,
              all_ranks: bool = False) -> None:
        """Writes a trace: Chrome's format (.json, .json.gz), or Perfetto's own (.pftrace).

        Without `ranks` it has one rank of each class.
        """
        self._live.write_trace(os.fspath(file), None if ranks is None else list(ranks), all_ranks)

    def csv(self, folder: str | os.PathLike[str]) -> None:
        """Writes the tables, and the spans of every operation, into a folder."""
        self._live.write_csv(os.fspath(folder))

    def page(self) -> str:
        """The report as one HTML page that opens from disk."""
        return self._live.page()

    def svg(self) -> str:
        """A picture of what each stage computes when."""
        return self._live.svg()

    def report(self, name: str = "summary") -> str:
        """A report of `trainyard list reports` as text."""
        return self._live.report(name)

    def what_if(self, what_if: WhatIf | None = None, **changes: Any) -> float:
        """The step time in seconds with changed hardware or software: result.what_if(network=2).

        Fields change the what-if of this run; a WhatIf takes its place. Stages that the change does
        not touch are taken from the run before, so this is quick.
        """
        if what_if is not None and changes:
            raise TypeError("give a WhatIf or its fields, not both")
        chosen = what_if or replace(self._what_if, **changes)
        return _core.step_time(self._scenario, _memo, **chosen.arguments())

    @property
    def _scenario(self) -> _core.Scenario:
        return self._live.scenario

    # --- exchange ---

    def to_json(self) -> str:
        """The JSON of `trainyard run --json`, and the what-if of the run if it has one."""
        what_if = {} if self._what_if == WhatIf() else {"what_if": self._what_if.arguments()}
        return json.dumps({**self.document, **what_if}, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Result:
        """Reads to_json(), or a file that `trainyard run --json` wrote."""
        document = json.loads(text)
        what_if = WhatIf(**document.pop("what_if", {}))
        # Earlier versions wrote it for each stage alone.
        document.setdefault("fits", all(stage["fits"] is not False for stage in document["memory"]))
        return cls(document, _resolved_point(document), what_if)

    def __getstate__(self) -> dict[str, Any]:
        return {"document": self.document, "point": self._point, "what_if": self._what_if}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and self.document == other.document

    __hash__ = None  # type: ignore[assignment]

    # --- display ---

    def __repr__(self) -> str:
        mfu = "" if self.mfu is None else f", mfu={self.mfu:.4f}"
        return f"Result(step_time_s={self.step_time_s:.6g}{mfu}, fits={self.fits})"

    def __str__(self) -> str:
        return self.report("summary")

    def _repr_svg_(self) -> str | None:
        return self.svg() if self._run is not None else None

    def _repr_html_(self) -> str:
        title = self.scenario.get("description") or self.scenario.get("model", {}).get("name", "")
        figures = [(key, self._figure(key)) for key in
                   ("step_time_s", "tokens_per_s", "tokens_per_s_per_gpu", "model_tflops_per_gpu",
                    "hardware_tflops_per_gpu", "mfu", "hfu")]
        figures.append(("peak_bytes", float(self.peak_bytes)))
        rows = "".join(f"<tr><th>{key}</th><td>{value:,.6g}</td></tr>"
                       for key, value in figures if value is not None)
        rows += f"<tr><th>fits</th><td>{'yes' if self.fits else 'no'}</td></tr>"
        return (f"<p><b>{html.escape(str(title))}</b></p><table>{rows}</table>"
                + inline_svg(self._repr_svg_() or ""))


def _resolved_point(document: dict[str, Any]) -> Point:
    return Point("scenario", document=json.dumps(document["scenario"]))
