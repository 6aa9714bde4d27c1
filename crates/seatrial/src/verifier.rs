//! The verifier of a task, put together from its profile and the files that `grade` vendors.

use grade::{CONFIG_SCHEMA, Framework, Surface, VerifierConfig, vendored};
use ident::Digest;
use record::{Instance, Profile};
use task::materialize::{SurfaceArchive, TaskFile, Verifier};

/// A pytest suite, restored, run and graded inside the task.
pub struct PytestVerifier<'a> {
    instance: &'a Instance,
    profile: &'a Profile,
    workdir: &'a str,
    timeout_sec: u64,
    python: Option<&'a str>,
    surface: Surface,
}

impl<'a> PytestVerifier<'a> {
    /// The verifier of one instance. `timeout_sec` limits a suite run.
    pub fn new(instance: &'a Instance, profile: &'a Profile, workdir: &'a str, timeout_sec: u64) -> Self {
        let mut surface = Surface::pytest();
        // Profiles write `tests/**` where the surface says `tests/`.
        surface.patterns.extend(profile.test_files.iter().map(|glob| glob.trim_end_matches("**").to_owned()));
        surface.patterns.sort();
        surface.patterns.dedup();
        Self { instance, profile, workdir, timeout_sec, python: None, surface }
    }

    /// Names the interpreter that the suite runs with, where it is not the one that runs the verifier.
    #[must_use]
    pub fn with_interpreter(mut self, python: Option<&'a str>) -> Self {
        self.python = python;
        self
    }
}

impl Verifier for PytestVerifier<'_> {
    fn owns(&self, path: &str) -> bool {
        self.surface.contains(path)
    }

    fn files(&self, surface: &SurfaceArchive<'_>) -> Result<Vec<TaskFile>, String> {
        let command = shlex::split(&self.profile.test_cmd)
            .ok_or_else(|| format!("test_cmd `{}` has an open quote", self.profile.test_cmd))?;
        let config = VerifierConfig {
            schema: CONFIG_SCHEMA.to_owned(),
            instance_id: self.instance.instance_id.to_string(),
            workdir: self.workdir.to_owned(),
            framework: Framework::Pytest,
            command,
            env: self.profile.env.clone(),
            python: self.python.map(str::to_owned),
            timeout_sec: self.timeout_sec,
            p2p_only: false,
            fail_to_pass: self.instance.fail_to_pass.clone(),
            pass_to_pass: self.instance.pass_to_pass.clone(),
            surface: Surface { sha256: Some(surface.digest.hex()), ..self.surface.clone() },
        };
        let config = config.to_json().map_err(|error| error.to_string())?;
        let mut files =
            vec![TaskFile { path: "config.json".into(), mode: 0o644, content: config.into_bytes() }];
        files.extend(vendored::FILES.iter().map(|file| TaskFile {
            path: file.name.to_owned(),
            mode: file.mode,
            content: file.text.as_bytes().to_vec(),
        }));
        Ok(files)
    }
}

/// Identity of the vendored files, an input of every task.
pub fn digest() -> Digest {
    let lines = vendored::FILES.iter().map(|file| format!("{} {}\n", file.sha256(), file.name));
    Digest::of(lines.collect::<Vec<_>>().concat())
}
