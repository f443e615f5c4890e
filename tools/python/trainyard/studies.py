"""Studies: many runs that answer one question, as the commands of the same names."""

from __future__ import annotations

import html
import json
import os
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Sequence

from . import _core
from ._points import Progress, ScenarioLike, override_text, override_value, point_of, progress_bar
from .result import WhatIf, inline_svg, simulated, table

if TYPE_CHECKING:
    import pandas


class Study:
    """The answer of a study: its JSON (`document`), the text that the command prints, tables."""

    def __init__(self, answer: _core.Answer) -> None:
        self.document: Any = json.loads(answer.json)
        self.text = answer.text
        self._html = answer.html
        self._svg = answer.svg

    def to_json(self) -> str:
        """What the command writes as JSON."""
        return json.dumps(self.document, indent=2) + "\n"

    def page(self) -> str:
        """The answer as an HTML page that opens from disk; empty if the command writes none."""
        return self._html

    def svg(self) -> str:
        """A picture of the answer; empty if the command draws none."""
        return self._svg

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__}; str() is its text>"

    def _repr_svg_(self) -> str | None:
        return self._svg or None

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>" + inline_svg(self._svg)


class Explanation(Study):
    """The critical path, and what would make the step shorter."""

    @property
    def sensitivities(self) -> pandas.DataFrame:
        """A row for each what-if: what, step_time_s, saving (share of the step)."""
        return table(self.document["sensitivities"])

    @property
    def causes(self) -> pandas.DataFrame:
        """What the critical path consists of: cause, time_s, share."""
        return table(self.document["critical_path"]["causes"])

    @property
    def operations(self) -> pandas.DataFrame:
        """The slack of each kind of operation."""
        return table(self.document["critical_path"]["operations"])


def explain(scenario: ScenarioLike, overrides: Mapping[str, Any] | None = None, *,
            processes: int = 0, progress: Progress = None, **named: Any) -> Explanation:
    """Why a step takes as long as it does, and which changes would shorten it, each simulated."""
    run = simulated(point_of(scenario, overrides, named), WhatIf(), None)
    with progress_bar(progress, "explaining") as bar:
        return Explanation(_core.explain(run._live, processes, bar))


class Memory(Study):
    """The memory of every stage over the step, and for a plan that does not fit, what would."""

    @property
    def stages(self) -> pandas.DataFrame:
        return table(self.document["stages"])


def memory(scenario: ScenarioLike, overrides: Mapping[str, Any] | None = None, *,
           search: bool = True, processes: int = 0, progress: Progress = None,
           **named: Any) -> Memory:
    """Whether a plan fits and what takes the memory. `search`: where it does not, look for what would."""
    point = point_of(scenario, overrides, named)
    run = simulated(point, WhatIf(), None)
    with progress_bar(progress, "looking for what fits") as bar:
        return Memory(_core.memory(run._live, point.variant(), search, processes, bar))


class Comparison(Study):
    """Runs side by side: the inputs that differ, and the effect of each difference."""

    @property
    def sides(self) -> pandas.DataFrame:
        """A row for each side with its figures; `status` is fits, does_not_fit, deadlock or refused."""
        return table(self.document["sides"])

    @property
    def differences(self) -> pandas.DataFrame:
        """A row for each input that differs, with its value on each side."""
        names = [side["name"] for side in self.document["sides"]]
        return table([{"path": row["path"], **dict(zip(names, row["values"]))}
                      for row in self.document["differences"]])

    @property
    def steps(self) -> pandas.DataFrame:
        """From the first side to each other, change by change: the step time after each."""
        return table([{"from": way["from"], "to": way["to"], **step}
                      for way in self.document["steps"] for step in way["changes"]])


def compare(*sides: ScenarioLike, changes: Iterable[Mapping[str, Any]] = (), processes: int = 0,
            progress: Progress = None) -> Comparison:
    """Compares scenarios, or one scenario with changes of it.

    compare("a.json", "b.json"), or compare("a.json", changes=[{"training.recompute": "full"}]).
    """
    points = [point_of(side, for_rows=True) for side in sides]
    more = [points[0].changed(one) for one in changes] if points else []
    if more and len(points) > 1:
        raise TypeError("give several scenarios, or one with `changes`, not both")
    if len(points) + len(more) < 2:
        raise TypeError("compare() takes two scenarios or more, or one with `changes`")
    with progress_bar(progress, "comparing") as bar:
        return Comparison(_core.compare([p.variant() for p in points + more], processes, bar))


class Goodput(Study):
    """Weeks of training: where the time goes, and what alternatives would gain."""

    @property
    def goodput(self) -> float:
        """The mean over the sampled runs of productive time over wall time."""
        return float(self.document["goodput"]["mean"])

    @property
    def phases_s(self) -> dict[str, float]:
        """Mean seconds of each phase of a run; their sum is the mean wall time."""
        phases: dict[str, float] = self.document["phases_s"]
        return phases

    @property
    def intervals(self) -> pandas.DataFrame:
        """Goodput over the interval between checkpoints: mark, steps, interval_s, goodput."""
        return table(self.document["intervals"])

    @property
    def alternatives(self) -> pandas.DataFrame:
        """A row for the job and each alternative: name, goodput, gain, gpus, tokens_per_gpu_hour."""
        return table([{**row, "goodput": row["goodput"]["mean"], "gain": row["gain"]["mean"],
                       "gain_half_width_95": row["gain"]["half_width_95"]}
                      for row in self.document.get("alternatives", [])])


def goodput(scenario: ScenarioLike, overrides: Mapping[str, Any] | None = None, *,
            days: float = 0.0, tokens: float = 0.0,
            versus: Mapping[str, Mapping[str, Any]] | None = None, runs: int = 0, seed: int = 0,
            price_per_gpu_hour: float | None = None, progress: Progress = None,
            **named: Any) -> Goodput:
    """Samples weeks of training with failures, checkpoints and restarts.

    The run lasts `days`, or until `tokens` are trained. `versus` has alternatives by name, with their
    changes, on the same failures: {"elastic": {"reliability.policy": "elastic"}}. runs: at least 4; 0
    samples until the goodput is known to 0.2 %.
    """
    point = point_of(scenario, overrides, named)
    others = [(name, point.changed(changes).scenario()) for name, changes in (versus or {}).items()]
    with progress_bar(progress, "sampling") as bar:
        return Goodput(_core.goodput([("as described", point.scenario()), *others], days, tokens,
                                     runs, seed, price_per_gpu_hour, bar))


class Jobs(Study):
    """Several jobs on one cluster: how much they slow each other."""

    @property
    def jobs(self) -> pandas.DataFrame:
        """A row for each job: name, alone_s, together_s, slowdown, steps, peak_bytes, alone_j, together_j, ..."""
        return table(self.document["jobs"])

    @property
    def shared_links(self) -> pandas.DataFrame:
        """A row for each class of links that jobs share: links, kind, from, to, jobs, shared_s, limits."""
        return table(self.document["shared_links"])

    @property
    def power(self) -> dict[str, Any] | None:
        """Watts of the cluster (mean_w, peak_w, rack_change_w); None without a block `power` in each job."""
        found: dict[str, Any] | None = self.document["power"]
        return found

    @property
    def period_s(self) -> float | None:
        """The time after which the steps repeat; None where they do not within what was simulated."""
        repetition = self.document["repetition"]
        return None if repetition is None else float(repetition["period_s"])


def jobs(described: str | os.PathLike[str] | Mapping[str, Any],
         overrides: Mapping[str, Any] | None = None, *, shift: int = 0, priorities: float = 0.0,
         progress: Progress = None) -> Jobs:
    """Simulates several jobs on one cluster.

    described: a file with a cluster and jobs, or a dict as in a file. `shift` tries that many starts
    for each job but the first (2 to 1000), and `priorities` tries to give each job's traffic that many
    times the share of the others' (1 to 16); the answer is then of the best. 0: neither.
    """
    with progress_bar(progress, "simulating") as bar:
        return Jobs(_core.jobs(point_of(described, overrides).variant(), shift, priorities, bar))


class Search(Study):
    """The best layouts of a model on a cluster."""

    @property
    def best(self) -> pandas.DataFrame:
        """The quickest layouts that fit, quickest first. `set` has the changes of each."""
        return self._layouts("best")

    @property
    def front(self) -> pandas.DataFrame:
        """The layouts that nothing simulated beats in both time and memory."""
        return self._layouts("front")

    @property
    def counts(self) -> dict[str, Any]:
        counts: dict[str, Any] = self.document["counts"]
        return counts

    def _layouts(self, key: str) -> pandas.DataFrame:
        import pandas

        rows = [{**row, "set": {path: override_value(text) for path, text in row["set"].items()}}
                for row in self.document[key]]
        return pandas.DataFrame(rows)


def search(scenario: ScenarioLike, overrides: Mapping[str, Any] | None = None, *,
           over: Mapping[str, Sequence[Any]] | None = None, top: int = 10, seconds: float = 0.0,
           headroom: float = 0.0, price_per_gpu_hour: float | None = None,
           exhaustive: bool = False, refine: bool = True,
           journal: str | os.PathLike[str] | None = None, processes: int = 0,
           progress: Progress = None, **named: Any) -> Search:
    """Finds the quickest layouts that fit. Proven bounds leave out those that cannot be among them.

    over: the values to try of a field, {"training.micro_batch_size": [1, 2]}; the search knows what to
    try of tensor, pipeline, schedules, ... itself. top: how many of the best, 1 to 1000. headroom:
    share of a GPU's memory to leave free, 0 to 0.9, where the command takes percent. seconds: answer
    after so long with the best found by then; 0: no limit. journal: a file with what was simulated;
    started again, the search goes on where it stopped.
    """
    choice = _core.SearchChoice()
    choice.scenario = point_of(scenario, overrides, named, for_rows=True).variant()
    choice.over = [f"{path}={','.join(map(override_text, values))}"
                   for path, values in (over or {}).items()]
    choice.journal = os.fspath(journal) if journal else ""
    choice.top, choice.seconds, choice.headroom = top, seconds, headroom
    choice.price_per_gpu_hour = price_per_gpu_hour
    choice.exhaustive, choice.refine, choice.processes = exhaustive, refine, processes
    with progress_bar(progress, "searching") as bar:
        return Search(_core.search(choice, bar))


class Validation(Study):
    """Simulated steps next to measured ones, by kind of operation."""

    @property
    def kinds(self) -> pandas.DataFrame:
        """A row for each rank and kind of operation: simulated_s, measured_s, difference_s and the
        numbers of kernels; the largest difference first."""
        return table([{"rank": rank["rank"], **kind}
                      for rank in self.document["ranks"] for kind in rank["kinds"]])

    @property
    def steps(self) -> pandas.DataFrame:
        """A row for each rank: simulated_s, measured_s and difference_s of the step."""
        return table([{"rank": rank["rank"], **rank["step"]} for rank in self.document["ranks"]])


def validate(scenario: ScenarioLike,
             against: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
             overrides: Mapping[str, Any] | None = None, *, rank: int | Sequence[int] = (),
             step_range: str = "", **named: Any) -> Validation:
    """Compares a prediction with your traces of torch.profiler or Nsight Systems, or with a list of
    step times in seconds. `rank` names the rank of each trace, where it does not name its own."""
    files = [against] if isinstance(against, (str, os.PathLike)) else list(against)
    ranks = [rank] if isinstance(rank, int) else list(rank)
    run = simulated(point_of(scenario, overrides, named), WhatIf(), None)
    return Validation(_core.against(run._live, [os.fspath(file) for file in files], ranks, step_range))


class Collective(Study):
    """The times of a collective by algorithm and size, in the terms of nccl-tests."""

    @property
    def rows(self) -> pandas.DataFrame:
        """A row for each algorithm that runs and each size: time_us, algbw_GBps, busbw_GBps, ...

        Of several groups at once: alone_us, together_us, slowdown and the link that they share.
        """
        import pandas

        return pandas.DataFrame(self.document)


def collective(op: str = "", *, cluster: str | os.PathLike[str] | None = None,
               node: str = "dgx_h100", nodes: int = 1, fabric: str = "rail_optimized",
               ranks: str = "", ranks_per_node: int = 0, split: str | Sequence[str] = (),
               groups: str | Sequence[str] = (), algorithms: str | Sequence[str] = (),
               sizes: str = "", type: str = "fp32", engine: str = "simgrid",
               nccl_version: str = "", nccl_algo: str = "", nccl_proto: str = "",
               nccl_min_channels: int | None = None, nccl_max_channels: int | None = None,
               measured: str | os.PathLike[str] | None = None,
               profile: str | os.PathLike[str] | None = None) -> Collective:
    """Simulates a collective with several algorithms and sizes, as nccl-tests would measure it.

    The options are those of `trainyard collective`: collective("all_reduce", nodes=2,
    algorithms=["ring", "nccl"], sizes="1MiB:1GiB"). `measured` is a log of nccl-tests to compare with.
    """
    choice = _core.StudyOptions()
    choice.op, choice.node, choice.nodes, choice.fabric = op, node, nodes, fabric
    choice.cluster = os.fspath(cluster) if cluster else ""
    choice.ranks, choice.ranks_per_node = ranks, ranks_per_node
    choice.splits, choice.groups = _words(split), _words(groups)
    choice.algorithms, choice.sizes = _words(algorithms), sizes
    choice.type, choice.engine = type, engine
    choice.nccl_version, choice.nccl_algo, choice.nccl_proto = nccl_version, nccl_algo, nccl_proto
    choice.nccl_min_channels, choice.nccl_max_channels = nccl_min_channels, nccl_max_channels
    choice.measured = os.fspath(measured) if measured else ""
    choice.profile = os.fspath(profile) if profile else ""
    return Collective(_core.collective(choice))


def _words(words: str | Sequence[str]) -> list[str]:
    return [words] if isinstance(words, str) else list(words)
