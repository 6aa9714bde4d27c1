"""Writes what traces.sh measures: a job of TRIALS trials of TURNS turns, and ROWS rows of about 121 kB as JSON lines.

Usage: traces-data.py DIR TRIALS TURNS ROWS
The text is words drawn by a generator with a fixed beginning, so that it packs about as well as real logs do.
"""
import json, os, random, sys

directory, trials, turns, rows = sys.argv[1], *map(int, sys.argv[2:5])
draw = random.Random(20260101)
WORDS = ["".join(draw.choice("abcdefghijklmnopqrstuvwxyz_./") for _ in range(draw.randint(2, 12))) for _ in range(8000)]

def text(size):
    out, length = [], 0
    while length < size:
        word = draw.choice(WORDS)
        out.append(word)
        length += len(word) + 1
    return " ".join(out)

def result(index):
    reward = float(draw.random() < 0.3)
    if index % 17 == 0:
        return reward, "AgentTimeoutError"
    return reward, None

job = os.path.join(directory, "job")
for index in range(trials):
    name = f"task-{index // 4:04}__{index:07}"
    os.makedirs(f"{job}/{name}/agent")
    os.makedirs(f"{job}/{name}/verifier")
    reward, exception = result(index)
    steps = [{"step_id": 1, "source": "user", "message": text(4000)}]
    for turn in range(turns):
        steps.append({
            "step_id": turn + 2, "timestamp": "2026-03-01T10:00:00Z", "source": "agent", "model_name": "org/model",
            "message": text(600), "reasoning_content": text(400),
            "tool_calls": [{"tool_call_id": f"c{turn}", "function_name": "bash", "arguments": {"command": text(120)}}],
            "observation": {"results": [{"source_call_id": f"c{turn}", "content": text(2500)}]},
            "metrics": {"prompt_tokens": 1000 * (turn + 1), "completion_tokens": 250},
        })
    trajectory = {"schema_version": "ATIF-v1.6", "session_id": name, "agent": {"name": "terminus-2", "version": "2.0.0", "model_name": "org/model"}, "steps": steps}
    info = {"exception_type": exception, "exception_message": "", "exception_traceback": "", "occurred_at": "2026-03-01T10:00:00Z"}
    head = {
        "task_name": f"task-{index // 4:04}", "trial_name": name, "started_at": "2026-03-01T10:00:00Z",
        "config": {"agent": {"name": "terminus-2", "model_name": "org/model"}, "job_id": "0b8a7c9e-1d52-4f2e-9a3b-5c6d7e8f9012"},
        "agent_info": {"name": "terminus-2", "version": "2.0.0", "model_info": {"name": "model", "provider": "org"}},
        "verifier_result": {"rewards": {"reward": reward}}, "exception_info": info if exception else None,
    }
    with open(f"{job}/{name}/agent/trajectory.json", "w") as file:
        json.dump(trajectory, file, indent=2)
    with open(f"{job}/{name}/result.json", "w") as file:
        json.dump(head, file, indent=4)
    with open(f"{job}/{name}/verifier/test-stdout.txt", "w") as file:
        file.write(text(2000))

with open(os.path.join(directory, "rows.jsonl"), "w") as file:
    for index in range(rows):
        reward, exception = result(index)
        messages = [{"content": text(6000), "role": "user"}]
        for _ in range(30):
            messages += [{"content": text(900), "role": "assistant"}, {"content": text(2900), "role": "user"}]
        messages.append({"content": text(600), "role": "assistant"})
        file.write(json.dumps({
            "conversations": messages, "agent": "terminus-2", "model": "org/model", "model_provider": "org", "date": "2026-03-01T10:00:00Z",
            "task": f"task-{index // 3:05}", "episode": "episode-30", "run_id": "run", "trial_name": f"task-{index // 3:05}__{index:07}",
            "result": exception or str(reward), "verifier_output": text(1500), "trace_source": "main",
        }) + "\n")
