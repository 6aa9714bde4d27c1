//! `seatrial doctor`: which engines can run here, and what to do when they cannot.

use serde_json::json;

use crate::failure::{Exit, Failure, OrExit, Result};
use crate::output::Output;
use crate::workbench::run_alone;

/// Looks at the machine; exits with 1 when no engine can run.
pub fn run(output: Output) -> Result {
    let init = std::env::current_exe().or_exit(Exit::Failed)?;
    let probes = run_alone(async { Ok(sandbox::native::probe(&init).await) })?;
    // The last word has a real sandbox that was started; the other facts explain.
    let usable = probes.iter().any(|probe| probe.name == "sandbox" && probe.ok);
    output.json(&json!({
        "engines": [{
            "name": "native",
            "usable": usable,
            "probes": probes.iter().map(|probe| json!({
                "name": probe.name,
                "ok": probe.ok,
                "detail": probe.detail,
                "remedy": probe.remedy,
            })).collect::<Vec<_>>(),
        }],
    }))?;
    output.print(format_args!("native: {}", if usable { "usable" } else { "cannot run here" }))?;
    for probe in &probes {
        let mark = if probe.ok { "ok" } else { "not so" };
        output.print(format_args!("  {mark:8} {}: {}", probe.name, probe.detail))?;
        if let Some(remedy) = &probe.remedy {
            output.print(format_args!("           {remedy}"))?;
        }
    }
    output.print("docker: not offered by this version\nkubernetes: not offered by this version")?;
    if usable {
        Ok(())
    } else {
        Err(Failure::new(Exit::Failed, "no engine can run on this machine").silent())
    }
}
