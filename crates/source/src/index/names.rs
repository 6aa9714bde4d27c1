//! Names of packages and of their source distributions.

/// A package name as the index spells it: lower case, runs of `-`, `_` and `.` become one dash (PEP 503).
/// None when the text is no package name.
pub fn normalize_package(name: &str) -> Option<String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if !name.chars().all(fine) || !ends(name.chars().next()) || !ends(name.chars().next_back()) {
        return None;
    }
    let mut normalized = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            normalized.push(c.to_ascii_lowercase());
        } else if !normalized.ends_with('-') {
            normalized.push('-');
        }
    }
    Some(normalized)
}

/// Package and version in the file name of a source distribution, such as `name-1.2.tar.gz`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SdistName {
    /// The normalised package name.
    pub package: String,
    /// The version as the file name spells it.
    pub version: String,
}

impl SdistName {
    /// Reads a file name. Old names hold dashes in the package part: give the package where it is known, else the last
    /// dash parts name and version.
    pub fn parse(file: &str, package: Option<&str>) -> Option<Self> {
        let stem = [".tar.gz", ".zip"].iter().find_map(|suffix| file.strip_suffix(suffix))?;
        let plain = |text: &str| {
            text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '!'))
        };
        let part = |at: usize| {
            let (name, version) = (&stem[..at], &stem[at + 1..]);
            let package = normalize_package(name)?;
            let fine = !version.is_empty() && plain(version);
            fine.then(|| Self { package, version: version.to_owned() })
        };
        match package {
            None => part(stem.rfind('-')?),
            Some(package) => {
                let package = normalize_package(package)?;
                let dashes = stem.match_indices('-').map(|(at, _)| at);
                dashes.filter_map(part).find(|found| found.package == package)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_names_have_one_spelling() {
        assert_eq!(normalize_package("Python__JSON.-Logger").as_deref(), Some("python-json-logger"));
        for name in ["", "-a", "a-", "a/b", "../a", "a b", "ä"] {
            assert_eq!(normalize_package(name), None, "{name:?}");
        }
    }

    #[test]
    fn file_names_give_package_and_version() {
        let parse = |file, package| {
            SdistName::parse(file, package).map(|name| format!("{} {}", name.package, name.version))
        };
        assert_eq!(
            parse("python_json_logger-4.2.0.tar.gz", None).as_deref(),
            Some("python-json-logger 4.2.0")
        );
        assert_eq!(parse("a-b-1.0-rc1.tar.gz", Some("a.b")).as_deref(), Some("a-b 1.0-rc1"));
        assert_eq!(parse("a-1.0.zip", Some("A")).as_deref(), Some("a 1.0"));
        assert_eq!(parse("a-1.0.tar.gz", Some("b")), None);
        for file in ["a-1.0-py3-none-any.whl", "a.tar.gz", "a-.tar.gz", "-1.tar.gz", "../a-1.0.tar.gz"] {
            assert_eq!(parse(file, None), None, "{file}");
        }
    }
}
