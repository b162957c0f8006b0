"""The JSON schema of recipes, for editors: it completes keys and dtypes, and underlines what has the wrong form.

It says what YAML can say: sections, keys, forms of names, types and sizes. What a body means, which symbols there are
and what goes with what is for ``fusebuild`` to say. A recipe that fusebuild takes is never refused by the schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fusebuild.ir.dtype import SCALAR_DTYPES, DType
from fusebuild.ops.library import LIBRARY
from fusebuild.ops.table import OPS
from fusebuild.recipe.expect import MAX_SEGMENTS
from fusebuild.recipe.extents import MAX_EXTENT
from fusebuild.recipe.names import MAX_NAME_LENGTH

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def recipe_schema() -> Schema:
    """The schema of one recipe (draft 2020-12)."""
    return {
        "$schema": DIALECT,
        "title": "A fusebuild recipe",
        **_object(_sections(), required=("fusion", "body", "outputs")),
        "$defs": _definitions(),
    }


def _sections() -> Mapping[str, Schema]:
    return {
        "fusion": {**_ref("name"), "description": "the fusion's name, and the artifact's"},
        "doc": {"type": ["string", "number", "boolean"], "description": "what it computes, for people"},
        "include": {
            "type": "array",
            "items": {"type": "string", "pattern": r"^[A-Za-z0-9_][A-Za-z0-9_./+-]*\.yaml$"},
            "description": "libraries of composites and lambdas, by their paths from the recipe's folder",
        },
        "extents": _mapping(_ref("facts"), "what is known of symbols"),
        "relations": {
            "type": "array",
            "items": {"type": "string"},
            "description": "comparisons of sizes that hold in every call, such as S <= P",
        },
        "inputs": _mapping({"anyOf": [_ref("tensor"), _ref("input")]}, "tensors that the caller gives, in order"),
        "scalars": _mapping(
            {"anyOf": [_ref("scalarDtype"), _ref("scalar")]}, "numbers that the caller gives, and constants"
        ),
        "lambdas": _mapping(_ref("lambda"), "how reductions and scans of your own combine two states"),
        "composites": _mapping(_ref("composite"), "sub-bodies that are written once and called like ops"),
        "body": {
            "type": "string",
            "description": f"statements in Python's syntax, name = op(...); ops: {', '.join(sorted({*OPS, *LIBRARY}))}",
        },
        "outputs": _mapping(
            {"anyOf": [{"type": "null"}, _ref("dtype"), _ref("output")]},
            "values of the body that the caller gets, in order, each with the dtype that it is stored in",
        )
        | {"minProperties": 1},
        "cases": {**_ref("cases"), "description": "sizes to verify the recipe at; the first also ranks segmentations"},
        "bench": _object(
            {
                "reference": {"type": "string", "description": "an expression of torch that computes the same"},
                "cases": {**_ref("cases"), "description": "sizes to measure at"},
            },
            description="how to measure it",
        ),
        "expect": _object(
            {
                "segments": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": MAX_SEGMENTS,
                    "description": "the most that the plan may have",
                },
                "bytes": {
                    "type": ["string", "integer"],
                    "description": "the most that they may read and write, such as 4*M*N; 2 % more are let pass",
                },
            },
            description="what compile refuses to exceed",
        ),
        "allow_spills": {
            "type": "boolean",
            "description": "whether kernels that spill registers stay as they were chosen",
        },
    }


def _definitions() -> Schema:
    name = {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "maxLength": MAX_NAME_LENGTH}
    size = {"type": "integer", "minimum": 0, "maximum": MAX_EXTENT}
    dtypes = "|".join(dtype.value for dtype in DType)
    tensor = {"type": "string", "pattern": rf"^\s*({dtypes})\s*\[[^\[\]]*\]\s*$"}
    return {
        "name": name,
        "size": size,
        "dtype": _one_of(DType),
        "scalarDtype": _one_of(SCALAR_DTYPES),
        "stateDtype": _one_of(SCALAR_DTYPES),
        "tensor": {**tensor, "description": "such as bfloat16[M, 2*N]; bfloat16[] has no dims"},
        "input": _input(),
        "facts": _object(
            {
                "multiple_of": {**size, "minimum": 1, "description": "every size is a multiple of this"},
                "min": {**size, "description": "no size is smaller"},
                "max": {**size, "description": "no size is larger"},
                "values": {"type": "array", "items": _ref("size"), "description": "sizes to specialize kernels for"},
            }
        ),
        "scalar": _object(
            {
                "dtype": _ref("scalarDtype"),
                "value": {"type": ["number", "boolean"], "description": "makes it a constant"},
            },
            required=("dtype",),
        ),
        "lambda": _lambda(),
        "composite": _object(
            {"inputs": _inputs_of_composite(), "body": {"type": "string"}, "results": {**_names(), "minItems": 1}},
            required=("inputs", "body", "results"),
        ),
        "output": _object(
            {"dtype": _ref("dtype"), "alias": {**_ref("name"), "description": "the input whose memory it overwrites"}}
        ),
        "cases": {"type": "array", "items": _mapping(_ref("size"))},
    }


def _input() -> Schema:
    bound = {"anyOf": [{"type": "integer"}, _ref("name")]}
    fields = {
        "type": _ref("tensor"),
        "dtype": _ref("tensor"),
        "contiguity": {
            "type": "array",
            "items": {"type": ["boolean", "null"]},
            "description": "for each dim, whether its stride is that of packed memory; null for a broadcast dim",
        },
        "stride_order": {
            "type": "array",
            "items": {"type": "integer", "minimum": 0},
            "description": "for each dim, its place in memory; 0 is the innermost",
        },
        "cpu": {"type": "boolean", "description": "whether it lies in the CPU's memory; for tensors without dims"},
        "range": {
            "type": "array",
            "items": bound,
            "minItems": 2,
            "maxItems": 2,
            "description": "from which integers it is drawn when verified or measured; the end is exclusive",
        },
    }
    return _object(fields) | {"oneOf": [{"required": ["type"]}, {"required": ["dtype"]}]}


def _lambda() -> Schema:
    state = _mapping(_ref("stateDtype"))
    return _object(
        {
            "left": {**state, "description": "the state so far, part by part"},
            "right": {**state, "description": "the state that is combined into it"},
            "body": {"type": "string"},
            "results": _names(),
            "ordered": {"type": "boolean", "description": "whether states may only be combined in order"},
        },
        required=("left", "right", "body", "results"),
    )


def _object(properties: Mapping[str, Schema], *, required: Iterable[str] = (), description: str = "") -> Schema:
    """A mapping with these keys and no others."""
    schema = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    schema |= {"required": list(required)} if required else {}
    return schema | ({"description": description} if description else {})


def _mapping(values: Schema, description: str = "") -> Schema:
    """A mapping of names to ``values``."""
    schema = {"type": "object", "propertyNames": _ref("name"), "additionalProperties": values}
    return schema | ({"description": description} if description else {})


def _inputs_of_composite() -> Schema:
    default = {"type": "object", "additionalProperties": {"type": ["number", "boolean"]}, "maxProperties": 1}
    return {"type": "array", "items": {"anyOf": [_ref("name"), default | {"minProperties": 1}]}}


def _names() -> Schema:
    return {"type": "array", "items": _ref("name")}


def _one_of(dtypes: Iterable[DType]) -> Schema:
    return {"enum": [dtype.value for dtype in dtypes]}


def _ref(definition: str) -> Schema:
    return {"$ref": f"#/$defs/{definition}"}
