"""Sweeps give the same rows on every engine: nothing is lost, and nothing is computed twice."""
import concurrent.futures
import contextlib
import json
import multiprocessing
import os
import signal

import pandas
import pytest

import trainyard as ty
from conftest import SMALL

AXES = {"training.micro_batch_size": [1, 2], "training.recompute": ["none", "full"]}


def grid():
    return ty.Grid(SMALL, AXES)


@pytest.fixture(scope="module")
def expected():
    from conftest import TREE

    os.chdir(TREE)
    return ty.sweep(grid())


def keys_in(journal):
    return [json.loads(line)["key"] for line in journal.read_text().splitlines()]


def test_a_grid_has_every_combination_and_the_last_axis_changes_fastest():
    assert [tuple(point.values.values()) for point in grid()] == [(1, "none"), (1, "full"), (2, "none"), (2, "full")]
    together = ty.Grid(SMALL, {("parallelism.tensor", "parallelism.data"): [(2, 1), (1, 2)]})
    assert [point.values for point in together] == [{"parallelism.tensor": 2, "parallelism.data": 1},
                                                    {"parallelism.tensor": 1, "parallelism.data": 2}]
    named = ty.Grid(SMALL, training__micro_batch_size=[1, 2], training__recompute=["none", "full"])
    assert list(named) == list(grid())
    assert len(grid() + named) == 8 and list(grid()[1:3]) == list(grid())[1:3]


def test_a_grid_refuses_values_that_are_no_list():
    with pytest.raises(TypeError, match="are a list"):
        ty.Grid(SMALL, {"training.recompute": "full"})
    with pytest.raises(ValueError, match="must have a value for each"):
        ty.Grid(SMALL, {("parallelism.tensor", "parallelism.data"): [2, 1]})


def test_a_sweep_has_the_rows_of_the_command(expected, command, tmp_path):
    command("sweep", SMALL, "--over", "training.micro_batch_size=1,2", "--over", "training.recompute=none,full",
            "--journal", tmp_path / "a.jsonl")
    rows = {row["key"]: row for row in map(json.loads, (tmp_path / "a.jsonl").read_text().splitlines())}
    assert sorted(rows) == sorted(expected["key"])
    for _, row in expected.iterrows():
        assert row["step_time_s"] == pytest.approx(rows[row["key"]]["result"]["step_time_s"], rel=1e-9)
        assert row["in.training.recompute"] == row["training.recompute"]
    assert set(expected["status"]) == {"fits"}


def test_rows_are_those_of_single_runs(expected):
    for _, row in expected.iterrows():
        one = ty.run(SMALL, {path: row[path] for path in AXES})
        assert (row["step_time_s"], row["mfu"]) == pytest.approx((one.step_time_s, one.mfu), rel=1e-9)


def test_equal_points_run_once_and_have_a_row_each(tmp_path):
    frame = ty.sweep(grid() + grid(), journal=tmp_path / "a.jsonl")
    assert len(frame) == 8 and frame["key"].nunique() == 4
    assert len(keys_in(tmp_path / "a.jsonl")) == 4


def test_points_without_a_result_say_why():
    frame = ty.sweep(ty.Grid(SMALL, {"parallelism.tensor": [4, 3]}))
    assert list(frame["status"])[1] == "refused" and "tensor" in frame["message"][1]
    assert pandas.isna(frame["step_time_s"][1])


def test_documents_and_objects_sweep_as_files_do(expected):
    document = json.loads(open(SMALL).read())
    frame = ty.sweep(ty.Grid(document, AXES))
    assert list(frame["step_time_s"]) == pytest.approx(list(expected["step_time_s"]), rel=1e-9)
    other = ty.Grid({**document, "engine": "ideal"}, AXES)
    assert not set(point.key for point in other) & set(frame["key"])
    times = ty.sweep(ty.Grid(ty.Scenario.from_file(SMALL), AXES))["step_time_s"]
    assert list(times) == pytest.approx(list(expected["step_time_s"]), rel=1e-9)


def executors():
    spawn = multiprocessing.get_context("spawn")
    yield "threads", concurrent.futures.ThreadPoolExecutor(2)
    yield "processes", concurrent.futures.ProcessPoolExecutor(2, mp_context=spawn)


@pytest.mark.parametrize("name", ["threads", "processes"])
def test_executors_give_the_same_rows(name, expected, tmp_path):
    with dict(executors())[name] as executor:
        frame = ty.sweep(grid(), executor=executor, journal=tmp_path / "a.jsonl")
    pandas.testing.assert_frame_equal(frame, expected)
    assert sorted(keys_in(tmp_path / "a.jsonl")) == sorted(expected["key"])


def test_joblib_gives_the_same_rows(expected, tmp_path):
    joblib = pytest.importorskip("joblib", reason="SKIPPED, NOT TESTED: python3-joblib is not there")
    frame = ty.sweep(grid(), executor=joblib.Parallel(n_jobs=2), journal=tmp_path / "a.jsonl")
    pandas.testing.assert_frame_equal(frame, expected)


def test_anything_else_is_refused():
    with pytest.raises(TypeError, match="submit"):
        ty.sweep(grid(), executor=42)
    with pytest.raises(TypeError, match="another name"):
        ty.sweep(grid(), executor=42, client=43)


def test_an_interrupted_sweep_goes_on_where_it_stopped(expected, tmp_path):
    journal = tmp_path / "a.jsonl"

    def interrupt(done, total):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        ty.sweep(grid(), journal=journal, processes=1, progress=interrupt)
    before = keys_in(journal)
    assert 1 <= len(before) < 4
    seen = []
    frame = ty.sweep(grid(), journal=journal, progress=lambda done, total: seen.append((done, total)))
    pandas.testing.assert_frame_equal(frame, expected)
    assert keys_in(journal)[:len(before)] == before and len(keys_in(journal)) == 4
    assert seen[0][0] > len(before) and seen[-1] == (4, 4)


def test_a_journal_is_shared_by_engines(expected, tmp_path):
    journal = tmp_path / "a.jsonl"
    ty.sweep(grid()[:2], journal=journal)

    class Counted(concurrent.futures.ThreadPoolExecutor):
        calls = 0

        def submit(self, *arguments, **named):
            Counted.calls += 1
            return super().submit(*arguments, **named)

    with Counted(1) as executor:
        frame = ty.sweep(grid(), executor=executor, journal=journal)
    assert Counted.calls == 2
    pandas.testing.assert_frame_equal(frame, expected)


def test_rows_of_a_changed_file_are_computed_again(tmp_path):
    document = json.loads(open(SMALL).read())
    file, journal = tmp_path / "mine.json", tmp_path / "a.jsonl"
    file.write_text(json.dumps(document))
    before = ty.sweep(ty.Grid(file), journal=journal)
    document["training"]["recompute"] = "full"
    file.write_text(json.dumps(document))
    after = ty.sweep(ty.Grid(file), journal=journal)
    assert after["step_time_s"][0] > before["step_time_s"][0]
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        document["training"]["recompute"] = "none"
        file.write_text(json.dumps(document))
        again = ty.sweep(ty.Grid(file), executor=executor, journal=journal)
    pandas.testing.assert_frame_equal(again, before)


def test_a_lost_worker_is_an_error_and_a_new_executor_goes_on(expected, tmp_path):
    journal = tmp_path / "a.jsonl"
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as executor:

        def kill(done, total):
            for worker in list(executor._processes.values()):
                with contextlib.suppress(ProcessLookupError):  # killed at the row before
                    os.kill(worker.pid, signal.SIGKILL)

        with pytest.raises(ty.RunError, match="lost a worker"):
            ty.sweep(grid(), executor=executor, journal=journal, progress=kill)
    assert 1 <= len(keys_in(journal)) < 4
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as executor:
        frame = ty.sweep(grid(), executor=executor, journal=journal)
    pandas.testing.assert_frame_equal(frame, expected)
    assert len(set(keys_in(journal))) == len(keys_in(journal)) == 4


def test_a_worker_with_another_build_is_refused():
    from trainyard import _work

    with pytest.raises(ty.RunError, match="another build"):
        _work.simulate_point(grid()[0], "0123456789abcdef", "")


def test_a_bar_of_tqdm_shows_the_progress(capsys):
    pytest.importorskip("tqdm", reason="SKIPPED, NOT TESTED: python3-tqdm is not there")
    ty.sweep(grid()[:2], progress=True)
    assert "sweeping" in capsys.readouterr().err
    ty.sweep(grid()[:2])
    assert capsys.readouterr().err == ""
