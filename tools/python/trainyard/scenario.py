"""Scenarios as objects: Scenario(model="llama3-8b", cluster=Cluster(node="dgx_h100", nodes=1), ...).

The classes are made from the JSON Schema of scenarios, which the program makes from the table of its
fields. So they have every field of the program that they belong to; scenario.pyi tells type checkers
the same. A field that is not set is None and is left out; a section that is not set is empty. The
program checks values when a scenario is read, and raises InputError with the place of each.
"""

from __future__ import annotations

import copy
import difflib
import inspect
import json
import os
from typing import Any, ClassVar, Iterable, Mapping

from . import _core


def plain(value: Any) -> Any:
    """A value as JSON has it: sections become dicts, and paths text."""
    if isinstance(value, Section):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):  # a number of numpy
        return value.item()
    return value


class Section:
    """A JSON object of a scenario, with one attribute for each field."""

    _meanings: ClassVar[dict[str, str]] = {}
    _sections: ClassVar[dict[str, type[Section]]] = {}
    _open: ClassVar[bool] = False  # also takes fields that the schema does not name
    _values: dict[str, Any]

    def __init__(self, **fields: Any) -> None:
        object.__setattr__(self, "_values", {})
        for name, value in fields.items():
            setattr(self, name, value)

    @classmethod
    def _check(cls, name: str) -> None:
        if name in cls._meanings:
            return
        near = difflib.get_close_matches(name, cls._meanings, 1, 0.75 if cls._open else 0.5)
        if cls._open and not near:
            return
        hint = f"did you mean {near[0]}?" if near else "it has " + ", ".join(cls._meanings)
        raise AttributeError(f"{cls.__name__} has no field {name!r} ({hint})")

    def __setattr__(self, name: str, value: Any) -> None:
        self._check(name)
        section = self._sections.get(name)
        if section is not None and isinstance(value, Mapping):
            value = section.from_dict(value)
        if value is None:
            self._values.pop(name, None)
        else:
            self._values[name] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._values:
            return self._values[name]
        self._check(name)
        if name in self._sections and name not in _ONLY_WHERE_SET:
            return self._values.setdefault(name, self._sections[name]())
        return None

    def __delattr__(self, name: str) -> None:
        setattr(self, name, None)

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *self._meanings]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.to_dict() == plain(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self._values.items()
                           if not (isinstance(value, Section) and not value.to_dict()))
        return f"{type(self).__name__}({fields})"

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Any:
        return cls(**{name: value for name, value in fields.items() if name != "$schema"})

    def to_dict(self) -> dict[str, Any]:
        """The JSON object. Empty sections are left out."""
        fields = {name: plain(value) for name, value in self._values.items()}
        return {name: value for name, value in fields.items()
                if not (name in self._sections and value == {})}

    def copy(self) -> Any:
        return copy.deepcopy(self)


class Scenario(Section):
    file: str | None
    """The file that it was read from: the files that it names are looked up next to it."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        object.__setattr__(self, "file", None)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Scenario:
        """Reads a file. Its fields are checked here, and its values when it is simulated."""
        scenario: Scenario = cls.from_dict(json.loads(_core.read_json(os.fspath(path))))
        object.__setattr__(scenario, "file", os.fspath(path))
        return scenario

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2) + "\n"

    def resolved(self) -> Scenario:
        """The scenario with every default written out. Raises InputError with all its problems."""
        read = _core.Scenario(_core.Variant(self.file or "scenario", [], json.dumps(self.to_dict())))
        return Scenario.from_dict(json.loads(read.resolved()))


# `model` is a name in most scenarios.
_ONLY_WHERE_SET = {"model"}


def _class_name(key: str) -> str:
    return "".join(word.capitalize() for word in key.split("_"))


def _object_of(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The part of a schema that describes an object with named fields; None if there is none."""
    for one in (schema, *schema.get("anyOf", ())):
        if one.get("type") == "object" and "properties" in one:
            found: Mapping[str, Any] = one
            return found
    return None


def object_classes(schema: Mapping[str, Any]) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """The nested objects of an object, by field: the name of their class and their schema.

    The groups of `collectives` have the same fields, and so one class.
    """
    found = {}
    for key, field in schema["properties"].items():
        part = _object_of(field)
        if part is not None:
            groups = "all_reduce" in part["properties"]
            found[key] = ("Algorithms" if groups else _class_name(key), part)
    return found


def _fill(cls: type[Section], schema: Mapping[str, Any], made: dict[str, type[Section]]) -> None:
    cls._meanings = {key: field.get("description", "")
                     for key, field in schema["properties"].items() if key != "$schema"}
    cls._open = schema.get("additionalProperties") is not False
    cls._sections = {}
    for key, (name, part) in object_classes(schema).items():
        if name not in made:
            made[name] = type(name, (Section,), {"__module__": __name__})
            _fill(made[name], part, made)
        cls._sections[key] = made[name]
    cls.__doc__ = "\n".join([schema.get("description", cls.__name__), "",
                             *(f"{key}: {text}" for key, text in cls._meanings.items())])
    setattr(cls, "__signature__", inspect.Signature(
        [inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=None)
         for key in cls._meanings]))


SCHEMA: dict[str, Any] = json.loads(_core.schema())
_made: dict[str, type[Section]] = {}
_fill(Scenario, SCHEMA, _made)
globals().update(_made)
__all__ = ["Section", "Scenario", *_made]
