//! Dependencies between the rooms point one way.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Each room, and the rooms that it may use. `domain` and `config` are everybody's; `app` wires everything.
const ARROWS: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("config", &[]),
    ("schema", &[]),
    ("clock", &[]),
    ("telemetry", &[]),
    ("console", &[]),
    ("demo_shop", &[]),
    ("client", &[]),
    ("codegen", &[]),
    ("store", &["clock"]),
    ("breaker", &["clock"]),
    ("sql", &[]),
    ("plugin", &["breaker", "schema", "sql"]),
    ("vault", &["plugin", "sql", "store"]),
    ("delivery", &["clock"]),
    ("catalog", &["costs", "plugin", "schema", "store"]),
    ("costs", &["clock", "plugin"]),
    ("stats", &["clock", "store"]),
    ("dispatch", &["catalog", "clock", "delivery", "plugin", "schema", "stats", "store"]),
    ("compensate", &["catalog", "clock", "plugin", "stats", "store"]),
    ("api", &["breaker", "catalog", "clock", "costs", "plugin", "schema", "sql", "stats", "store", "vault"]),
    (
        "app",
        &[
            "api",
            "breaker",
            "catalog",
            "clock",
            "compensate",
            "console",
            "delivery",
            "dispatch",
            "plugin",
            "schema",
            "sql",
            "stats",
            "store",
            "telemetry",
            "vault",
        ],
    ),
    (
        "cli",
        &[
            "api",
            "app",
            "breaker",
            "client",
            "clock",
            "codegen",
            "costs",
            "delivery",
            "demo_shop",
            "plugin",
            "schema",
            "store",
            "telemetry",
        ],
    ),
];

const EVERYBODYS: &[&str] = &["config", "domain"];

fn rust_files(under: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(under).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// The rooms that `source` names after `crate::`, in `use` lines, in braces behind them, and inline.
fn rooms_used(source: &str) -> BTreeSet<String> {
    let code: String = source.lines().filter(|l| !l.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let mut used = BTreeSet::new();
    for (at, marker) in code.match_indices("crate::") {
        let rest = &code[at + marker.len()..];
        let name = |s: &str| s.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect::<String>();
        match rest.strip_prefix('{') {
            Some(list) => {
                let mut depth = 0;
                let mut first = true;
                for (i, c) in list.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => first = true,
                        c if first && c.is_ascii_lowercase() => {
                            used.insert(name(&list[i..]));
                            first = false;
                        }
                        _ => {}
                    }
                }
            }
            None => {
                used.insert(name(rest));
            }
        }
    }
    used.remove("");
    used
}

#[test]
fn rooms_use_only_what_they_may() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for file in files {
        let below = file.strip_prefix(&src).unwrap();
        let room = below.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs").to_owned();
        if room == "lib" || room == "main" {
            continue;
        }
        let Some(may) = allowed.get(room.as_str()) else {
            wrong.push(format!("{room} is a room that no arrow speaks of"));
            continue;
        };
        for used in rooms_used(&fs::read_to_string(&file).unwrap()) {
            let is_room = allowed.contains_key(used.as_str());
            if is_room && used != room && !may.contains(&used.as_str()) && !EVERYBODYS.contains(&used.as_str()) {
                wrong.push(format!("{} uses {used}", below.display()));
            }
        }
        seen.insert(room);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let known: BTreeSet<String> = allowed.keys().map(|&k| k.to_owned()).collect();
    assert_eq!(seen, known, "the arrows speak of exactly the rooms that are there");
}

#[test]
fn the_reader_of_arrows_sees_every_form() {
    let source = "use crate::store::Store;\nuse crate::{\n    domain::{id::Name, time},\n    plugin::Host,\n};\n// crate::api\nfn f() { crate::clock::now() }";
    let used: Vec<_> = rooms_used(source).into_iter().collect();
    assert_eq!(used, ["clock", "domain", "plugin", "store"]);
}
