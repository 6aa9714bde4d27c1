"""SkyRL: PromptDataset on the prompts, module by module, since the whole package starts a training stack."""

import importlib.metadata
import importlib.util
from pathlib import Path

from common import EXPORTS, SPLITS, ids_of, instruction, same, tokenizer

distribution = importlib.metadata.distribution("skyrl")
print("skyrl", distribution.version)
spec = importlib.util.spec_from_file_location("skyrl_dataset", Path(distribution.locate_file("skyrl/train/dataset/dataset.py")))
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)

longest = 1 << 20
for split in SPLITS:
    prompts = module.PromptDataset(str(EXPORTS / "skyrl" / f"{split}.parquet"), tokenizer(), longest, num_workers=1)
    items = prompts.collate_fn([prompts[n] for n in range(len(prompts))])
    same(f"{split}: ids", [item["env_extras"]["extra_info"]["task_id"] for item in items], ids_of(split))
    same(f"{split}: prompts", [item["prompt"][0]["content"] for item in items], [instruction(id) for id in ids_of(split)])
    same(f"{split}: environments", {item["env_class"] for item in items}, {"harbor"})
