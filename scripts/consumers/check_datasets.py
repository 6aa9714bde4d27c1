"""Hugging Face datasets: every table and every file of lines, with the archives of tasks unpacked."""

import io
import json
import tarfile
import tempfile
from pathlib import Path

import datasets
from common import EXPORTS, MANIFEST, SPLITS, WORK, files_below, ids_of, instruction, same, FROZEN


def load(kind, path):
    return datasets.load_dataset(kind, data_files=str(path), split="train")


print("datasets", datasets.__version__)
for split in SPLITS:
    rows = load("parquet", EXPORTS / "task-parquet" / f"{split}.parquet")
    same(f"task-parquet {split}: ids", rows["path"][:], ids_of(split))
    for row in rows:
        with tempfile.TemporaryDirectory() as unpacked:
            with tarfile.open(fileobj=io.BytesIO(row["task_binary"])) as archive:
                archive.extractall(unpacked, filter="data")
            same(f"task-parquet {split}: bytes of {row['path'][:30]}…", files_below(Path(unpacked)), files_below(FROZEN / "tasks" / row["path"]))
    for name in ("verl", "skyrl"):
        rows = load("parquet", EXPORTS / name / f"{split}.parquet")
        same(f"{name} {split}: ids", [extra["task_id"] for extra in rows["extra_info"]], ids_of(split))
        same(f"{name} {split}: prompts", [prompt[0]["content"] for prompt in rows["prompt"]], [instruction(id) for id in ids_of(split)])
    rows = load("json", EXPORTS / "nemo-gym" / f"{split}.jsonl")
    same(f"nemo-gym {split}: ids", [id.split("::")[1] for id in rows["instance_id"]], ids_of(split))
    rows = load("json", EXPORTS / "slime" / f"{split}.jsonl")
    same(f"slime {split}: ids", rows["label"][:], ids_of(split))

traces = datasets.load_dataset(str(WORK / "traces"), split="train")
same("traces: rows", len(traces), len(list((WORK / "job").iterdir())))
same("traces: columns", traces.column_names, [
    "conversations", "agent", "model", "model_provider", "date", "task", "episode", "run_id", "trial_name", "result",
    "verifier_output", "trace_source",
])
same("traces: trials", sorted(traces["trial_name"]), sorted(path.name for path in (WORK / "job").iterdir()))
lines = [json.loads(line) for line in (WORK / "sft.jsonl").read_text().splitlines()]
same("converted traces", len(load("json", WORK / "sft.jsonl")), len(lines))
same("tasks of the set", sum(len(ids_of(split)) for split in SPLITS), MANIFEST["counts"]["tasks"])
