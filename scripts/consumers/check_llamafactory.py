"""LLaMA-Factory: its converter keeps every converted trace. Only the converter is imported, not the training stack around it."""

import importlib.metadata
import json
import logging
import sys
import types

import datasets
from common import WORK, same

distribution = importlib.metadata.distribution("llamafactory")
print("llamafactory", distribution.version)
for name in ("llamafactory", "llamafactory.data", "llamafactory.extras"):
    module = types.ModuleType(name)
    module.__path__ = [str(distribution.locate_file(name.replace(".", "/")))]
    sys.modules[name] = module

from llamafactory.data.converter import SharegptDatasetConverter  # noqa: E402
from llamafactory.data.parser import DatasetAttr  # noqa: E402

attributes = DatasetAttr("hf_hub", "traces")
attributes.formatting, attributes.messages = "sharegpt", "conversations"
attributes.role_tag, attributes.content_tag = "role", "content"
attributes.user_tag, attributes.assistant_tag = "user", "assistant"
convert = SharegptDatasetConverter(attributes, None)

rows = datasets.load_dataset("json", data_files=str(WORK / "sft.jsonl"), split="train")
converted = [convert(row) for row in rows]
kept = [row for row in converted if row["_prompt"] and row["_response"]]
same("rows that are kept", len(kept), len((WORK / "sft.jsonl").read_text().splitlines()))
said = [[message["content"] for message in row["_prompt"] + row["_response"]] for row in converted]
lines = [json.loads(line) for line in (WORK / "sft.jsonl").read_text().splitlines()]
same("what is said in them", said, [[message["content"] for message in line["conversations"]] for line in lines])

# The rows as they were exported would lose those that begin with two messages of the user: that is what the form is for.
logging.disable(logging.WARNING)
raw = datasets.load_dataset(str(WORK / "traces"), split="train")
lost = sum(not convert(row)["_response"] for row in raw)
if lost == 0:
    sys.exit("FAILED the made-up traces do not show what the conversion is for")
print(f"ok  raw rows that it would drop: {lost} of {len(raw)}")
