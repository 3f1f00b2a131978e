//! Who owns which shard while there is no broker.

use std::collections::BTreeMap;

use lapse::delivery::live::owner;
use proptest::prelude::*;

const MANY: u16 = 4096;

fn owners(nodes: &[String]) -> Vec<&str> {
    (0..MANY).map(|shard| owner(shard, nodes.iter().map(String::as_str)).unwrap()).collect()
}

fn names() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::hash_set("[a-z0-9-]{1,24}", 1..12).prop_map(|s| s.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nodes_agree_whatever_order_they_see_each_other_in(nodes in names(), by in 0usize..12) {
        let mut turned = nodes.clone();
        turned.rotate_left(by % nodes.len());
        prop_assert_eq!(owners(&nodes), owners(&turned));
    }

    #[test]
    fn a_node_that_goes_moves_its_own_shards_only(nodes in names(), which in 0usize..12) {
        prop_assume!(nodes.len() > 1);
        let gone = &nodes[which % nodes.len()];
        let left: Vec<String> = nodes.iter().filter(|n| *n != gone).cloned().collect();
        for (before, after) in owners(&nodes).into_iter().zip(owners(&left)) {
            prop_assert!(before == gone || before == after);
        }
    }

    #[test]
    fn shares_are_even(nodes in names()) {
        let mut shares: BTreeMap<&str, usize> = BTreeMap::new();
        for owner in owners(&nodes) {
            *shares.entry(owner).or_default() += 1;
        }
        let even = usize::from(MANY) / nodes.len();
        for node in &nodes {
            let share = shares.get(node.as_str()).copied().unwrap_or(0);
            prop_assert!((even / 2..=even * 2).contains(&share), "{} of {} for {}", share, even, node);
        }
    }
}

#[test]
fn it_is_the_same_on_every_machine_and_version() {
    let nodes = ["a", "b", "c"];
    let owners: String = (0..16).map(|shard| owner(shard, nodes).unwrap()).collect();
    insta::assert_snapshot!(owners, @"bbccbcbcaccaacbc");
    assert_eq!(owner(0, []), None);
}
