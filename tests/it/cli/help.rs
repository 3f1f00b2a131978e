//! Help, completion and usage.

use std::process::Command;

use clap::Command as Parser;

use crate::support::dev::run;

/// Every command that does something, with its path.
fn leaves(command: &Parser, path: &str, found: &mut Vec<(String, Parser)>) {
    let mut subcommands = command.get_subcommands().filter(|c| c.get_name() != "help").peekable();
    if subcommands.peek().is_none() {
        found.push((path.to_owned(), command.clone()));
    }
    for subcommand in subcommands {
        leaves(subcommand, format!("{path} {}", subcommand.get_name()).trim(), found);
    }
}

fn commands() -> Vec<(String, Parser)> {
    let mut root = lapse::cli::command();
    root.build();
    root.clone().debug_assert();
    let mut found = Vec::new();
    leaves(&root, "", &mut found);
    found
}

#[test]
fn every_command_has_help_examples_and_json() {
    let commands = commands();
    for (path, command) in &commands {
        assert!(command.get_about().is_some(), "{path} says not what it does");
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(after.starts_with("Examples:\n  "), "{path} has no examples");
        assert!(command.get_arguments().any(|a| a.get_id() == "json"), "{path} has no --json");
        for argument in command.get_arguments() {
            assert!(
                argument.is_hide_set() || argument.get_help().is_some(),
                "{path}: {} has no help",
                argument.get_id()
            );
        }
    }
    let paths: Vec<_> = commands.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths.join(", "), COMMANDS);
}

const COMMANDS: &str = "dev, serve, migrate up, migrate down, migrate status, plugin new, plugin build, \
    plugin check, plugin push, plugin list, plugin delete, type list, \
    type show, type dry-run, type revisions, type activate, type delete-revision, type revoke, type restore, type costs, type generate, timer register, timer get, timer list, timer events, timer explain, timer resolve, timer cancel, timer reschedule, \
    timer fire, timer retry, compensation list, compensation show, compensation redrive, pause, resume, pauses, \
    secret set, secret list, secret delete, datasource set, datasource list, datasource check, datasource delete, \
    key create, key list, \
    key revoke, config, doctor, bench register, bench expire, bench race, bench neighbours, bench cluster, openapi, demo-shop, completion";

/// What an example shows must be a call that is understood.
#[test]
fn every_example_parses() {
    for (path, command) in commands() {
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default().replace("\\\n", " ");
        let mut of_its_own = 0;
        for line in after.lines().skip(1).filter(|l| !l.trim().is_empty()) {
            let calls = line.split('|').map(str::trim).filter(|c| c.contains("lapse "));
            for call in calls {
                // What stands behind three spaces is a remark; what stands behind `>` is the shell's.
                let call = &call[call.find("lapse ").unwrap()..];
                let call = call.split("   ").next().unwrap().split(" > ").next().unwrap();
                let words = shell_words(call);
                let parsed = lapse::cli::command().try_get_matches_from(&words);
                assert!(parsed.is_ok(), "{path}: the example {call:?} does not parse: {}", parsed.unwrap_err());
                of_its_own += usize::from(call.starts_with(&format!("lapse {path}")));
            }
        }
        assert!(of_its_own > 0, "{path} has no example of itself");
    }
}

/// Words, with single quotes kept together.
fn shell_words(call: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in call.trim().chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|w| !w.is_empty());
    words
}

#[test]
fn completion_scripts_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let output = run(folder.path(), &["completion", shell]);
        assert!(output.status.success());
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains("reschedule") && script.contains("redrive"), "{shell} misses commands");
        if shell == "bash" {
            let file = folder.path().join("lapse.bash");
            std::fs::write(&file, script).unwrap();
            assert!(Command::new("bash").arg("-n").arg(&file).status().unwrap().success());
        }
    }
}

#[test]
fn a_call_that_makes_no_sense_is_2_and_says_what_would() {
    let folder = tempfile::tempdir().unwrap();
    for (args, said) in [
        (&["frobnicate"][..], "unrecognized subcommand"),
        (&["timer", "get"], "ID"),
        (&["timer", "get", "--type", "t"], "--key"),
        (&["timer", "register", "--type", "t", "--key", "k", "--delay", "1s", "--due-at", "x"], "cannot be used with"),
        (&["timer", "register", "--type", "t", "--key", "k", "--payload", "{"], "--payload is not JSON"),
        (&["timer", "register", "--type", "t", "--file", "none.ndjson"], "none.ndjson cannot be read"),
        (&["timer", "list", "--server", "ftp://x"], "is not a server's address"),
        (&["plugin", "push", "none.wasm", "--type", "t"], "none.wasm cannot be read"),
        (&["migrate", "down", "--to", "0"], "--yes"),
        (&["serve", "--listen", "everywhere"], "it takes an IP address and a port"),
    ] {
        let output = run(folder.path(), args);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(said), "{args:?} said {stderr:?}");
        assert!(output.stdout.is_empty(), "{args:?} printed to standard output");
    }
}

#[test]
fn a_server_that_is_not_there_is_1_and_says_how_to_start_one() {
    let folder = tempfile::tempdir().unwrap();
    // Nothing listens on a port that was free a moment ago and is not given out again so soon.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = format!("http://127.0.0.1:{port}");
    let output = run(folder.path(), &["timer", "list", "--server", &server]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        stderr,
        format!(
            "error: no server at {server}\nhint: start one with `lapse dev`, or give --server (or set LAPSE_SERVER_URL)\n"
        )
    );
    let output = run(folder.path(), &["timer", "list", "--server", &server, "--json"]);
    let error: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(error["error"]["message"], format!("no server at {server}"));
    assert!(error["error"]["hint"].as_str().unwrap().contains("lapse dev"));
}
