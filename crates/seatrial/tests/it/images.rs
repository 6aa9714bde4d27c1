//! Planning images onto the shards of a real registry.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use corpus::{RegistryServer, Settings};
use ident::Digest;
use serde_json::{Value, json};

use crate::project::{Project, sandboxes_run};

pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A running `docker-registry`; ended when dropped.
pub struct Registry {
    server: RegistryServer,
    pub host: String,
}

impl Registry {
    /// Starts it, or says why not.
    pub fn start() -> Option<Self> {
        Self::of(Settings::default())
    }

    /// One that knows `sailor` by the password `open sesame`, and nobody else.
    pub fn with_password() -> Option<Self> {
        Self::of(Settings { passwords: true, ..Settings::default() })
    }

    fn of(settings: Settings<'_>) -> Option<Self> {
        let server = RegistryServer::start(settings)?;
        Some(Self { host: server.host().to_owned(), server })
    }

    /// Sends one request; returns the status and where it leads.
    fn send(&self, method: &str, target: &str, kind: &str, body: &[u8]) -> (u16, Option<String>) {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let (host, length) = (&self.host, body.len());
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let location = answer.lines().find_map(|line| line.strip_prefix("Location: "));
        (status, location.map(|location| location.trim_start_matches(&format!("http://{host}")).to_owned()))
    }

    /// Puts an image without layers there; returns its digest.
    pub fn push(&self, repository: &str, tag: &str, label: &str) -> String {
        self.push_layers(repository, tag, label, &[])
    }

    fn push_blob(&self, repository: &str, bytes: &[u8], kind: &str) -> Value {
        let digest = Digest::of(bytes).prefixed();
        let (status, location) =
            self.send("POST", &format!("/v2/{repository}/blobs/uploads/"), "text/plain", b"");
        assert_eq!(status, 202);
        let target = format!("{}&digest={digest}", location.unwrap());
        assert_eq!(self.send("PUT", &target, "application/octet-stream", bytes).0, 201);
        json!({"mediaType": kind, "digest": digest, "size": bytes.len()})
    }

    /// Puts an image of some layers there, whatever those hold; returns its digest.
    pub fn push_layers(&self, repository: &str, tag: &str, label: &str, layers: &[Vec<u8>]) -> String {
        let config = json!({"architecture": "amd64", "os": "linux", "config": {"Labels": {"is": label}},
            "rootfs": {"type": "layers", "diff_ids": layers.iter().map(|layer| Digest::of(layer).prefixed()).collect::<Vec<_>>()}})
        .to_string();
        let config =
            self.push_blob(repository, config.as_bytes(), "application/vnd.oci.image.config.v1+json");
        let kind = "application/vnd.oci.image.layer.v1.tar";
        let layers: Vec<Value> = layers.iter().map(|layer| self.push_blob(repository, layer, kind)).collect();
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "layers": layers, "config": config})
            .to_string();
        let target = format!("/v2/{repository}/manifests/{tag}");
        assert_eq!(self.send("PUT", &target, MANIFEST, manifest.as_bytes()).0, 201);
        Digest::of(manifest).prefixed()
    }

    /// Where it keeps what it has.
    pub fn root(&self) -> PathBuf {
        self.server.root()
    }

    /// Whether something was ever written below a name.
    fn knows(&self, name: &str) -> bool {
        self.root().join("repositories").join(name).exists()
    }

    /// Takes a tag away; whether it was there.
    pub fn remove(&self, repository: &str, tag: &str) -> bool {
        let tags = self.root().join("repositories").join(repository).join("_manifests/tags");
        std::fs::remove_dir_all(tags.join(tag)).is_ok()
    }

    /// How often it was asked for each blob.
    pub fn blobs_given(&self) -> BTreeMap<String, u64> {
        let log = self.server.access_log();
        let mut given = BTreeMap::new();
        for line in log.lines().filter(|line| line.contains("\"GET /v2/")) {
            if let Some((_, rest)) = line.split_once("/blobs/") {
                *given.entry(rest.split(' ').next().unwrap_or_default().to_owned()).or_default() += 1;
            }
        }
        given
    }
}

/// A project whose tasks start from an image of the registry, with four shards there.
fn project(registry: &Registry) -> Project {
    let project = Project::new();
    let base = format!("base = \"{}/team/base:1\"", registry.host);
    project.edit("seatrial.toml", "base = \"seatrial.local/host\"", &base);
    let shards = format!(
        "[images]\nregistry = \"{}\"\nnamespace = \"shards\"\nshards = 4\ntag_limit = 2\n\n[prove]",
        registry.host
    );
    project.edit("seatrial.toml", "[prove]", &shards);
    for stage in [&["source", "pull", "--update"][..], &["plan"], &["materialize"]] {
        project.run(stage).with_code(0);
    }
    project
}

#[test]
fn images_are_planned_under_the_limit_of_a_registry() {
    let Some(registry) = Registry::start() else { return };
    let digest = registry.push("team/base", "1", "the base");
    let project = project(&registry);

    // A repository that nobody allowed to make.
    let refused = project.run(&["images", "tags"]).with_code(4);
    assert!(refused.stderr.contains("create_repositories"), "{refused:?}");
    project.run(&["images", "plan"]).with_code(4);
    assert!(!project.path("images.json").exists());
    // Batches of proofs ask the same before each of them.
    project.run(&["check"]).with_code(0);
    project.run(&["prove", "--batch", "1"]).with_code(4);

    project.edit("seatrial.toml", "tag_limit = 2", "tag_limit = 2\ncreate_repositories = true");
    let tags = project.run(&["images", "tags", "--json"]).with_code(0).json();
    assert_eq!(tags["shards"].as_object().unwrap().len(), 4);
    let planned = project.run(&["images", "plan", "--json"]).with_code(0).json();
    assert_eq!(
        (&planned["available"], &planned["pending"], &planned["skipped"]),
        (&json!(0), &json!(1), &json!(0))
    );
    let plan = project.json("images.json");
    let item = &plan["items"][0];
    assert_eq!(
        (&item["digest"], &item["action"], &item["kind"]),
        (&json!(digest), &json!("copy"), &json!("baseanchor"))
    );
    let before = project.read("images.json");
    project.run(&["images", "plan"]).with_code(0);
    assert_eq!(project.read("images.json"), before, "the same inputs give the same bytes");

    // Tags of others count.
    let home = item["repository"].as_str().unwrap().strip_prefix(&format!("{}/", registry.host)).unwrap();
    let tag = item["tag"].as_str().unwrap();
    registry.push(home, "one", "foreign");
    project.run(&["images", "plan"]).with_code(0);
    let reached = project.read("images.json");
    registry.push(home, "two", "foreign");
    let refused = project.run(&["images", "plan"]).with_code(3);
    assert!(refused.stderr.contains("3 tags, 1 too many"), "{refused:?}");
    assert_eq!(project.read("images.json"), reached, "a refused plan is not written");
    let refused = project.run(&["prove", "--batch", "1"]).with_code(3);
    assert!(refused.stderr.contains("3 tags, 1 too many"), "{refused:?}");
    assert!(project.trials().is_empty(), "nothing is tried for images that have no place");

    // The image itself is found; another one under its tag is not touched.
    registry.push(home, tag, "another");
    let conflict = project.run(&["images", "plan"]).with_code(5);
    assert!(conflict.stderr.contains(tag), "{conflict:?}");
    project.edit("seatrial.toml", "tag_limit = 2", "tag_limit = 3");
    registry.push(home, tag, "the base");
    let found = project.run(&["images", "plan", "--json"]).with_code(0).json();
    assert_eq!((&found["available"], &found["pending"]), (&json!(1), &json!(0)));
    std::fs::write(project.path("earlier.json"), &before).unwrap();
    let difference =
        project.run(&["images", "diff", "earlier.json", "images.json", "--json"]).with_code(0).json();
    assert_eq!(difference["diff"]["moved"], json!([]));
    assert_eq!(difference["diff"]["shards"].as_array().map(Vec::len), Some(1), "{difference}");

    // Nothing of this wrote to the registry.
    let shards: Vec<String> = (0..4).map(|number| format!("shards/task-{number:02}")).collect();
    let written: Vec<&String> = shards.iter().filter(|shard| registry.knows(shard)).collect();
    assert_eq!(written, [home]);
    drop(registry);
    let gone = project.run(&["images", "plan"]).with_code(4);
    assert!(gone.stderr.contains("is not known"), "{gone:?}");
}

#[test]
fn a_base_that_its_source_does_not_have_is_skipped_by_name() {
    let Some(registry) = Registry::start() else { return };
    let project = project(&registry);
    project.edit("seatrial.toml", "tag_limit = 2", "tag_limit = 2\ncreate_repositories = true");
    let planned = project.run(&["images", "plan"]).with_code(0);
    assert!(planned.stderr.contains("skipped: ") && planned.stderr.contains("team/base:1"), "{planned:?}");
    let plan: Value = project.json("images.json");
    assert_eq!((plan["items"].as_array().unwrap().len(), plan["missing"].as_array().unwrap().len()), (0, 1));
}

#[test]
fn task_images_are_one_layer_on_their_base() {
    let Some(registry) = Registry::start() else { return };
    registry.push("team/base", "1", "the base");
    let project = project(&registry);
    project.edit("seatrial.toml", "tag_limit = 2", "tag_limit = 20\ncreate_repositories = true");
    let built = project.run(&["images", "build", "--json"]).with_code(0).json();
    assert_eq!((&built["images"], &built["skipped"]), (&json!(3), &json!([])));
    let builds = project.read("image-builds.json");
    for image in project.json("image-builds.json")["images"].as_array().unwrap() {
        let digest = image["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let manifest = project.json(&format!(".seatrial/images/blobs/sha256/{digest}"));
        assert_eq!(manifest["layers"].as_array().map(Vec::len), Some(1), "{manifest}");
        let base = &manifest["annotations"]["org.opencontainers.image.base.name"];
        assert_eq!(base, &format!("{}/team/base:1", registry.host));
    }
    let planned = project.run(&["images", "plan", "--json"]).with_code(0).json();
    assert_eq!(planned["pending"], 4, "three tasks and their base");
    project.run(&["images", "build"]).with_code(0);
    assert_eq!(project.read("image-builds.json"), builds, "the same tasks give the same images");

    // Other tasks than those that were built.
    let rows = project.rows("instances.jsonl");
    project.write_rows("instances.jsonl", &rows[..2]);
    for stage in [&["source", "pull", "--update"][..], &["plan"], &["materialize"]] {
        project.run(stage).with_code(0);
    }
    let stale = project.run(&["images", "plan"]).with_code(5);
    assert!(stale.stderr.contains("images build"), "{stale:?}");
}

/// A tar archive with one file, as a layer.
fn layer(name: &str, content: &str) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    builder.append_data(&mut header, name, content.as_bytes()).unwrap();
    builder.into_inner().unwrap()
}

/// A base of the project's own shares the layers of the image that it starts from, and so do the tasks on it.
#[test]
fn a_base_of_the_projects_own_is_one_layer_on_the_image_below_it() {
    let Some(registry) = Registry::start() else { return };
    let below = layer("etc/below", "below");
    registry.push_layers("team/base", "1", "the base", std::slice::from_ref(&below));
    let project = project(&registry);
    project.edit("seatrial.toml", "tag_limit = 2", "tag_limit = 20\ncreate_repositories = true");
    let reference = format!("{}/team/base:1", registry.host);
    project.edit("seatrial.toml", &format!("base = \"{reference}\""), "base = \"seatrial.local/site\"");
    let recipe = String::from_utf8(project.read("seatrial.toml")).unwrap();
    std::fs::write(project.path("seatrial.toml"), format!("{recipe}\n[bases]\nsite = \"bases/site\"\n"))
        .unwrap();
    std::fs::create_dir_all(project.path("bases/site")).unwrap();
    std::fs::write(project.path("bases/site/note"), "1").unwrap();
    std::fs::write(
        project.path("bases/site/Dockerfile"),
        format!(
            "FROM scratch AS tools\nCOPY note /tools/note\nFROM {reference}\nCOPY --from=tools /tools /opt\n"
        ),
    )
    .unwrap();
    project.run(&["materialize"]).with_code(0);
    project.run(&["images", "build"]).with_code(0);
    let images = project.json("image-builds.json")["images"].clone();
    let images = images.as_array().unwrap();
    assert_eq!(images.len(), 4, "three tasks and their base");
    for image in images {
        let digest = image["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let manifest = project.json(&format!(".seatrial/images/blobs/sha256/{digest}"));
        let layers = manifest["layers"].as_array().unwrap();
        let own = if image["kind"] == "task" { 2 } else { 1 };
        assert_eq!((layers.len(), &layers[0]["digest"]), (1 + own, &json!(Digest::of(&below).prefixed())));
        let named = &manifest["annotations"]["org.opencontainers.image.base.name"];
        assert_eq!(named, &reference);
    }
    let held = project.path(".seatrial/images/blobs/sha256").join(Digest::of(&below).hex());
    assert!(!held.exists(), "the layers of the image below stay where they are");
    for step in [&["images", "plan"][..], &["images", "mirror"], &["images", "verify", "--deep"]] {
        project.run(step).with_code(0);
    }
    let before = project.read("image-builds.json");
    project.run(&["images", "build"]).with_code(0);
    assert_eq!(project.read("image-builds.json"), before);
}

/// Writes an OCI layout with one image of one layer; returns the digest of its manifest.
fn write_layout(root: &Path, name: &str) -> String {
    let blobs = root.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).unwrap();
    let put = |bytes: &[u8]| {
        std::fs::write(blobs.join(Digest::of(bytes).hex()), bytes).unwrap();
        json!({ "digest": Digest::of(bytes).prefixed(), "size": bytes.len() })
    };
    let kinded = |kind: &str, mut described: Value| {
        described["mediaType"] = json!(format!("application/vnd.oci.image.{kind}"));
        described
    };
    let layer = layer("etc/name", name);
    let config = json!({"architecture": "amd64", "os": "linux", "config": {},
        "rootfs": {"type": "layers", "diff_ids": [Digest::of(&layer).prefixed()]}});
    let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST,
        "config": kinded("config.v1+json", put(config.to_string().as_bytes())),
        "layers": [kinded("layer.v1.tar", put(&layer))]});
    let mut entry = kinded("manifest.v1+json", put(manifest.to_string().as_bytes()));
    let digest = entry["digest"].as_str().unwrap().to_owned();
    entry["annotations"] = json!({"org.opencontainers.image.ref.name": name});
    let index = json!({"schemaVersion": 2, "manifests": [entry]});
    std::fs::write(root.join("index.json"), index.to_string()).unwrap();
    std::fs::write(root.join("oci-layout"), "{\"imageLayoutVersion\":\"1.0.0\"}").unwrap();
    digest
}

/// Bases that no registry has are taken from where the recipe says.
#[test]
fn bases_come_from_layouts_on_this_machine() {
    let Some(registry) = Registry::start() else { return };
    let project = project(&registry);
    project.edit("seatrial.toml", "tag_limit = 2", "tag_limit = 20\ncreate_repositories = true");
    project.edit("seatrial.toml", &format!("{}/team/base:1", registry.host), "hub.invalid/team/base:1");
    project.run(&["materialize"]).with_code(0);
    project.run(&["images", "plan"]).with_code(4);

    let digest = write_layout(&project.path("hub"), "hub.invalid/team/base:1");
    let archived = std::fs::File::create(project.path("hub.tar")).unwrap();
    let mut tar = tar::Builder::new(archived);
    tar.append_dir_all(".", project.path("hub")).unwrap();
    tar.into_inner().unwrap();
    for (source, named) in [("oci:hub", "oci:hub:"), ("oci-archive:hub.tar", "oci-archive:hub.tar:")] {
        let recipe = String::from_utf8(project.read("seatrial.toml")).unwrap();
        let line = format!("[images]\nsources = [\"{source}\"]");
        project.edit("seatrial.toml", "[images]", &line);
        project.run(&["images", "plan"]).with_code(0);
        let plan = project.json("images.json");
        let item = &plan["items"][0];
        assert_eq!(item["digest"], json!(digest));
        assert_eq!(item["source"], json!(format!("{named}hub.invalid/team/base:1")));
        assert_eq!(plan["hub_budget"]["counted_gets"], 0);
        for step in [&["images", "mirror"][..], &["images", "verify", "--deep"]] {
            project.run(step).with_code(0);
        }
        std::fs::remove_dir_all(registry.root().join("repositories")).unwrap();
        std::fs::remove_file(project.path("images.json")).unwrap();
        std::fs::write(project.path("seatrial.toml"), recipe).unwrap();
    }
    // What cannot be used is named with the key that names it.
    for (source, what) in [
        ("docker://hub", "is no source of images"),
        ("oci:absent", "absent"),
        ("oci:hub.tar", "is a file"),
        ("oci-archive:hub", "not a regular file"),
        ("oci-archive:seatrial.toml", "seatrial.toml"),
    ] {
        let recipe = String::from_utf8(project.read("seatrial.toml")).unwrap();
        project.edit("seatrial.toml", "[images]", &format!("[images]\nsources = [\"{source}\"]"));
        let refused = project.run(&["images", "plan"]).with_code(2);
        assert!(refused.stderr.contains(what), "{source}: {refused:?}");
        std::fs::write(project.path("seatrial.toml"), recipe).unwrap();
    }
}

/// The store of a real daemon as a source.
#[test]
fn bases_come_from_the_container_daemon() {
    if crate::docker::docker().is_none() {
        return;
    }
    let Some(registry) = Registry::start() else { return };
    let project = project(&registry);
    let sources = "tag_limit = 20\ncreate_repositories = true\nsources = [\"docker-daemon:\"]";
    project.edit("seatrial.toml", "tag_limit = 2", sources);
    project.edit("seatrial.toml", &format!("{}/team/base:1", registry.host), "seatrial.test/base:1");
    project.run(&["materialize"]).with_code(0);
    project.run(&["images", "plan"]).with_code(0);
    let plan = project.read("images.json");
    assert_eq!(project.json("images.json")["items"][0]["source"], "docker-daemon:seatrial.test/base:1");
    let again = project.run(&["images", "plan"]).with_code(0);
    assert!(!again.stderr.contains("is taken from"), "{again:?}");
    assert_eq!(project.read("images.json"), plan, "the same image gives the same bytes");
    for step in [&["images", "mirror"][..], &["images", "verify", "--deep"]] {
        project.run(step).with_code(0);
    }
    // An image that neither the daemon nor its registry has.
    project.edit("seatrial.toml", "seatrial.test/base:1", "seatrial.test/absent:1");
    project.run(&["materialize"]).with_code(0);
    project.run(&["images", "plan"]).with_code(4);
}

#[test]
fn tasks_on_the_hosts_own_system_have_no_image() {
    let project = Project::new();
    for stage in [&["source", "pull", "--update"][..], &["plan"], &["materialize"]] {
        project.run(stage).with_code(0);
    }
    let built = project.run(&["images", "build", "--json"]).with_code(0).json();
    assert_eq!(built["images"], 0);
    let skipped = built["skipped"].as_array().unwrap();
    assert!(skipped.len() == 3 && skipped.iter().all(|image| image["intended"] == true), "{built}");
}

#[test]
fn verified_copies_take_the_place_of_bases_and_change_no_image() {
    let Some(registry) = Registry::start() else { return };
    registry.push("team/base", "1", "the base");
    let project = project(&registry);
    project.edit("seatrial.toml", "tag_limit = 2", "tag_limit = 20\ncreate_repositories = true");
    let nothing = project.run(&["images", "rewrite", "--json"]).with_code(0).json();
    let base = format!("{}/team/base:1", registry.host);
    assert_eq!((&nothing["bases"], &nothing["pending"]), (&json!({}), &json!([base])));
    project.run(&["images", "build"]).with_code(0);
    let images = project.json("image-builds.json")["images"].clone();
    for step in [&["images", "plan"][..], &["images", "mirror"], &["images", "verify", "--deep"]] {
        project.run(step).with_code(0);
    }
    let rewritten = project.run(&["images", "rewrite", "--json"]).with_code(0).json();
    let copy = rewritten["bases"][&base].as_str().unwrap();
    assert!(
        copy.starts_with(&format!("{}/shards/task-0", registry.host)) && copy.contains("@sha256:"),
        "{copy}"
    );

    project.run(&["check"]).with_code(5);
    project.run(&["materialize"]).with_code(0);
    for task in project.json("materialize.json")["tasks"].as_array().unwrap() {
        assert_eq!(
            (task["base_image"].as_str(), task["copy_of"].as_str()),
            (Some(copy), Some(base.as_str()))
        );
        let dockerfile = format!("tasks/{}/environment/Dockerfile", task["task_id"].as_str().unwrap());
        assert!(project.read(&dockerfile).starts_with(format!("FROM {copy}\n").as_bytes()));
    }
    // The copy has the base's layers, so the images are the same and everything is there.
    project.run(&["images", "build"]).with_code(0);
    assert_eq!(project.json("image-builds.json")["images"], images);
    let planned = project.run(&["images", "plan", "--json"]).with_code(0).json();
    assert_eq!((&planned["available"], &planned["pending"]), (&json!(4), &json!(0)));
}

/// The system that tests of engines run in, as one layer; `None`, and a line that says why, where it cannot be made.
fn base_layer() -> Option<Vec<u8>> {
    let scratch = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/base-image");
    let mut command = Command::new(script);
    command.arg(scratch.path().join("root"));
    if scratch.path().metadata().unwrap().uid() != 0 || !Path::new("/usr/bin/dpkg-query").exists() {
        eprintln!(
            "skipped: tasks with images of their own: only root can make an image of Debian's packages"
        );
        return None;
    }
    let made = command.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Some(made.stdout)
}

#[test]
fn images_of_tasks_are_built_sent_proved_on_and_frozen_by_digest() {
    if !sandboxes_run() {
        return;
    }
    let (Some(registry), Some(base)) = (Registry::start(), base_layer()) else { return };
    registry.push_layers("team/base", "1", "the base", &[base]);
    let project = project(&registry);
    for (from, to) in [
        ("tag_limit = 2", "tag_limit = 20\ncreate_repositories = true"),
        ("oracle_runs = 3", "oracle_runs = 1"),
        ("nop_runs = 3", "nop_runs = 1"),
        ("cheats = \"per-verifier\"", "cheats = \"off\""),
    ] {
        project.edit("seatrial.toml", from, to);
    }
    let stages = [&["check"][..], &["prove"], &["resolve"]];
    for step in [&["images", "build"][..], &["images", "plan"], &["images", "mirror"]].iter().chain(&stages) {
        project.run(step).with_code(0);
    }
    // Sent, and not looked at: nothing says that they are there.
    let unseen = project.run(&["freeze"]).with_code(3);
    assert!(unseen.stderr.contains("have no verified image"), "{unseen:?}");
    project.run(&["images", "verify"]).with_code(0);
    project.run(&["freeze"]).with_code(0);

    let set = project.frozen();
    let (manifest, _) = artifact::load::<dataset::Manifest>(&set.join("manifest.json")).unwrap();
    assert_eq!(manifest.tasks.len(), 2);
    for task in &manifest.tasks {
        let image = task.image.reference.as_deref().unwrap();
        assert!(task.portable && task.image.verified, "{task:?}");
        assert_eq!(task.image.form, dataset::ImageForm::Task);
        assert!(image.starts_with(&format!("{}/shards/", registry.host)), "{image}");
        let built = project.json("image-builds.json")["images"].clone();
        let of_task = |image: &&Value| image["key"] == task.task_id.as_str();
        let built = built.as_array().unwrap().iter().find(of_task).unwrap()["digest"].clone();
        assert!(image.ends_with(built.as_str().unwrap()), "{image} {built}");
    }
    let checked = project.run(&["freeze", "--check", "--online", "--json"]).with_code(0).json();
    assert_eq!((&checked["images"], &checked["problems"]), (&json!(2), &json!([])));
}
