//! The configuration: sources, precedence, origins, errors, the example.

use std::path::Path;

use serde_json::Value;

use crate::program::{Ended, Place, ended};

/// Runs `config --json` with variables; returns value and origin of a key.
fn key(place: &Place, args: &[&str], variables: &[(&str, &str)], name: &str) -> (Value, String) {
    let keys = config(place, args, variables).json();
    let entry = keys
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["key"] == name)
        .unwrap_or_else(|| panic!("{name}"));
    let origin = entry["origin"].as_str().unwrap().to_owned();
    (entry["value"].clone(), origin)
}

fn config(place: &Place, args: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command = place.command(&["config", "--json"]);
    command.args(args).envs(variables.iter().copied());
    ended(command)
}

#[test]
fn a_flag_wins_over_the_environment_over_the_file_over_the_default() {
    let place = Place::new();
    let variable = [("HIKYAKU_DATA", "from-env")];
    let flag = ["--data", "from-flag"];
    assert_eq!(
        key(&place, &[], &[], "data"),
        ("./data".into(), "default".into())
    );
    place.write("hikyaku.toml", "# ours\ndata = \"/from-file\"\n");
    assert_eq!(
        key(&place, &[], &[], "data"),
        ("/from-file".into(), "hikyaku.toml:2".into())
    );
    assert_eq!(
        key(&place, &[], &variable, "data"),
        ("from-env".into(), "HIKYAKU_DATA".into())
    );
    assert_eq!(
        key(&place, &flag, &variable, "data"),
        ("from-flag".into(), "--data".into())
    );
}

#[test]
fn a_path_in_a_file_starts_at_the_files_folder() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("etc")).unwrap();
    place.write("etc/relay.toml", "data = \"store\"\n");
    let (data, _) = key(&place, &["--config", "etc/relay.toml"], &[], "data");
    assert_eq!(data, "etc/store");
}

#[test]
fn the_file_may_be_named_by_a_variable() {
    let place = Place::new();
    place.write("other.toml", "workers = 3\n");
    let named = [("HIKYAKU_CONFIG", "other.toml")];
    assert_eq!(key(&place, &[], &named, "workers").0, 3);
    let error = config(&place, &["--config", "missing.toml"], &named).failed(2);
    assert!(error.contains("missing.toml"), "{error}");
}

#[test]
fn everything_that_is_wrong_is_said_with_its_line() {
    let place = Place::new();
    place.write(
        "hikyaku.toml",
        "lisen = \"127.0.0.1:1\"\n\
         tags_max = 3\n\
         workers = 0\n\
         [limits]\n\
         tag_max = 3\n\
         event_bytes_max = -1\n\
         [metrik]\n\
         listen = \"x\"\n",
    );
    let error = config(&place, &[], &[]).failed(2);
    let expected = [
        "hikyaku.toml:1: unknown key `lisen`; did you mean `listen`?",
        "hikyaku.toml:2: unknown key `tags_max`; did you mean `limits.tags_max`?",
        "hikyaku.toml:3: `workers`: expected a whole number from 1 up",
        "hikyaku.toml:5: unknown key `limits.tag_max`; did you mean `limits.tags_max`?",
        "hikyaku.toml:6: `limits.event_bytes_max`: is a number out of range",
        "hikyaku.toml:7: unknown key `metrik`; did you mean `metrics`?",
    ];
    assert_eq!(error, format!("error: {}\n", expected.join("\n")));
}

#[test]
fn what_is_no_toml_is_said_with_its_line() {
    let place = Place::new();
    place.write("hikyaku.toml", "workers = 1\nlisten = \n");
    let error = config(&place, &[], &[]).failed(2);
    assert!(error.contains("hikyaku.toml:2:"), "{error}");
}

#[test]
fn a_wrong_variable_or_flag_is_named() {
    let place = Place::new();
    for (variable, value) in [
        ("HIKYAKU_LISTEN", "localhost"),
        ("HIKYAKU_TRUSTED_PROXIES", "10.0.0.0/8,nonsense"),
        ("HIKYAKU_STORE_DURABILITY", "never"),
        ("HIKYAKU_PUBLIC_URL", "https://example.com"),
        ("HIKYAKU_LOG_FILTER", "hikyaku=loud"),
        ("HIKYAKU_TIMEOUTS_PING_SECONDS", "0"),
        ("HIKYAKU_LIMITS_ANSWER_EVENTS_MAX", "10"),
    ] {
        let error = config(&place, &[], &[(variable, value)]).failed(2);
        let key = variable.trim_start_matches("HIKYAKU_").to_lowercase();
        let named = error.contains(variable) || error.replace('.', "_").contains(&key);
        assert!(named || error.contains("answer_events_max"), "{error}");
    }
    let error = place.run(&["serve", "--listen", "7777"]).failed(2);
    assert!(error.contains("--listen: `listen`: expected"), "{error}");
}

#[test]
fn a_variable_that_means_nothing_is_told() {
    let place = Place::new();
    let said = config(&place, &[], &[("HIKYAKU_LISTN", "x")]).err;
    assert!(said.contains("did you mean HIKYAKU_LISTEN?"), "{said}");
    assert_eq!(config(&place, &[], &[("HIKYAKU_SEEDS", "9")]).err, "");
}

#[test]
fn lists_and_unset_values_come_from_variables_too() {
    let place = Place::new();
    place.write("hikyaku.toml", "workers = 2\n");
    let variables = [
        ("HIKYAKU_TRUSTED_PROXIES", "10.0.0.0/8, 192.0.2.1"),
        ("HIKYAKU_WORKERS", ""),
    ];
    let (proxies, _) = key(&place, &[], &variables, "trusted_proxies");
    assert_eq!(proxies, serde_json::json!(["10.0.0.0/8", "192.0.2.1/32"]));
    assert_eq!(key(&place, &[], &variables, "workers").0, Value::Null);
}

#[test]
fn the_example_in_the_documentation_is_the_programs() {
    let place = Place::new();
    let example = place.run(&["config", "--example"]).ok();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/hikyaku.example.toml");
    let documented = std::fs::read_to_string(&path).unwrap();
    assert!(
        example == documented,
        "run `hikyaku config --example >docs/hikyaku.example.toml`"
    );
}

#[test]
fn the_example_has_every_key_with_its_default() {
    let place = Place::new();
    let example = place.run(&["config", "--example"]).ok();
    let in_force: String = example
        .lines()
        .filter(|line| !line.starts_with("# "))
        .map(|line| line.trim_start_matches('#').to_owned() + "\n")
        .collect();
    place.write(
        "hikyaku.toml",
        in_force.replace("<64 hex digits>", &"1".repeat(64)),
    );
    let keys = config(&place, &[], &[]).json();
    let defaults = config(&Place::new(), &[], &[]).json();
    let pairs = keys
        .as_array()
        .unwrap()
        .iter()
        .zip(defaults.as_array().unwrap());
    for (key, default) in pairs {
        let origin = key["origin"].as_str().unwrap();
        assert!(origin.starts_with("hikyaku.toml:"), "{key}");
        if default["value"] != Value::Null {
            assert_eq!(key["value"], default["value"], "{key}");
        }
    }
}

#[test]
fn every_setting_is_shown_with_its_origin() {
    let place = Place::new();
    let shown = place.run(&["config"]).ok();
    let keys = config(&place, &[], &[]).json();
    assert_eq!(shown.lines().count(), keys.as_array().unwrap().len());
    assert!(shown.lines().all(|line| line.ends_with("# default")));
}

#[test]
fn what_is_no_command_is_refused_and_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let program = std::process::Command::new(env!("CARGO_BIN_EXE_hikyaku"))
        .current_dir(folder.path())
        .arg("srve")
        .output()
        .unwrap();
    assert_eq!(program.status.code(), Some(2), "{program:?}");
    let said = String::from_utf8(program.stderr).unwrap();
    assert!(said.contains("'srve'") && said.contains("serve"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
