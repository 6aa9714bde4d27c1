//! The report beside a set.

use dataset::resolve::{Loss, Replacement};
use dataset::{Story, report};

use crate::project::{Project, task_id};

fn story(project: &Project) -> Story {
    Story {
        stages: vec![("planned".into(), 9), ("chosen".into(), 4)],
        left_out: [(("prove".to_owned(), "oracle_failed".to_owned()), 3)].into(),
        replaced: vec![Replacement {
            stage: "<pool>".into(),
            lost: Some(task_id("o/lost", 1)),
            why: Some(Loss::LeftOver { cause: "left_over" }),
            by: None,
        }],
        oracle_ms: project
            .selection
            .tasks
            .iter()
            .zip([800, 1_200, 45_000, 300])
            .map(|(task, ms)| (task.task_id.clone(), vec![ms, ms + 10, ms * 2]))
            .collect(),
        trials: 24,
        trials_ms: 7_200_000,
        frozen_at: "2026-01-02T03:04:05Z".into(),
        made_by: vec![("program".into(), "<script>alert(1)</script>".into())],
    }
}

#[test]
fn a_page_needs_nothing_else_and_says_what_the_set_is() {
    let project = Project::sample();
    let frozen = project.freeze().unwrap();
    let page = report(&frozen.manifest, &story(&project));
    for words in [
        "sample v1",
        "acme/widgets",
        "prove: oracle failed",
        "<b>4</b>tasks",
        "<b>3 + 3</b>",
        "63.2 %",
        &frozen.manifest.semantic_digest.to_string(),
        "2026-01-02T03:04:05Z",
    ] {
        assert!(page.contains(words), "{words}");
    }
    // The slowest is told by its middle run.
    assert!(page.contains("<td>45.0</td>"), "{page}");
    assert!(page.matches("<svg").count() >= 7);
    for foreign in ["<script", "<link", "src=", "href=", "url(", "@import", "<pool>", "NaN"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}

#[test]
fn a_page_without_a_story_is_a_page() {
    let project = Project::sample();
    let frozen = project.freeze().unwrap();
    let page = report(&frozen.manifest, &Story::default());
    assert!(page.ends_with("</html>\n") && !page.contains("NaN"), "{page}");
}
