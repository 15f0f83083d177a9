//! What the guides say is true: links lead somewhere, configurations are right, commands have their flags, and the
//! tests that they name exist.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use redrive::config::{Config, Environment, Source};
use support::{folder, redrive, text};

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    for (file, page) in pages() {
        for target in links(&page) {
            if target.contains("://") {
                continue;
            }
            let (path, anchor) =
                target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
            let path = if path.is_empty() { file.clone() } else { file.parent().unwrap().join(path) };
            let leads = match anchor {
                Some(anchor) => {
                    fs::read_to_string(&path).is_ok_and(|page| anchors(&page).any(|found| found == anchor))
                }
                None => path.exists(),
            };
            if !leads {
                broken.push(format!("{}: {target}", file.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere: {broken:#?}");
}

#[test]
fn every_configuration_is_accepted() {
    let mut looked_at = 0;
    for (file, page) in pages() {
        for block in blocks(&page, "toml").filter(|block| block.starts_with("# redrive.toml\n")) {
            let loaded = Config::load(&Source::of_text("redrive.toml", &block), &Environment::default());
            assert!(loaded.is_ok(), "{}:\n{block}\n{}", file.display(), loaded.unwrap_err());
            looked_at += 1;
        }
    }
    assert!(looked_at > 8, "only {looked_at} configurations are found");
}

#[test]
fn every_command_exists_with_its_flags() {
    let mut helps = BTreeMap::new();
    let mut looked_at = 0;
    for (file, page) in pages() {
        for line in blocks(&page, "sh").flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>())
        {
            let line = line.split(" #").next().unwrap();
            let Some(arguments) = line.strip_prefix("redrive ") else { continue };
            let words: Vec<&str> = arguments.split_whitespace().collect();
            let help = helps.entry(words[0].to_owned()).or_insert_with_key(|command| help(command));
            for flag in words
                .iter()
                .filter(|word| word.starts_with("--") || (word.len() == 2 && word.starts_with('-')))
            {
                let known = help.split_whitespace().any(|word| word.trim_end_matches(',') == *flag);
                assert!(known, "{}: redrive {} has no {flag}", file.display(), words[0]);
            }
            looked_at += 1;
        }
    }
    assert!(looked_at > 20, "only {looked_at} commands are found");
}

#[test]
fn every_test_that_a_guide_names_exists() {
    let sources: String =
        files(&root().join("crates"), "rs").iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let mut looked_at = 0;
    for page in ["docs/guarantees.md", "docs/security.md"] {
        let page = fs::read_to_string(root().join(page)).unwrap();
        // Names of tests are long; nothing else in these pages that stands in such quotes is.
        let names = page.split('`').skip(1).step_by(2);
        let is_name = |name: &&str| {
            name.len() > 24 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        };
        for name in names.filter(is_name) {
            assert!(sources.contains(&format!("fn {name}(")), "there is no test {name}");
            looked_at += 1;
        }
    }
    assert!(looked_at > 40, "only {looked_at} names are found");
}

#[test]
fn every_room_that_the_architecture_sends_one_to_is_there() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut looked_at = 0;
    for section in page.split("\n### redrive").skip(1) {
        let crate_folder = root().join("crates").join(format!("redrive{}", section.lines().next().unwrap()));
        // Walks and decisions follow the last of them.
        let section = section.split("\n## ").next().unwrap();
        let cells = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").nth(1));
        for name in cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).filter(|name| is_path(name)) {
            let name = name.replace('*', "sqlite");
            let places = [crate_folder.join("src").join(&name), crate_folder.join(&name), root().join(&name)];
            assert!(places.iter().any(|place| place.exists()), "{}: {name}", crate_folder.display());
            looked_at += 1;
        }
    }
    assert!(looked_at > 100, "only {looked_at} rooms are found");
}

/// Whether it names a file or a folder of the repository.
fn is_path(name: &str) -> bool {
    let file = [".rs", ".sql", ".js", ".md"].iter().any(|ending| name.ends_with(ending));
    !name.starts_with('/') && (file || name.ends_with('/'))
}

#[test]
fn a_mistake_in_a_guide_would_be_found() {
    let page = "# One\n## Two, and `three`!\n[a](b.md#c) ![d](e.png)\n```toml\n# redrive.toml\n[x]\n```\n```sh\nredrive ls\n```\n";
    assert_eq!(links(page).collect::<Vec<_>>(), ["b.md#c", "e.png"]);
    assert_eq!(anchors(page).collect::<Vec<_>>(), ["one", "two-and-three"]);
    assert_eq!(blocks(page, "toml").collect::<Vec<_>>(), ["# redrive.toml\n[x]\n"]);
    assert_eq!(blocks(page, "sh").collect::<Vec<_>>(), ["redrive ls\n"]);
}

#[track_caller]
fn help(command: &str) -> String {
    let folder = folder();
    let output = redrive(folder.path()).args([command, "--help"]).output().unwrap();
    assert!(output.status.success(), "there is no `redrive {command}`");
    text(&output.stdout)
}

fn pages() -> Vec<(PathBuf, String)> {
    let mut found = files(&root().join("docs"), "md");
    found.extend(
        ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md"].map(|name| root().join(name)),
    );
    found.into_iter().map(|file| (file.clone(), fs::read_to_string(file).unwrap())).collect()
}

/// The targets of the links of a page, outside of code.
fn links(page: &str) -> impl Iterator<Item = &str> {
    let prose = page.split("```").step_by(2);
    prose.flat_map(|part| part.split("](").skip(1).filter_map(|rest| rest.split(')').next()))
}

/// The names by which the headings of a page can be linked to, as GitHub makes them.
fn anchors(page: &str) -> impl Iterator<Item = String> {
    let lines = page.split("```").step_by(2).flat_map(str::lines);
    let headings = lines.filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    headings.map(|heading| {
        let kept =
            heading.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
        kept.map(|letter| if letter == ' ' { '-' } else { letter.to_ascii_lowercase() }).collect()
    })
}

/// The blocks of code in this language.
fn blocks(page: &str, language: &str) -> impl Iterator<Item = String> {
    let opening = format!("{language}\n");
    page.split("```")
        .skip(1)
        .step_by(2)
        .filter_map(move |block| block.strip_prefix(&opening).map(str::to_owned))
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
