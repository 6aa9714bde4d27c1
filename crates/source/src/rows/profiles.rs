//! Profiles: how the tests of each repository are run.

use std::collections::HashMap;

use ident::Digest;
use record::Profile;

use super::table::{Columns, Compare, Notes};
use crate::read::{FieldFault, Row, RowProblem, Spot, Surrogates};

/// How profiles are read: their words become commands, so nothing is mended.
pub(crate) const PROFILES: Columns<Profile> = Columns {
    wanted: &[
        "repo",
        "package",
        "version",
        "sdist",
        "sha256",
        "framework",
        "test_cmd",
        "env",
        "test_files",
        "timeout_sec",
    ],
    id: "repo",
    bare: false,
    surrogates: Surrogates::Refuse,
    fatal: |_| true,
    parse,
    compare,
};

fn parse(row: &mut Row, _: &mut Notes, _: &Spot) -> Result<Profile, FieldFault> {
    let repo = row.text("repo")?;
    let package = row.optional_text("package")?;
    let version = row.optional_text("version")?;
    let sdist = row.optional_text("sdist")?;
    let sha256 = match row.optional_text("sha256")? {
        None => None,
        Some(text) => {
            let digest =
                Digest::parse(&text).map_err(|error| FieldFault::value("sha256", error.to_string()))?;
            Some(digest.hex())
        }
    };
    let framework = row.optional_text("framework")?;
    let test_cmd = row.text("test_cmd")?;
    if test_cmd.trim().is_empty() {
        return Err(FieldFault::value("test_cmd", "is empty; write the command that runs the suite"));
    }
    let env = row.optional_text_map("env")?;
    let test_files = row.optional_texts("test_files")?;
    let timeout_sec = row.optional_count("timeout_sec")?;
    if timeout_sec == Some(0) {
        return Err(FieldFault::value("timeout_sec", "is 0; leave it out for the recipe's limit"));
    }
    Ok(Profile { repo, package, version, sdist, sha256, framework, test_cmd, env, test_files, timeout_sec })
}

/// Finds repositories with two profiles that differ.
fn compare() -> Box<dyn Compare<Profile>> {
    let mut seen: HashMap<String, (Profile, Spot)> = HashMap::new();
    Box::new(move |profile: &Profile, spot: &Spot, notes: &mut Notes| match seen.get(&profile.repo) {
        None => {
            seen.insert(profile.repo.clone(), (profile.clone(), spot.clone()));
            Ok(())
        }
        Some((first, _)) if first == profile => {
            notes.count("rows that repeat an earlier row exactly", 1, spot);
            Ok(())
        }
        Some((_, first)) => Err(FieldFault::new("repo", RowProblem::Contradiction { first: first.clone() })),
    })
}
