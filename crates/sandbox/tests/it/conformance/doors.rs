//! Single services of the host inside a sandbox that has no network.

use super::ground::Ground;

pub async fn a_door_leads_to_a_service_of_the_host(ground: &Ground) {
    let _ = ground;
}

pub async fn a_door_closes_with_its_service_and_its_sandbox(ground: &Ground) {
    let _ = ground;
}
