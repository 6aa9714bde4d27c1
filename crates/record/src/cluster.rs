//! How an existing Kubernetes cluster is used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What cluster to use, and what every pod on it gets beside what its sandbox says: `[kubernetes]` of a recipe. The words are those of
/// the Kubernetes API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClusterConfig {
    /// The context of the kubeconfig; the current one when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The namespace for everything; the context's own when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Seconds that a pod may take from its creation to its guest.
    pub start_limit_sec: u64,
    /// Start sandboxes without network even where the cluster does not enforce network policies.
    pub accept_open_network: bool,
    /// Places outside of the cluster, `host:port`, that a sandbox without network must not reach, for the probe. The API server is
    /// always among them.
    pub probe: Vec<String>,
    /// Labels of nodes that may run pods.
    pub node_selector: BTreeMap<String, String>,
    /// Taints that pods tolerate.
    pub tolerations: Vec<Toleration>,
    /// The runtime class, such as one with a virtual machine around every pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_class: Option<String>,
    /// The priority class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<String>,
    /// Further annotations.
    pub annotations: BTreeMap<String, String>,
    /// Secrets of the namespace with which images are pulled.
    pub image_pull_secrets: Vec<String>,
    /// Capabilities that root keeps inside; none by default. Tasks whose commands run as several users need some.
    pub capabilities: Vec<Capability>,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            context: None,
            namespace: None,
            start_limit_sec: 300,
            accept_open_network: false,
            probe: Vec::new(),
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            runtime_class: None,
            priority_class: None,
            annotations: BTreeMap::new(),
            image_pull_secrets: Vec::new(),
            capabilities: Vec::new(),
        }
    }
}

/// A taint that pods tolerate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Toleration {
    /// The taint's key; every key when absent.
    pub key: Option<String>,
    /// Its value; any when absent.
    pub value: Option<String>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`; all of them when absent.
    pub effect: Option<String>,
}

/// A capability that a pod's root may keep. None of them reaches beyond its container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[expect(missing_docs, reason = "the names are the kernel's")]
pub enum Capability {
    Chown,
    DacOverride,
    Fowner,
    Fsetid,
    Kill,
    NetBindService,
    Setfcap,
    Setgid,
    Setpcap,
    Setuid,
    SysChroot,
    SysNice,
}

impl Capability {
    /// What the other engines leave root inside a sandbox.
    pub const USUAL: [Self; 12] = [
        Self::Chown,
        Self::DacOverride,
        Self::Fowner,
        Self::Fsetid,
        Self::Kill,
        Self::NetBindService,
        Self::Setfcap,
        Self::Setgid,
        Self::Setpcap,
        Self::Setuid,
        Self::SysChroot,
        Self::SysNice,
    ];
}
