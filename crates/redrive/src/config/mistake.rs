//! What is wrong in a configuration, told so that a person can mend it at once.
//!
//! ```text
//! error: outbox.orders.poll-interval: found "5 sekonds", expected a duration such as "5s"
//!   --> redrive.toml:12:17
//!    |
//! 12 | poll-interval = "5 sekonds"
//!    |                 ^^^^^^^^^^^
//! ```

use std::collections::BTreeSet;
use std::fmt;

use super::document::{Document, Origin, Remark};
use super::finding::{Cause, Finding, Findings};
use super::snippet::Snippet;

/// One mistake.
#[derive(Debug, Clone)]
pub struct Mistake {
    path: String,
    place: Place,
    message: String,
}

/// Where a mistake is.
#[derive(Debug, Clone)]
enum Place {
    File(Snippet),
    Variable(String),
    Whole,
}

/// Every mistake of one configuration, in the order of the file.
#[derive(Debug, Clone)]
pub struct Mistakes {
    file: String,
    list: Vec<Mistake>,
}

impl Mistake {
    /// The setting, such as `outbox.orders.poll-interval`; empty for a line that is no TOML at all.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The line in the file, from 1; none for an environment variable.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        match &self.place {
            Place::File(snippet) => Some(snippet.line()),
            Place::Variable(_) | Place::Whole => None,
        }
    }

    /// What was found and what would be right.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl Mistakes {
    /// The mistakes, one by one.
    pub fn iter(&self) -> impl Iterator<Item = &Mistake> {
        self.list.iter()
    }

    /// How many there are; never zero.
    #[must_use]
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Puts together what the parser and the readers found. `None`: nothing is wrong.
    pub(crate) fn gather(file: &str, source: &str, document: &Document, findings: Findings) -> Option<Self> {
        let scene = Scene::new(source, &findings.sensitive, &document.syntax);
        let syntax = scene.syntax();
        let misplaced = document.misplaced.iter().map(|remark| scene.remark(remark));
        let wrong = findings.mistakes.into_iter().filter(|finding| scene.can_be_trusted(finding));
        let wrong = wrong.map(|finding| scene.finding(finding));
        let mut list: Vec<_> = syntax.into_iter().chain(misplaced).chain(wrong).collect();
        list.sort_by_key(|mistake| mistake.line().unwrap_or(usize::MAX));
        (!list.is_empty()).then(|| Self { file: file.to_owned(), list })
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for mistake in &self.list {
            write!(f, "error: ")?;
            if !mistake.path.is_empty() {
                write!(f, "{}: ", mistake.path)?;
            }
            writeln!(f, "{}", mistake.message)?;
            match &mistake.place {
                Place::File(snippet) => snippet.write(f, &self.file)?,
                Place::Variable(name) => writeln!(f, "  --> environment variable {name}")?,
                Place::Whole => writeln!(f, "  --> {}", self.file)?,
            }
            writeln!(f)?;
        }
        let noun = if self.list.len() == 1 { "mistake" } else { "mistakes" };
        write!(f, "{}: {} {noun}", self.file, self.list.len())
    }
}

/// The file as the reports see it: what must be hidden, and which lines the parser stumbled over.
struct Scene<'a> {
    source: &'a str,
    sensitive: &'a [std::ops::Range<usize>],
    syntax: &'a [Remark],
    broken_lines: BTreeSet<usize>,
    /// After an unclosed bracket nobody knows which section a line belongs to.
    lost_after: usize,
}

impl<'a> Scene<'a> {
    fn new(source: &'a str, sensitive: &'a [std::ops::Range<usize>], syntax: &'a [Remark]) -> Self {
        let starts = syntax.iter().filter_map(|remark| start(&remark.origin));
        let unclosed = syntax.iter().filter(|remark| remark.message.contains("unclosed"));
        Self {
            source,
            sensitive,
            syntax,
            broken_lines: starts.map(|start| line_of(source, start)).collect(),
            lost_after: unclosed.filter_map(|remark| start(&remark.origin)).min().unwrap_or(usize::MAX),
        }
    }

    /// One mistake per broken line: the first; the others mostly follow from it.
    fn syntax(&self) -> Vec<Mistake> {
        let mut told = BTreeSet::new();
        let mut remarks: Vec<_> = self.syntax.iter().collect();
        remarks.sort_by_key(|remark| start(&remark.origin));
        remarks.retain(|remark| told.insert(start(&remark.origin).map(|start| line_of(self.source, start))));
        remarks.into_iter().map(|remark| self.broken(remark)).collect()
    }

    fn broken(&self, remark: &Remark) -> Mistake {
        let place = match &remark.origin {
            Origin::File(bytes) => Place::File(Snippet::of_broken_line(self.source, bytes.clone())),
            Origin::Variable(_) | Origin::Nowhere => Place::Whole,
        };
        Mistake { path: String::new(), place, message: format!("not valid TOML: {}", remark.message) }
    }

    fn remark(&self, remark: &Remark) -> Mistake {
        let message = remark.message.clone();
        Mistake { path: String::new(), place: self.place(&remark.origin), message }
    }

    fn finding(&self, finding: Finding) -> Mistake {
        Mistake { place: self.place(&finding.origin), path: finding.path, message: finding.message }
    }

    /// With syntax errors the tree is a guess: what is missing may be on a broken line, and what a
    /// broken line seems to say has been told already.
    fn can_be_trusted(&self, finding: &Finding) -> bool {
        match start(&finding.origin) {
            _ if self.syntax.is_empty() => true,
            Some(start) if start >= self.lost_after => false,
            Some(start) if finding.cause == Cause::Missing => !self.is_broken_within(start),
            Some(start) => !self.broken_lines.contains(&line_of(self.source, start)),
            None => matches!(finding.origin, Origin::Variable(_)) && finding.cause == Cause::Wrong,
        }
    }

    /// Whether any line is broken from here to the next header.
    fn is_broken_within(&self, start: usize) -> bool {
        let first = line_of(self.source, start);
        let rest = self.source.lines().skip(first);
        let length = rest.take_while(|line| !line.trim_start().starts_with('[')).count();
        self.broken_lines.range(first..=first + length).next().is_some()
    }

    fn place(&self, origin: &Origin) -> Place {
        match origin {
            Origin::File(bytes) => Place::File(Snippet::new(self.source, bytes.clone(), self.sensitive)),
            Origin::Variable(name) => Place::Variable(name.clone()),
            Origin::Nowhere => Place::Whole,
        }
    }
}

fn start(origin: &Origin) -> Option<usize> {
    match origin {
        Origin::File(bytes) => Some(bytes.start),
        Origin::Variable(_) | Origin::Nowhere => None,
    }
}

fn line_of(source: &str, position: usize) -> usize {
    source.bytes().take(position).filter(|byte| *byte == b'\n').count() + 1
}
