//! What must not compile, and says why: each file beside begins with a part of what its author reads.
//!
//! The compiler is called for each as it was for this test, with what this test is linked with: a whole
//! build of its own for so little (trybuild's) would take minutes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Asks the compiler about a file; `Err` with what it says.
fn compile(file: &Path, library: &Path) -> Result<(), String> {
    let said = Command::new(Path::new(env!("CARGO")).with_file_name("rustc"))
        .args(["--edition=2024", "--crate-type=lib", "--emit=metadata"])
        .args(["--crate-name=must_not_compile", "-Adead_code", "-o"])
        .arg(scratch().join("out.rmeta"))
        .arg("--extern")
        .arg(format!("hikyaku_server={}", library.display()))
        .arg("-L")
        .arg(format!("dependency={}", libraries().display()))
        .arg(file)
        .output()
        .unwrap();
    if said.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&said.stderr).into_owned())
}

/// The folder of what this test is linked with.
fn libraries() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().into()
}

fn scratch() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("must_not_compile-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path())
}

#[test]
fn what_must_not_compile_does_not_and_says_why() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/must_not_compile");
    let control = cases.join("control.rs");
    // Older builds may lie there, too.
    let mut built: Vec<_> = files(&libraries())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("libhikyaku_server-") && name.ends_with(".rlib")
        })
        .collect();
    built.sort_by_key(|path| fs::metadata(path).unwrap().modified().unwrap());
    let mut said = String::new();
    let library = built.iter().rev().find(|library| {
        let compiled = compile(&control, library);
        compiled.map_err(|error| said = error).is_ok()
    });
    let library = library.unwrap_or_else(|| panic!("what must compile does not: {said}"));
    let mut count = 0;
    for case in files(&cases).filter(|case| *case != control) {
        let text = fs::read_to_string(&case).unwrap();
        let expected = text.lines().next().unwrap().trim_start_matches("//! ");
        let error = compile(&case, library).expect_err("a refusal");
        assert!(error.contains(expected), "{}: {error}", case.display());
        count += 1;
    }
    assert_eq!(count, 6);
    fs::remove_dir_all(scratch()).unwrap();
}
