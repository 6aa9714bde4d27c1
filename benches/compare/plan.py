"""The rules plan/1 in pandas, for the project that `rehearsal` writes: python plan.py DIR OUT.

Written as such programs usually are: tables are read with the columns that are needed, evidence is joined with
groupby, and the rounds are plain loops. Writes the ids of primaries and reserves, so that the answers can be compared.
"""

import hashlib
import json
import math
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import pandas as pd

FAMILIES = ["gpt-4o", "claude-3.5", "claude-3.7"]
PREFIXES = {
    "gpt-4o": "gpt-4o",
    "claude-3-5": "claude-3.5",
    "claude-3.5": "claude-3.5",
    "claude-3-7": "claude-3.7",
    "claude-3.7": "claude-3.7",
}


def family(model):
    fitting = [prefix for prefix in PREFIXES if model.startswith(prefix)]
    if not fitting:
        raise SystemExit(f"no prefix fits the model {model}")
    return PREFIXES[max(fitting, key=len)]


def repository(task_id, aliases):
    owner, name = task_id.rsplit(".", 2)[0].split("__", 1)
    key = f"{owner}/{name}".lower()
    while key in aliases:
        key = aliases[key]
    return key


def read(root, recipe, source, columns):
    paths = recipe["sources"][source]["path"]
    paths = [paths] if isinstance(paths, str) else paths
    return pd.concat([pd.read_parquet(root / path, columns=columns) for path in paths], ignore_index=True)


def id_list(root, recipe, name):
    return set((root / recipe["sets"][name]).read_text().split())


def candidates(root, recipe):
    """Every instance with its evidence, tier and order key."""
    tasks = read(root, recipe, "swesmith", ["instance_id", "repo", "image_name"])
    if tasks["instance_id"].duplicated().any():
        raise SystemExit("an instance stands twice")

    runs = read(root, recipe, "trajectories", ["instance_id", "model", "resolved", "traj_id"])
    merged = runs.groupby("traj_id")
    for column in ["instance_id", "model", "resolved"]:
        if (merged[column].nunique() > 1).any():
            raise SystemExit(f"rows of one run disagree on {column}")
    runs = merged.agg({"instance_id": "first", "model": "first", "resolved": "first"})
    solved = runs[runs["resolved"]]
    solved = solved.assign(family=solved["model"].map(family))
    official = solved.groupby("instance_id")["family"].agg(set)

    means = pd.read_json(root / recipe["sources"]["swe_master"]["path"], lines=True, precise_float=True)
    if not means["reward_mean"].between(0, 1).all():
        raise SystemExit("a reward mean is out of range")
    means = means.drop_duplicates().set_index("instance_id_or_commit_hash")["reward_mean"]
    images = pd.read_json(root / recipe["sources"]["images"]["path"], lines=True).set_index("task_id")["status"]

    tasks["official"] = tasks["instance_id"].map(official)
    tasks["official"] = tasks["official"].map(lambda solved: solved if isinstance(solved, set) else set())
    tasks["reward"] = tasks["instance_id"].map(means).fillna(0.0)
    tasks["image"] = tasks["instance_id"].map(images).fillna("pending")

    def tier(row):
        if row["official"]:
            return 1 if row["reward"] > 0 else 2
        if row["reward"] == 1:
            return 3
        return 4 if row["reward"] > 0 else 5

    def key(row):
        digest = hashlib.sha256(row["instance_id"].encode()).hexdigest()
        return (*(name not in row["official"] for name in FAMILIES), digest)

    aliases = tomllib.loads((root / recipe["aliases"]).read_text())
    tasks["tier"] = tasks.apply(tier, axis=1)
    tasks["key"] = tasks.apply(key, axis=1)
    tasks["repository"] = tasks["instance_id"].map(lambda task_id: repository(task_id, aliases))
    return tasks


def rounds(tasks, cap, target, counts, picked):
    """Takes tasks in rounds over the repositories, tier by tier."""
    for tier in range(1, 5):
        queues = {
            name: group.sort_values("key").to_dict("records")[::-1]
            for name, group in tasks[tasks["tier"] == tier].groupby("repository")
        }
        while queues and len(picked) < target:
            before = len(picked)
            for name in sorted(queues, key=lambda name: queues[name][-1]["key"]):
                if counts[name] < cap and len(picked) < target:
                    picked.append(queues[name].pop())
                    counts[name] += 1
            queues = {name: queue for name, queue in queues.items() if queue}
            if len(picked) == before:
                break


def fill(pool, tasks, sets):
    """Primaries and reserves of one pool; the recipe's expressions are the two that it has."""
    if pool["members"] == "filter_pro & filtered":
        members = sets["filter_pro"] & sets["filtered"]
    else:
        members = set(tasks["instance_id"]) - sets["filtered"]
    tasks = tasks[tasks["instance_id"].isin(members)]
    forced = set().union(*(sets[pool[name]] for name in ("retain", "force") if name in pool))
    is_forced = tasks["instance_id"].isin(forced)
    cap = math.ceil(pool["target"] * int(pool["cap"].rstrip("%")) / 100)
    picked = tasks[is_forced].sort_values(["tier", "key"]).to_dict("records")
    counts = defaultdict(int)
    for task in picked:
        counts[task["repository"]] += 1
    free = tasks[~is_forced]
    usable = free[free["image"] == "completed"] if pool.get("require_image") else free
    rounds(usable, cap, pool["target"], counts, picked)
    if len(picked) < pool["target"]:
        raise SystemExit(f"pool {pool['stage']} is short")

    left = free[~free["instance_id"].isin({task["instance_id"] for task in picked})]
    reserves = []
    if pool.get("reserve") == "rest":
        left = left.assign(missing=left["image"] != "completed")
        reserves = left.sort_values(["missing", "tier", "key"]).to_dict("records")
    elif pool.get("reserve"):
        rounds(left, cap, pool["reserve"], defaultdict(int), reserves)
    return picked, reserves


def main(root, out):
    recipe = tomllib.loads((root / "seatrial.toml").read_text())
    tasks = candidates(root, recipe)
    sets = {name: id_list(root, recipe, name) for name in recipe["sets"]}
    plan = {"primaries": [], "reserves": []}
    for pool in recipe["pool"]:
        primaries, reserves = fill(pool, tasks, sets)
        plan["primaries"] += [task["instance_id"] for task in primaries]
        plan["reserves"] += [task["instance_id"] for task in reserves]
    out.write_text(json.dumps(plan))


main(Path(sys.argv[1]), Path(sys.argv[2]))
