//! The objects that are made, watched and listed, with nothing but the fields that something here looks at.
//!
//! What is asked for is written as JSON in `pod.rs`; what comes back is read as these types. The complete types of the API would keep
//! hundreds of fields of every pod that nobody asks for, and are most of what this engine adds to the program's size.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::{Metadata, NamespaceResourceScope, Resource};
use kube::api::TypeMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A pod.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pod {
    #[serde(flatten, skip_deserializing)]
    types: TypeMeta,
    #[serde(default)]
    pub(super) metadata: ObjectMeta,
    /// Sent and not read.
    #[serde(default, skip_deserializing, skip_serializing_if = "Value::is_null")]
    pub(super) spec: Value,
    /// Read and not sent.
    #[serde(default, skip_serializing)]
    pub(super) status: PodStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodStatus {
    pub(super) phase: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) message: Option<String>,
    pub(super) conditions: Option<Vec<PodCondition>>,
    pub(super) container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct PodCondition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    pub(super) reason: Option<String>,
    pub(super) message: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct ContainerStatus {
    pub(super) name: String,
    pub(super) state: Option<ContainerState>,
}

/// What a container does; one of the three is there.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ContainerState {
    pub(super) waiting: Option<Said>,
    pub(super) running: Option<Value>,
    pub(super) terminated: Option<Terminated>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Said {
    pub(super) reason: Option<String>,
    pub(super) message: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Terminated {
    pub(super) exit_code: i32,
    pub(super) reason: Option<String>,
    pub(super) message: Option<String>,
}

impl Pod {
    /// One that is to be made.
    pub(super) fn new(metadata: ObjectMeta, spec: Value) -> Self {
        Self { types: TypeMeta::resource::<Self>(), metadata, spec, status: PodStatus::default() }
    }
}

/// A lease.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Lease {
    #[serde(flatten, skip_deserializing)]
    types: TypeMeta,
    pub(super) metadata: ObjectMeta,
    pub(super) spec: Option<LeaseSpec>,
}

impl Lease {
    /// One that is to be taken.
    pub(super) fn new(metadata: ObjectMeta, spec: LeaseSpec) -> Self {
        Self { types: TypeMeta::resource::<Self>(), metadata, spec: Some(spec) }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LeaseSpec {
    pub(super) holder_identity: Option<String>,
    pub(super) lease_duration_seconds: Option<u64>,
    pub(super) renew_time: Option<MicroTime>,
}

/// A network policy.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct NetworkPolicy {
    #[serde(flatten, skip_deserializing)]
    types: TypeMeta,
    pub(super) metadata: ObjectMeta,
    /// Sent and not read.
    #[serde(default, skip_deserializing)]
    spec: Value,
}

impl NetworkPolicy {
    /// One that is to be made.
    pub(super) fn new(metadata: ObjectMeta, spec: Value) -> Self {
        Self { types: TypeMeta::resource::<Self>(), metadata, spec }
    }
}

/// Says where objects of a type are found.
macro_rules! resource {
    ($type:ident, $group:literal, $api_version:literal, $plural:literal) => {
        impl Resource for $type {
            const API_VERSION: &'static str = $api_version;
            const GROUP: &'static str = $group;
            const KIND: &'static str = stringify!($type);
            const VERSION: &'static str = "v1";
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = NamespaceResourceScope;
        }

        impl Metadata for $type {
            type Ty = ObjectMeta;

            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

resource!(Pod, "", "v1", "pods");
resource!(Lease, "coordination.k8s.io", "coordination.k8s.io/v1", "leases");
resource!(NetworkPolicy, "networking.k8s.io", "networking.k8s.io/v1", "networkpolicies");
