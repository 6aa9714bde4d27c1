//! Packages and the registry that they come into.

use std::path::{Path, PathBuf};

use dataset::{ExportFormat, ExportInput, Frozen, RegisterError, Registry, export};
use ident::{AliasTable, Digest};
use proptest::prelude::*;
use record::Split;

use crate::project::{Project, contents, write};

/// A package of a frozen set and a place for a registry.
struct Packed {
    project: Project,
    frozen: Frozen,
    package: PathBuf,
}

impl Packed {
    fn of(project: Project) -> Self {
        let frozen = project.freeze().unwrap();
        let exported = export(&ExportInput {
            frozen: &frozen.path,
            exports: &project.directory.path().join("exports"),
            format: ExportFormat::Package,
            organisation: "acme",
            aliases: &AliasTable::default(),
        });
        let package = exported.unwrap().path.join(format!("{}.tar.zst", frozen.manifest.directory()));
        Self { project, frozen, package }
    }

    fn registry(&self) -> Registry {
        Registry::new(self.project.directory.path().join("registry"))
    }

    fn register(&self) -> Result<dataset::Registered, RegisterError> {
        self.registry().register(&self.package, None, None)
    }

    /// Writes another package beside this one, with a sum that fits it.
    fn signed(&self, bytes: &[u8]) -> PathBuf {
        let package = self.project.directory.path().join("other.tar.zst");
        std::fs::write(&package, bytes).unwrap();
        let sum = format!("{}  other.tar.zst\n", Digest::of(bytes));
        std::fs::write(package.with_file_name("other.tar.zst.sha256"), sum).unwrap();
        package
    }
}

/// What is in a registry, without the file that is held while it is written to.
fn left(registry: &Registry) -> Vec<String> {
    let entries = std::fs::read_dir(registry.root()).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != ".claim").collect()
}

#[test]
fn a_package_is_the_same_wherever_and_by_however_many_threads_it_is_made() {
    let bytes = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| std::fs::read(Packed::of(Project::sample()).package).unwrap())
    };
    let (one, many) = (bytes(1), bytes(7));
    assert_eq!(Digest::of(&one), Digest::of(&many));
}

#[test]
fn other_programs_read_a_package() {
    let packed = Packed::of(Project::sample());
    let into = tempfile::tempdir().unwrap();
    let inflated = zstd::decode_all(std::fs::File::open(&packed.package).unwrap()).unwrap();
    std::fs::write(into.path().join("x.tar"), inflated).unwrap();
    let run = |directory: &Path, program: &str, arguments: &[&str]| {
        let mut command = std::process::Command::new(program);
        match command.args(arguments).current_dir(directory).output() {
            Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => eprintln!("skipped: {program} cannot be run: {error}"),
        }
    };
    run(into.path(), "tar", &["-xf", "x.tar"]);
    run(
        packed.package.parent().unwrap(),
        "sha256sum",
        &["--check", "--strict", "sample-4-v1.tar.zst.sha256"],
    );
    let set = into.path().join("sample-4-v1");
    if set.exists() {
        assert_eq!(contents(&set), contents(&packed.frozen.path));
    }
}

#[test]
fn a_registered_set_is_the_frozen_one() {
    let packed = Packed::of(Project::sample());
    let registered = packed.register().unwrap();
    assert!(!registered.existed);
    assert_eq!(contents(&registered.path), contents(&packed.frozen.path));
    let again = packed.register().unwrap();
    assert!(again.existed && again.registration == registered.registration);

    let registry = packed.registry();
    let (all, faults) = registry.list().unwrap();
    assert_eq!((all.as_slice(), faults.len()), (&[registered.registration.clone()][..], 0));
    for wanted in ["sample", "sample@v1"] {
        assert_eq!(registry.find(wanted).unwrap(), registered.registration);
    }
    assert_eq!(registry.manifest(&all[0]).unwrap(), packed.frozen.manifest);
    let error = registry.find("sample@v2").unwrap_err().to_string();
    assert!(error.contains("no set `sample@v2`") && error.contains("sample@v1"), "{error}");
    assert_eq!(left(&registry), ["sample"]);
}

#[test]
fn the_sum_must_be_there_and_must_fit() {
    let packed = Packed::of(Project::sample());
    let beside = packed.package.with_file_name("sample-4-v1.tar.zst.sha256");
    let digest = Digest::of(std::fs::read(&packed.package).unwrap());
    std::fs::write(&beside, format!("{}  sample-4-v1.tar.zst\n", Digest::of("other"))).unwrap();
    let error = packed.register().unwrap_err();
    assert!(matches!(&error, RegisterError::Digest { found, .. } if *found == digest), "{error}");
    for text in ["", "x", &format!("{digest}  another.tar.zst\n")] {
        std::fs::write(&beside, text).unwrap();
        assert!(matches!(packed.register(), Err(RegisterError::BadSum { .. })), "{text:?}");
    }
    std::fs::remove_file(&beside).unwrap();
    assert!(matches!(packed.register(), Err(RegisterError::NoSum { .. })));
    assert!(left(&packed.registry()).is_empty());
    assert!(packed.registry().register(&packed.package, Some(Digest::of("")), None).is_err());
    assert!(packed.registry().register(&packed.package, Some(digest), None).is_ok());
}

#[test]
fn other_content_under_a_name_and_version_is_refused() {
    let packed = Packed::of(Project::sample());
    packed.register().unwrap();
    let other = Packed::of(Project::new(&[("acme/widgets", Split::Train)]));
    let error = packed.registry().register(&other.package, None, None).unwrap_err();
    assert!(
        matches!(&error, RegisterError::Conflict { differing, .. } if differing.contains(&"manifest.json".into())),
        "{error}"
    );
    assert_eq!(contents(&packed.register().unwrap().path), contents(&packed.frozen.path));
}

#[test]
fn a_registered_set_that_was_changed_is_named() {
    let packed = Packed::of(Project::sample());
    let registered = packed.register().unwrap();
    write(&registered.path.join("README.md"), "");
    let error = packed.register().unwrap_err().to_string();
    assert!(
        error.contains("README.md: was changed") && error.contains("not as it was registered"),
        "{error}"
    );
}

/// Tells [`registers_for_another_program`] what to do.
const CHILD: &str = "SEATRIAL_TEST_REGISTER";

/// The program that is killed: this one again.
#[test]
fn registers_for_another_program() {
    let Some(told) = std::env::var_os(CHILD) else { return };
    let told = told.into_string().unwrap();
    let (package, registry) = told.split_once('\n').unwrap();
    Registry::new(registry).register(Path::new(package), None, None).unwrap();
}

#[test]
fn a_program_that_is_killed_leaves_nothing_or_the_whole_set() {
    const KILLS: u32 = 20;
    let tasks = [("acme/widgets", Split::Train); 12];
    let packed = Packed::of(Project::new(&tasks));
    let child = |registry: &Registry| {
        std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "registering::registers_for_another_program"])
            .env(CHILD, format!("{}\n{}", packed.package.display(), registry.root().display()))
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    let begun = std::time::Instant::now();
    assert!(child(&Registry::new(packed.project.directory.path().join("first"))).wait().unwrap().success());
    let whole = begun.elapsed();
    let mut begun_only = 0;
    for n in 0..KILLS {
        let registry = Registry::new(packed.project.directory.path().join(format!("killed-{n}")));
        let mut child = child(&registry);
        std::thread::sleep(whole * n / (KILLS - 1));
        child.kill().unwrap();
        child.wait().unwrap();
        begun_only += usize::from(left(&registry).iter().any(|name| name.starts_with(".seatrial-")));
        let (found, faults) = registry.list().unwrap();
        assert!(faults.is_empty(), "{faults:?}");
        for registration in found {
            assert_eq!(contents(&registry.set(&registration)), contents(&packed.frozen.path));
        }
        let registered = registry.register(&packed.package, None, None).unwrap();
        assert_eq!(contents(&registered.path), contents(&packed.frozen.path));
        assert_eq!(left(&registry), ["sample"], "what was begun is removed");
    }
    assert!(begun_only > 0, "no kill came in the middle");
}

#[test]
fn two_programs_at_once_register_the_same_set() {
    let packed = Packed::of(Project::sample());
    let outcomes: Vec<bool> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| packed.register().unwrap().existed)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().filter(|existed| !**existed).count(), 1, "{outcomes:?}");
}

#[test]
fn what_a_killed_program_left_is_removed_and_never_listed() {
    let packed = Packed::of(Project::sample());
    let half = packed.registry().root().join(".seatrial-half.tmp");
    write(&half.join("set/manifest.json"), "{");
    assert!(packed.registry().list().unwrap().0.is_empty());
    packed.register().unwrap();
    assert_eq!(left(&packed.registry()), ["sample"]);
}

#[test]
fn a_set_under_another_name_than_its_own_is_refused() {
    let packed = Packed::of(Project::sample());
    let archive = zstd::decode_all(std::fs::File::open(&packed.package).unwrap()).unwrap();
    let mut renamed = tar::Builder::new(Vec::new());
    for entry in tar::Archive::new(archive.as_slice()).entries().unwrap() {
        let entry = entry.unwrap();
        let mut header = entry.header().clone();
        let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
        let name = name.replacen("sample-4-v1", "sample-4-v2", 1);
        match entry.link_name().unwrap() {
            Some(target) => renamed.append_link(&mut header, name, target).unwrap(),
            None => renamed.append_data(&mut header, name, entry).unwrap(),
        }
    }
    let bytes = zstd::encode_all(renamed.into_inner().unwrap().as_slice(), 1).unwrap();
    let error = packed.registry().register(&packed.signed(&bytes), None, None).unwrap_err().to_string();
    assert!(error.contains("sample-4-v2") && error.contains("its manifest says sample-4-v1"), "{error}");
    assert!(left(&packed.registry()).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// One byte of the package is another one: that is seen, and the package is named.
    #[test]
    fn a_flipped_byte_of_a_package_is_found(place in 0.0..1.0_f64, bit in 0_u8..8) {
        let packed = Packed::of(Project::new(&[("acme/widgets", Split::Train)]));
        let mut bytes = std::fs::read(&packed.package).unwrap();
        let place = (place * bytes.len() as f64) as usize;
        bytes[place] ^= 1 << bit;
        std::fs::write(&packed.package, bytes).unwrap();
        let error = packed.register().unwrap_err().to_string();
        prop_assert!(error.contains("sample-1-v1.tar.zst: its SHA-256 is"), "{}", error);
        prop_assert!(left(&packed.registry()).is_empty());
    }

    /// The same below the compression, by somebody who makes a new sum: either it is refused, or what is registered is the frozen set.
    #[test]
    fn a_flipped_byte_of_the_archive_never_comes_in(place in 0.0..1.0_f64, bit in 0_u8..8) {
        let packed = Packed::of(Project::new(&[("acme/widgets", Split::Train)]));
        let mut archive = zstd::decode_all(std::fs::File::open(&packed.package).unwrap()).unwrap();
        let place = (place * archive.len() as f64) as usize;
        archive[place] ^= 1 << bit;
        let package = packed.signed(&zstd::encode_all(archive.as_slice(), 1).unwrap());
        match packed.registry().register(&package, None, None) {
            Ok(registered) => prop_assert_eq!(contents(&registered.path), contents(&packed.frozen.path)),
            Err(error) => {
                prop_assert!(error.to_string().contains("other.tar.zst"), "{}", error);
                prop_assert!(left(&packed.registry()).is_empty());
            }
        }
    }
}
