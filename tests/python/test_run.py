"""A run gives what the command gives, as attributes, data frames, files and copies."""
import concurrent.futures
import json
import math
import pickle
import signal

import pytest

import trainyard as ty
from conftest import SMALL, same


@pytest.fixture(scope="module")
def result():
    import os

    from conftest import TREE

    os.chdir(TREE)
    return ty.run(SMALL)


def test_a_result_is_the_json_of_the_command(result, command, fresh, tmp_path):
    command("run", SMALL, "--json", tmp_path / "result.json")
    expected = json.loads((tmp_path / "result.json").read_text())
    assert same(result.document, expected)
    first = json.loads(fresh("print(ty.run(sys.argv[1]).to_json())", SMALL))
    assert first == expected  # bit by bit, in a process of its own


def test_overrides_are_those_of_the_command(command, tmp_path):
    command("run", SMALL, "--set", "training.recompute=full", "--set", "training.micro_batch_size=2",
            "--json", tmp_path / "result.json")
    expected = json.loads((tmp_path / "result.json").read_text())
    assert same(ty.run(SMALL, training__recompute="full", training__micro_batch_size=2).document, expected)
    by_path = {"training.recompute": "full", "training.micro_batch_size": 2}
    assert same(ty.run(SMALL, by_path).document, expected)


def test_an_override_of_none_removes_the_field():
    with pytest.raises(ty.InputError) as refused:
        ty.run(SMALL, {"training.global_batch_size": None})
    assert refused.value.pointer == "/training/global_batch_size"


def test_attributes_have_the_values_of_the_document(result):
    for key in ("step_time_s", "tokens_per_s", "tokens_per_s_per_gpu", "model_tflops_per_gpu",
                "hardware_tflops_per_gpu", "mfu", "hfu"):
        assert getattr(result, key) == result.document[key]
    assert result.peak_bytes == max(result.memory["peak_bytes"])
    assert result.fits is True


def test_the_interval_has_the_width_of_its_parts_and_an_ideal_run_has_none():
    scenario = "scenarios/llama3/llama3_8b_8xh100.json"
    result = ty.run(scenario)
    low, high = result.interval
    assert low < result.step_time_s < high
    deviation = (result.uncertainty["deviation"] ** 2).sum() ** 0.5
    assert high / result.step_time_s == pytest.approx(math.exp(1.6448536 * deviation))
    ideal = ty.run(scenario, defaults="ideal")
    assert ideal.interval is None
    assert ideal.uncertainty.empty


def test_the_breakdown_of_each_class_adds_up_to_the_step(result):
    shares = result.breakdown.drop(columns=["class", "program", "stage", "representative", "ranks"])
    assert len(shares) > 0
    for total in shares.sum(axis=1):
        assert total == pytest.approx(result.step_time_s, rel=1e-9)


def test_tables_have_a_row_for_each_entry(result):
    for name, key in (("breakdown", "breakdown_s"), ("memory", "memory"), ("links", "links"),
                      ("collectives", "collectives"), ("placement", "placement")):
        frame = getattr(result, name)
        assert len(frame) == len(result.document[key]) > 0
        assert set(result.document[key][0]) - {"by_category_bytes"} <= set(frame.columns)
    assert result.memory["by_category_bytes.weights"].iloc[0] > 0


def test_files_are_those_of_the_command(command, fresh, tmp_path):
    command("run", SMALL, "--trace", tmp_path / "a/trace.json", "--tables", tmp_path / "a/csv",
            "--svg", tmp_path / "a.svg")
    picture = fresh("""result = ty.run(sys.argv[1])
result.trace(sys.argv[2] + "/trace.json")
result.csv(sys.argv[2] + "/csv")
print(result.svg(), end="")""", SMALL, tmp_path / "b")
    assert (tmp_path / "a/trace.json").read_bytes() == (tmp_path / "b/trace.json").read_bytes()
    assert (tmp_path / "a.svg").read_text() == picture
    names = sorted(file.name for file in (tmp_path / "a/csv").iterdir())
    assert names == sorted(file.name for file in (tmp_path / "b/csv").iterdir()) and len(names) > 3
    for name in names:
        assert (tmp_path / "a/csv" / name).read_bytes() == (tmp_path / "b/csv" / name).read_bytes()


def test_a_trace_has_the_chosen_ranks(result, tmp_path):
    result.trace(tmp_path / "one.json", ranks=[1])
    result.trace(tmp_path / "all.json", all_ranks=True)
    one, every = ((tmp_path / name).read_text() for name in ("one.json", "all.json"))
    assert len(one) < len(every)
    with pytest.raises(ty.InputError):
        result.trace(tmp_path / "none.json", ranks=[100000])


def test_text_is_that_of_the_command(result, command):
    assert str(result) == command("run", SMALL)
    assert result.report("links") == command("run", SMALL, "--report", "links")


def test_a_pickled_result_is_equal_and_can_still_write_a_trace(result, tmp_path):
    copy = pickle.loads(pickle.dumps(result))
    assert copy == result and copy.step_time_s == result.step_time_s
    result.trace(tmp_path / "a.json")
    copy.trace(tmp_path / "b.json")
    a, b = (json.loads((tmp_path / name).read_text())["traceEvents"] for name in ("a.json", "b.json"))
    assert len(a) == len(b) > 1000 and [event["name"] for event in a] == [event["name"] for event in b]


def test_a_result_round_trips_through_json(result, tmp_path):
    copy = ty.Result.from_json(result.to_json())
    assert copy == result
    assert ty.Result.from_json(copy.to_json()) == result
    assert copy.what_if(network=2.0) == pytest.approx(result.what_if(network=2.0), rel=1e-9)  # simulated again, from its scenario


def test_json_of_the_command_is_a_result(command, tmp_path):
    command("run", SMALL, "--json", tmp_path / "result.json")
    read = ty.Result.from_json((tmp_path / "result.json").read_text())
    assert read.fits and same(read.document, ty.run(SMALL).document)


def test_a_result_that_does_not_fit_says_so_in_every_copy():
    huge = ty.run("scenarios/llama3/llama3_8b_8xh100.json", training__global_batch_size=64,
                  training__micro_batch_size=8)
    assert huge.fits is False
    assert pickle.loads(pickle.dumps(huge)).fits is False
    assert ty.Result.from_json(huge.to_json()).fits is False


OFFLOADED = "scenarios/offload/llama3_8b_8xa100_40gb_cpu_adam.json"
SMALL_HOST = {"like": "dgx_a100_40gb", "host_memory": {"usable": "64 GiB"}}


def test_offloaded_state_that_its_host_cannot_hold_does_not_fit_in_any_copy(command, tmp_path):
    result = ty.run(OFFLOADED, cluster__node=SMALL_HOST)
    assert result.fits is False and result.memory["fits"].all()
    command("run", OFFLOADED, "--set", "cluster.node=" + json.dumps(SMALL_HOST), "--no-search", "--json",
            tmp_path / "a.json")
    written = json.loads((tmp_path / "a.json").read_text())
    assert ty.Result.from_json(json.dumps(written)).fits is False
    assert written["host_memory"]["bytes"] > written["host_memory"]["capacity_bytes"] == 64 << 30
    del written["fits"]  # as earlier versions wrote it
    assert ty.Result.from_json(json.dumps(written)).fits is True, "they knew of stages alone"


def test_a_result_shows_itself_in_a_notebook(result):
    assert f"{result.step_time_s:,.6g}" in result._repr_html_()
    assert "<svg" in result._repr_html_() and "<?xml" not in result._repr_html_()
    assert "</svg>" in result._repr_svg_()
    assert "step_time_s" in repr(result)


def test_a_dict_and_a_file_give_the_same_step(result):
    document = json.loads(open(SMALL).read())
    assert same(ty.run(document).document, result.document)


def test_what_ifs_are_those_of_explain():
    result = ty.run(SMALL)
    rows = ty.explain(SMALL).sensitivities.set_index("what")["step_time_s"]
    near = {"rel": 1e-9}
    assert result.what_if(nvlink=2.0) == pytest.approx(rows["NVLink twice as fast"], **near)
    assert result.what_if(gemm=0.5) == pytest.approx(rows["GEMMs twice as fast"], **near)
    whole = ty.run(SMALL, what_if=ty.WhatIf(nvlink=2.0))
    assert whole.step_time_s == pytest.approx(result.what_if(nvlink=2.0), **near)
    assert pickle.loads(pickle.dumps(whole)).report("links") == whole.report("links")
    assert result.what_if(ty.WhatIf()) == pytest.approx(result.step_time_s, **near)


def test_a_result_keeps_its_what_if():
    faster = ty.run(SMALL, what_if=ty.WhatIf(nvlink=2.0, free=["data"]))
    copy = ty.Result.from_json(faster.to_json())
    assert copy == faster and copy.to_json() == faster.to_json()
    assert str(copy) == str(faster)
    both = ty.run(SMALL, what_if=ty.WhatIf(nvlink=2.0, free=["data"], gemm=0.5)).step_time_s
    assert faster.what_if(gemm=0.5) == pytest.approx(both, rel=1e-9)
    assert copy.what_if(gemm=0.5) == pytest.approx(both, rel=1e-9)
    assert faster.what_if(ty.WhatIf()) == pytest.approx(ty.run(SMALL).step_time_s, rel=1e-9)


def test_a_what_if_that_does_not_exist_is_refused(result):
    with pytest.raises(TypeError):
        result.what_if(nvlnk=2.0)
    with pytest.raises(ty.InputError, match="no kind of group"):
        result.what_if(free=["nobody"])
    for changes in ({"gemm": "fast"}, {"contention": "no"}, {"free": [1]}):
        with pytest.raises(TypeError, match=f"{[*changes][0]} is "):
            result.what_if(**changes)
    for changes in ({"nvlink": 0}, {"gemm": -1}, {"gemm": float("inf")}, {"latency": float("nan")}, {"memory_bound": -1}):
        with pytest.raises(ty.InputError, match=f"/{[*changes][0]}: .* is no factor"):
            result.what_if(**changes)


def test_threads_may_run_at_the_same_time(result):
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        times = list(threads.map(lambda size: ty.run(SMALL, training__micro_batch_size=size).step_time_s,
                                 [1, 2, 1, 2, 1, 2]))
    other = ty.run(SMALL, training__micro_batch_size=2).step_time_s
    assert times == pytest.approx([result.step_time_s, other] * 3, rel=1e-9) and other != times[0]


LONG = {"scenario": "scenarios/megatron/gpt3_175b_64xa100_selective.json", "parallelism__interleave": 1,
        "parallelism__schedule": "1f1b",
        "training__global_batch_size": 2048}


def test_control_c_ends_a_run():
    def interrupt(done, total):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        ty.run(**LONG, progress=interrupt)
    seen = []
    ty.run(**LONG, progress=lambda done, total: seen.append(done / total))  # and the next one is whole
    assert seen == sorted(seen) and 0 < seen[-1] <= 1


def test_an_exception_of_the_progress_function_ends_a_run():
    def fail(done, total):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        ty.run(**LONG, progress=fail)
