"""verifiers: its Harbor taskset on the Harbor export of each split.

It fetches data sets with Harbor's own command, which copies nothing that is on this machine already; so a local data set is put where
the taskset keeps those that it has fetched.
"""

import importlib.metadata
import tempfile
from pathlib import Path

from common import EXPORTS, MANIFEST, SPLITS, files_below, ids_of, instruction, same
from harbor.models.task.task import strip_canary
from verifiers.v1.tasksets.harbor import taskset as harbor

print("verifiers", importlib.metadata.version("verifiers"))
with tempfile.TemporaryDirectory() as cache:
    harbor.CACHE = Path(cache)
    for split in SPLITS:
        # Tasks with a Dockerfile run only where their images are built elsewhere; reading them needs to be told so.
        config = harbor.HarborConfig(
            dataset=f"{MANIFEST['name']}-{split}@{MANIFEST['version']}",
            ignore_dockerfile=True,
        )
        harbor.cache_dir(config).symlink_to(EXPORTS / "harbor" / split)
        tasks = list(harbor.HarborTaskset(config).load())
        found = {Path(task.data.task_dir).name: task for task in tasks}
        same(f"{split}: ids", sorted(found), ids_of(split))
        prompts = [found[id].data.prompt for id in ids_of(split)]
        same(f"{split}: prompts", prompts, [strip_canary(instruction(id)).strip() for id in ids_of(split)])
        for id in ids_of(split):
            below = EXPORTS / "harbor" / split / id
            same(f"{split}: bytes of {id[:30]}…", files_below(Path(found[id].data.task_dir)), files_below(below))
