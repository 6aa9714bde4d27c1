//! Which of the types are stage documents, and which stage writes each.

use artifact::Document;

use crate::{
    CheckDocument, ImageBuilds, MaterializeDocument, PlanDocument, ProofDocument, QuarantineDocument,
    RewriteDocument, Selection,
};

impl Document for PlanDocument {
    const SCHEMA: &'static str = "seatrial.plan/1";
    const STAGE: &'static str = "plan";
}

impl Document for MaterializeDocument {
    const SCHEMA: &'static str = "seatrial.materialize/1";
    const STAGE: &'static str = "materialize";
}

impl Document for CheckDocument {
    const SCHEMA: &'static str = "seatrial.checks/1";
    const STAGE: &'static str = "check";
}

impl Document for ProofDocument {
    const SCHEMA: &'static str = "seatrial.proofs/1";
    const STAGE: &'static str = "prove";
}

impl Document for Selection {
    const SCHEMA: &'static str = "seatrial.selection/1";
    const STAGE: &'static str = "resolve";
}

impl Document for QuarantineDocument {
    const SCHEMA: &'static str = "seatrial.quarantine/1";
    const STAGE: &'static str = "prove";
}

impl Document for ImageBuilds {
    const SCHEMA: &'static str = "seatrial.image-builds/1";
    const STAGE: &'static str = "images build";
}

impl Document for RewriteDocument {
    const SCHEMA: &'static str = "seatrial.rewrite/1";
    const STAGE: &'static str = "images rewrite";
}
