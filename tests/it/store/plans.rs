//! Every statement's query plan: each finds its rows through an index, and takes their order from it.

use lapse::store::sqlite::{migrate_up, statements};
use rusqlite::Connection;

/// Small tables and one small index, walked or sorted on purpose (a new namespace is looked for among the keys, which refer to it).
const WHOLE: &[&str] = &[
    "catalogue.any_key",
    "catalogue.delete_ended_pauses",
    "catalogue.insert_namespace",
    "catalogue.keys",
    "catalogue.namespaces",
    "catalogue.pauses",
    "catalogue.plugin_revisions",
    "catalogue.plugins",
    "catalogue.revisions",
    "catalogue.revoked",
    "catalogue.type_ids",
    "catalogue.types",
    // The index holds nothing but leases.
    "timers.end_leases",
];

/// What the hot path must use, beyond any index.
const EXPECTED: &[(&str, &str)] = &[
    ("timers.due", "SEARCH timers USING INDEX timers_by_shard (shard=? AND (run_at,id)>(?,?) AND run_at<?)"),
    ("timers.overdue", "SEARCH timers USING INDEX timers_by_type (type_id=? AND run_at<?)"),
    ("timers.lapsed", "SEARCH timers USING INDEX timers_firing (type_id=? AND run_at<?)"),
    ("timers.end_leases", "SCAN timers USING INDEX timers_firing"),
    ("timers.next_type", "SEARCH timers USING COVERING INDEX timers_by_type (type_id>?)"),
    ("timers.next_firing_type", "SEARCH timers USING COVERING INDEX timers_firing (type_id>?)"),
    ("timers.by_id", "SEARCH timers USING INDEX sqlite_autoindex_timers_1 (id=?)"),
    ("timers.by_key", "SEARCH timers USING INDEX sqlite_autoindex_timers_2 (type_id=? AND key=?)"),
    ("timers.update", "SEARCH timers USING INTEGER PRIMARY KEY (rowid=?)"),
    ("timers.append", "SEARCH timers USING INTEGER PRIMARY KEY (rowid=?)"),
    (
        "timers.page",
        "SEARCH timers USING COVERING INDEX timers_list (type_id=? AND state=? AND due_at>? AND (due_at,id)<(?,?))",
    ),
    (
        "timers.page_ascending",
        "SEARCH timers USING COVERING INDEX timers_list (type_id=? AND state=? AND (due_at,id)>(?,?) AND due_at<?)",
    ),
    ("timers.keys", "SEARCH timers USING INDEX sqlite_autoindex_timers_2 (type_id=? AND key>?)"),
    ("timers.count_due", "SEARCH timers USING COVERING INDEX timers_list (type_id=? AND state=? AND due_at<?)"),
    ("timers.upcoming", "SEARCH timers USING COVERING INDEX timers_by_type (type_id=? AND run_at>? AND run_at<?)"),
    ("timers.payloads_under", "SEARCH timers USING INDEX timers_by_revision (type_id=? AND revision=?)"),
    ("events.after", "SEARCH events USING PRIMARY KEY (timer=? AND seq>?)"),
    ("catalogue.needed", "SEARCH w USING INDEX timers_by_revision (type_id=? AND revision=?)"),
    ("compensations.due", "SEARCH c USING INDEX compensations_lane (type_id=? AND kind=? AND run_at<?)"),
    ("compensations.next_lane", "SEARCH compensations USING COVERING INDEX compensations_lane ((type_id,kind)>(?,?))"),
    ("compensations.claim", "SEARCH compensations USING INTEGER PRIMARY KEY (rowid=?)"),
    ("compensations.end_leases", "SEARCH compensations USING INDEX compensations_list (state=?)"),
    ("compensations.finish", "SEARCH compensations USING INTEGER PRIMARY KEY (rowid=?)"),
    (
        "compensations.page",
        "SEARCH compensations USING COVERING INDEX compensations_list (state=? AND type_id=? AND (created_at,id)<(?,?))",
    ),
    ("compensations.oldest", "SEARCH compensations USING COVERING INDEX compensations_list (state=? AND type_id=?)"),
    (
        "compensations.count_of_type",
        "SEARCH compensations USING COVERING INDEX compensations_list (state=? AND type_id=?)",
    ),
    ("compensations.oldest_at", "SEARCH compensations USING COVERING INDEX compensations_list (state=? AND type_id=?)"),
    ("compensations.count", "SEARCH compensations USING COVERING INDEX compensations_list (state=?)"),
];

#[test]
fn every_statement_is_served_by_an_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lapse.db");
    migrate_up(&path).unwrap();
    let conn = Connection::open(&path).unwrap();
    let mut faults = Vec::new();
    let mut seen = 0;
    for (name, text) in statements() {
        seen += 1;
        let mut explain = conn.prepare(&format!("EXPLAIN QUERY PLAN {text}")).unwrap();
        let steps: Vec<String> = explain.raw_query().mapped(|row| row.get(3)).collect::<Result<_, _>>().unwrap();
        let scans = |step: &String| {
            step.starts_with("SCAN") && !step.starts_with("SCAN (subquery") && step != "SCAN CONSTANT ROW"
        };
        if !WHOLE.contains(&name) && steps.iter().any(scans) {
            faults.push(format!("{name} scans: {steps:?}"));
        }
        if !WHOLE.contains(&name) && steps.iter().any(|step| step.contains("TEMP B-TREE") || step.contains("AUTOMATIC"))
        {
            faults.push(format!("{name} sorts: {steps:?}"));
        }
        for (_, expected) in EXPECTED.iter().filter(|(n, _)| *n == name) {
            if !steps.iter().any(|step| step.starts_with(expected)) {
                faults.push(format!("{name} is not served by {expected}: {steps:?}"));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(EXPECTED.len() < seen && EXPECTED.iter().all(|(n, _)| statements().any(|(name, _)| name == *n)));
}
