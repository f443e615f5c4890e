"""Studies give what the commands of the same names write and print."""
import json
import pickle

import pytest

import trainyard as ty
from conftest import SMALL, same


def written(command, path, *arguments):
    text = command(*arguments, "--json", path)
    return json.loads(path.read_text()), text


def test_explain_is_the_command(command, fresh, tmp_path):
    study = ty.explain(SMALL, training__recompute="full")
    expected, text = written(command, tmp_path / "a.json", "explain", SMALL, "--set", "training.recompute=full")
    # Rounding decides between operations that end together, so the path is compared in a process of its own.
    code = "print(ty.explain(sys.argv[1], training__recompute='full')"
    assert json.loads(fresh(code + ".to_json())", SMALL)) == expected
    assert text.endswith(fresh(code + ", end='')", SMALL))
    assert same(study.document["sensitivities"], expected["sensitivities"])
    savings = study.sensitivities["saving"]
    assert len(savings) > 5 and list(savings) == sorted(savings, reverse=True)
    assert study.causes["time_s"].sum() == pytest.approx(expected["critical_path"]["time_s"], rel=1e-9)
    assert len(study.operations) == len(expected["critical_path"]["operations"]) > 0


def test_compare_is_the_command(command, tmp_path):
    study = ty.compare(SMALL, changes=[{"training.recompute": "full", "training.micro_batch_size": 2}])
    expected, text = written(command, tmp_path / "a.json", "compare", SMALL, "--with", "training.recompute=full",
                             "training.micro_batch_size=2")
    assert same(study.document, expected) and str(study) == text
    assert list(study.sides["name"]) == ["A", "B"]
    assert set(study.differences["path"]) == {"training.recompute", "training.micro_batch_size"}
    assert len(study.steps) == 2
    assert study.page().startswith("<!doctype html>")


def test_goodput_is_the_command(command, tmp_path):
    file = "scenarios/goodput/llama3_8b_64xh100.json"
    study = ty.goodput(file, days=30, runs=20, seed=3, versus={"one spare": {"reliability.spares.nodes": 1}})
    expected, text = written(command, tmp_path / "a.json", "goodput", file, "--days", "30", "--runs", "20", "--seed", "3",
                             "--versus", "one spare: reliability.spares.nodes=1")
    assert same(study.document, expected) and str(study) == text
    assert sum(study.phases_s.values()) == pytest.approx(30 * 86400)
    assert list(study.alternatives["name"]) == ["as described", "one spare"]
    assert study.alternatives["gain"][1] > 0
    assert study.page().startswith("<!doctype html>")


def test_jobs_is_the_command(command, tmp_path):
    file = "scenarios/jobs/two_llama3_8b_32xh100.json"
    study = ty.jobs(file, {"jobs.1.start": "20ms"}, shift=3)
    expected, text = written(command, tmp_path / "a.json", "jobs", file, "--set", "jobs.1.start=20ms", "--shift", "3")
    assert same(study.document, expected) and str(study) == text
    assert list(study.jobs["name"]) == ["a", "b"] and all(study.jobs["slowdown"] >= 1 - 1e-9)
    assert study.period_s == pytest.approx(study.jobs["together_s"][0])
    assert set(study.shared_links["kind"]) == {"leaf_spine"}
    assert study.page().startswith("<!doctype html>") and study.power is None


def test_jobs_takes_a_document():
    document = json.loads(open("scenarios/jobs/two_llama3_8b_32xh100.json").read())
    for job in document["jobs"]:
        job["scenario"] = "scenarios/goodput/llama3_8b_64xh100.json"
    del document["jobs"][1]
    document["jobs"][0]["set"]["power"] = {"pue": 1.2}
    study = ty.jobs(document)
    assert study.jobs["slowdown"][0] == pytest.approx(1.0)
    assert study.jobs["alone_j"][0] == pytest.approx(study.jobs["together_j"][0])
    assert study.power["mean_w"]["cluster"] > 1.2 * study.jobs["together_j"][0] / study.jobs["together_s"][0]


def test_compare_needs_two_sides():
    with pytest.raises(TypeError, match="two scenarios"):
        ty.compare(SMALL)
    with pytest.raises(TypeError, match="not both"):
        ty.compare(SMALL, SMALL, changes=[{"training.recompute": "full"}])


def test_compare_takes_documents():
    document = json.loads(open(SMALL).read())
    study = ty.compare(document, {**document, "engine": "ideal"})
    assert list(study.differences["path"]) == ["engine"]
    assert study.sides["result.step_time_s"][1] <= study.sides["result.step_time_s"][0]


def test_search_is_the_command(command, tmp_path):
    over = {"parallelism.pipeline": [1], "training.micro_batch_size": [1]}
    study = ty.search(SMALL, over=over, top=3, price_per_gpu_hour=2.0)
    expected, text = written(command, tmp_path / "a.json", "search", SMALL, "--over", "parallelism.pipeline=1",
                             "--over", "training.micro_batch_size=1", "--top", 3, "--price", 2)
    assert same(study.document, expected) and str(study) == text
    assert len(study.best) == min(3, len(expected["best"])) > 0 and len(study.front) > 0
    assert study.counts["simulated"] > 0
    assert 'id="pareto"' in study.page()
    best = study.best.iloc[0]
    assert ty.run(SMALL, best["set"]).step_time_s == pytest.approx(best["step_time_s"], rel=1e-12)


def test_memory_is_the_command(command, tmp_path):
    too_much = {"training.micro_batch_size": 8, "training.global_batch_size": 64}
    scenario = "scenarios/llama3/llama3_8b_8xh100.json"
    study = ty.memory(scenario, too_much)
    expected, text = written(command, tmp_path / "a.json", "memory", scenario, "--set", "training.micro_batch_size=8",
                             "--set", "training.global_batch_size=64")
    assert same(study.document, expected) and str(study) == text
    assert len(study.stages) > 0


def test_collective_is_the_command(command, tmp_path):
    study = ty.collective("all_reduce", nodes=2, algorithms=["ring", "nccl"], sizes="1MiB:1GiB:4")
    expected, text = written(command, tmp_path / "a.json", "collective", "all_reduce", "--nodes", 2, "--algorithms",
                             "ring,nccl", "--sizes", "1MiB:1GiB:4")
    assert same(study.document, expected) and str(study) == text
    assert len(study.rows) == 12 and set(study.rows["algorithm"]) == {"ring", "nccl"}
    assert "</svg>" in study.svg() and "<pre>" in study._repr_html_()
    assert 'id="busbw"' in study.page()


def test_groups_at_once_are_those_of_the_command(command, tmp_path):
    study = ty.collective("all_reduce", nodes=2, split="data=8", sizes="64MiB")
    expected, text = written(command, tmp_path / "a.json", "collective", "all_reduce", "--nodes", 2, "--split", "data=8",
                             "--sizes", "64MiB")
    assert same(study.document, expected) and str(study) == text
    assert list(study.rows["slowdown"]) == [row["slowdown"] for row in expected]


def test_a_log_of_nccl_tests_is_next_to_the_predictions(command, tmp_path):
    log = "tests/scenarios/import/h8.log"
    study = ty.collective("all_reduce", measured=log, algorithms="nccl")
    expected, text = written(command, tmp_path / "a.json", "collective", "all_reduce", "--measured", log,
                             "--algorithms", "nccl")
    assert same(study.document, expected) and str(study) == text
    assert study.rows["error"].abs().mean() < 1.0


def test_a_trace_reads_back_as_the_run_it_came_from(command, tmp_path):
    small = "scenarios/first/two_gpus.json"
    result = ty.run(small)
    result.trace(tmp_path / "measured.json", ranks=[0])
    study = ty.validate(small, tmp_path / "measured.json")
    assert str(study) == command("validate", small, "--against", tmp_path / "measured.json")
    assert len(study.kinds) > 3
    assert list(study.kinds["measured_s"]) == pytest.approx(list(study.kinds["simulated_s"]), rel=1e-4)  # a trace has nanoseconds
    assert list(study.steps["difference_s"]) == pytest.approx([0.0], abs=1e-6)
    with pytest.raises(ty.InputError, match="no rank"):
        ty.validate(small, tmp_path / "measured.json", rank=2)


def test_studies_pickle():
    study = ty.collective("all_reduce", algorithms="ring", sizes="1MiB")
    copy = pickle.loads(pickle.dumps(study))
    assert (copy.document, copy.text, copy.svg()) == (study.document, study.text, study.svg())
