"""The JSON Schema that editors use names the keys and choices that the reader accepts."""

import json

from ablate.spec.models import SpecFile, json_schema


def test_the_schema_has_every_key_with_words_for_people():
    schema = json_schema()
    assert set(schema["properties"]) == set(SpecFile.model_fields)
    assert schema["required"] == ["study", "workloads"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["blocks"]["maximum"] == 1000
    json.dumps(schema)


def test_short_forms_are_allowed():
    schema = json_schema()
    optimization = schema["$defs"]["OptimizationSection"]["anyOf"]
    assert optimization[0] == {"enum": ["both", "on", "off"]}
    assert set(optimization[1]["properties"]) == {"use", "off_means", "off", "on"}
    workload = schema["$defs"]["WorkloadSection"]["anyOf"]
    assert workload[0]["type"] == "string" and set(workload[1]["properties"]) == {"use", "options"}
    equivalence = schema["$defs"]["EquivalenceSection"]["anyOf"]
    assert equivalence[0] == {"enum": ["default", "all", "off"]}
    assert set(equivalence[1]["properties"]) == {
        "parity", "arms", "margin", "metric_margin", "windows", "window_steps", "reruns"
    }  # fmt: skip
    assert schema["properties"]["design"]["anyOf"][0]["enum"] == [
        "factorial", "fraction", "ladder", "leave-one-out", "add-one-in"
    ]  # fmt: skip
    assert "or" in schema["$defs"]["ClaimSection"]["properties"]
