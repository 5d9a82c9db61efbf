//! The naive store passes the suite, and the suite tests every claim it has.

use std::{fs, path::Path};

mod naive {
    hikyaku_store::store_suite!(|| Box::new(hikyaku_store::testing::NaiveStore::new()));
}

macro_rules! listed {
    ({} $($module:ident: $($claim:ident),+;)+) => {
        fn listed() -> Vec<(&'static str, Vec<&'static str>)> {
            vec![$((stringify!($module), vec![$(stringify!($claim)),+])),+]
        }
    };
}
hikyaku_store::__store_claims! { listed, }

#[test]
fn every_claim_is_on_the_list() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/testing/suite");
    for (module, claims) in listed() {
        let source = fs::read_to_string(folder.join(module).with_extension("rs")).unwrap();
        let written: Vec<_> = source
            .lines()
            .filter_map(|line| line.strip_prefix("pub fn ")?.split('(').next())
            .collect();
        assert_eq!(claims, written, "in {module}");
    }
    let without_claims = ["mod.rs", "filters.rs", "subject.rs"].len();
    assert_eq!(
        fs::read_dir(folder).unwrap().count(),
        listed().len() + without_claims
    );
}
