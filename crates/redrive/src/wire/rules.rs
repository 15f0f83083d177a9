//! The rules by which letters are redriven by themselves.

use redrive::config::{AutoRedrive, Letters};
use redrive_core::backoff::{Backoff, InvalidBackoff};
use redrive_engine::auto_redrive::{Matches, Rule};

/// The rules of a pipeline.
pub(super) fn rules(settings: &[AutoRedrive]) -> Result<Vec<Rule>, InvalidBackoff> {
    settings.iter().map(rule).collect()
}

fn rule(setting: &AutoRedrive) -> Result<Rule, InvalidBackoff> {
    let matches = match &setting.letters {
        Letters::Class(class) => Matches::Class(class.as_str().to_owned()),
        Letters::Code(code) => Matches::Code(code.clone()),
    };
    let delay = Backoff::new(setting.after, setting.factor, setting.max_after)?;
    Ok(Rule { matches, delay, max_redrives: setting.max_redrives })
}
