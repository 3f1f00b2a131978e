//! Where settings come from, and what is refused.

use std::{collections::BTreeSet, fs};

use lapse::config::{Config, Fault, Flag, Loaded, Sources};
use serde_json::Value;

use crate::support::dev::lapse;

fn env(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn faults(sources: &Sources) -> Vec<Fault> {
    Loaded::from(sources).unwrap_err().0
}

#[test]
fn the_later_source_wins_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lapse.toml");
    fs::write(&file, "[store]\nqueue = 1\nbatch = 2\nreaders = 3\n[server]\ndrain = \"5s\"\n").unwrap();
    let sources = Sources {
        file: Some(file.clone()),
        env: env(&[
            ("LAPSE_STORE__BATCH", "20"),
            ("LAPSE_STORE__READERS", "30"),
            ("LAPSE_DISPATCH__BACKLOG", "false"),
            // Not settings: no section in them.
            ("LAPSE_TOKEN", "secret"),
            ("LAPSE_SERVER_URL", "http://elsewhere"),
        ]),
        flags: vec![Flag { flag: "--listen", setting: "server.listen", value: "127.0.0.1:0".into() }],
    };
    let Loaded { config, settings } = Loaded::from(&sources).unwrap();
    assert_eq!((config.store.queue, config.store.batch, config.store.readers), (1, 20, 30));
    assert_eq!(config.server.drain.to_string(), "5s");
    assert!(!config.dispatch.backlog);
    let source = |name: &str| settings.iter().find(|s| s.setting == name).unwrap().source.clone();
    assert_eq!(source("store.queue"), format!("file {}", file.display()));
    assert_eq!(source("store.batch"), "environment LAPSE_STORE__BATCH");
    assert_eq!(source("server.listen"), "flag --listen");
    assert_eq!(source("log.format"), "default");
}

/// Each setting is shown, is a variable of the environment, and takes its own default.
#[test]
fn every_setting_is_shown_and_takes_its_default_from_the_environment() {
    let Loaded { config, settings } = Loaded::from(&Sources::default()).unwrap();
    assert_eq!(config, Config::default());
    let value = serde_json::to_value(&config).unwrap();
    let expected: BTreeSet<String> = value
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(section, of)| of.as_object().unwrap().keys().map(move |name| format!("{section}.{name}")))
        .collect();
    assert_eq!(settings.iter().map(|s| s.setting.clone()).collect::<BTreeSet<_>>(), expected);
    let all = settings
        .iter()
        .map(|s| {
            let text = s.value.as_str().map_or_else(|| s.value.to_string(), str::to_owned);
            (format!("LAPSE_{}", s.setting.to_uppercase().replace('.', "__")), text)
        })
        .collect();
    let again = Loaded::from(&Sources { env: all, ..Sources::default() }).unwrap();
    assert_eq!(again.config, config);
    assert!(again.settings.iter().all(|s| s.source.starts_with("environment LAPSE_")));
}

#[test]
fn a_value_that_makes_no_sense_is_refused_with_its_source_and_what_it_takes() {
    for (name, value, accepts) in [
        ("STORE__QUEUE", "0", "a whole number from 1 to 10000000"),
        ("STORE__BATCH", "many", "a whole number from 1 to 10000"),
        ("STORE__READERS", "-1", "a whole number from 1 to 64"),
        ("DISPATCH__LEASE", "0s", "from 1s to 1d"),
        ("DISPATCH__CONCURRENCY", "0", "a whole number from 1"),
        ("DISPATCH__BACKLOG", "maybe", "true or false"),
        ("DISPATCH__PAUSE_FAILED_SHARE", "5%", "a share from 0 to 1"),
        ("DISPATCH__PAUSE_FAILED_SHARE", "1.5", "a share from 0 to 1"),
        ("SERVER__LISTEN", "localhost", "an IP address and a port, like 127.0.0.1:8080"),
        ("SERVER__DRAIN", "20", "a duration like 500ms"),
        ("COMPENSATION__ATTEMPTS", "0", "a whole number from 1"),
        ("PLUGIN__MEMORY_BYTES", "0", "a whole number from 1048576"),
        ("PLUGIN__CPU", "0ms", "a duration"),
        ("LOG__FILTER", "a=b=c", "a level or a filter"),
        ("LOG__FORMAT", "xml", "text or json"),
        ("STORE__DATA", "", "a path"),
    ] {
        let name = format!("LAPSE_{name}");
        let [fault] = &faults(&Sources { env: env(&[(&name, value)]), ..Sources::default() })[..] else {
            panic!("{name} = {value}: one fault was expected")
        };
        let said = fault.to_string();
        assert!(said.contains(accepts), "{name} = {value}: {said}");
        assert!(said.contains(&format!("environment {name}")), "{said}");
    }
}

#[test]
fn all_faults_are_told_at_once_and_a_slip_of_the_pen_is_guessed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lapse.toml");
    fs::write(&file, "nonsense = 1\n[store]\nqeue = 5\nbatch = \"500\"\n[dispatch]\nthreads = true\n").unwrap();
    let faults = faults(&Sources { file: Some(file), env: env(&[("LAPSE_STROE__BATCH", "5")]), ..Sources::default() });
    let said: Vec<_> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 4, "{said:#?}");
    assert!(said.iter().any(|s| s.contains("store.qeue") && s.contains("did you mean store.queue?")), "{said:#?}");
    assert!(said.iter().any(|s| s.contains("stroe.batch") && s.contains("did you mean store.batch?")), "{said:#?}");
    assert!(said.iter().any(|s| s.contains("no setting nonsense")), "{said:#?}");
    assert!(said.iter().any(|s| s.contains("dispatch.threads = true")), "{said:#?}");
}

#[test]
fn a_file_that_cannot_be_read_or_parsed_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing.toml");
    let said = faults(&Sources { file: Some(missing.clone()), ..Sources::default() })[0].to_string();
    assert!(said.contains(&missing.display().to_string()) && said.contains("cannot be read"), "{said}");
    let broken = folder.path().join("broken.toml");
    fs::write(&broken, "[server]\nlisten = \n").unwrap();
    let said = faults(&Sources { file: Some(broken), ..Sources::default() })[0].to_string();
    assert!(said.contains("is not TOML") && said.contains("line 2"), "{said}");
}

#[test]
fn the_command_shows_what_is_in_force() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("lapse.toml"), "[plugin]\ncpu = \"2s\"\n").unwrap();
    let output = lapse()
        .args(["config", "--config", "lapse.toml", "--data", "elsewhere", "--json"])
        .env("LAPSE_LOG__FORMAT", "json")
        .current_dir(folder.path())
        .output()
        .unwrap();
    let settings: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let of = |name: &str| {
        let row = settings.iter().find(|s| s["setting"] == name).unwrap();
        (row["value"].clone(), row["source"].as_str().unwrap().to_owned())
    };
    assert_eq!(of("plugin.cpu"), ("2s".into(), "file lapse.toml".into()));
    assert_eq!(of("store.data"), ("elsewhere".into(), "flag --data".into()));
    assert_eq!(of("log.format"), ("json".into(), "environment LAPSE_LOG__FORMAT".into()));
    assert_eq!(of("store.queue"), (20000.into(), "default".into()));
}
