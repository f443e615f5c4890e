"""Errors are exceptions that carry file, JSON path, problem and hint."""
import json
import math
import pickle

import pytest

import trainyard as ty
from conftest import SMALL


def test_a_file_that_does_not_exist_is_an_input_error():
    with pytest.raises(ty.InputError) as refused:
        ty.run("nowhere.json")
    assert refused.value.file == "nowhere.json"
    assert isinstance(refused.value, ValueError) and isinstance(refused.value, ty.TrainyardError)


def test_every_problem_of_a_scenario_is_reported():
    document = json.loads(open(SMALL).read())
    document["parallelism"]["tensr"] = 3
    document["training"]["recompute"] = "som"
    with pytest.raises(ty.InputError) as refused:
        ty.run(document)
    problems = {problem.pointer: problem for problem in refused.value.problems}
    assert set(problems) == {"/parallelism/tensr", "/training/recompute"}
    assert "tensor" in problems["/parallelism/tensr"].hint
    assert problems["/training/recompute"].file == "scenario"
    assert str(refused.value).splitlines() == [str(problem) for problem in refused.value.problems]


def test_an_override_names_itself():
    with pytest.raises(ty.InputError) as refused:
        ty.run(SMALL, parallelism__tensor=0)
    assert refused.value.file == "--set parallelism.tensor=0"
    assert refused.value.pointer == "/parallelism/tensor"


def test_a_step_that_cannot_run_is_a_run_error():
    with pytest.raises(ty.RunError) as failed:
        raise ty.RunError("deadlock")
    assert isinstance(failed.value, RuntimeError) and not isinstance(failed.value, ty.InputError)


def test_errors_pickle():
    with pytest.raises(ty.InputError) as refused:
        ty.run(SMALL, parallelism__tensor=0)
    copy = pickle.loads(pickle.dumps(refused.value))
    assert copy.problems == refused.value.problems and str(copy) == str(refused.value)


def test_something_that_is_no_scenario_is_a_type_error():
    with pytest.raises(TypeError, match="a path, a dict or a trainyard.Scenario"):
        ty.run(42)


def test_wrong_options_of_a_collective_are_input_errors():
    for options, word in (({"nodes": 0}, "--nodes"), ({"algorithms": "rng"}, "ring"),
                          ({"engine": "fast"}, "engine"), ({"sizes": "big"}, "big")):
        with pytest.raises(ty.InputError, match=word):
            ty.collective("all_reduce", **options)
    with pytest.raises(ty.InputError, match="all_reduce"):
        ty.collective("all_reduc")


def test_numbers_that_the_command_refuses_are_input_errors():
    weeks = "scenarios/goodput/llama3_8b_64xh100.json"
    jobs = "scenarios/jobs/two_llama3_8b_32xh100.json"
    for study, file, arguments in (
            (ty.search, SMALL, {"top": 0}), (ty.search, SMALL, {"top": 1001}), (ty.search, SMALL, {"seconds": -1}),
            (ty.search, SMALL, {"headroom": 200}), (ty.search, SMALL, {"headroom": math.nan}),
            (ty.search, SMALL, {"price_per_gpu_hour": math.nan}),
            (ty.goodput, weeks, {"days": 1, "runs": 1}), (ty.goodput, weeks, {"days": 1e9}),
            (ty.goodput, weeks, {"days": 1, "price_per_gpu_hour": -1}),
            (ty.jobs, jobs, {"shift": 1}), (ty.jobs, jobs, {"priorities": 0.5})):
        with pytest.raises(ty.InputError, match="is not a number from") as refused:
            study(file, **arguments)
        assert refused.value.file == [*arguments][-1]


def test_an_unknown_kind_of_names_is_refused():
    with pytest.raises(ty.InputError, match="models"):
        ty.names("modls")
