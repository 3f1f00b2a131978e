//! The broker's settings, and that none of its secrets is ever shown.

use lapse::config::{Flag, Loaded, Sources};

#[test]
fn secrets_reach_the_connection_and_no_display() {
    let env = [("LAPSE_NATS__PASSWORD", "pass-4711"), ("LAPSE_NATS__TOKEN", "4711"), ("LAPSE_NATS__REPLICAS", "3")];
    let loaded = Loaded::from(&Sources {
        env: env.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec(),
        flags: vec![Flag {
            flag: "--nats",
            setting: "nats.url",
            value: "nats://me:url-4711@a:4222,tls://url-4711@b".to_owned(),
        }],
        ..Sources::default()
    })
    .unwrap();
    let nats = &loaded.config.nats;
    assert_eq!((nats.password.reveal(), nats.token.reveal(), nats.replicas), ("pass-4711", "4711", 3));
    assert!(nats.url.contains("url-4711@b"));

    let shown = serde_json::to_string(&loaded.settings).unwrap();
    assert!(!shown.contains("4711"), "{shown}");
    assert!(shown.contains("nats://***@a:4222,tls://***@b"), "{shown}");
    let written = format!("{:?} {}", nats.password, serde_json::to_string(&nats.token).unwrap());
    assert_eq!(written, "*** \"***\"");
}

#[test]
fn what_would_not_do_is_refused_in_words() {
    for (name, value) in [("LAPSE_NATS__PREFIX", "a.b"), ("LAPSE_NATS__REPLICAS", "0"), ("LAPSE_NATS__PREFIX", "")] {
        let env = vec![(name.to_owned(), value.to_owned())];
        let refused = Loaded::from(&Sources { env, ..Sources::default() }).unwrap_err().to_string();
        assert!(refused.contains(name), "{refused}");
    }
}
