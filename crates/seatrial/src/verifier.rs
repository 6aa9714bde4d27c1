//! The verifier of a task, put together from its profile and the files that `grade` vendors.

use grade::{CONFIG_SCHEMA, Framework, Surface, VerifierConfig, vendored};
use ident::Digest;
use record::{Instance, Profile};
use task::materialize::{SurfaceArchive, TaskFile, Verifier};

/// A suite, restored, run and graded inside the task.
pub struct SuiteVerifier<'a> {
    instance: &'a Instance,
    profile: &'a Profile,
    workdir: &'a str,
    timeout_sec: u64,
    python: Option<&'a str>,
    command: Vec<String>,
    framework: Framework,
    surface: Surface,
}

impl<'a> SuiteVerifier<'a> {
    /// The verifier of one instance. `timeout_sec` limits a suite run. An error says why the profile's suite cannot be run.
    pub fn new(
        instance: &'a Instance,
        profile: &'a Profile,
        workdir: &'a str,
        timeout_sec: u64,
    ) -> Result<Self, String> {
        let command = shlex::split(&profile.test_cmd)
            .ok_or_else(|| format!("test_cmd `{}` has an open quote", profile.test_cmd))?;
        let framework = framework(profile, &command)?;
        framework.accepts(&command).map_err(|why| format!("test_cmd `{}`: {why}", profile.test_cmd))?;
        let mut surface = Surface::of(framework);
        // Profiles write `tests/**` where the surface says `tests/`.
        surface.patterns.extend(profile.test_files.iter().map(|glob| glob.trim_end_matches("**").to_owned()));
        surface.patterns.sort();
        surface.patterns.dedup();
        Ok(Self { instance, profile, workdir, timeout_sec, python: None, command, framework, surface })
    }

    /// Names the interpreter that a Python suite runs with, where it is not the one that runs the verifier.
    #[must_use]
    pub fn with_interpreter(mut self, python: Option<&'a str>) -> Self {
        self.python = python;
        self
    }
}

/// What runs the tests: as the profile says, else as the command tells, else pytest, which other programs may start.
fn framework(profile: &Profile, command: &[String]) -> Result<Framework, String> {
    match &profile.framework {
        None => Ok(Framework::of_command(command).unwrap_or(Framework::Pytest)),
        Some(name) => Framework::ALL.into_iter().find(|known| known.as_str() == name).ok_or_else(|| {
            let known: Vec<_> = Framework::ALL.iter().map(|known| known.as_str()).collect();
            format!("the profile's framework `{name}` is not known; known are {}", known.join(", "))
        }),
    }
}

impl Verifier for SuiteVerifier<'_> {
    fn owns(&self, path: &str) -> bool {
        self.surface.contains(path)
    }

    fn file_of<'i>(&self, id: &'i str) -> Option<&'i str> {
        self.framework.file_of(id)
    }

    fn defines(&self, id: &str, path: &str, text: &str) -> bool {
        self.framework.defines(id, path, text)
    }

    fn files(&self, surface: &SurfaceArchive<'_>) -> Result<Vec<TaskFile>, String> {
        let config = VerifierConfig {
            schema: CONFIG_SCHEMA.to_owned(),
            instance_id: self.instance.instance_id.to_string(),
            workdir: self.workdir.to_owned(),
            framework: self.framework,
            command: self.command.clone(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(framework: Option<&str>, test_cmd: &str) -> Profile {
        Profile {
            repo: "swesmith/mini__till.01234567".into(),
            package: None,
            version: None,
            sdist: None,
            sha256: None,
            framework: framework.map(str::to_owned),
            test_cmd: test_cmd.into(),
            env: std::collections::BTreeMap::new(),
            test_files: vec!["data/**".into()],
            timeout_sec: None,
        }
    }

    fn config(profile: &Profile) -> Result<VerifierConfig, String> {
        let instance = Instance {
            instance_id: "mini__till.01234567.lm_rewrite__00000000".parse().unwrap(),
            patch: String::new(),
            fail_to_pass: vec!["adds (1) to `2`, with   blanks ".into(), "TestAdds/small_sums".into()],
            pass_to_pass: Vec::new(),
            image_name: String::new(),
            repo: profile.repo.clone(),
            problem_statement: String::new(),
        };
        let verifier = SuiteVerifier::new(&instance, profile, "/testbed", 60)?;
        let files = verifier.files(&SurfaceArchive { bytes: &[], digest: Digest::of("") })?;
        let text = files.iter().find(|file| file.path == "config.json").unwrap();
        let config = VerifierConfig::from_json(std::str::from_utf8(&text.content).unwrap()).unwrap();
        assert_eq!(config.fail_to_pass, instance.fail_to_pass, "names arrive whole");
        Ok(config)
    }

    #[test]
    fn a_profile_is_run_by_what_it_names_or_its_command_tells() {
        for (named, command, framework) in [
            (None, "go test -v ./...", Framework::Go),
            (Some("mocha"), "npm test -- --verbose", Framework::Mocha),
            (None, "tox -e py", Framework::Pytest),
            (Some("unittest"), "python test.py --verbose", Framework::Unittest),
        ] {
            let config = config(&profile(named, command)).unwrap();
            assert_eq!(config.framework, framework, "{command}");
            assert_eq!(config.command, command.split(' ').collect::<Vec<_>>());
            assert!(config.surface.patterns.contains(&"data/".to_owned()));
        }
        let refused = |named, command| config(&profile(named, command)).unwrap_err();
        assert!(refused(Some("nose"), "nosetests").contains("`nose` is not known"));
        assert!(refused(Some("go"), "make test").contains("started with `go test`"));
        assert!(refused(None, "pytest 'x").contains("open quote"));
    }
}
