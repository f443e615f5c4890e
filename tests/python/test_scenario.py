"""Scenarios as objects say what files say."""
import copy
import json
import pathlib
import pickle

import pytest

import trainyard as ty
from conftest import TREE, same


def documents():
    for file in sorted((TREE / "scenarios").glob("*/*.json")):
        if file.parent.name != "jobs":  # which describe several scenarios on one cluster
            yield file


def test_every_shipped_scenario_reads_as_an_object_and_writes_the_same():
    read = 0
    for file in documents():
        document = json.loads(ty._core.read_json(str(file)))
        document.pop("$schema", None)
        written = ty.Scenario.from_file(file).to_dict()
        empty = [key for key, value in document.items() if value == {}]
        assert written == {key: value for key, value in document.items() if key not in empty}, file
        read += 1
    assert read > 60


def scenario():
    return ty.Scenario(
        model="llama3-8b",
        cluster=ty.Cluster(node="dgx_h100", nodes=1, fabric=ty.Fabric(kind="single_switch")),
        parallelism=ty.Parallelism(tensor=8, sequence_parallel=True),
        training=ty.Training(sequence_length=2048, global_batch_size=8),
    )


def test_an_object_runs_as_the_same_file_does(tmp_path):
    (tmp_path / "a.json").write_text(scenario().to_json())
    assert same(ty.run(scenario()).document, ty.run(tmp_path / "a.json").document)


def test_an_unknown_field_names_the_nearest():
    with pytest.raises(AttributeError, match="did you mean tensor"):
        ty.Parallelism(tensr=8)
    with pytest.raises(AttributeError, match="did you mean micro_batch_size"):
        scenario().training.micro_batch = 2
    with pytest.raises(AttributeError, match="did you mean nodes"):
        ty.Cluster(nods=8)
    with pytest.raises(AttributeError, match="did you mean parallelism"):
        scenario().paralelism


def test_fields_are_set_read_and_removed():
    one = scenario()
    assert one.training.micro_batch_size is None
    one.training.micro_batch_size = 2
    assert one.to_dict()["training"]["micro_batch_size"] == 2
    one.training.micro_batch_size = None
    assert one == scenario()
    assert "experts" not in one.to_dict()
    one.experts.routing = "zipf"
    assert one.to_dict()["experts"] == {"routing": "zipf"}


def test_sections_take_dicts():
    one = scenario()
    one.training = {"sequence_length": 2048, "global_batch_size": 8}
    assert one == scenario()
    with pytest.raises(AttributeError, match="sequence_length"):
        one.training = {"sequence_lenght": 1}


def test_copies_are_equal_and_separate():
    one = scenario()
    for other in (copy.deepcopy(one), one.copy(), pickle.loads(pickle.dumps(one))):
        assert other == one
        other.parallelism.tensor = 4
        assert other != one and one.parallelism.tensor == 8


def test_a_repr_is_code_that_makes_the_object():
    names = {name: getattr(ty, name) for name in ("Scenario", "Cluster", "Fabric", "Parallelism", "Training")}
    assert eval(repr(scenario()), names) == scenario()


def test_a_model_may_be_a_shape():
    one = scenario()
    one.model = {"layers": 2, "hidden": 1024, "heads": 8, "ffn": 4096, "vocab": 8192, "max_positions": 2048}
    assert isinstance(one.model, ty.Model) and one.model.layers == 2
    assert ty.run(one).step_time_s < ty.run(scenario()).step_time_s


def test_a_resolved_scenario_has_every_default_and_gives_the_same_step():
    resolved = scenario().resolved()
    assert resolved.training.micro_batch_size == 1
    assert ty.run(resolved).step_time_s == pytest.approx(ty.run(scenario()).step_time_s, rel=1e-9)


def test_files_that_a_scenario_names_are_next_to_it(tmp_path):
    one = json.loads(scenario().to_json())
    (tmp_path / "mine.json").write_text(json.dumps(
        {"layers": 2, "hidden": 1024, "heads": 8, "ffn": 4096, "vocab": 8192, "max_positions": 2048}))
    one["model"] = "mine.json"
    (tmp_path / "a.json").write_text(json.dumps(one))
    result = ty.run(ty.Scenario.from_file(tmp_path / "a.json"))
    assert same(result.document, ty.run(tmp_path / "a.json").document)


def test_numbers_of_numpy_are_numbers():
    import numpy

    one = scenario()
    one.parallelism.tensor = numpy.int64(8)
    one.training.global_batch_size = numpy.array([8])[0]
    assert json.loads(one.to_json()) == json.loads(scenario().to_json())


def test_classes_document_their_fields():
    assert "tensor: ranks that share every layer" in ty.Parallelism.__doc__
    assert "tensor" in dir(ty.Parallelism())
    import inspect

    assert "tensor" in inspect.signature(ty.Parallelism).parameters


def test_names_are_those_of_the_command(command):
    for kind in ("models", "nodes", "gpus", "hosts", "fabrics", "schedules", "engines", "frameworks"):
        listed = [line.split()[0] for line in command("list", kind).splitlines()[1:] if line.strip()]
        assert ty.names(kind) == listed and listed, kind
    assert ty.list_models() == ty.names("models")


def test_the_stub_is_current(monkeypatch):
    import subprocess
    import sys

    done = subprocess.run([sys.executable, TREE / "tools/python/write_stubs", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert pathlib.Path("tools/python/trainyard/scenario.pyi").exists()
