//! Canaries on real lists of ids.

use trace::sample;

#[test]
fn the_order_and_the_line_ends_of_a_list_change_nothing() {
    let Some(lists) = corpus::find("cases/155-canary-sampling-order") else { return };
    let drawn = |name: &str| {
        let text = std::fs::read_to_string(lists.join(name)).unwrap();
        sample(text.lines().map(str::trim).filter(|id| !id.is_empty()), 30)
    };
    let ids = drawn("ids_a.txt");
    assert_eq!(ids.len(), 30);
    assert_eq!(ids, drawn("ids_b.txt"));
}
