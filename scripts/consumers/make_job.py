"""Writes a job of made-up trials as Harbor lays it out, with trajectories of the kinds that converters trip over."""

import json
import sys
import uuid
from pathlib import Path

TRIALS = 40
SPACE = uuid.UUID(int=7)


def steps(number):
    """System and user texts first, then turns with tools, some of them without an answer."""
    yield {"source": "system", "message": f"You repair programs. Attempt {number}."}
    yield {"source": "user", "message": f"Task {number % 10}: the tests fail.\nRepair it."}
    for turn in range(1 + number % 5):
        yield {
            "source": "agent",
            "message": f"Turn {turn} of {number} with ünïcödé and <tags>",
            "reasoning_content": "Let me look." if turn % 2 else None,
            "tool_calls": [{"tool_call_id": f"c{turn}", "function_name": "bash", "arguments": {"command": "ls -l"}}],
            "observation": {"results": [{"source_call_id": f"c{turn}", "content": "total 0\n" * (turn + 1)}]},
        }
    if number % 4:
        yield {"source": "agent", "message": "Done."}


def main():
    job = Path(sys.argv[1])
    for number in range(TRIALS):
        task, name = f"task-{number % 10}", f"task-{number % 10}__{number:07d}"
        trial = job / name
        (trial / "agent").mkdir(parents=True)
        (trial / "verifier").mkdir()
        agent = {"name": "terminus-2", "version": "2.0.0", "model_info": {"name": "model", "provider": "hosted_vllm"}}
        config = {"task": {"path": f"tasks/{task}"}, "trial_name": name, "job_id": str(uuid.uuid5(SPACE, "job"))}
        result = {
            "id": str(uuid.uuid5(SPACE, name)),
            "task_name": task,
            "trial_name": name,
            "trial_uri": f"file:///jobs/{name}",
            "task_id": {"path": f"tasks/{task}"},
            "task_checksum": "0" * 64,
            "config": config | {"agent": {"name": "terminus-2", "model_name": "hosted_vllm/model"}},
            "agent_info": agent,
            "verifier_result": {"rewards": {"reward": float(number % 3 == 0)}},
            "exception_info": None,
            "started_at": f"2026-01-01T00:00:{number:02d}Z",
            "finished_at": f"2026-01-01T00:01:{number:02d}Z",
        }
        trajectory = {
            "schema_version": "ATIF-v1.5",
            "session_id": name,
            "agent": {"name": "terminus-2", "version": "2.0.0", "model_name": "model"},
            "steps": [{"step_id": n, **step} for n, step in enumerate(steps(number), 1)],
        }
        (trial / "result.json").write_text(json.dumps(result))
        (trial / "config.json").write_text(json.dumps(result["config"]))
        (trial / "agent/trajectory.json").write_text(json.dumps(trajectory))
        (trial / "verifier/test-stdout.txt").write_text("1 passed\n")


main()
