"""Harbor: its task loader, its content hash, its data set manifest and its registry."""

import asyncio
import importlib.metadata
import os
from pathlib import Path

from common import EXPORTS, FROZEN, SPLITS, files_below, ids_of, instruction, same, tasks_of
from harbor.models.dataset.manifest import DatasetManifest
from harbor.models.task.task import Task, strip_canary
from harbor.publisher.packager import Packager
from harbor.registry.client.json import JsonRegistryClient

print("harbor", importlib.metadata.version("harbor"))
for split in SPLITS:
    directory = EXPORTS / "harbor" / split
    loaded = [Task(directory / task["task_id"]) for task in tasks_of(split)]
    same(f"{split}: instructions", [task.instruction for task in loaded], [strip_canary(instruction(id)) for id in ids_of(split)])
    hashes = [Packager.compute_content_hash(directory / id)[0].removeprefix("sha256:") for id in ids_of(split)]
    same(f"{split}: content hashes", hashes, [task["content_hash"] for task in tasks_of(split)])
    for id in ids_of(split):
        same(f"{split}: bytes of {id[:30]}…", files_below(directory / id), files_below(FROZEN / "tasks" / id))
    manifest = DatasetManifest.from_toml_file(directory / "dataset.toml")
    same(f"{split}: dataset.toml names the tasks", [task.name for task in manifest.tasks], [task.name for task in loaded])
    digests = [task.digest.removeprefix("sha256:") for task in manifest.tasks]
    same(f"{split}: dataset.toml has their hashes", digests, hashes)
    own = manifest.metadata["content_hash"].removeprefix("sha256:")
    same(f"{split}: dataset.toml's own hash", own, manifest.compute_content_hash().removeprefix("sha256:"))

os.chdir(EXPORTS / "harbor")
client = JsonRegistryClient(path=Path("registry.json"))
summaries = asyncio.run(client.list_datasets())
same("registry.json: tasks of each split", [summary.task_count for summary in summaries], [len(ids_of(split)) for split in SPLITS])
for summary, split in zip(summaries, SPLITS):
    metadata = asyncio.run(client.get_dataset_metadata(f"{summary.name}@{summary.version}"))
    found = [task.get_local_path() for task in metadata.task_ids]
    same(f"registry.json: paths of {split}", found, [EXPORTS / "harbor" / split / id for id in ids_of(split)])
