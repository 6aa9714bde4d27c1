//! Which cluster, and for which run.

use std::path::PathBuf;

use ident::Digest;
use record::ClusterConfig;

use crate::naming::hostname;

/// How to reach a cluster, and how to use it.
#[derive(Debug, Clone)]
pub struct KubernetesConfig {
    /// A kubeconfig file. When absent: the files of `KUBECONFIG`, else `~/.kube/config`, else the account of the pod that this
    /// program runs in.
    pub kubeconfig: Option<PathBuf>,
    /// What the pods of this program are labelled with: small letters, digits and `-`, unique among the runs on the cluster.
    pub run: String,
    /// Everything that a recipe may say.
    pub cluster: ClusterConfig,
}

impl KubernetesConfig {
    /// A configuration with nothing but the run's name.
    pub fn new(run: impl Into<String>) -> Self {
        Self { kubeconfig: None, run: run.into(), cluster: ClusterConfig::default() }
    }

    /// A run's name for a job: readable, valid, and different for different jobs and salts.
    pub fn run_name(job: &str, salt: &str) -> String {
        const READABLE: usize = 28;
        const DIGITS: usize = 10;
        let mut digits = Digest::of(format!("{job}\0{salt}")).hex();
        digits.truncate(DIGITS);
        let readable: String = hostname(job).chars().take(READABLE).collect();
        format!("{}-{digits}", readable.trim_matches('-'))
    }
}
