//! Repositories on which agents are evaluated in public.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use ident::{AliasTable, RepoKey};

/// The twelve repositories of SWE-bench, Lite and Verified.
const SWE_BENCH: [&str; 12] = [
    "astropy/astropy",
    "django/django",
    "matplotlib/matplotlib",
    "mwaskom/seaborn",
    "pallets/flask",
    "psf/requests",
    "pydata/xarray",
    "pylint-dev/pylint",
    "pytest-dev/pytest",
    "scikit-learn/scikit-learn",
    "sphinx-doc/sphinx",
    "sympy/sympy",
];

/// Where some of them lived before.
const FORMER: [(&str, &str); 5] = [
    ("kennethreitz/requests", "psf/requests"),
    ("requests/requests", "psf/requests"),
    ("mitsuhiko/flask", "pallets/flask"),
    ("pycqa/pylint", "pylint-dev/pylint"),
    ("xray/xray", "pydata/xarray"),
];

/// The name by which a repository is known here, if agents are evaluated on it.
pub(super) fn evaluated(repo: &RepoKey) -> Option<RepoKey> {
    static KNOWN: LazyLock<(BTreeSet<RepoKey>, AliasTable)> = LazyLock::new(|| {
        let keys =
            SWE_BENCH.iter().map(|name| RepoKey::parse(name).expect("the names are written as owner/name"));
        (keys.collect(), AliasTable::new(FORMER).expect("every former name has one name of today"))
    });
    let today = KNOWN.1.canonical(repo.clone());
    KNOWN.0.contains(&today).then_some(today)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_known_by_every_name() {
        let found = |text: &str| evaluated(&RepoKey::parse(text).unwrap()).map(String::from);
        assert_eq!(found("Django/django.git").as_deref(), Some("django/django"));
        assert_eq!(found("https://code.invalid/kennethreitz/requests").as_deref(), Some("psf/requests"));
        assert_eq!(found("swesmith/pydata__xarray.0123abcd").as_deref(), Some("pydata/xarray"));
        assert_eq!(found("django/channels"), None);
    }
}
