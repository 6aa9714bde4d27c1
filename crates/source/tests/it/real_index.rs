//! The package index that this machine uses, where it can be reached.

use ident::Digest;
use source::{DistributionSpec, Environment, FetchOrigin, Index, IndexError, IndexSettings};

#[tokio::test]
async fn a_small_package_comes_verified_from_the_index_of_this_machine() {
    let cache = tempfile::tempdir().unwrap();
    let settings = IndexSettings { url: None, downloads: cache.path().into(), sdist_dir: None, client: None };
    let index = Index::new(settings, Environment::of_process());
    let wish = DistributionSpec { package: "funcy".into(), version: "2.0".into(), file: None, sha256: None };
    let fetched = match index.fetch(&wish).await {
        Ok(fetched) => fetched,
        Err(
            error @ (IndexError::Location(_) | IndexError::Unreachable { .. } | IndexError::Refused { .. }),
        ) => {
            eprintln!("skipped: the package index cannot be used here: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!(fetched.file, "funcy-2.0.tar.gz");
    let bytes = std::fs::read(&fetched.path).unwrap();
    assert!(bytes.starts_with(&[0x1f, 0x8b]), "the file is no gzip archive");
    assert_eq!(Digest::of(&bytes), fetched.sha256);
    let pinned = DistributionSpec::of_file(&fetched.file, None, Some(fetched.sha256)).unwrap();
    assert_eq!(index.fetch(&pinned).await.unwrap().origin, FetchOrigin::Cache);
    let missing = DistributionSpec { version: "0.0.999".into(), ..wish };
    assert!(matches!(index.fetch(&missing).await, Err(IndexError::FileMissing { .. })));
}
